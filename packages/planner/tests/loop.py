#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claim: the loop is closed. What a running job measures (steps, losses, recoveries, price) changes the plan and its chance, and a
fleet that plans anew goes on when spot capacity is gone for good. bench/plan_loop.py is the long form, on traces.
Usage: loop.py SPOTNIK_PLAN BUILD. Judges what is told and done, not how fast."""
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "..", "bench")]
import plan_loop  # noqa: E402

S = 10**9
PROFILE = {"name": "l", "devices": {"V100": {"samples_per_s": 100}}, "batches": [400], "samples_per_epoch": 40000, "gradient_mb": 0.01,
           "hop_us": 0, "startup_s": 60, "recover_s": 10, "join_s": 10, "error": 0.02}
PRICES = ("instance_type,region,zone,accelerator,accelerator_count,vcpus,on_demand_usd_per_h,spot_usd_per_h\n"
          "box,here,here-a,V100,1,8,4,1\n")
AGO_S = 7200  # the member came two hours ago, and now is three hours after its host started


def change(ago_s, took_s, **more):
    at = (10800 - ago_s) * S
    return {"epoch": 1, "lost": 0, "joined": 0, "left": 0, **more, "detected_ns": at, "reconciled_ns": at, "accepted_ns": at,
            "restarted_ns": at, "committed_ns": at + int(took_s * S)}


def status(size, steps, steps_per_s, recoveries=(), **more):
    return {"step_committed": steps, "size": size, "uptime_ns": AGO_S * S, "now_ns": 10800 * S, "steps_per_s": steps_per_s, "batch": 400,
            "recoveries": list(recoveries), **more}


def told(folder, now, *words, code=0):
    """What `plan` makes of a status."""
    for name, what in (("now.json", json.dumps(now)), ("profile.json", json.dumps(PROFILE)), ("prices.csv", PRICES)):
        with open(os.path.join(folder, name), "w") as out:
            out.write(what)
    path = [os.path.join(folder, name) for name in ("now.json", "profile.json", "prices.csv")]
    done = subprocess.run([sys.argv[1], "plan", "--from-status", path[0], "--profile", path[1], "--prices", path[2], "--target", "steps=20000",
                           "--deadline", "12h", "--machines", "8", *words, "-o", "json"], capture_output=True, text=True)
    assert done.returncode == code or code is None, (words, done.returncode, done.stderr)
    return json.loads(done.stdout) if done.stdout else done.stderr


def measured(folder):
    """A step of four takes 1 s by the profile, and 7200 of 20000 are done."""
    spot = ("--running", "box@here-a=spot:4", "--losses-per-h", "0.05")
    plain = told(folder, status(4, 7200, 1.0), *spot)
    assert abs(plain["measured"]["step_s"] - plain["measured"]["predicted_step_s"]) < 0.01 and abs(plain["epochs"] - 128) < 0.1, plain["measured"]
    # steps that take half as long again: the rest takes that much longer, and the chance falls
    slow = told(folder, status(4, 7200, 1 / 1.5), *spot, code=None)
    ratio = slow["as_it_runs"]["time_h"] / plain["as_it_runs"]["time_h"]
    assert 1.4 < ratio < 1.6, ratio
    late = [told(folder, status(4, 7200, rate), *spot, "--deadline", "6.4h", code=None)["as_it_runs"]["chance"] for rate in (1.0, 1 / 1.5)]
    assert late[0] > 0.6 and late[1] < 0.1, late
    # right after a change of the view the rate is of the view before: it is not believed
    fresh = told(folder, status(4, 7200, 0.5, [change(1, 0.5, lost=1)]), "--running", "box@here-a=spot:4", code=None)
    assert fresh["measured"]["step_s"] is None, fresh["measured"]
    # losses of single machines: more of them, more are expected; recoveries cost what they cost
    many = [change(1000 * (7 - i), 200, lost=1) for i in range(6)] + [change(500, 30, joined=6)]
    often = told(folder, status(4, 7200, 1.0, many), *spot, code=None)
    assert often["measured"]["losses"] == 6 and often["measured"]["recoveries"] == 6 and often["measured"]["recover_s"] == 200, often["measured"]
    assert often["as_it_runs"]["losses"] > 1.8 * plain["as_it_runs"]["losses"] + 1, (often["as_it_runs"]["losses"], plain["as_it_runs"]["losses"])
    assert often["as_it_runs"]["time_h"] > plain["as_it_runs"]["time_h"] + 0.2
    # the price that members know counts for what is spent and for what is to come
    dear = told(folder, status(4, 7200, 1.0, dollars_per_hour=3.0), *spot, code=None)
    assert dear["as_it_runs"]["cost_usd"] > 2.5 * plain["as_it_runs"]["cost_usd"], dear["as_it_runs"]
    told_usd = [told(folder, status(4, 7200, 1.0, dollars_per_hour=usd), *spot, "--budget", "30", code=None)["budget_usd"] for usd in (1, 3)]
    assert abs(told_usd[0] - 22) < 0.1 and abs(told_usd[1] - 6) < 0.1, told_usd
    # a fast clock: the same status of a job that runs a thousand times as fast
    fast = status(4, 7200, 1000.0)
    fast.update(uptime_ns=AGO_S * S // 1000, now_ns=10800 * S // 1000)
    clock = told(folder, fast, *spot, "--clock", "1000")
    assert abs(clock["as_it_runs"]["time_h"] / plain["as_it_runs"]["time_h"] - 1) < 1e-6, clock["as_it_runs"]


def gone(folder):
    """Of four one is left, and capacity has gone before: four can be had again, or machines on demand, or what runs is given back."""
    went = [change(900, 5, lost=3)]
    wait = told(folder, status(1, 7200, 0.25, went), "--running", "box@here-a=spot:1/4", "--only", "spot", "--deadline", "9h", code=None)
    assert wait["as_it_runs"]["machines"][0]["count"] == 4 and 0 < wait["as_it_runs"]["chance"] < 1, wait["as_it_runs"]
    all_gone = told(folder, status(4, 7200, 1.0), "--running", "box@here-a=spot:0/4", "--best", "--deadline", "7h", "--availability",
                    "box@here-a=" + seen(folder, [1] * 200 + [0] * 60), code=None)
    # what the job itself has seen says as much: it asks, and nothing comes
    own = told(folder, status(4, 7200, 1.0), "--running", "box@here-a=spot:0/4", "--deadline", "6h", "--only", "spot", code=None)
    up = told(folder, status(4, 7200, 1.0), "--running", "box@here-a=spot:4", "--deadline", "6h", "--only", "spot", code=None)
    assert own["as_it_runs"]["chance"] < up["as_it_runs"]["chance"] - 0.15, (own["as_it_runs"], up["as_it_runs"])
    rented = {m["capacity"]: m["count"] for m in all_gone["plan"]["machines"]}
    assert rented.get("on-demand", 0) >= 3 and all_gone["as_it_runs"]["chance"] < 0.3 < all_gone["plan"]["chance"], all_gone["plan"]
    # what runs stays, unless it may be given back: four on demand, where spot was never away
    paid = ("--running", "box=on-demand:4", "--availability", "box@here-a=" + seen(folder, [1] * 600), "--elapsed", "2h")
    kept, free = (told(folder, status(4, 7200, 1.0), *paid, *more)["plan"] for more in ((), ("--release",)))
    assert any(m["capacity"] == "on-demand" and m["count"] == 4 for m in kept["machines"]), kept["machines"]
    assert free["cost_usd"] < 0.7 * kept["cost_usd"], (free["cost_usd"], kept["cost_usd"])
    # refused: more than there are, none named
    assert "--running" in told(folder, status(4, 7200, 1.0), code=1)
    assert "at most the 4 members" in told(folder, status(4, 7200, 1.0), "--running", "box=spot:5", code=1)


def seen(folder, ups):
    path = os.path.join(folder, "seen.json")
    with open(path, "w") as out:
        json.dump({"metadata": {"gap_seconds": 600}, "data": ups}, out)
    return path


def closed():
    """A market at 1000 times speed: capacity that was there for ten days ends forty minutes after the start, for good."""
    trace = {"metadata": {"gap_seconds": 600}, "data": ([1] * 1444 + [0] * 2000)}
    row = plan_loop.play(sys.argv[2], trace, 1440 * 600, 1.5, 5, 1000, [], True)
    assert row["done"] and row["lost"], row
    before = [p for p in row["points"] if p["h"] < 0.6]
    assert before and before[0]["fleet"]["spot"] >= 1, before
    assert row["points"][-1]["fleet"]["on-demand"] >= 1, row["points"][-1]
    assert any(p["measured"] and p["measured"]["step_s"] for p in row["points"]), row["points"]
    if row["in_time"]:  # else the host was late, and all that can be asked is that the chance says so
        assert row["points"][-1]["chance"] > 0.5, row["points"][-1]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="spotnik-loop-") as scratch:
        measured(scratch)
        print("ok measured", flush=True)
        gone(scratch)
        print("ok gone", flush=True)
    began = time.monotonic()
    closed()
    print(f"ok closed, {time.monotonic() - began:.0f} s")
