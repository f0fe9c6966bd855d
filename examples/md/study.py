#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: D102, D103 (a script, read from top to bottom)
"""A surrogate that learns from a bag of simulations while it runs, and asks for the next ones: those that would make
it surer than any others.

    study.py --folder study [--lmp LMP] [--runs 64] [--trace TRACE.csv --speed 1000 | --kill-every 5]

A run has four parameters: temperature, density, how much the walls attract, and their distance. Workers of the bag
run on machines that vanish as in a trace (rows `milliseconds,add|remove,node`), or at random. The training has a
member on each of them, which is killed when its machine vanishes; time runs slower for them meanwhile (--slower). As
many runs that fill the space evenly, and grids, meet the same machines. The same study on calm machines and runs that
only judge stand beside them. Pictures: profiles with error bars, the error against core seconds, the machines' time
line. Without --lmp a made-up fluid takes the place of LAMMPS."""

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
from surrogate import Process, choose, fit, gains, predict

HERE = pathlib.Path(__file__).resolve().parent
NAMES = ("T", "rho", "wall", "height")
LOW, HIGH = torch.tensor([0.9, 0.2, 0.5, 5.0]).double(), torch.tensor([2.5, 0.7, 2.5, 8.0]).double()
BINS, DEPTH = 20, 2.5  # of a profile; from the wall
START, POOL = 16, 500
PATIENCE_S = 1800


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, default="study")
    parser.add_argument("--spotnik", default="spotnik")
    parser.add_argument("--lmp")
    parser.add_argument("--steps", type=int, default=20000)
    parser.add_argument("--runs", type=int, default=64)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--tests", type=int, default=30, help="runs that only judge, four times as long")
    parser.add_argument("--grids", type=int, nargs="*", default=[2, 3], help="sides of the grids beside it")
    parser.add_argument("--machines", type=int, default=2)
    parser.add_argument("--trace", type=pathlib.Path, help="machines live as in it")
    parser.add_argument("--speed", type=float, default=1000, help="of the trace")
    parser.add_argument("--kill-every", type=float, default=5, help="seconds, in the mean; without a trace")
    parser.add_argument("--slower", type=float, default=10, help="lives while it trains: Python starts no faster")
    parser.add_argument("--alone", action="store_true", help="on calm machines it trains without Spotnik")
    parser.add_argument("--no-pictures", action="store_true")
    return parser.parse_args()


# ---- simulations ----


def command(given):
    if given.lmp is None:
        words = " ".join(f"{{{name}}}" for name in (*NAMES, "seed", "steps"))
        return ["--expect", "profile.txt", "--", sys.executable, str(HERE / "standin.py"), *words.split()]
    own = "-log none -var T {T} -var wall {wall} -var steps {steps}"
    words = ["--expect", "final.txt", "--restart", "restart.[0-9]*"]
    words += ["--resume", f"{given.lmp} -in in.again -var file {{restart}} {own}"]
    for name in ("in.lj", "in.again", "in.common", "in.end"):
        words += ["--input", str(HERE / name)]
    run = f"{given.lmp} -in in.lj {own} -var rho {{rho}} -var height {{height}} -var seed {{seed}}"
    return [*words, "--", *run.split()]


