#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: D101, D102, D103 (a script, read from top to bottom)
"""A surrogate that learns from a bag of simulations while it runs, and asks for the next ones: those it knows least of.

    study.py --folder study [--lmp LMP] [--runs 48] [--batch 8] [--kill-every 5]

Workers of the bag and the training run on machines that are killed every so often (here: processes). Beside it, the
same surrogate is trained on grids. Pictures: profiles with error bars, the error against core hours, and the machines'
time line. Without --lmp a made-up fluid takes the place of LAMMPS."""

import argparse
import csv
import json
import pathlib
import random
import subprocess
import sys
import threading
import time

import torch

HERE = pathlib.Path(__file__).resolve().parent
T_RANGE, RHO_RANGE, BINS, HEIGHT = (0.8, 2.7), (0.30, 0.75), 25, 7.5
PATIENCE_S = 900


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, default="study")
    parser.add_argument("--spotnik", default="spotnik")
    parser.add_argument("--lmp")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--runs", type=int, default=48)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--tests", type=int, default=24, help="runs that only judge")
    parser.add_argument("--grids", type=int, nargs="*", default=[3, 4, 5, 6, 7], help="sides of the grids beside it")
    parser.add_argument("--machines", type=int, default=2)
    parser.add_argument("--kill-every", type=float, default=5, help="seconds, in the mean; 0: a calm run")
    parser.add_argument("--no-pictures", action="store_true")
    return parser.parse_args()


# ---- simulations ----


def command(given):
    if given.lmp is None:
        return ["--expect", "profile.txt", "--", sys.executable, str(HERE / "standin.py"), "{T}", "{rho}", "{seed}"]
    again = f"{given.lmp} -in in.again -log none -var file {{restart}} -var T {{T}} -var steps {given.steps}"
    words = ["--expect", "final.txt", "--restart", "restart.[0-9]*", "--resume", again]
    for name in ("in.lj", "in.again", "in.common", "in.end"):
        words += ["--input", str(HERE / name)]
    run = f"{given.lmp} -in in.lj -log none -var T {{T}} -var rho {{rho}} -var seed {{seed}} -var steps {given.steps}"
    return [*words, "--", *run.split()]


