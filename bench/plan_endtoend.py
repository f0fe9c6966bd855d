#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Five plans for a job on this machine, made and then run: predicted against measured time and cost.
Usage: bench/plan_endtoend.py BUILD [FOLDER] [--only N]... [--scale S]. For each of five wishes: profiles the C
example with `spotnik profile`, lets `spotnik plan` choose fleet and batch (made-up prices, a trace of spot machines coming
and going), runs the plan with `spotnik run --churn` and writes plan_endtoend.md in FOLDER (default: build/results). Needs the machine to itself
for about half a minute a wish; --only takes one wish at a time and keeps the rows of the others. S stretches the jobs
(default 1: 10 to 20 s each). Exit 1: a prediction was more than 5 % off."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

SMALL, LARGE = 512, 2048  # batches
PRICES = ("instance_type,region,zone,accelerator,accelerator_count,vcpus,on_demand_usd_per_h,spot_usd_per_h\n"
          "box,here,,,0,1,3.60,1.20\n")
# name, wish, batch beyond which larger ones need more epochs (none: they do not), spot machines lost and back at (s)
WISHES = (
    ("cheapest, never interrupted", ["--only", "on-demand", "--machines", "1"], None, []),
    ("in time, never interrupted", ["--only", "on-demand", "--machines", "2", "--deadline", "{tight}"], 100, []),
    ("in time, on spot", ["--only", "spot", "--machines", "2", "--deadline", "{tight}"], None, [("s1", 4, 8)]),
    ("in time, on spot, small batches", ["--only", "spot", "--machines", "2", "--deadline", "{tight}"], 100,
     [("s0", 3, 5), ("s1", 7, 10)]),
    ("in time, where spot is lost all at once", ["--machines", "2", "--deadline", "{tight}"], None,
     [("s0", 3, 6), ("s1", 2, 7)]),
)


class Bench:
    """Where things are, and how to call them."""

    def __init__(self, build, folder):
        self.spotnik = os.path.join(os.path.abspath(build), "cli", "spotnik")
        self.charlm = os.path.join(os.path.abspath(build), "examples", "charlm")
        self.folder = folder

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as out:
            out.write(text)
        return path

    def ask(self, *words):
        done = subprocess.run([self.spotnik, *words], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"spotnik {' '.join(words)}: {done.stderr}")
        for line in done.stderr.splitlines():  # what a profile says of itself
            if line.startswith(("warning", "steps differ")):
                print(line, flush=True)
        return json.loads(done.stdout)


def profile(bench):
    return bench.ask("profile", "--batches", f"{SMALL},{LARGE}", "--workers", "1,2", "--seconds", "2", "--rounds", "3",
                     "--", bench.charlm, "--batch", "{batch}", "--steps", "0", "--quiet")


def trace(losses, spot, on_demand, scale):
    """Lines of a trace: all machines at 0, spot ones lost and back; on-demand ones only for `spotnik run`."""
    events = [(0, "add", f"s{i}") for i in range(spot)]
    for node, lost, back in losses:
        if int(node[1:]) >= spot:
            continue
        events += [(int(1000 * scale * lost), "remove", node), (int(1000 * scale * back), "add", node)]
    events += [(0, "add", f"d{i}") for i in range(on_demand)]
    return "".join(f"{at},{verb},{node}\n" for at, verb, node in sorted(events, key=lambda event: event[0]))


def fleet(plan):
    """(spot machines, on-demand machines)"""
    count = {"spot": 0, "on-demand": 0}
    for machine in plan["machines"]:
        count[machine["capacity"]] += machine["count"]
    return count["spot"], count["on-demand"]


def choose(bench, described, number, samples, scale, tight_s):
    _, wish, critical, losses = WISHES[number]
    described = dict(described, samples_per_epoch=samples, error=0.02)
    if critical:
        described["critical_batch"] = critical
    words = [word.format(tight=f"{tight_s:.2f}s") for word in wish]
    path = bench.file(f"profile{number}.json", json.dumps(described))
    prices = bench.file("prices.csv", PRICES)
    plan_trace = bench.file(f"plan{number}.csv", trace(losses, 2, 0, scale)) if losses else None
    answer = bench.ask("plan", "--profile", path, "--prices", prices, "--target", "epochs=1", "--confidence", "0.5", *words,
                       *(["--churn", f"{plan_trace},start=0s"] if plan_trace else []), "-o", "json")
    return answer["plan"], losses


def paid(plan, losses, scale, measured_s):
    """USD: every machine from its add to its remove or the end."""
    spot, on_demand = fleet(plan)
    hours = on_demand * measured_s * 3.60 / 3600
    for node in range(spot):
        up_s = measured_s
        for name, lost, back in losses:
            if name == f"s{node}" and scale * lost < measured_s:
                up_s -= min(scale * back, measured_s) - scale * lost
        hours += up_s * 1.20 / 3600
    return hours