def profile(result):
    """The density over the distance from a wall: of the stand-in as written; of LAMMPS the mean of both walls over the
    second half of the trajectory."""
    if (result / "profile.txt").exists():
        return torch.tensor([float(line) for line in (result / "profile.txt").open()]).double()
    frames = (result / "trajectory.txt").read_text().split("ITEM: TIMESTEP\n")[1:]
    frames = frames[len(frames) // 2 :]
    depths = []
    for frame in frames:
        lines = frame.splitlines()
        box = [[float(word) for word in line.split()] for line in lines[4:7]]
        heights = [float(line.split()[1]) for line in lines[8:]]
        depths += [min(height - box[2][0], box[2][1] - height) for height in heights]
    slab = 2 * (box[0][1] - box[0][0]) * (box[1][1] - box[1][0]) * DEPTH / BINS
    return torch.histc(torch.tensor(depths).double(), BINS, 0, DEPTH) / len(frames) / slab


def even(count, seed):
    """Points that fill the space evenly: Sobol's."""
    return torch.quasirandom.SobolEngine(len(NAMES), scramble=True, seed=seed).draw(count).double() * 2 - 1


def grid(sides):
    return torch.cartesian_prod(*[torch.linspace(-1, 1, sides).double()] * len(NAMES))


# ---- machines ----


def lives_drawn(number, every_s):
    """(seconds away, seconds there), again and again."""
    draw = random.Random(number)
    while True:
        yield 0.0, draw.expovariate(1 / every_s)


def lives_traced(path, speed, number):
    """Those of one node of the trace, over and over."""
    rows = sorted((float(at) / 1e3 / speed, what, node) for at, what, node in csv.reader(path.open()))
    nodes = list(dict.fromkeys(row[2] for row in rows))
    if number >= len(nodes):
        raise ValueError(f"{path} has {len(nodes)} machines: name no more of them with --machines")
    node = nodes[number]
    spans, since = [], None
    for at, what, _ in [row for row in rows if row[2] == node] + [(rows[-1][0], "remove", node)]:
        if what == "add" and since is None:
            since = at
        elif what == "remove" and since is not None:
            spans, since = [*spans, (since, at)], None
    if not spans:
        raise ValueError(f"{path}: {node} never lives")
    end = 0.0
    while True:
        for since, until in spans:
            yield since - end, until - since
            end = until
        end -= rows[-1][0]  # until the trace begins anew


def lives(given, number):
    """Of one machine, from the study's beginning on."""
    return lives_traced(given.trace, given.speed, number) if given.trace else lives_drawn(number, given.kill_every)


def coming_write(path, given, since_s):
    """What the machines do from now on, for `spotnik run --churn`: `since_s` after they began, and slower."""
    rows = []
    for number in range(given.machines):
        at_s, end_ms = -since_s, 0
        for away_s, there_s in lives(given, number):
            begin_s, at_s = at_s + away_s, at_s + away_s + there_s
            if at_s > 0:
                begin_ms = max(round(1e3 * given.slower * begin_s), end_ms)
                end_ms = max(round(1e3 * given.slower * at_s), begin_ms + 1)
                rows += [(begin_ms, "add", number), (end_ms, "remove", number)]
            if at_s * given.slower > PATIENCE_S:
                break
    rows.sort(key=lambda row: (row[0], row[1] == "add"))  # the next life may begin when one ends
    path.write_text("".join(f"{at_ms},{what},m{number}\n" for at_ms, what, number in rows))


class Machines:
    """Workers of the bag that are killed and come again. Calm ones stay."""

    def __init__(self, given, bag, calm=False):
        self.given, self.bag, self.calm, self.over, self.lives = given, bag, calm, threading.Event(), []
        self.begun = time.monotonic()
        self.failed = None  # what a thread died of: nobody else would hear of it
        self.threads = [threading.Thread(target=self.watch, args=(i,)) for i in range(given.machines)]
        for thread in self.threads:
            thread.start()

    def watch(self, number):
        try:
            self.live(number)
        except Exception as error:
            self.failed = error

    def stay(self, worker, there_s):
        """Until the life is over, or the worker has ended by itself: the bag may be done."""
        end = None if there_s is None else time.monotonic() + there_s
        while worker.poll() is None and not self.over.is_set() and (end is None or time.monotonic() < end):
            left_s = 0.1 if end is None else max(end - time.monotonic(), 0)
            self.over.wait(min(left_s, 0.1))  # between two looks at the worker
        if worker.poll():
            raise RuntimeError(f"a worker ended with {worker.returncode}")

    def live(self, number):
        given = self.given
        coming = lives(given, number)
        while not self.over.is_set():
            away_s, there_s = (0, None) if self.calm else next(coming)
            self.over.wait(away_s)
            since = time.monotonic()
            worker = subprocess.Popen([given.spotnik, "bag", "join", str(self.bag), "-q", "--wait", "--notice", "off"])
            try:
                self.stay(worker, there_s)
            finally:
                worker.kill()
                worker.wait()
            self.lives.append((number, since, time.monotonic()))

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join()


# ---- a bag ----


class Bag:
    """A bag that grows. Job i has the parameters points[i]."""

    def __init__(self, given, name, points, steps):
        self.given, self.folder, self.points, self.steps = given, given.folder / name, points, steps
        self.bag, self.known, self.dropped, self.machines = self.folder / "jobs.bag", {}, set(), None
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
            rows.writerow(["job", *NAMES, "seed", "steps"])
            for i, point in enumerate((LOW + (points + 1) / 2 * (HIGH - LOW)).tolist(), first):
                rows.writerow([f"r{i}", *(f"{value:.6f}" for value in point), 1000 + i, self.steps])

    def tell(self, *words):
        told = subprocess.run([self.given.spotnik, "bag", *words], check=True, stdout=subprocess.PIPE, text=True)
        return told.stdout

    def until(self, what):
        end = time.monotonic() + PATIENCE_S
        while not what():
            if self.machines and self.machines.failed:
                sys.exit(f"study: a machine of {self.bag} failed: {self.machines.failed}")
            if time.monotonic() > end:
                sys.exit(f"study: nothing comes any more in {self.bag}; see {self.bag}/logs")
            time.sleep(0.05)

    def add(self, points):
        self.write(self.folder / "more.csv", points, len(self.points))
        self.tell("add", self.bag, self.folder / "more.csv")
        self.points = torch.cat([self.points, points])

    def drop(self, job):
        """Nobody wants it any more. One that is done meanwhile stays done."""
        self.tell("drop", self.bag, f"r{job}")
        self.dropped.add(job)

    def done(self):
        """Jobs with a result."""
        for i in range(len(self.points)):
            if i not in self.known and (self.bag / "results" / f"r{i}").exists():
                self.known[i] = profile(self.bag / "results" / f"r{i}")
        return sorted(self.known)

    def open(self):
        return [i for i in range(len(self.points)) if i not in self.known and i not in self.dropped]

    def wait(self, left):
        """Wait until at most that number of jobs is left."""
        self.until(lambda: self.done() is not None and len(self.open()) <= left)

    def start(self, calm):
        self.machines = Machines(self.given, self.bag, calm)
        return self.machines

    def run(self, calm):
        machines = self.start(calm)
        try:
            self.wait(0)
        finally:
            machines.end()
        return self

    def data(self, jobs):
        return self.points[jobs], torch.stack([self.known[job] for job in jobs])

    def core_s(self):
        """Core seconds of all attempts, with what was computed twice. How much of a core an attempt gets while it runs
        is known of those that were not killed."""
        ends = [
            path.read_text().split()
            for kind in ("done", "failed", "returned")
            for path in self.bag.glob(f"claims/*.{kind}")
        ]
        ran, cpu = (sum(float(end[end.index(key) + 1]) for end in ends) for key in ("ran_ms", "cpu_ms"))
        return json.loads(self.tell("report", self.bag, "--json"))["spent_s"] * cpu / ran


# ---- the study ----


def learn(given, bag, jobs, calm):
    x, y = bag.data(jobs)
    data, learned = bag.folder / "data.pt", bag.folder / "surrogate.pt"
    learned.unlink(missing_ok=True)
    process = Process(len(NAMES))
    if calm and given.alone:
        return fit(process, x, y)
    torch.save({"x": x, "y": y}, data)
    where = ["-n", "2"]
    if not calm:  # members live and die with the machines
        churn = bag.folder / "churn.csv"
        coming_write(churn, given, time.monotonic() - bag.machines.begun)
        where = ["-n", f"1:{given.machines}", "--churn", churn]
    words = [given.spotnik, "run", *where, "--", sys.executable, HERE / "train.py", data, learned]
    with open(bag.folder / "train.log", "a") as log:
        subprocess.run(words, check=True, stdout=log, stderr=log)
    process.load_state_dict(torch.load(learned))
    return process


def error(mean, truth):
    return float(((mean - truth) ** 2).mean().sqrt())


class Judge:
    """Runs that the surrogate never sees."""

    def __init__(self, given):
        self.given, self.points = (
            given,
            torch.rand(given.tests, len(NAMES), generator=torch.Generator().manual_seed(7)).double() * 2 - 1,
        )
        bag = Bag(given, "tests", self.points, 4 * given.steps).run(calm=True)
        self.truth = bag.data(bag.done())[1]

    def judge(self, what, bag, jobs, process):
        """A point of a curve: (core seconds, error, runs)."""
        mean, _ = predict(process, *bag.data(jobs), self.points)
        point = (bag.core_s(), error(mean, self.truth), len(jobs))
        print(f"{what}: {point[2]} runs, {point[0]:.1f} core s: error {point[1]:.4f}", flush=True)
        return point


def drop_idle(bag, process, pool, best):
    """Runs that were asked for, and would tell a tenth of what the best new one would, no longer matter."""
    for job in bag.open():
        others = [i for i in range(len(bag.points)) if i != job and i not in bag.dropped]
        if gains(process, bag.points[others], torch.cat([pool, bag.points[job : job + 1]]))[-1] < best / 10:
            bag.drop(job)


def actively(given, judge, name, calm):
    """The surrogate trains on what is there while the rest of what it has asked for still runs."""
    pool, curve, bag = even(POOL, 5), [], Bag(given, name, even(START, 3), given.steps)
    machines = bag.start(calm)
    try:
        while True:
            full = len(bag.known) + len(bag.open()) >= given.runs
            bag.wait(0 if full else given.batch // 2)
            jobs = bag.done()
            process = learn(given, bag, jobs, calm)
            curve.append(judge.judge(name, bag, jobs, process))
            if full:
                break
            wanted = bag.points[[i for i in range(len(bag.points)) if i not in bag.dropped]]
            drop_idle(bag, process, pool, float(gains(process, wanted, pool).max()))
            wanted = bag.points[[i for i in range(len(bag.points)) if i not in bag.dropped]]
            count = min(given.batch, given.runs - len(wanted))
            bag.add(pool[choose(process, wanted, pool, count)])
    finally:
        machines.end()
    return curve, bag, process, machines.lives


def grids(given, judge):
    curve = []
    for sides in given.grids:
        bag = Bag(given, f"grid{sides}", grid(sides), given.steps).run(calm=False)
        curve.append(judge.judge("grid", bag, bag.done(), learn(given, bag, bag.done(), True)))
    return curve


def evenly(given, judge):
    """The first runs of one bag, up to the number given. Each counts an equal part of the core seconds."""
    bag, curve = Bag(given, "even", even(given.runs, 3), given.steps).run(calm=False), []
    for count in range(START, given.runs + 1, given.batch):
        jobs = bag.done()[:count]
        core_s, wrong, _ = judge.judge("evenly, of one bag", bag, jobs, learn(given, bag, jobs, True))
        curve.append((core_s * count / given.runs, wrong, count))
    return curve


def same_bits(stormy, calm):
    """Jobs with the same parameters in both bags: how many, and of how many the results differ."""
    result = "final.txt" if stormy.given.lmp else "profile.txt"
    both = [
        i for i in sorted(stormy.known.keys() & calm.known.keys()) if bool((stormy.points[i] == calm.points[i]).all())
    ]
    files = [[(bag.bag / "results" / f"r{i}" / result).read_bytes() for bag in (stormy, calm)] for i in both]
    return len(both), sum(ours != theirs for ours, theirs in files)


# ---- pictures ----


def pictures(given, curves, judge, told, lives):
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    pyplot.rcParams["svg.fonttype"] = "none"  # texts stay texts

    def save(figure, name):
        figure.savefig(given.folder / name, bbox_inches="tight", metadata={"Date": None})

    z, (mean, std) = (torch.arange(BINS) + 0.5) * DEPTH / BINS, told
    order = judge.truth.max(1).values.argsort()
    figure, axes = pyplot.subplots(1, 3, figsize=(11, 3), sharey=True)
    for axis, i in zip(axes, (order[0], order[len(order) // 2], order[-1]), strict=True):
        axis.plot(z, judge.truth[i], "k.", label="simulation")
        axis.errorbar(z, mean[i], 2 * std[i], label="surrogate, 2 sigma", capsize=2)
        point = (LOW + (judge.points[i] + 1) / 2 * (HIGH - LOW)).tolist()
        axis.set(
            xlabel="distance from the wall", title=", ".join(f"{n} {v:.2f}" for n, v in zip(NAMES, point, strict=True))
        )
        axis.title.set_fontsize(8)
    axes[0].set_ylabel("density")
    axes[0].legend()
    save(figure, "profiles.svg")
    figure, axis = pyplot.subplots(figsize=(6, 4))
    for name, curve in curves.items():
        axis.loglog([row[0] for row in curve], [row[1] for row in curve], "o-", label=name)
    axis.set(xlabel="core seconds of simulations", ylabel="error of the density")
    axis.legend()
    save(figure, "error.svg")
    figure, axis = pyplot.subplots(figsize=(8, 1 + 0.4 * given.machines))
    for number, since, until in lives:
        axis.barh(number, until - since, left=since - lives[0][1], color="tab:blue", edgecolor="white")
    axis.set(xlabel="seconds", yticks=range(given.machines), ylabel="machine", title="each bar a life")
    save(figure, "machines.svg")


def main():
    given = options()
    given.folder = given.folder.resolve()
    if given.folder.exists():
        sys.exit(f"study: {given.folder} is there already: name another --folder")
    judge = Judge(given)
    curves, facts = {}, {}
    curves["asked"], bag, process, lives = actively(given, judge, "asked", calm=False)
    curves["asked, calm machines"], calm, _, _ = actively(given, judge, "calm", calm=True)
    curves["evenly"], curves["grids"] = evenly(given, judge), grids(given, judge)
    told = predict(process, *bag.data(bag.done()), judge.points)
    fluid = judge.truth.std(0) > judge.truth.std(0).max() / 100  # inside a wall every error bar would be right
    inside = (told[0] - judge.truth).abs() <= 2 * told[1]
    facts["inside"] = float(inside[:, fluid].double().mean())
    facts["same"], facts["differ"] = same_bits(bag, calm)
    facts |= {"lives": len(lives), "dropped": len(bag.dropped), "curves": curves}
    facts["attempts"] = {b.folder.name: json.loads(b.tell("report", b.bag, "--json")) for b in (bag, calm)}
    print(f"{100 * facts['inside']:.0f} % of the points lie within two error bars")
    print(f"{facts['differ']} of {facts['same']} runs that both studies asked for differ")
    print(f"{facts['dropped']} runs were dropped; {facts['lives']} machines lived")
    (given.folder / "study.json").write_text(json.dumps(facts, indent=1))
    if not given.no_pictures:
        pictures(given, curves, judge, told, lives)


main()
