#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Histories made to hurt the policy `spotnik`, and what it costs against Uniform Progress on each: availability that alternates, comes in
steps, in bursts shorter than a start, or goes for good; prices with spikes, steps, days, floors and saws; random jobs. `climb` changes one
trace, or one history of prices, bit by bit to where the policy does worst. Fails where a promise is broken: more than 2 % dearer than
Uniform Progress as it was published, which pays any price; or late.
Usage: plan_attack.py SPOTNIK [--cases 1000] [--seed 1] [--climbs 16] [--steps 25] [--processes 2] [--builtin] [--rows FILE]
--builtin: the policy believes in the hazard tables that it comes with (ten times as slow). --rows: what is
done is kept there, and not done again."""
import argparse
import collections
import json
import math
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile

TICK_S, WINDOWS = 600, 8


def always(draw, ticks):
    return [1] * ticks


def flapping(draw, ticks):
    down, up, now, out = draw.uniform(0.005, 0.5), draw.uniform(0.005, 0.5), draw.random() < 0.5, []
    for _ in range(ticks):
        now = (draw.random() >= down) if now else (draw.random() < up)
        out.append(int(now))
    return out


def alternating(draw, ticks):
    on, off, at = draw.randint(1, 12), draw.randint(1, 24), draw.randint(0, 36)
    return [int((tick + at) % (on + off) < on) for tick in range(ticks)]


def staircase(draw, ticks):
    """Each stretch with spot is longer, or shorter, than the one before."""
    out, length, step = [], draw.randint(1, 6), draw.choice((1, 2, 5))
    while len(out) < ticks:
        out += [1] * length + [0] * draw.randint(1, 12)
        length = length + step if length < 60 else 1
    return out[:ticks] if draw.random() < 0.5 else out[:ticks][::-1]


def bursts(draw, ticks):
    """Gone before, or just after, a start is done."""
    out, rest = [], draw.randint(1, 18)
    while len(out) < ticks:
        out += [1] * draw.choice((1, 1, 1, 2, 3)) + [0] * draw.randint(1, rest)
    return out[:ticks]


def promises(draw, ticks):
    """Long spot in the first jobs, none in the others; or the other way round."""
    turn = int(ticks * draw.uniform(0.2, 0.8))
    first, later = (flapping(draw, ticks), bursts(draw, ticks))[::draw.choice((1, -1))]
    return first[:turn] + later[turn:] if draw.random() < 0.5 else [draw.randint(0, 1)] * turn + later[turn:]


def late(draw, ticks):
    """Spot comes for good once half of a day is over."""
    day, gone = draw.randint(36, 200), draw.uniform(0.2, 0.9)
    return [int(tick % day > day * gone) for tick in range(ticks)]


PLACES = (always, flapping, alternating, staircase, bursts, promises, late)


def spikes(draw, hours):
    share = draw.uniform(0.01, 0.2)
    return [draw.uniform(1.01, 10) if draw.random() < share else draw.uniform(0.15, 0.4) for _ in range(hours)]


def stairs(draw, hours):
    step = draw.randint(2, 30)
    return [0.1 + 0.1 * (hour // step % 11) for hour in range(hours)][::draw.choice((1, -1))]


def saw(draw, hours):
    period = draw.randint(2, 30)
    return [0.2 + draw.choice((0.7, 1.3)) * (hour % period) / period for hour in range(hours)]


def walk(draw, hours):
    out = [draw.uniform(0.2, 1)]
    while len(out) < hours:
        out.append(min(2, max(0.1, out[-1] * 1.2 ** draw.choice((-1, 0, 1)))))
    return out


def drop(draw, hours):
    """Cheaper and cheaper, so that whoever bought early regrets it."""
    return [max(0.02, 1.1 * 0.5 ** (hour / draw.choice((24, 48, 96)))) for hour in range(hours)]


def near(draw, hours):
    return [draw.uniform(0.9, 1.1) for _ in range(hours)]


def days(draw, hours):
    """Dear by day and cheap by night, through the on-demand price."""
    middle, swing, at = draw.uniform(0.5, 1.1), draw.uniform(0.1, 0.9), draw.randrange(24)
    return [max(0.03, middle + swing * math.sin((hour + at) * math.pi / 12)) for hour in range(hours)]


def floors(draw, hours):
    """A price that stays at a floor, and floors that change once a day or so; seldom a spike."""
    out = []
    while len(out) < hours:
        floor = draw.choice((0.05, 0.2, 0.5, 0.9, 0.99, 1.01, 1.2))
        out += [draw.uniform(1.05, 5) if draw.random() < 0.04 else floor for _ in range(draw.randint(6, 48))]
    return out[:hours]


PRICES = (None, None, None, spikes, stairs, saw, walk, drop, near, days, floors)


def job(draw):
    work = draw.choice((2, 4, 8, 12, 20, 40)) * draw.uniform(0.8, 1.2)
    start = min(draw.choice((1, 3, 6, 12, 20)) / 60, work / 12)
    return work, max(work * draw.choice((1.03, 1.1, 1.25, 1.5, 2)), work + 2.2 * start), start, draw.choice((1.3, 2, 3.33, 6)), draw.choice((1.8, 1.8, 1.4, 2))


def case_make(seed):
    draw = random.Random(seed)
    place, prices, terms = draw.choice(PLACES), draw.choice(PRICES), job(draw)
    stride = terms[1] * draw.choice((1, 1, 0.35))
    hours = int(stride * (WINDOWS - 1) + terms[1]) + 2
    data = place(draw, hours * 3600 // TICK_S)
    return {"family": place.__name__ + (", " + prices.__name__ if prices else ""), "prices": bool(prices), "seed": seed, "terms": terms, "stride": stride,
            "data": data, "usd": prices(draw, hours + 1) if prices else None}


def files(folder, case):
    windows, history = os.path.join(folder, "windows.json"), os.path.join(folder, "prices.csv")
    with open(windows, "w") as out:
        json.dump({"metadata": {"gap_seconds": TICK_S}, "data": case["data"]}, out)
    if case["usd"]:
        with open(history, "w") as out:
            out.write("timestamp_utc,spot_usd_per_h\n")
            for hour, price in enumerate(case["usd"]):
                out.write(f"2024-01-{1 + hour // 24:02}T{hour % 24:02}:00:00Z,{price:.5f}\n" if hour < 31 * 24 else "")
    return windows, history


def learned(folder, seed):
    """A hazard table that has nothing to do with the case: the promise does not rest on what the policy believes, and one is solved sooner than 32."""
    path = os.path.join(folder, "learned.json")
    with open(path, "w") as out:
        json.dump({"metadata": {"gap_seconds": TICK_S}, "data": flapping(random.Random(seed + 5), 2000)}, out)
    return path


def costs(case, policies):
    work, deadline, start, ratio, _ = case["terms"]
    with tempfile.TemporaryDirectory(prefix="spotnik-attack-") as folder:
        windows, history = files(folder, case)
        taught = () if asked.builtin else ("--learn-from", learned(folder, case["seed"]))
        got = {}
        for name, words in policies.items():
            more = [*words, *(taught if "spotnik" in words else ()), *(("--spot-prices", history, "--on-demand-usd", "1") if case["usd"] else ("--price-ratio", str(ratio)))]
            if not case["usd"] and "--cap-usd" in words:
                continue
            done = subprocess.run([spotnik, "backtest", "--windows", windows, "--work", f"{work:.4f}h", "--deadline", f"{deadline:.4f}h", "--changeover",
                                   f"{start * 60:.4f}m", "--stride", f"{case['stride']:.4f}h", *more], capture_output=True, text=True)
            assert done.returncode == 0, (case["seed"], done.stderr)
            result = json.loads(done.stdout)
            assert result["missed_deadlines"] == 0, (case["family"], case["seed"], name)
            got[name] = result["cost"]
    got.setdefault("capped", got["uniform"])
    return got


def policies(case, both=True):
    pair = str(case["terms"][4])
    return {"uniform": ("--policy", "uniform"), "capped": ("--policy", "uniform", "--cap-usd", "1"),
            "ours": ("--policy", "spotnik", "--pair-speed", pair, "--never-dearer", "0.02"),
            **({"free": ("--policy", "spotnik", "--pair-speed", pair, "--never-dearer", "none")} if both else {})}


def drawn(seed):
    case = case_make(seed)
    return case["family"], case["prices"], seed, costs(case, policies(case))


def changed(draw, list_, values):
    at, length = draw.randrange(len(list_)), draw.choice((1, 2, 6, 20, 60))
    list_[at:at + length] = [draw.choice((*values, list_[at] if values[0] else 1 - list_[at]))] * len(list_[at:at + length])


def climb(arguments):
    """From one history to a neighbour where the policy is dearer, and on from there."""
    seed, steps = arguments
    draw, case = random.Random(-seed), case_make(seed)
    best, rows = None, []
    for _ in range(steps):
        was = list(case["data"]), list(case["usd"] or ())
        if best is not None and case["usd"] and draw.random() < 0.7:
            changed(draw, case["usd"], (0.05, 0.3, 0.9, 0.99, 1.01, 1.1, 2, 8))
        elif best is not None:
            changed(draw, case["data"], (0, 1))
        got = costs(case, policies(case, False))
        rows.append(("climb, prices" if case["usd"] else "climb", case["prices"], seed, got))
        dearer = got["ours"] / got["uniform"]
        if best is None or dearer >= best:
            best = dearer
        else:
            case["data"], case["usd"] = was[0], was[1] or None
    return rows


def table(rows):
    groups = collections.defaultdict(list)
    for family, _, _, got in rows:
        groups[family if family.startswith("climb") else family.split(", ")[-1]].append(got)
    print("| histories | cases | cheaper or equal | mean | worst | worst against capped | unbounded: above 2 % | unbounded: worst | unbounded: mean |\n"
          "|---|---|---|---|---|---|---|---|---|")
    for name, list_ in [*sorted(groups.items()), ("all", [row[3] for row in rows])]:
        ours = [got["ours"] / got["uniform"] - 1 for got in list_]
        capped = [got["ours"] / got["capped"] - 1 for got in list_]
        free = [got["free"] / got["uniform"] - 1 for got in list_ if "free" in got]
        print(f"| {name} | {len(list_)} | {sum(d <= 1e-6 for d in ours)} | {100 * sum(ours) / len(ours):+.2f} % | {100 * max(ours):+.2f} % | {100 * max(capped):+.2f} % | "
              + (f"{sum(d > 0.02 for d in free)} | {100 * max(free):+.1f} % | {100 * sum(free) / len(free):+.2f} % |" if free else "| | |"))


def kept(path):
    if not path or not os.path.exists(path):
        return []
    with open(path) as source:
        return [json.loads(line) for line in source]


def keep(path, rows):
    if path:
        with open(path, "a") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows)
    return rows


def main(options):
    seeds = [1000000 * options.seed + i for i in range(options.cases)]
    rows = kept(options.rows)
    have = {(row[0].startswith("climb"), row[2]) for row in rows}
    with multiprocessing.Pool(options.processes) as pool:
        for row in pool.imap_unordered(drawn, [seed for seed in seeds if (False, seed) not in have]):
            rows += keep(options.rows, [row])
        for climbed in pool.imap_unordered(climb, [(seed, options.steps) for seed in seeds[:options.climbs] if (True, seed) not in have]):
            rows += keep(options.rows, climbed)
    table(rows)
    for family, _, seed, got in sorted(rows, key=lambda row: -row[3]["ours"] / row[3]["uniform"])[:5]:
        print(f"{family} seed {seed}: {100 * (got['ours'] / got['uniform'] - 1):+.3f} %", file=sys.stderr)
    assert {got["ours"] < got["uniform"] - 1e-9 for _, _, _, got in rows} == {True, False}, "nothing was at stake"
    broken = [row for row in rows if row[3]["ours"] > (1.02 + 1e-3) * row[3]["uniform"]]
    assert not broken, broken[:3]


if __name__ == "__main__":
    parse = argparse.ArgumentParser()
    parse.add_argument("spotnik")
    for option, value in (("cases", 1000), ("seed", 1), ("climbs", 16), ("steps", 25), ("processes", 2)):
        parse.add_argument("--" + option, type=int, default=value)
    parse.add_argument("--rows")
    parse.add_argument("--builtin", action="store_true")
    asked = parse.parse_args()
    spotnik = os.path.abspath(asked.spotnik)
    main(asked)
