#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many deciles of a calibration table hold when the model is exactly right? Draws as many places, as long as those of April 2023,
from the regimes themselves, and judges the stated chances there. What a right model misses is the noise of the sample, not a fault.
Usage: SPOTNIK_DATA=... research/figures/plan_sampling.py SPOTNIK [SAMPLES]."""
import json
import os
import random
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "tests")]
import acceptance as a  # noqa: E402

PLACES, TICKS, TICK_S = 4, 7 * 144, 600
AGES = (2, 4, 8, 18, 48)  # ticks, as in availability.c


def regimes(p, files):
    """(share, end[regime][up][age], go) as `backtest --learn` prints them."""
    text = p.run("backtest", "--learn", "--regimes", "8", *files).stdout
    share, end, go = (re.search(rf"\.{name} = (.*?)(?=\n    \.|\Z)", text, re.S).group(1) for name in ("share", "end", "go"))
    numbers = [[float(n) for n in re.findall(r"\d+\.\d+", part)] for part in (share, end, go)]
    count, ages = len(numbers[0]), len(AGES) + 1
    rows = [numbers[1][i:i + ages] for i in range(0, len(numbers[1]), ages)]
    return numbers[0], [rows[2 * r:2 * r + 2] for r in range(count)], [numbers[2][i:i + count] for i in range(0, count * count, count)]


def place(draw, share, end, go):
    """Counts per tick; the first two days are for the regime to settle."""
    regime, up, age, ticks = draw.choices(range(len(share)), share)[0], True, 0, []
    for _ in range(TICKS + 288):
        ticks.append(int(up))
        age += 1
        if draw.random() < end[regime][up][sum(age - 1 >= limit for limit in AGES)]:
            up, age = not up, 0
        regime = draw.choices(range(len(share)), go[regime])[0]
    return ticks[288:]


def main(p, samples):
    months, held, worst = a.months(p), [], []
    learned = months["2022"] + months["2023"]
    model = regimes(p, learned)
    with tempfile.TemporaryDirectory() as folder:
        for sample in range(samples):
            draw, files = random.Random(sample), []
            for i in range(PLACES):
                files.append(os.path.join(folder, f"{i}.json"))
                with open(files[-1], "w") as out:
                    json.dump({"metadata": {"gap_seconds": TICK_S}, "data": place(draw, *model)}, out)
            got = p.json(*a.calibration_words(files, learned, "--stride", "5h", "--runs", "200", "--json"))
            off = [abs(d["stated"] - d["came_true"]) for d in got["deciles"] if d["starts"]]
            held.append(got["held"] / got["judged"])
            worst.append(max(off))
            print(f"sample {sample}: {got['held']} of {got['judged']} hold, worst {100 * worst[-1]:.0f} points, all {got['stated']:.3f} {got['came_true']:.3f}", flush=True)
    print(f"mean {10 * sum(held) / samples:.1f} of 10 hold; all of them in {sum(h == 1 for h in held)} of {samples}; worst decile off by "
          f"{100 * sum(worst) / samples:.0f} points on average")


if __name__ == "__main__":
    main(a.Planner(sys.argv[1], os.environ["SPOTNIK_DATA"]), int(sys.argv[2]) if len(sys.argv) > 2 else 20)
