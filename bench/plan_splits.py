#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The planner's models on other splits than those of the tests: forms are chosen anew on what is kept, and judged on what is left out.
Checkpoint times: models left out, drawn from seeds. Speeds: every two or three numbers of workers measured. Scavenger: every rectangle
of two batches and two numbers of workers. Usage: SPOTNIK_DATA=... bench/plan_splits.py SPOTNIK: prints a table."""
import csv
import itertools
import os
import random
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "tests", "plan")]
import acceptance as a  # noqa: E402


def held(rows, low, high, seen):
    return sum(float(row[low]) <= float(row[seen]) <= float(row[high]) for row in rows), len(rows)


def tell(name, goal, splits, columns):
    """One split is a list of rows that were left out."""
    errors = sorted(a.mape(rows) for rows in splits)
    inside = [held(rows, *columns) for rows in splits]
    share = 100 * sum(h for h, _ in inside) / sum(n for _, n in inside)
    within = sum(error <= goal for error in errors)
    print(f"| {name} | {len(splits)} | {goal} % | {statistics.fmean(errors):.2f} % | {errors[0]:.2f} to {errors[-1]:.2f} % | {within} of {len(splits)} | {share:.0f} % of "
          f"{sum(n for _, n in inside)} |", flush=True)


def values(path, column):
    with open(path) as source:
        return sorted({row[column] for row in csv.DictReader(source)})


def checkpoints(p, out_of_each, seeds):
    path = p.path("cm-dare", "checkpoint__unaggregated_training.csv")
    models, splits = values(path, "Model"), []
    for seed in range(seeds):
        out = set(random.Random(seed).sample(models, out_of_each))
        splits.append(a.fitted(p, "checkpoint-time", path, lambda row, out=out: row["Model"] not in out))
    tell(f"checkpoint time, {out_of_each} of {len(models)} models left out", 5.4, splits, ("low_s", "high_s", "Duration"))


def speeds(p, sizes):
    path = p.path("cm-dare", "speed_vs_workers_k80.csv")
    splits = [a.fitted(p, "speed", path, lambda row, kept=kept: row["workers"] in kept)
              for kept in itertools.combinations(values(path, "workers"), sizes) if int(kept[-1]) >= 2 * int(kept[0])]
    tell(f"speeds, {sizes} sizes measured", 3, splits, ("low_steps_per_s", "high_steps_per_s", "speed_steps_per_s"))
    wide = [rows for rows in splits if "8" not in {row["workers"] for row in rows}]
    tell(f"speeds, {sizes} sizes measured, the largest among them", 3, wide, ("low_steps_per_s", "high_steps_per_s", "speed_steps_per_s"))


def scavenger(p):
    path, splits, wide, refused = p.path("scavenger", "scavenger_fig10_resnet18.csv"), [], None, 0
    rectangles = itertools.product(itertools.combinations(values(path, "global_batch_B"), 2), itertools.combinations(values(path, "workers_K"), 2))
    for batches, workers in rectangles:
        try:
            rows = a.fitted(p, "noise", path, lambda row, b=batches, w=workers: row["global_batch_B"] in b and row["workers_K"] in w)
        except AssertionError:
            refused += 1
            continue
        splits.append(rows)
        wide = rows if set(batches) == {"384", "1024"} and set(workers) == {"8", "20"} else wide
    print(f"Scavenger: the planner refused {refused} rectangles", file=sys.stderr)
    tell("Scavenger, ResNet-18, four corners of a rectangle", 2, splits, ("low_h", "high_h", "time_h_observed"))
    tell("Scavenger, the widest rectangle", 2, [wide], ("low_h", "high_h", "time_h_observed"))


if __name__ == "__main__":
    planner = a.Planner(sys.argv[1], os.environ["SPOTNIK_DATA"])
    print("| split | splits | goal | MAPE, mean | over the splits | within the goal | 90 % intervals hold |\n|---|---|---|---|---|---|---|")
    for count in (1, 4, 8):
        checkpoints(planner, count, 40)
    speeds(planner, 2)
    speeds(planner, 3)
    scavenger(planner)
