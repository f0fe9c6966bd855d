#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stated chances on many splits of the traces into what regimes are learned from and what is judged. `chosen` are the splits by which
the form of the model was chosen (months, zones, kinds, regions); `old` and `fresh` were only ever reported.
Usage: SPOTNIK_DATA=... research/figures/plan_splits_chances.py SPOTNIK [chosen] [old] [fresh] [--runs 150] [--only TEXT] [--part 0/2] [--more WORDS]: prints a
table; a line of means after each set."""
import argparse
import gzip
import json
import math
import os
import random
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "tests"), HERE]
import acceptance as a  # noqa: E402


class Traces:
    """All traces by (month, name); pieces of them are made in `folder`."""

    def __init__(self, p, folder):
        self.folder = folder
        sets = a.months(p)
        spot = p.path("spot-traces", "preemption-1-node")
        processors = [os.path.join(spot, cloud, name) for cloud in ("aws-04-19-2023", "gcp-04-30-2023") for name in sorted(os.listdir(os.path.join(spot, cloud)))]
        self.gpu = [(month, os.path.basename(name).split(".")[0], name) for month in ("2022", "2023", "april") for name in sets[month]]
        self.processors = [("gcp" if "gcp" in name else "aws", os.path.basename(name).split(".")[0], name) for name in processors]

    def pick(self, *parts, months=("2022", "2023", "april")):
        """Files of these months whose name has one of the parts in it (no parts: all)."""
        return [path for month, name, path in self.gpu if month in months and (not parts or any(part in name for part in parts))]

    def others(self, files):
        return [path for _, _, path in self.gpu if path not in files]

    def pieces(self, files, cuts):
        """Each file cut at these shares of its length: a list of files for each piece."""
        out = [[] for _ in cuts[1:]]
        for path in files:
            with gzip.open(path) as source:
                trace = json.load(source)
            data = trace["data"]
            for i, (low, high) in enumerate(zip(cuts, cuts[1:])):
                folder = os.path.join(self.folder, f"{os.path.basename(os.path.dirname(path))}-{low:.3f}-{high:.3f}")
                os.makedirs(folder, exist_ok=True)
                name = os.path.join(folder, os.path.basename(path).split(".")[0] + ".json")
                with open(name, "w") as piece:
                    json.dump({"metadata": trace["metadata"], "data": data[int(low * len(data)):int(high * len(data))]}, piece)
                out[i].append(name)
        return out


def chosen(t):
    m22, m23 = t.pick(months=("2022",)), t.pick(months=("2023",))
    a2, b2 = t.pick("us-west-2a", months=("2022",)), t.pick("us-west-2b", months=("2022",))
    k80, v100 = t.pick("k80", months=("2022",)), t.pick("v100", months=("2022",))
    east, west = t.pick("us-east", months=("2023",)), t.pick("us-west", months=("2023",))
    return [("October 2022 by February 2023", m22, m23, "31h"), ("February 2023 by October 2022", m23, m22, "31h"),
            ("October, us-west-2a by us-west-2b", a2, b2, "41h"), ("October, us-west-2b by us-west-2a", b2, a2, "41h"),
            ("October, K80 by V100", k80, v100, "41h"), ("October, V100 by K80", v100, k80, "41h"),
            ("February, three places of the west by six of the east", west, east, "41h"),
            ("February, six places of the east by three of the west", east, west, "41h")]


def old(t):
    m22, m23, april = (t.pick(months=(month,)) for month in ("2022", "2023", "april"))
    first, second = t.pieces(m23, (0, 0.5, 1))
    every = [path for _, _, path in t.gpu]
    east = t.pick("us-east", months=("2023",))
    west, west_2 = t.pick("us-west", months=("2023",)), t.pick("us-west-2")
    one, eight = t.pick("_1", months=("2022",)), t.pick("_8", months=("2022",))
    aws, gcp = ([path for cloud, _, path in t.processors if cloud == c] for c in ("aws", "gcp"))
    first_east, second_east = t.pick("us-east-1", months=("2023",)), t.pick("us-east-2", months=("2023",))
    return [("February by October and April", m23, m22 + april, "31h"), ("October by February and April", m22, m23 + april, "17h"),
            ("second half of February by its first half, the same places", second, first, "17h"),
            ("first half of February by its second half", first, second, "17h"),
            ("February, six places of the east, by all other traces", east, t.others(east), "31h"),
            ("February, three places of the west, by all other traces", west, t.others(west), "17h"),
            ("February, us-east-1, by all but us-east-1", first_east, t.others(t.pick("us-east-1")), "31h"),
            ("February, us-east-2, by all but us-east-2", second_east, t.others(second_east), "17h"),
            ("us-west-2 of all months by the east of all months", west_2, t.others(west_2), "23h"),
            ("the east of all months by us-west-2 of all months", t.others(west_2), west_2, "31h"),
            ("every second trace by the others", every[1::2], every[::2], "23h"), ("the others by every second trace", every[::2], every[1::2], "23h"),
            ("April by October and February", april, m22 + m23, "5h"),
            ("processors: three places of AWS by four of GCP", aws, gcp, "3h"),
            ("October, one accelerator, by eight accelerators, and all of 2023", one, t.others(one), "11h"),
            ("October, eight accelerators, by one accelerator, and all of 2023", eight, t.others(eight), "11h")]


def drawn(t, seed):
    files = [path for _, _, path in t.gpu]
    picked = random.Random(seed).sample(files, 10)
    return sorted(picked), t.others(picked)


def fresh(t):
    m22, m23, april = (t.pick(months=(month,)) for month in ("2022", "2023", "april"))
    feb_thirds, oct_halves = t.pieces(m23, (0, 1 / 3, 2 / 3, 1)), t.pieces(m22, (0, 0.5, 1))
    weeks = t.pieces(m23, [i / 6.5 for i in range(7)])
    k80, v100 = t.pick("k80", months=("2022",)), t.pick("v100", months=("2022",))
    a, bc = t.pick("1a_", "2a_", months=("2023",)), t.pick("1c_", "2b_", "2c_", months=("2023",))
    return [("February, us-west-2, by October (the same region)", t.pick("us-west", months=("2023",)), m22, "17h"),
            ("October by us-west-2 of 2023 (the same region)", m22, t.pick("us-west", months=("2023", "april")), "31h"),
            ("April, us-east-1, by February", t.pick("us-east", months=("april",)), m23, "5h"),
            ("April, us-west-2, by October and February", t.pick("us-west", months=("april",)), m22 + m23, "5h"),
            ("first third of February by October", feb_thirds[0], m22, "13h"), ("last third of February by October", feb_thirds[2], m22, "13h"),
            ("first half of October by February", oct_halves[0], m23, "13h"), ("second half of October by February", oct_halves[1], m23, "13h"),
            ("October, K80, by all of 2023", k80, m23 + april, "17h"), ("October, V100, by all of 2023", v100, m23 + april, "17h"),
            ("February, zones a, by all other traces", a, t.others(a), "17h"), ("February, zones b and c, by all other traces", bc, t.others(bc), "17h"),
            ("single weeks of February by October", [path for week in weeks for path in week], m22, "13h"),
            ("halves of October by February and April", [path for half in oct_halves for path in half], m23 + april, "17h"),
            ("ten traces, drawn (1), by the others", *drawn(t, 1), "31h"), ("ten traces, drawn (2), by the others", *drawn(t, 2), "31h")]


def row(name, tested, learned, got):
    deciles = [d for d in got["deciles"] if d["low"] is not None]
    off = [100 * (d["came_true"] - d["stated"]) for d in deciles]
    last = [f"{100 * d['stated']:.1f}, {100 * d['came_true']:.1f}; {'yes' if d['holds'] else 'no'}" if d["low"] is not None else "too few" for d in got["deciles"][8:]]
    print(f"| {name} | {len(tested)}, {len(learned)} | {got['starts']} | {got['held']} of {got['judged']} | {got['held_by_trace']} | {last[0]} | {last[1]} | "
          f"{max(off, key=abs, default=math.nan):+.1f} | {100 * got['stated']:.1f}, {100 * got['came_true']:.1f} | {got['brier']:.4f} | "
          f"{got['wide']} | {100 * (got['worse_by_chance'] if got['judged'] else math.nan):.0f} % |", flush=True)
    return sum(abs(x) * d["starts"] for x, d in zip(off, deciles)) / max(1, sum(d["starts"] for d in deciles))


def main(given):
    p = a.Planner(given.spotnik, os.environ["SPOTNIK_DATA"])
    with tempfile.TemporaryDirectory() as folder:
        traces = Traces(p, folder)
        for title in given.sets or ("chosen", "old", "fresh"):
            print(f"\n{title}\n\n| windows, by regimes of | traces | forecasts | deciles that hold | by traces | 80 to 90 % | 90 to 100 % | worst decile, points | all | Brier | wide | as far off by chance |\n"
                  "|---|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
            results, off = [], []
            number, parts = map(int, given.part.split("/"))
            for i, (name, tested, learned, stride) in enumerate({"chosen": chosen, "old": old, "fresh": fresh}[title](traces)):
                if given.only not in name or i % parts != number:
                    continue
                got = p.json(*a.calibration_words(tested, learned, "--stride", stride, "--runs", str(given.runs), "--json", *a.TOGETHER, *given.more.split()))
                off.append(row(name, tested, learned, got))
                results.append(got)
            n = len(results)
            print(f"\nall deciles in {sum(g['held'] == g['judged'] > 0 for g in results)} of {n}; {sum(g['held'] for g in results)} of {sum(g['judged'] for g in results)} deciles ({sum(g['held_by_trace'] for g in results)} by traces); "
                  f"together {sum(g['judged'] > 0 and g['worse_by_chance'] >= 0.05 for g in results)} of {n}; "
                  f"Brier {sum(g['brier'] for g in results) / n:.4f}; off by {sum(off) / n:.2f} points, root mean square "
                  f"{math.sqrt(sum(x * x for x in off) / n):.2f}", flush=True)


if __name__ == "__main__":
    words = argparse.ArgumentParser()
    words.add_argument("spotnik")
    words.add_argument("sets", nargs="*")
    words.add_argument("--runs", type=int, default=150)
    words.add_argument("--only", default="")
    words.add_argument("--more", default="")
    words.add_argument("--part", default="0/1")
    main(words.parse_args())