def profile(result):
    """The density over z: of the stand-in as written; of LAMMPS the mean over the second half of the trajectory."""
    if (result / "profile.txt").exists():
        return torch.tensor([float(line) for line in (result / "profile.txt").open()])
    frames = (result / "trajectory.txt").read_text().split("ITEM: TIMESTEP\n")[1:]
    frames = frames[len(frames) // 2 :]
    heights = []
    for frame in frames:
        lines = frame.splitlines()
        box = [[float(word) for word in line.split()] for line in lines[4:7]]
        heights += [float(line.split()[1]) for line in lines[8:]]
    slab = (box[0][1] - box[0][0]) * (box[1][1] - box[1][0]) * (box[2][1] - box[2][0]) / BINS
    return torch.histc(torch.tensor(heights), BINS, box[2][0], box[2][1]) / len(frames) / slab


def scaled(points):
    low, high = torch.tensor([T_RANGE[0], RHO_RANGE[0]]), torch.tensor([T_RANGE[1], RHO_RANGE[1]])
    return 2 * (torch.tensor(points) - low) / (high - low) - 1


def spread(sides):
    """The points of a grid."""

    def between(bounds, i, count):
        return bounds[0] + (bounds[1] - bounds[0]) * i / (count - 1)

    return [(between(T_RANGE, i, sides), between(RHO_RANGE, j, sides)) for i in range(sides) for j in range(sides)]


# ---- machines ----


class Machines:
    """Workers of the bag that are killed and come again."""

    def __init__(self, given, bag):
        self.given, self.bag, self.over, self.lives = given, bag, threading.Event(), []
        self.threads = [threading.Thread(target=self.live, args=(i,)) for i in range(given.machines)]
        for thread in self.threads:
            thread.start()

    def live(self, number):
        draw = random.Random(number)
        while not self.over.is_set():
            since = time.monotonic()
            words = [self.given.spotnik, "bag", "join", str(self.bag), "-q", "--wait", "--notice", "off"]
            worker = subprocess.Popen(words)
            self.over.wait(draw.expovariate(1 / self.given.kill_every) if self.given.kill_every > 0 else None)
            worker.kill()
            worker.wait()
            self.lives.append((number, since, time.monotonic()))

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join()


# ---- the study ----


class Study:
    def __init__(self, given, name, points):
        self.given, self.folder, self.points = given, given.folder / name, list(points)
        self.bag = self.folder / "jobs.bag"
        self.folder.mkdir(parents=True)
        self.write(self.folder / "jobs.csv", points, 0)
        words = [given.spotnik, "bag", str(self.folder / "jobs.csv"), "-q", "--notice", "off", *command(given)]
        first = subprocess.Popen(words)  # makes the bag; then it is a machine as any other
        self.until(lambda: (self.bag / "bag.json").exists())
        first.kill()
        first.wait()

    def write(self, path, points, first):
        with open(path, "w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["job", "T", "rho", "seed"])
            for i, (t, rho) in enumerate(points, first):
                rows.writerow([f"r{i}", f"{t:.6f}", f"{rho:.6f}", 1000 + i])

    def until(self, what):
        end = time.monotonic() + PATIENCE_S
        while not what():
            if time.monotonic() > end:
                sys.exit(f"study: nothing comes any more in {self.bag}; see {self.bag}/logs")
            time.sleep(0.05)

    def add(self, points):
        self.write(self.folder / "more.csv", points, len(self.points))
        subprocess.run(
            [self.given.spotnik, "bag", "add", self.bag, self.folder / "more.csv"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        self.points += points

    def wait(self):
        results = self.bag / "results"
        self.until(lambda: all((results / f"r{i}").exists() for i in range(len(self.points))))

    def run(self):
        machines = Machines(self.given, self.bag)
        try:
            self.wait()
        finally:
            machines.end()
        return self

    def profiles(self, count=None):
        return torch.stack([profile(self.bag / "results" / f"r{i}") for i in range(count or len(self.points))])

    def core_h(self):
        """What the jobs of this bag have cost, with all that was computed twice."""
        words = [self.given.spotnik, "bag", "report", self.bag, "--json"]
        return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)["spent_s"] / 3600


def learn(given, folder, points, profiles, asked):
    torch.save({"x": scaled(points), "y": profiles, "asked": scaled(asked)}, folder / "data.pt")
    kill = ["--respawn", "--kill-every", f"{max(given.kill_every, 1):g}s"] if given.kill_every > 0 else []
    words = [given.spotnik, "run", "-n", "2", *kill, "--", sys.executable, HERE / "train.py"]
    with open(folder / "train.log", "a") as log:
        subprocess.run([*words, folder / "data.pt", folder / "told.pt"], check=True, stdout=log, stderr=log)
    told = torch.load(folder / "told.pt")
    return told["mean"], told["std"]


def choose(pool, doubt, taken, count):
    """Those with the largest error bars, but not beside each other, nor beside what was run."""
    chosen, near = [], scaled(taken)
    for index in doubt.argsort(descending=True).tolist():
        here = scaled([pool[index]])
        if torch.cdist(here, near).min() > 0.15:
            chosen.append(pool[index])
            near = torch.cat([near, here])
        if len(chosen) == count:
            break
    return chosen


def error(mean, truth):
    return float(((mean - truth) ** 2).mean().sqrt())


def actively(given, tests, truth):
    pool, curve = spread(40), []
    study = Study(given, "active", spread(3))
    machines = Machines(given, study.bag)
    try:
        while True:
            study.wait()
            mean, std = learn(given, study.folder, study.points, study.profiles(), tests + pool)
            curve.append((study.core_h(), error(mean[: len(tests)], truth), len(study.points)))
            print(f"{curve[-1][2]} runs, {3600 * curve[-1][0]:.1f} core s: error {curve[-1][1]:.4f}", flush=True)
            if len(study.points) >= given.runs:
                break
            study.add(choose(pool, std[len(tests) :].mean(1), study.points, given.batch))
    finally:
        machines.end()
    return curve, mean[: len(tests)], std[: len(tests)], machines.lives


def grids(given, tests, truth):
    curve = []
    for sides in given.grids:
        study = Study(given, f"grid{sides}", spread(sides)).run()
        mean, _ = learn(given, study.folder, study.points, study.profiles(), tests)
        curve.append((study.core_h(), error(mean, truth), sides * sides))
        print(f"grid of {sides * sides}, {3600 * curve[-1][0]:.1f} core s: error {curve[-1][1]:.4f}", flush=True)
    return curve


def pictures(given, curves, mean, std, truth, lives):
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    def save(figure, name):
        figure.savefig(given.folder / name, bbox_inches="tight", metadata={"Date": None})

    z = (torch.arange(BINS) + 0.5) * HEIGHT / BINS
    figure, axes = pyplot.subplots(1, 3, figsize=(11, 3), sharey=True)
    for i, axis in enumerate(axes):
        axis.plot(z, truth[i], "k.", label="simulation")
        axis.errorbar(z, mean[i], 2 * std[i], label="surrogate, 2 sigma", capsize=2)
        axis.set_xlabel("z")
    axes[0].legend()
    save(figure, "profiles.svg")
    figure, axis = pyplot.subplots(figsize=(6, 4))
    for name, curve in curves.items():
        axis.loglog([3600 * row[0] for row in curve], [row[1] for row in curve], "o-", label=name)
    axis.set(xlabel="core seconds", ylabel="error of the profile")
    axis.legend()
    save(figure, "error.svg")
    figure, axis = pyplot.subplots(figsize=(8, 1 + 0.4 * given.machines))
    for number, since, until in lives:
        axis.barh(number, until - since, left=since - lives[0][1], edgecolor="white")
    axis.set(xlabel="seconds", title="machines, each bar a life")
    save(figure, "machines.svg")


def main():
    given = options()
    given.folder = given.folder.resolve()
    if given.folder.exists():
        sys.exit(f"study: {given.folder} is there already: name another --folder")
    draw = random.Random(7)
    tests = [(draw.uniform(*T_RANGE), draw.uniform(*RHO_RANGE)) for _ in range(given.tests)]
    truth = Study(given, "tests", tests).run().profiles()
    active, mean, std, lives = actively(given, tests, truth)
    curves = {"largest error bars first": active, "grids": grids(given, tests, truth)}
    inside = float(((mean - truth).abs() <= 2 * std).float().mean())
    print(f"{100 * inside:.0f} % of the points lie within two error bars")
    (given.folder / "study.json").write_text(json.dumps({"curves": curves, "inside": inside}, indent=1))
    if not given.no_pictures:
        pictures(given, curves, mean, std, truth, lives)


main()
