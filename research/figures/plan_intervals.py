#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does the standard error that the planner adds for each doubling of the devices hold what it was not made from?
Usage: SPOTNIK_DATA=... research/figures/plan_intervals.py SPOTNIK. The larger clusters of each published series are predicted from the smallest
alone. Fails where fewer than 80 % hold, or where the planner's error is smaller than what all series together need. Exit 77 without data."""
import csv
import math
import os
import re
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests"))
import acceptance as a  # noqa: E402

LEAST = 0.8  # of the rows: a share of 90 % of so few series may come out lower by chance


def rows_of(p, *parts):
    with open(p.path(*parts), newline="") as file:
        return list(csv.DictReader(file))


def speeds(p):
    """{series: {workers: steps/s}} of all that was published for several sizes of a cluster."""
    found = {}
    for row in rows_of(p, "cm-dare", "speed_vs_workers_k80.csv"):
        found.setdefault(f"K80 {row['model']}", {})[int(row["workers"])] = float(row["speed_steps_per_s"])
    for row in rows_of(p, "spotdnn", "fig5a_step_time.csv"):
        found.setdefault(f"spotDNN {row['model']}", {})[int(row["x"])] = 1 / float(row["observed_s"])
    for row in rows_of(p, "scavenger", "scavenger_fig10_resnet18.csv"):
        found.setdefault(f"Scavenger {row['global_batch_B']}", {})[int(row["workers_K"])] = 1 / float(row["time_h_observed"])
    for row in rows_of(p, "transient", "summary_k80.csv"):
        kind, name = row["config"].split("/")
        if name[0].isdigit():
            found.setdefault(kind, {})[int(name.split("-")[0])] = 1 / float(row["Duration_mean"])
    return found


def doublings(p):
    """Speeds of the larger clusters from the smallest alone: how many lie within nine of ten by what a doubling does to the other
    series; what a doubling does to all series (root of the mean square); and what the planner takes for it."""
    with open(os.path.join(HERE, "..", "..", "packages", "planner", "plan", "fleet.c")) as source:
        error = float(re.search(r"DOUBLING_ERROR ([\d.]+)", source.read()).group(1))
    off = {}
    for name, sizes in speeds(p).items():
        least = min(sizes)
        off[name] = [math.log(sizes[n] / sizes[least] * least / n) / math.sqrt(math.log2(n / least)) for n in sizes if n >= 2 * least]
    squares = {name: statistics.fmean(x * x for x in rows) for name, rows in off.items()}
    inside = 0
    for name, rows in off.items():
        others = math.sqrt(statistics.fmean(square for other, square in squares.items() if other != name))
        inside += sum(abs(x) <= 1.645 * others for x in rows)
    return inside, sum(map(len, off.values())), math.sqrt(statistics.fmean(squares.values())), error


def main(p):
    print("| 90 % intervals of | hold, series left out | margin | needed |\n|---|---|---|---|")
    inside, total, scatter, error = doublings(p)
    print(f"| a plan's step on twice the devices and more | {inside} of {total} ({100 * inside / total:.0f} %) | {100 * error:.0f} % | {100 * scatter:.1f} % |")
    assert inside >= LEAST * total and scatter <= error, (inside, total, scatter)


if __name__ == "__main__":
    if not os.path.isdir(os.path.join(os.environ.get("SPOTNIK_DATA", ""), "plan")):
        print("left out: SPOTNIK_DATA does not name a folder that holds plan/")
        sys.exit(77)
    main(a.Planner(sys.argv[1], os.environ["SPOTNIK_DATA"]))
