#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claim: who follows a job with new plans (`plan --follow`) pays less for being in time than who has each plan made as if it were
the last: machines on demand are rented when the time has come, not before. bench/plan_follow.py is the long form.
Usage: follow.py SPOTNIK_PLAN. All times are reckoned, so the host's speed changes nothing."""
import json
import os
import random
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "..", "bench")]
import plan_follow  # noqa: E402

HOUR, GAP_S = 3600, 600


def flaky(seed, days=12, up_h=3.0, away_h=1.5):
    """Capacity that comes and goes."""
    draw, data, up = random.Random(seed), [], 1
    while len(data) * GAP_S < days * 24 * HOUR:
        data += [up] * max(1, round(draw.expovariate(1 / (up_h if up else away_h)) * HOUR / GAP_S))
        up = 1 - up
    return {"metadata": {"gap_seconds": GAP_S}, "data": data}


def job(trace, day, left_h, wanted, up):
    """A job of four machines with so much left, of a work of ten hours."""
    steps = round(10 * HOUR * 4 / 60)
    found = plan_follow.Job(trace["data"], GAP_S, day * 24 * HOUR, steps)
    found.left, found.wanted = left_h * HOUR * 4 / 60, dict(zip(plan_follow.KINDS, wanted))
    found.up = {kind: [0] * count for kind, count in zip(plan_follow.KINDS, up)}
    return found


def told(folder, now, deadline_h, *more, elapsed_h=0.0):
    planner = plan_follow.Planner(os.path.abspath(sys.argv[1]), folder, deadline_h * HOUR, (), more)
    now.now_s = round(elapsed_h * HOUR)
    planner.plan(now, False)
    words = [*planner.words, "--target", f"steps={now.steps}", "--from-status", planner.path("now.json"), *now.running(), "--elapsed",
             f"{now.now_s}s", "--spent", "0"]
    return json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def machines(plan):
    return {machine["capacity"]: machine["count"] for machine in plan["machines"]}


def stated(folder):
    trace, spot_up = flaky(1), (4, 0)
    alone = told(folder, job(trace, 8, 8, spot_up, spot_up), 12)
    followed = told(folder, job(trace, 8, 8, spot_up, spot_up), 12, "--follow", "15m")
    # on a place that is not to be relied on, a plan that must stand to the end rents on demand; one that is followed does not yet
    assert "on-demand" in machines(alone["plan"]) and machines(followed["plan"]).keys() == {"spot"}, (alone["plan"], followed["plan"])
    assert followed["plan"]["chance"] >= alone["plan"]["chance"], (followed["plan"], alone["plan"])
    assert followed["plan"]["cost_usd"] < alone["plan"]["cost_usd"], (followed["plan"], alone["plan"])
    assert "rescue" not in alone and followed["rescue"][0]["capacity"] == "on-demand", followed["rescue"]
    # what is left alone is left alone
    assert followed["as_it_runs"] == alone["as_it_runs"]
    # the last moment: no spot machine is there, and eight on demand need nearly all the time that is left
    last = told(folder, job(trace, 8, 8, (4, 0), (0, 0)), 12, "--follow", "15m", elapsed_h=7.7)
    assert machines(last["plan"]).get("on-demand", 0) >= 6, last["plan"]
    # somebody who looks every hour has to begin an hour earlier
    hourly, often = (told(folder, job(trace, 8, 8, (4, 0), (4, 0)), 12, "--follow", every)["plan"] for every in ("3h", "5m"))
    assert hourly["cost_usd"] > often["cost_usd"], (hourly, often)


def refused(folder):
    for words, why in ((("--follow", "0s"), "--follow is not above zero"), (("--follow", "soon"), "not a duration")):
        done = subprocess.run([sys.argv[1], "plan", "--target", "epochs=1", *words], capture_output=True, text=True)
        assert done.returncode == 2 and why in done.stderr, done.stderr
    # without a deadline nothing is ever too late
    done = subprocess.run([sys.argv[1], "plan", "--prices", "builtin", "--target", "epochs=1", "--follow", "15m", "-o", "json"],
                          capture_output=True, text=True)
    assert done.returncode == 0 and "rescue" not in json.loads(done.stdout), done.stderr
    table = subprocess.run([sys.argv[1], "plan", "--prices", "builtin", "--target", "epochs=20", "--deadline", "10h", "--follow", "15m"],
                           capture_output=True, text=True)
    assert "a new plan every 15 min" in table.stdout and "they give way to" in table.stdout, table.stdout


def played():
    """Whole jobs on capacity that comes and goes, with a look every hour: in time all the same, and cheaper."""
    plan_follow.EVERY_S = HOUR
    rows = {way: [plan_follow.play(os.path.abspath(sys.argv[1]), flaky(seed), 8.2 * 24 * HOUR, 9, 14, (), way) for seed in (2, 3, 4)]
            for way in ("anew", "follow")}
    usd = {way: sum(row["usd"] for row in of) / len(of) for way, of in rows.items()}
    for way, of in rows.items():
        print(way, [(round(row["usd"], 2), round(row["h"], 2), row["in_time"], row["changes"]) for row in of])
    assert all(row["in_time"] for row in rows["follow"]), rows["follow"]
    assert all(row["chances"][0][1] >= 0.9 for row in rows["follow"]), rows["follow"]
    assert usd["follow"] < 0.9 * usd["anew"], usd


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="spotnik-follow-") as scratch:
        stated(scratch)
        print("ok stated", flush=True)
        refused(scratch)
        print("ok refused", flush=True)
    played()
    print("ok played")
