#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two builds side by side: recoveries and all-reduces, in turns, in one run.

    bench/beside.py OLD NEW [--rounds 7] [--quick]

OLD and NEW are `spotnik` programs. Each round runs both, the one that goes first changes. A cell is told by the median of its
rounds, the ratio NEW/OLD of each round's pair, and whether 1 lies between the quartiles of these ratios: then the difference is noise.
Let nothing else run meanwhile.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys

RECOVERY = ["recovery", "--workers", "8,16", "--losses", "1,3", "--trials", "6"]
SMALL = [
    "allreduce",
    "--workers",
    "2,4,8",
    "--sizes",
    "4KiB,64KiB,1MiB",
    "--steps",
    "1000",
]  # many, since the first milliseconds of a job are another matter
LARGE = ["allreduce", "--workers", "2,4,8", "--sizes", "16MiB", "--steps", "20"]
PARTS = ("these four_ms", "re-reduce_ms", "total_ms", "join_ms")


def measure(program: str, what: list[str]) -> dict[tuple[str, ...], float]:
    out = subprocess.run([program, "bench", *what, "--json"], check=True, capture_output=True, text=True).stdout
    cells: dict[tuple[str, ...], float] = {}
    for line in out.splitlines():
        row = json.loads(line)
        if "losses" in row:
            if row["losses"] < row["workers"]:
                for part in PARTS:
                    cells["recovery", f"{row['workers']} workers", f"{row['losses']} lost", part[:-3]] = row[part][
                        "median"
                    ]
        else:
            cells["all-reduce", f"{row['workers']} workers", f"{row['bytes'] // 1024} KiB", row["way"]] = row[
                "median_ms"
            ]
    return cells


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="4 workers and few sizes")
    options = parser.parse_args()
    plans = [RECOVERY, SMALL, LARGE]
    if options.quick:
        plans = [
            ["recovery", "--workers", "4", "--losses", "1", "--trials", "3"],
            ["allreduce", "--workers", "4", "--sizes", "64KiB"],
        ]
    seen: dict[str, list[dict[tuple[str, ...], float]]] = {"old": [], "new": []}
    for number in range(options.rounds):
        for name in ("old", "new") if number % 2 == 0 else ("new", "old"):
            cells: dict[tuple[str, ...], float] = {}
            for plan in plans:
                cells |= measure(getattr(options, name), plan)
            seen[name].append(cells)
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    slower = faster = 0
    print("| | | | | old, ms | new, ms | new/old, quartiles | |\n|---|---|---|---|---|---|---|---|")
    for cell in seen["old"][0]:
        pairs = [(old[cell], new[cell]) for old, new in zip(seen["old"], seen["new"]) if cell in old and cell in new]
        ratios = sorted(new / old for old, new in pairs)
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
        verdict = "slower" if low > 1 else "faster" if high < 1 else ""
        slower += low > 1
        faster += high < 1
        old, new = (statistics.median(side) for side in zip(*pairs))
        print(f"| {' | '.join(cell)} | {old:.3f} | {new:.3f} | {low:.2f} {middle:.2f} {high:.2f} | {verdict} |")
    print(f"\n{len(seen['old'][0])} cells: {slower} slower, {faster} faster, the rest noise; {options.rounds} rounds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
