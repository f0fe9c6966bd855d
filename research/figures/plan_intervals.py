#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Do 90 % intervals hold what they were not made from? Usage: SPOTNIK_DATA=... research/figures/plan_intervals.py SPOTNIK.
Speeds and times of a run: each series is predicted from a few of its sizes, and its interval gives way by what the other series
need. Checkpoint times: each series of models is predicted from the others. Fails where fewer than 90 % hold as printed, fewer than
80 % with the margin of the others, or where a model's margin is smaller than what all series together need. Exit 77 without data."""
import csv
import math
import os
import re
import statistics
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests"))
import acceptance as a  # noqa: E402


def margin(model):
    """By how much the ends of a model's interval give way, in logarithms."""
    with open(os.path.join(HERE, "..", "tables", f"model_{model}.h")) as header:
        found = re.search(rf"SPOTNIK_{model.upper()}_SCATTER ([\d.]+)", header.read())
    assert found, model
    return float(found.group(1))


SCATTER = {model: margin(model) for model in ("speed", "noise")}
LEAST = 0.8  # of the rows: a share of 90 % of so few series may come out lower by chance
T_95 = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812)  # Student's t, by degrees of freedom


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


def ends(p, model, fit, rest, columns):
    """Low, high and observed values of `rest`, with the scatter that the model adds taken out."""
    names = []
    for rows in (fit, rest):
        with tempfile.NamedTemporaryFile("w", suffix=".csv", delete=False, newline="") as file:
            names.append(file.name)
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(rows)
    low, high = ("low_steps_per_s", "high_steps_per_s") if model == "speed" else ("low_h", "high_h")
    grow = math.exp(SCATTER[model])
    got = [(float(r[low]) * grow, float(r[high]) / grow, float(r[columns[-1]]))
           for r in p.csv("model", model, "--fit", names[0], "--predict", names[1])]
    for name in names:
        os.unlink(name)
    return got


def beyond(row):
    low, high, observed = row
    return max(0.0, math.log(low / observed), math.log(observed / high))


def needed(series):
    """What the ends must give way by, for a series like these that is not among them."""
    squares = [statistics.fmean(beyond(row) ** 2 for row in rows) for rows in series]
    n = len(squares)
    t = T_95[n - 2] if n - 2 < len(T_95) else 1.645 + 1.5 / (n - 1)
    return t * math.sqrt(1 + 1 / n) * math.sqrt(statistics.fmean(squares))


def held(series, model):
    """Rows that lie in intervals made from the other series, those that lie in the printed ones, and all rows."""
    inside = printed = total = 0
    for name, rows in series.items():
        scatter = needed([other for key, other in series.items() if key != name])
        assert scatter <= SCATTER[model], (name, scatter)  # so the printed margin owes nothing to the series itself
        inside += sum(beyond(row) <= scatter for row in rows)
        printed += sum(beyond(row) <= SCATTER[model] for row in rows)
        total += len(rows)
    return inside, printed, total


def speed_series(p, take):
    series = {}
    for name, sizes in speeds(p).items():
        known = take(sorted(sizes))
        rows = [[(n, sizes[n]) for n in sizes if (n in known) == fitted] for fitted in (True, False)]
        if rows[0] and rows[1]:
            series[name] = ends(p, "speed", *rows, ("workers", "speed_steps_per_s"))
    return series


def noise_series(p):
    """Runs, iterations and epochs of Scavenger, each batch a series, from the extremes of workers and batches."""
    series = {}
    for figure, value in (("fig10_resnet18", lambda r: float(r["time_h_observed"])),
                          ("fig3_compute_sync_resnet18",
                           lambda r: float(r["total_iteration_time_s"]) * 1e4 / (int(r["workers_K"]) * int(r["global_batch_B"]))),
                          ("fig8_noise_epochs_resnet18", lambda r: float(r["derived_sec_per_epoch"]))):
        rows = [(int(r["global_batch_B"]), int(r["workers_K"]), value(r)) for r in rows_of(p, "scavenger", f"scavenger_{figure}.csv")]
        edge = [{f(r[i] for r in rows) for f in (min, max)} for i in (0, 1)]
        fit = [r for r in rows if r[0] in edge[0] and r[1] in edge[1]]
        rest = [r for r in rows if r not in fit]
        for row, got in zip(rest, ends(p, "noise", fit, rest, ("global_batch_B", "workers_K", "time_h_observed"))):
            series.setdefault(f"{figure} {row[0]}", []).append(got)
    return series


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
    inside = printed = 0
    for name, rows in off.items():
        printed += sum(abs(x) <= 1.645 * error for x in rows)
        others = math.sqrt(statistics.fmean(square for other, square in squares.items() if other != name))
        inside += sum(abs(x) <= 1.645 * others for x in rows)
    return inside, printed, sum(map(len, off.values())), math.sqrt(statistics.fmean(squares.values())), error


def checkpoints(p):
    """Error and share that holds, both in per cent, and the interval in words."""
    said = p.run("model", "checkpoint-time", "--fit", p.path("cm-dare", "checkpoint__unaggregated_training.csv")).stderr
    error, interval, share = re.search(r"off by ([\d.]+) %; 90 % intervals of (.*?) % hold (\d+) %", said).groups()
    return float(error), interval, int(share)


def measured(p):
    """{what: (rows that hold by the other series, as printed, rows, scatter that is needed, model)}"""
    found = {}
    for what, take in (("speed, from the smallest and the largest size", lambda n: (n[0], n[-1])),
                       ("speed, from the second and the last size", lambda n: (n[1], n[-1])),
                       ("speed beyond the largest size, from the first half", lambda n: n[:(len(n) + 1) // 2])):
        series = speed_series(p, take)
        found[what] = (*held(series, "speed"), needed(list(series.values())), "speed")
    series = noise_series(p)
    found["time of a run, from four extremes"] = (*held(series, "noise"), needed(list(series.values())), "noise")
    return found


def main(p):
    print("| 90 % intervals of | hold as printed | with the margin of the other series | margin | needed |\n|---|---|---|---|---|")
    for what, (inside, printed, total, scatter, model) in measured(p).items():
        print(f"| {what} | {printed} of {total} | {inside} ({100 * inside / total:.0f} %) | {100 * SCATTER[model]:.0f} % | {100 * scatter:.1f} % |")
        assert printed >= 0.9 * total and inside >= LEAST * total and scatter <= SCATTER[model], what
    inside, printed, total, scatter, error = doublings(p)
    print(f"| a plan's step on twice the devices and more | {printed} of {total} | {inside} ({100 * inside / total:.0f} %) | {100 * error:.0f} % | {100 * scatter:.1f} % |")
    assert printed >= 0.9 * total and inside >= LEAST * total and scatter <= error, (inside, total, scatter)
    error, interval, share = checkpoints(p)
    print(f"| checkpoint time, off by {error:.1f} % | | {share} % | {interval} % | |")
    assert share >= 90, share


if __name__ == "__main__":
    if not os.path.isdir(os.path.join(os.environ.get("SPOTNIK_DATA", ""), "plan")):
        print("left out: SPOTNIK_DATA does not name a folder that holds plan/")
        sys.exit(77)
    main(a.Planner(sys.argv[1], os.environ["SPOTNIK_DATA"]))
