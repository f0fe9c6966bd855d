#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A bag of simulations on machines that come and go as in a trace, against the same simulations undisturbed.

    bag.py --spotnik SPOTNIK --sim BAG_SIM [--trace TRACE.csv] [--short | --pace | --overhead]
    bag.py --spotnik SPOTNIK --lmp LMP --trace TRACE.csv

A trace has rows `milliseconds,add|remove,node`; without one, lives are drawn from the published bathtub. It runs
--speed times as fast, over and over until the bag is done; a machine that is removed is killed, with no notice. Once
everybody is killed at once, and once the folder is out of reach. Fails unless each job is done exactly once, with the
bits of its undisturbed run, and of the trajectory that it appends to.

--pace runs the same bag on machines that vanish at the same times, with saves at the times of the dynamic programme, at
fixed intervals, and at Young and Daly's for the rate at which young machines are lost, and says what each of them
wastes. All run side by side, so a loaded machine slows all of them alike. Waste is counted twice: by the clock, and in
steps of the simulation and restart files, which no load can change. --overhead says what the bag costs when nothing is
lost."""

import argparse
import concurrent.futures
import csv
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

PATIENCE_S, PATIENCE_SHORT_S = 1500, 240
STEP_S, WRITE_S = 0.02, 0.08  # of the simulation: a step, and a restart file
MD = pathlib.Path(__file__).resolve().parents[1] / "examples/md"


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spotnik", required=True)
    parser.add_argument("--sim", help="packages/bag/tests/sim.c: sleeps more than it computes: many run on few cores")
    parser.add_argument("--lmp", help="LAMMPS, with the inputs of examples/md")
    parser.add_argument("--trace")
    parser.add_argument("--speed", type=float, default=1000)
    parser.add_argument("--machines", type=int, default=8, help="use the first N nodes of the trace")
    parser.add_argument("--jobs", type=int, default=120)
    parser.add_argument("--job-s", type=float, default=20, help="of the simulation, about, with --sim")
    parser.add_argument("--steps", type=int, default=20000, help="of a run of LAMMPS")
    parser.add_argument("--away-s", type=float, default=60, help="how long the folder is out of reach")
    parser.add_argument("--pace", action="store_true", help="compare times of saves")
    parser.add_argument("--only", type=int, nargs="*", help="with --pace: which of the plans, by number")
    parser.add_argument("--overhead", action="store_true", help="compare with no bag at all")
    parser.add_argument("--rounds", type=int, default=2, help="with --overhead: jobs of each slot")
    parser.add_argument("--pairs", type=int, default=3, help="with --overhead: times that both are run")
    parser.add_argument("--short", action="store_true", help="seconds instead of minutes; nothing is said of overhead")
    given = parser.parse_args()
    if (given.sim is None) == (given.lmp is None):
        parser.error("say --sim or --lmp")
    if given.short:
        given.jobs, given.job_s, given.steps, given.away_s = 24, 1.5, 2000, 1.5
        given.speed *= 2
    if given.pace and not given.sim:
        parser.error("--pace needs --sim, which writes a restart file when it is asked")
    return given


# ---- the simulations ----


class Program:
    """What a job runs, alone and in the bag."""

    def __init__(self, given):
        self.given = given
        if given.sim:
            self.steps = steps = max(int(given.job_s / STEP_S), 1)
            self.words = [
                os.path.abspath(given.sim),
                "{x0}",
                str(steps),
                "20000",
                "0" if given.pace else str(max(steps // 15, 1)),
            ]
            os.environ["FRAMES"] = str(max(steps // 50, 1))
            os.environ["TALLY"] = "1"
            self.resume, self.result, self.inputs = [*self.words, "{restart}"], "result", []
            self.rows = [{"job": f"j{i}", "x0": f"{0.1 + i / 1000:.4f}"} for i in range(given.jobs)]
        else:
            lmp = os.path.abspath(given.lmp)
            own = ["-log", "none", "-var", "T", "{T}", "-var", "wall", "{wall}", "-var", "steps", str(given.steps)]
            self.words = [
                lmp,
                "-in",
                "in.lj",
                *own,
                *["-var", "rho", "{rho}", "-var", "height", "{height}", "-var", "seed", "{seed}"],
            ]
            self.resume = [lmp, "-in", "in.again", *own, "-var", "file", "{restart}"]
            self.result, self.inputs = "final.txt", [MD / name for name in ("in.lj", "in.again", "in.common", "in.end")]
            self.rows = [
                {
                    "job": f"j{i}",
                    "T": f"{0.8 + i % 20 / 10:.1f}",
                    "rho": f"{0.3 + i // 20 % 10 / 25:.2f}",
                    "wall": f"{0.5 + i % 3:.1f}",
                    "height": f"{5 + i % 4}",
                    "seed": 101 + i,
                }
                for i in range(given.jobs)
            ]

    def results(self, folder):
        names = [self.result, "trajectory" if self.given.sim else "trajectory.txt"]
        return {path.name: b"".join((path / name).read_bytes() for name in names) for path in folder.iterdir()}

    def alone(self, row, folder):
        """Undisturbed: nothing of Spotnik takes part. Its seconds, and those of a core."""
        folder.mkdir(parents=True)
        for file in self.inputs:
            (folder / file.name).symlink_to(file)
        return timed([word.format(**row, restart="") for word in self.words], folder)

    def bag(self, more):
        terms = [
            "--notice",
            "off",
            "--restart",
            "restart.[0-9]*",
            "--expect",
            self.result,
            "--resume",
            " ".join(self.resume),
        ]
        for file in self.inputs:
            terms += ["--input", str(file)]
        return [*terms, *more, "--", *self.words]


def calm(program, folder, at_once):
    """All jobs, `at_once` of them at a time. (results, seconds of each)."""
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        spans = [wall for wall, _ in pool.map(lambda row: program.alone(row, folder / row["job"]), program.rows)]
    return program.results(folder), spans


# ---- the trace ----


def trace_read(path, speed):
    with open(path) as file:
        rows = [(float(at) / 1e3 / speed, what, node) for at, what, node in csv.reader(file)]
    return sorted(rows, key=lambda row: row[0])


def trace_draw(machines, speed, seed=1):
    """Machines that live as the published bathtub says, each followed by a new one a quarter of an hour later."""
    draw, rows = random.Random(seed), []

    def life_h():
        share, ages = draw.random(), (i / 100 for i in range(2401))
        return next((t for t in ages if 0.41 * (1 - math.exp(-t / 0.9) + math.exp((t - 24) / 0.76)) >= share), 24)

    for machine in range(machines):
        at_h = 0.0
        while at_h < 48:
            end_h = at_h + max(life_h(), 0.05)
            rows += [(at_h * 3600 / speed, "add", f"m{machine}"), (end_h * 3600 / speed, "remove", f"m{machine}")]
            at_h = end_h + 0.25
    return sorted(rows)


def lives_write(path, rows):
    """What spotnik is told of the machines: how long those of the trace live. Those alive at its end count as stopped."""
    since, lives = {}, []
    for at, what, node in rows:
        if what == "add":
            since.setdefault(node, at)
        elif node in since:
            lives.append((at - since.pop(node), "preempted"))
    lives += [(rows[-1][0] - at, "stopped") for at in since.values() if at < rows[-1][0]]
    path.write_text("lifetime_s,end_kind\n" + "".join(f"{life:.6f},{kind}\n" for life, kind in lives))
    return sorted(life for life, kind in lives if kind == "preempted")


def machines_told(given, lives, lost):
    """(what spotnik is told of the machines, the mean life of one that is lost at the rate of young ones). A trace: its own
    lives, and the tenth of them that are lost first; else the curve that they are drawn from."""
    if given.trace:
        return lives, lost[max(len(lost) // 10, 1)] / 0.1
    early_h, late_h, cap_h = (hours / given.speed for hours in (0.9, 0.76, 24))
    return f"bathtub:0.41,{early_h:.9f},{late_h:.9f},{cap_h:.9f}", early_h * 3600 / 0.41


def trace_cut(rows, machines):
    nodes = list(dict.fromkeys(node for _, _, node in rows))[:machines]
    return [row for row in rows if row[2] in nodes]


# ---- the machines ----


class Machines:
    """Workers that live as the trace says."""

    def __init__(self, given, program, folder, lifetime):
        self.given, self.folder, self.bag = given, folder, folder / "jobs.bag"
        self.live, self.kills, self.begun = {}, 0, time.monotonic()
        self.words = [
            given.spotnik,
            "bag",
            str(folder / "jobs.csv"),
            "-q",
            *program.bag(
                [
                    "--lifetime",
                    str(lifetime),
                    "--age",
                    "0.01s",
                    "--length",
                    f"{given.job_s}s",
                    *(["--ask", "USR1"] if given.pace else []),
                ]
            ),
        ]
        self.born = 0

    def now(self):
        return time.monotonic() - self.begun

    def add(self, node):
        if node in self.live:
            return
        self.born += 1
        env = dict(
            os.environ, SPOTNIK_STALE_MS="4000" if self.given.pace else "1000", SPOTNIK_HOST=f"{node}.{self.born}"
        )
        with open(self.folder / "workers.log", "a") as log:
            self.live[node] = subprocess.Popen(self.words, env=env, cwd=self.folder, stdout=log, stderr=log)

    def remove(self, node):
        if node not in self.live:
            return
        worker = self.live.pop(node)
        self.kills += worker.poll() is None
        worker.kill()
        worker.wait()

    def clear(self):
        for node in list(self.live):
            self.remove(node)

    def bury(self):
        """Workers that ended by themselves: all is done, or they could not reach the folder when they began."""
        codes = []
        for node, worker in list(self.live.items()):
            if worker.poll() is not None:
                codes.append(worker.returncode)
                del self.live[node]
        return codes


def done_count(bag):
    try:
        return len(os.listdir(bag / "results"))
    except FileNotFoundError:
        return 0


def storm(given, machines, rows, wishes=()):
    """Play the trace until the bag is done. What was done to the folder and to everybody."""
    span, told, offset, at = rows[-1][0] + 0.1, [], 0.0, 0
    away_until = None
    gone = machines.bag.with_suffix(".gone")
    wishes = list(wishes)
    while done_count(gone if away_until else machines.bag) < given.jobs:
        if machines.now() > (PATIENCE_SHORT_S if given.short else PATIENCE_S):
            sys.exit(
                f"FAILED: not done after {machines.now():.0f} s: {(machines.folder / 'workers.log').read_text()[-2000:]}"
            )
        while machines.now() >= offset + rows[at][0]:
            _, what, node = rows[at]
            if away_until is None or what == "remove":  # the command makes a folder where there is none
                (machines.add if what == "add" else machines.remove)(node)
            at += 1
            if at == len(rows):
                at, offset = 0, offset + span
        if away_until and machines.now() >= away_until:
            os.rename(gone, machines.bag)
            away_until = None
        elif wishes and not away_until and done_count(machines.bag) >= wishes[0][0] * given.jobs:
            what = wishes.pop(0)[1]
            told.append(what)
            if what == "everybody":
                alive = list(machines.live)
                machines.clear()
                for node in alive:
                    machines.add(node)
            else:
                os.rename(machines.bag, gone)
                away_until = machines.now() + given.away_s
        check(2 not in machines.bury(), "a worker was refused: " + (machines.folder / "workers.log").read_text()[-500:])
        time.sleep(0.02)  # between two looks at the trace
    if away_until:
        os.rename(gone, machines.bag)
    return told


# ---- what is claimed ----


def check(fine, what):
    if not fine:
        sys.exit(f"FAILED: {what}")


def report(given, bag):
    told = subprocess.run(
        [given.spotnik, "bag", "report", str(bag), "--json"], check=True, capture_output=True, text=True
    )
    return json.loads(told.stdout)


def timed(words, folder):
    """(seconds, CPU seconds of it and of all that it waited for)"""
    begun = time.monotonic()
    program = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(program.pid, 0)
    program.returncode = os.waitstatus_to_exitcode(status)
    check(program.returncode == 0, f"{words[0]} ended with {program.returncode}")
    return time.monotonic() - begun, used.ru_utime + used.ru_stime


def overhead_pair(given, program, folder, at_once):
    """The same jobs without Spotnik and with it, one after the other: what the bag takes more, (seconds, CPU seconds)."""
    folder.mkdir()
    jobs_write(folder / "few.csv", program.rows)
    words = [given.spotnik, "bag", str(folder / "few.csv"), "-q", "--at-once", str(at_once), *program.bag([])]

    def lane(number):
        return [program.alone(row, folder / "plain" / row["job"]) for row in program.rows[number::at_once]]

    begun = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        plain = list(pool.map(lane, range(at_once)))
    plain_s, plain_cpu_s = time.monotonic() - begun, sum(cpu for spans in plain for _, cpu in spans)
    bag_s, bag_cpu_s = timed(words, folder)
    expected = program.results(folder / "plain")
    check(program.results(folder / "few.bag/results") == expected, "a result differs from that of the plain loop")
    return bag_s - plain_s, bag_cpu_s - plain_cpu_s, plain_s


def overhead(given, program, folder, at_once):
    """In turns, so that what else the machine does meets both alike. A bag starts once for each pair."""
    program.rows = program.rows[: at_once * given.rounds]
    pairs = [overhead_pair(given, program, folder / str(i), at_once) for i in range(given.pairs)]
    job_s = statistics.median(plain_s for _, _, plain_s in pairs) / given.rounds
    shares = sorted(100 * more_s / plain_s for more_s, _, plain_s in pairs)
    cpu = 100 * statistics.median(cpu_s / plain_s for _, cpu_s, plain_s in pairs)
    more_ms = 1e3 * statistics.median(more_s for more_s, _, _ in pairs) / given.rounds
    print(
        f"undisturbed, {at_once} at a time, {given.rounds} rounds of jobs of {job_s:.2f} s, {given.pairs} pairs: "
        f"{statistics.median(shares):.2f} % more wall time ({shares[0]:.2f} to {shares[-1]:.2f}), {more_ms:.0f} ms for a "
        f"job; {cpu:.2f} % of a core more"
    )


def jobs_write(path, rows):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def failures(bag):
    names = [path.name.removesuffix(".failed") for path in (bag / "claims").glob("*.failed")]
    return "; ".join(f"{name}: {(bag / 'claims' / (name + '.failed')).read_text().split()[-1]}" for name in names)


def judge(given, program, machines, expected):
    """Workers may be killed between a job's result and their word that it is done: the results are what counts."""
    ends = os.listdir(machines.bag / "claims")
    done = [name.split("@")[0] for name in ends if name.endswith(".done")]
    check(len(done) == len(set(done)), "a job was counted twice")
    check(sorted(os.listdir(machines.bag / "results")) == sorted(expected), "a job is lost")
    check(not any(name.endswith(".failed") for name in ends), "an attempt failed: " + failures(machines.bag))
    check(program.results(machines.bag / "results") == expected, "a result differs from that of the undisturbed run")
    check(len(set(expected.values())) == len(expected), "the simulation does not depend on its input")
    check(machines.kills > 0, "nobody was killed")
    return report(given, machines.bag)


