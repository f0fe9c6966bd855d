#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claim: chances of `spotnik plan` come true as stated, on places it has not learned from; and the table that says so sees a
forecaster that does not know the places. The places here are drawn: good and bad days that follow each other, each with its
own flapping. Usage: calibration.py SPOTNIK."""
import json
import os
import random
import subprocess
import sys
import tempfile

TICK_S, DAY = 600, 144


def place(seed, days=60):
    """Counts per tick: good days are there nine tenths of the time, bad ones one third."""
    draw, good, up, ticks = random.Random(seed), seed % 2 == 0, True, []
    for tick in range(days * DAY):
        if tick % DAY == 0 and draw.random() < 0.25:
            good = not good
        if draw.random() < ((0.03 if good else 0.2) if up else (0.25 if good else 0.1)):
            up = not up
        ticks.append(int(up))
    return ticks


def main(folder):
    files = []
    for seed in range(12):
        files.append(os.path.join(folder, f"{seed}.json"))
        with open(files[-1], "w") as out:
            json.dump({"metadata": {"gap_seconds": TICK_S}, "data": place(seed)}, out)

    def table(*more):
        words = [sys.argv[1], "backtest", "--calibration", "--stride", "31h", "--runs", "150", "--json", "--regimes", "3"]
        words += [word for name in files[:6] for word in ("--windows", name)]
        words += [word for name in files[6:] for word in ("--learn-from", name)]
        return json.loads(subprocess.run([*words, *more], check=True, capture_output=True, text=True).stdout)

    for count in (1, 6):  # who learns from few places is told what that is worth
        said = subprocess.run([sys.argv[1], "backtest", "--learn", "--regimes", "2", *files[:count]], check=True, capture_output=True, text=True).stderr
        assert ("regimes of 1 trace alone" in said) == (count == 1), said
    picture = os.path.join(folder, "picture.svg")
    knows = table("--plot", picture)
    assert knows["judged"] == 10 and knows["held"] >= 8, knows
    assert all(abs(d["stated"] - d["came_true"]) < 0.1 for d in knows["deciles"] if d["starts"] >= 50), knows
    forecasts = knows["forecasts"]
    assert len(forecasts) == knows["starts"] and abs(sum(f[3] for f in forecasts) / len(forecasts) - knows["stated"]) < 1e-6, knows["stated"]
    assert {f[0] for f in forecasts} == set(range(6)) and {f[2] for f in forecasts} == {4, 8, 16, 36}, forecasts[0]
    with open(picture) as drawn:
        assert drawn.read().count("<circle") == 10
    # Places of one region are one: the same forecasts, in fewer blocks, which say less.
    apart, together = (table("--stride", "61h", "--runs", "40", *more) for more in ((), ("--together", ".json")))
    assert [d["stated"] for d in apart["deciles"]] == [d["stated"] for d in together["deciles"]]
    assert max(d["blocks"] for d in together["deciles"]) <= 20 < max(d["blocks"] for d in apart["deciles"]), (apart, together)
    assert together["held_by_trace"] == apart["held"] == apart["held_by_trace"]
    assert 0.01 < knows["worse_by_chance"] <= 1, knows
    refused = subprocess.run([sys.argv[1], "backtest", "--windows", files[0], "--policy", "uniform", "--work", "1h", "--deadline", "2h", "--together", "x"],
                             capture_output=True, text=True)
    assert refused.returncode == 2 and "--together" in refused.stderr, refused
    # Knowing nothing of a place is worth less, and says less: no chance is near 0 or 1 for most of the jobs.
    blind = table("--unknown")
    assert blind["brier"] > knows["brier"] + 0.02, (blind["brier"], knows["brier"])
    sure = [sum(d["starts"] for d in (t["deciles"][0], t["deciles"][9])) / t["starts"] for t in (blind, knows)]
    assert sure[0] < sure[1], sure


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="spotnik-calibration-") as scratch:
        main(scratch)
    print("ok")
