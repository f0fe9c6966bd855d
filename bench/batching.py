#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dynamic batching in running jobs: three workers of the character model at emulated speeds.

Speeds are emulated (`bench/throttle.c`): a worker computes its samples and then waits until they have taken as long as they
would on that number of cores (CORE_MS a sample and core, give or take JITTER). Uniform shares are the same program with even shares, so both runs do
the same but for the shares.

Usage: bench/batching.py BUILD DATA PART     run a part and keep what it gave in DATA (JSON): h2, h6, h10 (speeds 9:12:18, 3:18:18,
                                             2:17:20; about 35, 65, 90 s), cost (60 s); each wants a machine with nothing else on it
       bench/batching.py table DATA [FOLDER]         print the tables; with a folder, write batching.md and batching.svg there
Needs Python 3.9 and the examples of the build.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

import pictures

MIXES = (("H = 2", (9, 12, 18)), ("H = 6", (3, 18, 18)), ("H = 10", (2, 17, 20)))  # cores; 39 in all
WAYS = (("uniform", "even"), ("dynamic", "dynamic"))
BATCH, STEPS, SMOOTHED = 39 * 64, 60, 10
CORE_MS = 2.5  # of one sample on one core; a step of balanced shares takes 2.5 ms * 64 = 160 ms
JITTER = 2  # percent, of a step's time, either way, by lot: no machine is exact
COST_BATCH, COST_STEPS = 4, (200, 3000)
SHARES = {"SPOTNIK_BATCHING": "dynamic"}
COSTS = {"nothing": {}, "agreed numbers, controller": SHARES}
COLOURS = {"uniform": "#c0392b", "dynamic": "#1f5fbf"}


def run(build, options, environment, steps, batch):
    """The lines of one worker's log, a step each."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        command = [f"{build}/cli/spotnik", "run", "-q", *options, "--", f"{build}/examples/charlm", "--steps", str(steps),
                   "--batch", str(batch), "--log", log]
        told = {**os.environ, "SPOTNIK_MAX": "8", **environment}
        subprocess.run(command, env=told, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, timeout=110)
        with open(log, encoding="utf-8") as lines:
            entries = [json.loads(line) for line in lines]
    workers = {}
    for entry in entries:
        if entry["kind"] == "step":
            workers.setdefault(entry["pid"], {})[entry["step"]] = entry
    return [whole for _, whole in sorted(workers.items()) if len(whole) == steps]


def throttle(speeds):
    return f"{':'.join(map(str, speeds))}@{1000 * CORE_MS / max(speeds):.3f}us~{JITTER}%"


def shares(build, name, speeds):
    result = {}
    for way, batching in WAYS:
        slow = {"LD_PRELOAD": f"{build}/bench/throttle.so", "BENCH_THROTTLE": throttle(speeds)}
        # members tell their times where noise is measured
        workers = run(build, ["-n", "3", "--batching", batching], {"SPOTNIK_NOISE": "scale", **slow}, STEPS, BATCH)
        one = workers[0]
        result[f"{name} {way}"] = {
            "t_s": [(one[s]["t_ns"] - one[1]["t_ns"]) / 1e9 for s in range(1, STEPS + 1)],
            "loss": [one[s]["loss"] for s in range(1, STEPS + 1)],
            "compute_us": [one[s]["compute_us"] for s in range(1, STEPS + 1)],
            "adjustments": [one[s]["adjustments"] for s in range(1, STEPS + 1)],
            "shares": [[sum(b - a for a, b in w[s]["samples"]) for w in workers] for s in range(1, STEPS + 1)],
        }
        print(name, way, "done", flush=True)
    return result


def processor_s():
    """Processor time of all processes that have ended below this one, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def step_cost(build, environment):
    """Of two workers at full speed: processor time of a step, all threads of both, in ms."""
    spent = []
    for count in COST_STEPS:
        before = processor_s()
        run(build, ["-n", "2"], environment, count, COST_BATCH)
        spent.append(processor_s() - before)
    return 1000 * (spent[1] - spent[0]) / (COST_STEPS[1] - COST_STEPS[0])


def cost(build):
    """Where there is next to nothing to compute, what is on can be seen beside the noise of the machine. In turns, six rounds."""
    result = {name: [] for name in COSTS}
    for _ in range(6):
        for name, environment in COSTS.items():
            result[name].append(step_cost(build, environment))
    return result


def cost_table(data):
    """Above the run without anything in the same round; median over rounds, least and most."""
    lines = ["| what is on | processor time of a step | more than without |", "|---|---|---|"]
    for name, runs in data.items():
        more = [1000 * (one - none) for one, none in zip(runs, data["nothing"])]
        least, most, middle = min(more), max(more), statistics.median(more)
        lines.append(f"| {name} | {1000 * statistics.median(runs):.0f} us | {middle:+.0f} us ({least:+.0f} to {most:+.0f}) |")
    return lines


def smoothed(loss):
    return [statistics.mean(loss[max(0, i - SMOOTHED + 1):i + 1]) for i in range(len(loss))]