def survive(given, program, folder, rows, lives):
    """Whatever is killed."""
    at_once = (os.cpu_count() or 1) if given.lmp else given.jobs
    expected, spans = calm(program, folder / "calm", at_once)
    machines = Machines(given, program, folder, lives)
    try:
        told = storm(given, machines, rows, [(0.3, "everybody"), (0.6, "folder")])
    finally:
        machines.clear()
    check(told == ["everybody", "folder"], f"not all was done to the bag: {told}")
    facts = judge(given, program, machines, expected)
    share = 100 * facts["recomputed_s"] / facts["useful_s"]
    print(
        f"{given.jobs} jobs, {sum(spans):.0f} s of undisturbed work, {machines.kills} machines killed, everybody once,"
    )
    print(f"the folder away for {given.away_s:g} s: {facts['attempts']} attempts, each job done once, each result and")
    print("trajectory with the bits of the undisturbed run")
    print(f"recomputed {share:.1f} % of the useful work, makespan {facts['makespan_s']:.0f} s", flush=True)


def tallied(program, folder):
    """Steps that all attempts have computed, in jobs, and restart files that they have written, in seconds of a job."""
    told = b"".join(log.read_bytes() for log in (folder / "jobs.bag" / "logs").iterdir())
    return told.count(b"."), told.count(b"!")


