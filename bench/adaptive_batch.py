#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dynamic batching on a MODEL of heterogeneous workers; no worker runs here.

The controller is the library's (tests/unit/adapt/stepper.c drives src/adapt); its workers are a formula: a step of b
samples takes overhead + b / speed, give or take noise, a synchronous step takes as long as its slowest worker, plus a
fixed time for the all-reduce. The global batch is conserved and gradients are weighted by samples, so the number of steps
to a given loss does not depend on the split, and time to loss is in proportion to the time of a step.

Usage: bench/adaptive_batch.py BUILD [docs/results]. Prints the table; with a folder, writes adaptive_batch.md and
adaptive_batch.svg there. Needs nothing but Python 3.9.
"""

import random
import subprocess
import sys

import pictures

CASES = (("H = 2", (9, 12, 18)), ("H = 6", (3, 18, 18)), ("H = 10", (2, 17, 20)))  # cores of three workers; 39 in all
BATCH, WINDOW, STEPS = 39 * 32, 5, 60
COLOURS = ("#1f5fbf", "#c0392b", "#0a7d32")
HEAD = ("cores", "overheads", "batches", "adjustments", "spread after 2", "step, uniform", "step, dynamic", "speed-up",
        "bound", "moves, no dead-band", "moves, 5 %")


class Workers:
    """Seconds of a step for each worker, from its batch; one core does one sample a second."""

    def __init__(self, cores, overhead_s, reduce_s, noise, seed=1):
        self.cores, self.overhead_s, self.reduce_s, self.noise = cores, overhead_s, reduce_s, noise
        self.random = random.Random(seed)

    def exact(self, batches):
        return [self.overhead_s + b / c for b, c in zip(batches, self.cores)]

    def measured(self, batches):
        return [t * (1 + self.random.uniform(-self.noise, self.noise)) for t in self.exact(batches)]

    def step(self, batches):
        return max(self.exact(batches)) + self.reduce_s


def run(stepper, workers, dead_band, steps):
    """The batches before each step, first the uniform ones."""
    command = [stepper, str(len(workers.cores)), str(BATCH), str(dead_band), str(WINDOW)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        history = [[int(word) for word in process.stdout.readline().split()]]
        for _ in range(steps):
            print(*map(repr, workers.measured(history[-1])), file=process.stdin, flush=True)
            history.append([int(word) for word in process.stdout.readline().split()])
            if sum(history[-1]) != BATCH:
                raise SystemExit(f"adaptive_batch: the global batch was not conserved: {history[-1]}")
        process.stdin.close()
    return history


def moves(history):
    return [i for i, (before, after) in enumerate(zip(history, history[1:]), 1) if before != after]


def spread(times):
    return (max(times) - min(times)) / max(times)


def row(stepper, cores, overhead_s, reduce_s):
    """One line of the table."""
    workers = Workers(cores, overhead_s, reduce_s, noise=0.02)
    history = run(stepper, workers, 0.05, STEPS)
    moved = moves(history)
    second = history[moved[1]] if len(moved) > 1 else history[-1]
    settled = history[-1]
    uniform_s, dynamic_s = workers.step(history[0]), workers.step(settled)
    restless = moves(run(stepper, Workers(cores, overhead_s, reduce_s, 0.02), 0.0, 1000))
    calm = moves(run(stepper, Workers(cores, overhead_s, reduce_s, 0.02), 0.05, 1000))
    return (":".join(map(str, cores)), f"{overhead_s:g} + {reduce_s:g} s", ":".join(map(str, settled)), len(moved),
            f"{100 * spread(workers.exact(second)):.1f} %", f"{uniform_s:.1f} s", f"{dynamic_s:.1f} s",
            f"{uniform_s / dynamic_s:.2f}", f"{sum(cores) / len(cores) / min(cores):.2f}", len(restless), len(calm))


def table(stepper):
    lines = ["| " + " | ".join(HEAD) + " |", "|---" * len(HEAD) + "|"]
    for overhead_s, reduce_s in ((0, 0), (3.2, 3.2)):
        for _, cores in CASES:
            lines.append("| " + " | ".join(map(str, row(stepper, cores, overhead_s, reduce_s))) + " |")
    return "\n".join(lines)


def plot(stepper):
    figure, panels = pictures.panels(len(CASES), 11.5, 3.6)
    for axes, (name, cores) in zip(panels, CASES):
        workers = Workers(cores, 3.2, 0, 0.02)
        history = run(stepper, workers, 0.05, STEPS)
        times = zip(*[workers.exact(batches) for batches in history])
        series = {f"worker {n + 1}": list(enumerate(worker)) for n, worker in enumerate(times)}
        pictures.lines(axes, series, "step", "iteration time (s)", marks=False)
        axes.set_ylim(bottom=0)
        axes.set_title(f"{name}: {':'.join(map(str, cores))} cores")
    pictures.legend(figure, panels[0])
    return pictures.text(figure)


def main():
    if len(sys.argv) not in (2, 3):
        raise SystemExit("usage: bench/adaptive_batch.py BUILD [docs/results]")
    stepper = sys.argv[1] + "/tests/unit/adapt/batch_stepper"
    text = table(stepper)
    print(text)
    if len(sys.argv) == 2:
        return
    with open(sys.argv[2] + "/adaptive_batch.md", "w") as out:
        out.write(PAGE.format(table=text))
    with open(sys.argv[2] + "/adaptive_batch.svg", "w") as out:
        out.write(plot(stepper))


PAGE = """# Dynamic batching: a model, not a run

**No worker ran for this page.** The library's controller (`src/adapt`) was driven by a formula for the workers: a step of b
samples takes an overhead + b / cores seconds, 2 % noise; a synchronous step takes its slowest worker's time + the all-reduce.
Made by `bench/adaptive_batch.py`. Runs of real processes: [batching.md](batching.md).

{table}

*overheads*: per step and worker + all-reduce. *spread after 2*: (slowest − fastest) / slowest of iteration times after two
adjustments, noise-free. *speed-up*: time of a step, uniform over dynamic; equal to that of time to loss, as global batch and weighted
gradient are the same. *bound*: mean(X) / min(X). *moves*: adjustments in 1000 steps, 200 windows.
H = 6 is 3:18:18 here; the paper does not give its shares. Where the spread is above 5 % (9:12:18 with overheads: 5.1 %), the dead-band, which
compares each worker with the mean and not with each other, saw no reason for a second adjustment: by the paper's rule times may rest
up to 10 % apart.

![iteration times](adaptive_batch.svg)
"""

if __name__ == "__main__":
    main()
