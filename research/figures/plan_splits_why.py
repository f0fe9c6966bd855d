#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Why deciles of research/figures/plan_splits_chances.py do not hold. `right`: how many hold when the model is exactly right? The places of each split are
drawn from the regimes, as many and as long, places of a region through the same regimes at the same time, and judged by these regimes.
`places`: how far are single places from what is stated, beyond what chance explains, by the deadline of the job?
Usage: SPOTNIK_DATA=... research/figures/plan_splits_why.py SPOTNIK right|places [chosen] [old] [fresh] [--samples 2] [--runs 100] [--part 0/2]"""
import argparse
import gzip
import itertools
import json
import math
import os
import random
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "tests")]
import acceptance as a  # noqa: E402
import plan_sampling as sampling  # noqa: E402
import plan_splits_chances as splits  # noqa: E402

SETTLE, BLOCK_H, BLOCKS_LEAST, NINE_OF_TEN = 288, 72, 6, 1.645
REGIONS = a.TOGETHER[1::2]


def wanted(given, traces):
    """The splits; processors are too few to tell."""
    number, parts = map(int, given.part.split("/"))
    for title in given.sets or ("old", "fresh"):
        for i, split in enumerate(getattr(splits, title)(traces)):
            if i % parts == number and "processors" not in split[0]:
                yield split


def calibrate(p, tested, learned, stride, runs):
    return p.json(*a.calibration_words(tested, learned, "--stride", stride, "--runs", str(runs), "--json", *a.TOGETHER))


def ticks_of(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as source:
        trace = json.load(source)
    return int(len(trace["data"]) * trace["metadata"]["gap_seconds"] / sampling.TICK_S)


def regimes_drawn(draw, share, go, ticks):
    regime, rows, path = draw.choices(range(len(share)), share)[0], [list(itertools.accumulate(row)) for row in go], []
    for _ in range(ticks):
        path.append(regime)
        regime = draw.choices(range(len(share)), cum_weights=rows[regime])[0]
    return path


def place_drawn(draw, path, end):
    up, age, ticks = True, 0, []
    for regime in path:
        ticks.append(int(up))
        age += 1
        if draw.random() < end[regime][up][sum(age - 1 >= limit for limit in sampling.AGES)]:
            up, age = not up, 0
    return ticks[SETTLE:]


def drawn(folder, draw, tested, model):
    """Files of as many places, as long, with the names of the real ones; places of a folder and region share their regimes."""
    share, end, go = model
    shared, files = {}, []
    for path in tested:
        name, group = os.path.basename(path).split(".")[0], os.path.dirname(path)
        key = (group, next((region for region in REGIONS if region in name), name))
        ticks = ticks_of(path) + SETTLE
        if len(shared.get(key, ())) < ticks:
            shared[key] = regimes_drawn(draw, share, go, ticks + 144)
        under = os.path.join(folder, str(abs(hash(group))))
        os.makedirs(under, exist_ok=True)
        files.append(os.path.join(under, name + ".json"))
        with open(files[-1], "w") as out:
            json.dump({"metadata": {"gap_seconds": sampling.TICK_S}, "data": place_drawn(draw, shared[key][:ticks], end)}, out)
    return files


def right(given, p, traces):
    tables = []
    print("| windows, by regimes of | deciles that hold, by sample | worst decile, points |\n|---|---|---|", flush=True)
    for name, tested, learned, stride in wanted(given, traces):
        model, got = sampling.regimes(p, learned), []
        for sample in range(given.samples):
            with tempfile.TemporaryDirectory() as folder:
                got.append(calibrate(p, drawn(folder, random.Random(f"{name} {sample}"), tested, model), learned, stride, given.runs))
        worst = [max((100 * abs(d["stated"] - d["came_true"]) for d in g["deciles"] if d["low"] is not None), default=math.nan) for g in got]
        print(f"| {name} | {', '.join(f'''{g['held']} of {g['judged']}''' for g in got)} | {', '.join(f'{w:.0f}' for w in worst)} |", flush=True)
        tables += [g for g in got if g["judged"]]
    last = [d for g in tables for d in g["deciles"][8:] if d["low"] is not None]
    print(f"\n{sum(g['held'] for g in tables)} of {sum(g['judged'] for g in tables)} deciles; all in {sum(g['held'] == g['judged'] for g in tables)} of "
          f"{len(tables)} tables; {sum(d['holds'] for d in last)} of {len(last)} of 80 to 100 %; together {sum(g['worse_by_chance'] >= 0.05 for g in tables)} of {len(tables)}")


def place_odds(forecasts):
    """By how much a place is better than stated, in log odds (to first order), and the variance of that: blocks of three days."""
    blocks = {}
    for start_h, chance, came in forecasts:
        chance = min(0.995, max(0.005, chance))
        block = blocks.setdefault(int(start_h // BLOCK_H), [0, 0])
        block[0] += came - chance
        block[1] += chance * (1 - chance)
    total = sum(v for _, v in blocks.values())
    if len(blocks) < BLOCKS_LEAST or total < 1:
        return None
    off = sum(r for r, _ in blocks.values()) / total
    spread = sum((r - off * v) ** 2 for r, v in blocks.values()) / total ** 2 * len(blocks) / (len(blocks) - 1)
    points = 100 * sum(r for r, _ in blocks.values()) / len(forecasts)
    return off, spread, points


def places(given, p, traces):
    found = {}
    for _, tested, learned, stride in wanted(given, traces):
        got, of = calibrate(p, tested, learned, stride, given.runs), {}
        for trace, start_h, deadline_h, chance, came in got["forecasts"]:
            of.setdefault((trace, deadline_h), []).append((start_h, chance, came))
        for (_, deadline_h), forecasts in of.items():
            odds = place_odds(forecasts)
            if odds:
                found.setdefault(deadline_h, []).append(odds)
    print("| deadline, h | places | off by, points | off by, log odds | by chance | beyond chance | 0.12 h^1/2 | within nine of ten |\n|---|---|---|---|---|---|---|---|")
    for deadline_h, list_ in sorted(found.items()):
        n, own = len(list_), 0.12 * math.sqrt(deadline_h)
        square, noise = sum(o * o for o, _, _ in list_) / n, sum(v for _, v, _ in list_) / n
        held = sum(abs(o) <= NINE_OF_TEN * math.sqrt(v + own * own) for o, v, _ in list_)
        print(f"| {deadline_h:.0f} | {n} | {math.sqrt(sum(x * x for _, _, x in list_) / n):.1f} | {math.sqrt(square):.2f} | {math.sqrt(noise):.2f} | "
              f"{math.sqrt(max(0, square - noise)):.2f} | {own:.2f} | {100 * held / n:.0f} % |", flush=True)


if __name__ == "__main__":
    words = argparse.ArgumentParser()
    words.add_argument("spotnik")
    words.add_argument("what", choices=("right", "places"))
    words.add_argument("sets", nargs="*")
    words.add_argument("--samples", type=int, default=2)
    words.add_argument("--runs", type=int, default=100)
    words.add_argument("--part", default="0/1")
    asked = words.parse_args()
    planner = a.Planner(asked.spotnik, os.environ["SPOTNIK_DATA"])
    with tempfile.TemporaryDirectory() as pieces:
        (right if asked.what == "right" else places)(asked, planner, splits.Traces(planner, pieces))