def plans(lives, initial_s, hour_s):
    """Name and lifetime, as spotnik is told, of each way to choose the times of saves. A rate without age gives a fixed
    interval. `hour_s`: an hour of the machines; None: it means nothing for them."""
    young_s = math.sqrt(2 * WRITE_S * initial_s)
    fixed = [("Young-Daly at the machines' initial rate", young_s)]
    fixed += [(f"{2.0**power:g} times that", young_s * 2**power) for power in (-1, 1, 2, 3)]
    if hour_s:
        fixed = [("Young-Daly at one loss an hour", math.sqrt(2 * WRITE_S * hour_s)), *fixed]
    return [("programme", lives)] + [(name, f"mttf:{every * every / 2 / WRITE_S:.3f}s") for name, every in fixed]


class Plan:
    """One bag with its own machines, which vanish when those of the others do."""

    def __init__(self, given, program, folder, lifetime):
        self.given, self.program, self.folder = given, program, folder
        folder.mkdir()
        jobs_write(folder / "jobs.csv", program.rows)
        self.machines = Machines(given, program, folder, lifetime)

    def run(self, rows):
        try:
            storm(self.given, self.machines, rows)
        finally:
            self.machines.clear()

    def tell(self, name, spans):
        facts = report(self.given, self.machines.bag)
        steps, saves = tallied(self.program, self.folder)
        useful = self.given.jobs * self.program.steps
        again, saving = 100 * (steps / useful - 1), 100 * saves * WRITE_S / (useful * STEP_S)
        print(
            f"{name}: wasted {again + saving:.2f} % ({again:.2f} computed again, {saving:.2f} in {saves} saves, one each "
            f"{steps * STEP_S / max(saves, 1):.2f} s); by the clock {100 * (facts['spent_s'] / sum(spans) - 1):.1f} %; "
            f"{self.machines.kills} machines lost; makespan {facts['makespan_s']:.0f} s; foretold "
            f"{100 * (facts['expected_s'] / useful / STEP_S - 1):.2f} % for jobs on the machines where they began",
            flush=True,
        )