def run(bench, plan, number, losses, scale):
    spot, on_demand = fleet(plan)
    path = bench.file(f"run{number}.csv", trace(losses if spot else [], spot, on_demand, scale))
    log = os.path.join(bench.folder, f"run{number}.log")
    command = [bench.spotnik, "run", "-n", f"1:{spot + on_demand}", "--churn", path, "--", bench.charlm, "--batch",
               f"{plan['batch']:.0f}", "--steps", f"{round(plan['steps'])}", "--quiet"]
    with open(log, "w") as out:
        started = time.monotonic()
        code = subprocess.run(command, stdout=out, stderr=out).returncode
        took_s = time.monotonic() - started
    if code:
        with open(log) as said:
            raise SystemExit(f"{' '.join(command)}: exit {code}\n{said.read()}")
    return took_s


def attempt(bench, number, scale):
    """One row: profile, plan, run."""
    described = profile(bench)
    speed = {(int(n), int(b)): s for _, n, b, s in described["measured"]}
    name, _, critical, _ = WISHES[number]
    batch = SMALL if critical else LARGE
    samples = 12 * scale * batch / speed[2, batch]
    # between what two machines need that are never lost, and what one needs
    tight_s = samples / batch * (0.3 * speed[2, batch] + 0.7 * speed[1, batch])
    plan, losses = choose(bench, described, number, samples, scale, tight_s)
    measured_s = run(bench, plan, number, losses, scale)
    spot, on_demand = fleet(plan)
    return {
        "wish": name,
        "fleet": " + ".join(f"{n} {kind}" for n, kind in ((spot, "spot"), (on_demand, "on-demand")) if n),
        "batch": plan["batch"], "steps": plan["steps"], "losses": plan["losses"],
        "predicted_s": 3600 * plan["time_h"], "measured_s": measured_s,
        "predicted_ct": 100 * plan["cost_usd"], "measured_ct": 100 * paid(plan, losses, scale, measured_s),
        "step_ms": {f"{n} x {b}": round(1000 * s, 2) for (n, b), s in sorted(speed.items())},
    }


def off(row, kind):
    """Per cent by which the prediction missed."""
    return 100 * (row[f"predicted_{kind}"] / row[f"measured_{kind}"] - 1)


def report(rows, folder):
    lines = ["# Five plans, made and run", "", "Made by `bench/plan_endtoend.py`; do not edit. The job is `examples/charlm`, "
             "each machine a process on one host; prices are made up ($3.60 and $1.20 an hour); lost machines are killed with "
             "SIGKILL. Each wish has a profile of its own, made just before.", "",
             "| wish | fleet | batch | steps | losses | predicted s | measured s | off | predicted ct | measured ct | off |",
             "|" + "---|" * 11]
    for row in rows:
        lines.append(f"| {row['wish']} | {row['fleet']} | {row['batch']:.0f} | {row['steps']:.0f} | {row['losses']:.0f} | "
                     f"{row['predicted_s']:.2f} | {row['measured_s']:.2f} | {off(row, 's'):+.1f} % | "
                     f"{row['predicted_ct']:.3f} | {row['measured_ct']:.3f} | {off(row, 'ct'):+.1f} % |")
    worst = max(max(abs(off(row, "s")), abs(off(row, "ct"))) for row in rows)
    lines += ["", f"Worst: {worst:.1f} %.", ""]
    with open(os.path.join(folder, "plan_endtoend.md"), "w") as out:
        out.write("\n".join(lines))
    return worst


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("build")
    options.add_argument("results", nargs="?", default="build/results")
    options.add_argument("--only", type=int, action="append", choices=range(len(WISHES)))
    options.add_argument("--scale", type=float, default=1.0)
    given = options.parse_args()
    os.makedirs(given.results, exist_ok=True)
    kept = os.path.join(given.results, "plan_endtoend.json")
    rows = {}
    if given.only and os.path.exists(kept):
        with open(kept) as source:
            rows = {row["wish"]: row for row in json.load(source)}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(given.build, folder)
        for number in given.only or range(len(WISHES)):
            row = attempt(bench, number, given.scale)
            rows[row["wish"]] = row
            print(f"{row['fleet']}, batch {row['batch']:.0f}, {row['losses']:.0f} losses: {row['predicted_s']:.2f} s "
                  f"predicted, {row['measured_s']:.2f} s measured, {off(row, 's'):+.1f} %; cost {off(row, 'ct'):+.1f} %; "
                  f"ms a step: {row['step_ms']}", flush=True)
    ordered = [rows[wish[0]] for wish in WISHES if wish[0] in rows]
    with open(kept, "w") as out:
        json.dump(ordered, out, indent=1)
    return 1 if report(ordered, given.results) > 5 else 0


if __name__ == "__main__":
    sys.exit(main())
