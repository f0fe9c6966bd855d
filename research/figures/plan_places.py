#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job that may move between regions, and pays for it: a table, which plan_results.py prints too.
Usage: SPOTNIK_DATA=... research/figures/plan_places.py SPOTNIK"""
import os
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "tests")]
import acceptance as a  # noqa: E402

TITLE = "## Moves between regions"
ZONES = ("us-east-1c", "us-east-2a", "us-west-2c")
STATES_GB = (0, 50, 200, 1000)


def one(p, policy, files, *options):
    return a.backtest(p, policy, [], *(word for name in files for word in ("--place", name)), "--stride", "53h", *options)


def row(p, policy, gb, files, *more):
    """Means over the first place: each has its turn."""
    turns = [one(p, policy, files[i:] + files[:i], "--state-gb", gb, "--spot-usd", "0.92", *more) for i in range(len(files))]
    assert not any(turn["missed_deadlines"] for turn in turns)
    return [statistics.fmean(turn[key] for turn in turns) for key in ("cost", "moves", "cost_of_moves")]


def section(p, out, _folder):
    """Appends the section to the list of lines `out`."""
    files = [p.path("spot-traces", "availability-1-node", "aws-02-15-2023", f"{zone}_v100_1.json.gz") for zone in ZONES]
    out += [TITLE, "", f"""Three places of February 2023 ({', '.join(ZONES)}, V100), 48 h of work, 60 h, changeover 12 min, price ratio 3.33; costs in hours
of the spot price ($0.92). A move pays $0.02 a gigabyte and takes 8 s a gigabyte more. Each place is the first in its turn; no deadline is missed. `spotnik`
holds the old machine while its successor starts (pair speed 1). `bound`: spot wherever there is any, and moves for nothing.
""".replace("\n", " ").strip(), "", "| policy | state | cost | moves | of the cost |", "|---|---|---|---|---|"]
    for policy, more in (("uniform", ()), ("spotnik", ("--pair-speed", "1"))):
        alone = [one(p, policy, [name], *more)["cost"] for name in files]
        out.append(f"| {policy} | stays: {', '.join(f'{cost:.1f}' for cost in alone)} | {statistics.fmean(alone):.2f} | 0 | |")
        for gb in STATES_GB:
            cost, moves, paid = row(p, policy, gb, files, *more)
            out.append(f"| {policy} | {gb} GB | {cost:.2f} | {moves:.2f} | {paid:.2f} |")
    out += [f"| bound | | {one(p, 'bound', files)['cost']:.2f} | | |", ""]
    return out


if __name__ == "__main__":
    print("\n".join(section(a.Planner(sys.argv[1], os.environ["SPOTNIK_DATA"]), [], "")))