def settled(entry):
    """The first step dealt after two adjustments; the last step where there were fewer."""
    return next((i for i, n in enumerate(entry["adjustments"]) if n >= 2), len(entry["adjustments"]) // 2) + 1


def spread(entry, first):
    """(slowest - fastest) / slowest of the members' compute times, median over the steps from `first` on."""
    values = [1 - least / most for least, most in entry["compute_us"][first:]]
    return statistics.median(values)


def outside(entry, first):
    """Part of those steps in which the members' times were more than 5 % apart."""
    times = entry["compute_us"][first:]
    return sum(1 - least / most > 0.05 for least, most in times) / len(times)


def shares_table(data):
    lines = ["| speeds | shares, uniform | shares, dynamic | spread, uniform | spread after 2 | above 5 % | step, uniform | step, dynamic | speed-up | "
             "bound | time to loss, uniform | dynamic | ratio | changes |",
             "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for name, speeds in MIXES:
        if f"{name} dynamic" not in data:
            continue
        uniform, dynamic = (data.get(f"{name} {way}") for way, _ in WAYS)
        target = max(smoothed(entry["loss"])[-1] for entry in (uniform, dynamic))
        reach = [next(t for t, loss in zip(entry["t_s"], smoothed(entry["loss"])) if loss <= target)
                 for entry in (uniform, dynamic)]
        first = settled(dynamic)
        step = [statistics.median(b - a for a, b in zip(entry["t_s"][first:], entry["t_s"][first + 1:]))
                for entry in (uniform, dynamic)]
        bound = statistics.mean(speeds) / min(speeds)
        cells = [":".join(map(str, speeds)), ":".join(map(str, uniform["shares"][-1])), ":".join(map(str, dynamic["shares"][-1])),
                 f"{spread(uniform, first):.0%}", f"{spread(dynamic, first):.1%}", f"{outside(dynamic, first):.0%}", f"{1000 * step[0]:.1f} ms",
                 f"{1000 * step[1]:.1f} ms", f"{step[0] / step[1]:.2f}", f"{bound:.2f}", f"{reach[0]:.2f} s", f"{reach[1]:.2f} s",
                 f"{reach[0] / reach[1]:.2f}", str(dynamic["adjustments"][-1])]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def plot(data):
    mixes = [(name, speeds) for name, speeds in MIXES if f"{name} dynamic" in data]
    figure, panels = pictures.panels(max(len(mixes), 1), 11.5, 3.6)
    for axes, (name, speeds) in zip(panels, mixes):
        entries = {way: data[f"{name} {way}"] for way, _ in WAYS if f"{name} {way}" in data}
        series = {way: [(i, us[1] / 1000) for i, us in enumerate(entry["compute_us"])] for way, entry in entries.items()}
        pictures.lines(axes, series, "step", "slowest member's time (ms)", marks=False, colours=COLOURS)
        axes.set_ylim(bottom=0)
        axes.set_title(f"cores {':'.join(map(str, speeds))}")
    pictures.legend(figure, panels[0])
    return pictures.text(figure)


def page(data):
    lines = ["# Dynamic batching: runs", "",
             "Three workers of the character model (`examples/charlm`) on one machine of two cores, at emulated speeds; made by",
             "`bench/batching.py`. Workers compute their samples, and wait until these have taken as long as they would on so many cores,",
             f"at {CORE_MS} ms a sample and core, give or take {JITTER} % of a step by lot (`bench/throttle.c`, 2:17:20@125us~{JITTER}%).",
             f"Global batch {BATCH}, {STEPS} steps, window 5. *Uniform* is the same program with even shares.", ""]
    if "shares" in data:
        lines += [*shares_table(data["shares"]), "",
                  "*spread*: (slowest − fastest) / slowest of the members' compute times, median of the steps from the second adjustment on;",
                  "*above 5 %*: part of those steps in which it was more. *speed-up*: medians of the same steps.",
                  "*bound*: mean(X) / min(X), what sharing the work can give at most when nothing else takes time. *time to loss*: from the first",
                  f"commit until the loss, mean of {SMOOTHED} steps, is at the worse of the two runs' last; batch and weighted gradient are the",
                  "same, so both need the same steps, to rounding. *changes*: of shares in the whole run.", "",
                  "![slowest member's time](batching.svg)", ""]
    lines += [*data.get("remarks", []), ""]
    if "cost" in data:
        lines += ["## Cost", "", *cost_table(data["cost"]), "",
                  f"Two workers at full speed, with a batch of {COST_BATCH}, so that there is next to nothing to compute; processor time is that of all",
                  f"threads of both, from runs of {COST_STEPS[0]} and of {COST_STEPS[1]} steps, six rounds.", ""]
    return "\n".join(lines)


def main(arguments):
    if len(arguments) >= 2 and arguments[0] == "table":
        with open(arguments[1], encoding="utf-8") as file:
            data = json.load(file)
        print(page(data))
        if len(arguments) == 3:
            with open(os.path.join(arguments[2], "batching.md"), "w", encoding="utf-8") as file:
                file.write(page(data))
            if "shares" in data:
                with open(os.path.join(arguments[2], "batching.svg"), "w", encoding="utf-8") as file:
                    file.write(plot(data["shares"]))
        return
    mixes = {name.replace("H = ", "h"): (name, speeds) for name, speeds in MIXES}
    parts = {**mixes, "cost": cost}
    if len(arguments) != 3 or arguments[2] not in parts:
        raise SystemExit(__doc__)
    data = {}
    if os.path.exists(arguments[1]):
        with open(arguments[1], encoding="utf-8") as file:
            data = json.load(file)
    if callable(parts[arguments[2]]):
        data[arguments[2]] = parts[arguments[2]](arguments[0])
    else:
        data["shares"] = {**data.get("shares", {}), **shares(arguments[0], *parts[arguments[2]])}
    with open(arguments[1], "w", encoding="utf-8") as file:
        json.dump(data, file)


if __name__ == "__main__":
    main(sys.argv[1:])