def paces(given, program, folder, rows, lifetime, initial_s):
    """What times of saves are worth. A save stops the simulation for WRITE_S."""
    expected, spans = calm(program, folder / "calm", given.jobs)
    print(f"{given.jobs} jobs of {program.steps * STEP_S:.1f} s; a save stops them for {WRITE_S} s", flush=True)
    hour_s = None if given.trace else 3600 / given.speed
    wanted = [plan for i, plan in enumerate(plans(lifetime, initial_s, hour_s)) if given.only is None or i in given.only]
    bags = [Plan(given, program, folder / str(i), lifetime) for i, (_, lifetime) in enumerate(wanted)]
    with concurrent.futures.ThreadPoolExecutor(len(bags)) as pool:
        list(pool.map(lambda bag: bag.run(rows), bags))
    for (name, _), bag in zip(wanted, bags, strict=True):
        bag.tell(name, spans)
    for bag in bags:  # at last: what was measured stands there, whatever is found
        judge(given, program, bag.machines, expected)


def main():
    given = options()
    given.spotnik = os.path.abspath(given.spotnik)
    program = Program(given)
    with tempfile.TemporaryDirectory(prefix="spotnik-bag-") as name:
        folder = pathlib.Path(name)
        jobs_write(folder / "jobs.csv", program.rows)
        rows = trace_read(given.trace, given.speed) if given.trace else trace_draw(given.machines, given.speed)
        lost = lives_write(folder / "lives.csv", rows)
        lifetime, initial_s = machines_told(given, folder / "lives.csv", lost)
        rows = trace_cut(rows, given.machines)
        if given.overhead:
            overhead(given, program, folder, 2)
        elif given.pace:
            paces(given, program, folder, rows, lifetime, initial_s)
        else:
            survive(given, program, folder, rows, lifetime)


main()
