#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claim: one reader of traces serves `plan`, `backtest`, `run --churn` and `sim`: the samples of docs/reference/traces.md, one for each
format, mean the same to all four. Usage: readers.py SPOTNIK BUILD."""
import json
import os
import re
import subprocess
import sys
import tempfile

HOUR = 3600
# four machines, none from the second to the fourth hour of every six, sixty hours long
ROUNDS = range(0, 60, 6)
SAMPLES = {
    "events.csv": "",  # below
    "counts.csv": "hours,machines\n" + "".join(f"{h},4\n{h + 2},0\n{h + 4},4\n" for h in ROUNDS) + "60,4\n",
    "counts_bare.csv": "".join(f"{h * HOUR},4\n{(h + 2) * HOUR},0\n{(h + 4) * HOUR},4\n" for h in ROUNDS) + f"{60 * HOUR},4\n",
    "availability.json": json.dumps({"metadata": {"gap_seconds": 600}, "data": ([4] * 12 + [0] * 12 + [4] * 12) * 10}),
    "windows.json": json.dumps({"metadata_of_last": {"gap_seconds": 600}, "traces_1_means_UNAVAILABLE": [("0" * 12 + "1" * 12 + "0" * 12) * 10]}),
    "prices.csv": "timestamp_utc,spot_usd_per_h\n" + "".join(f"2015-03-{1 + (h + at) // 24:02d}T{(h + at) % 24:02d}:00:00Z,{usd}\n" for h in ROUNDS
                                                             for at, usd in ((0, .2), (2, 2), (4, .2))) + "2015-03-03T12:00:00Z,0.2\n",
}


def events():
    """Machines that come back do so under new names."""
    lines, names = [], 0
    for h in ROUNDS:
        if not h:
            lines += [f"0,add,m{i}" for i in range(4)]
            names = 4
        lines += [f"{(h + 2) * HOUR * 1000},remove,m{names - 4 + i}" for i in range(4)]
        lines += [f"{(h + 4) * HOUR * 1000},add,m{names + i}" for i in range(4)]
        names += 4
    return "\n".join(lines) + f"\n{60 * HOUR * 1000},remove,m{names - 1}\n"


def ask(*words):
    done = subprocess.run([sys.argv[1], *words], capture_output=True, text=True, timeout=100)
    assert done.returncode in (0, 1) and done.stdout, (words, done.stderr)
    return done.stdout


def planned(folder, spec):
    profile, prices = os.path.join(folder, "p.json"), os.path.join(folder, "v.csv")
    plan = json.loads(ask("plan", "--profile", profile, "--prices", prices, "--target", "epochs=1", "--deadline", "40h", "--only", "spot", "--machines", "4",
                          "--churn", spec, "-o", "json"))
    return next(c["time_h"] for c in plan["candidates"] if c["machines"][0]["count"] == 4)


def tested(spec):
    got = json.loads(ask("backtest", "--windows", spec, "--policy", "greedy", "--work", "8h", "--deadline", "16h", "--changeover", "6m", "--stride", "90m"))
    return got["spot_hours"]


def simulated(spec):
    done = json.loads(ask("sim", "--seed", "1", "--churn", spec, "--json"))
    assert done["ok"], done
    return done["kills"], done["joins"]


def ran(folder, name, text):
    """Who came and went in a run of real processes, an hour in under a second."""
    path = os.path.join(folder, name)
    with open(path, "w") as out:
        out.write(text)
    done = subprocess.run([sys.argv[1], "run", "-n", "1:4", "--churn", path, "--speedup", "5000", "--",
                           os.path.join(sys.argv[2], "bench", "plan_loop_worker"), "200", "16", "2000"], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return [line for line in (done.stdout + done.stderr).splitlines() if " comes: " in line or " goes: " in line][:8]


def samples_of_the_page():
    """The samples as docs/reference/traces.md shows them, by format."""
    page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "docs", "reference", "traces.md")
    with open(page) as source:
        found = re.findall(r"^\| (\w+) \| (`[^|]*`) \| ", source.read(), re.M)
    return {name: "\n".join(line.strip("`") for line in cell.split("<br>")) + "\n" for name, cell in found}


def paged(folder):
    """Each sample of the page is a trace, alone in its file."""
    found = samples_of_the_page()
    assert set(found) == {"events", "counts", "availability", "windows", "prices"}, found
    for name, text in found.items():
        path = os.path.join(folder, f"page-{name}")
        with open(path, "w") as out:
            out.write(text)
        planned(folder, path + (",bid=1" if name == "prices" else ""))  # fails where the trace is not read


def main(folder):
    for name, text in {**SAMPLES, "events.csv": events()}.items():
        with open(os.path.join(folder, name), "w") as out:
            out.write(text)
    with open(os.path.join(folder, "p.json"), "w") as out:
        json.dump({"name": "r", "devices": {"V100": {"samples_per_s": 10}}, "batches": [400], "samples_per_epoch": 1152000, "gradient_mb": 0.01,
                   "startup_s": 60, "recover_s": 1, "join_s": 1, "error": 0.01}, out)
    with open(os.path.join(folder, "v.csv"), "w") as out:
        out.write("instance_type,region,zone,accelerator,accelerator_count,vcpus,on_demand_usd_per_h,spot_usd_per_h\nbox,here,,V100,1,8,4,1\n")
    specs = {name: os.path.join(folder, name) + ("," if name == "prices.csv" else "") + ("bid=1" if name == "prices.csv" else "")
             for name in SAMPLES}
    paged(folder)
    hours = {name: (planned(folder, spec), tested(spec)) for name, spec in specs.items()}
    want = hours["availability.json"]
    for name, got in hours.items():
        assert abs(got[0] / want[0] - 1) < 0.05 and abs(got[1] / want[1] - 1) < 0.05, (name, hours)
    # somebody always stays: the job goes on
    real = [ran(folder, "stay.csv", "hours,machines\n0,4\n1,2\n2,4\n3,2\n4,4\n"),
            ran(folder, "stay.json", json.dumps({"metadata": {"gap_seconds": 600}, "data": [4] * 6 + [2] * 6 + [4] * 6 + [2] * 6 + [4] * 6}))]
    assert real[0] == real[1] and len(real[0]) == 8 and sum(" goes: " in line for line in real[0]) == 2, real
    # on and off says nothing of how many: `nodes` does, where members are to come and go
    alike = {name: simulated(spec + (",nodes=4" if name in ("windows.json", "prices.csv") else "")) for name, spec in specs.items()}
    assert len(set(alike.values())) == 1 and alike["events.csv"][0] >= 20, alike


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="spotnik-readers-") as scratch:
        main(scratch)
    print("ok")
