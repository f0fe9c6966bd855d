#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What it pays to follow a job with new plans, in reckoned time: the market and the job of plan_loop.py without processes.
Usage: SPOTNIK_DATA=... bench/plan_follow.py SPOTNIK [--set NAME] [--starts N] [--ways kept anew follow] [--jobs N].

A job on spot machines of a trace, three ways: the first plan is kept; plans are made anew (`spotnik plan --from-status`)
each quarter of an hour and after each loss; or made anew with `--follow 15m`. Nothing here takes time but the planner, so
a busy host changes no number. Sets: the planner's rules were chosen on `october`, by regimes of February 2023; `february`
is judged by regimes of October 2022."""
import argparse
import concurrent.futures
import gzip
import json
import math
import os
import random
import subprocess
import sys
import tempfile

TYPE, ZONE = "p3.2xlarge", "us-east-1a"
KINDS = {f"{TYPE}@{ZONE}=spot": 0.918, f"{TYPE}=on-demand": 3.06}  # dollars an hour
SPOT, ON_DEMAND = KINDS
BATCH, ALONE_S, MACHINES, MOST = 1024, 60, 4, 8  # a step of one machine takes a minute
STARTUP_S, STALL_S, KEEP_S, EVERY_S = 300, 30, 600, 900
HOUR, TICK_S = 3600, 15


class Job:
    """Machines of both kinds, one trace, one job; all times are the trace's, from the start of the job."""

    def __init__(self, data, gap_s, start_s, steps):
        self.data, self.gap_s, self.start_s, self.left = data, gap_s, start_s, float(steps)
        self.steps = steps
        self.now_s, self.usd, self.kept, self.lost, self.stalled_until_s = 0, 0.0, float(steps), 0, 0
        self.up = {kind: [] for kind in KINDS}  # when each is up
        self.wanted = dict.fromkeys(KINDS, 0)

    def capacity(self):
        return self.data[int((self.start_s + self.now_s) / self.gap_s) % len(self.data)]

    def seen(self):
        return self.data[:int((self.start_s + self.now_s) / self.gap_s) + 1]

    def working(self):
        return sum(ready <= self.now_s for machines in self.up.values() for ready in machines)

    def fit(self):
        """Machines go and come as the trace and the plan say; True when some were lost."""
        before, spot = self.working(), self.up[SPOT]
        gone = bool(spot) and not self.capacity()
        if gone:
            self.lost += len(spot)
            spot.clear()
        for kind, machines in self.up.items():
            del machines[self.wanted[kind]:]
            if kind == ON_DEMAND or self.capacity():
                machines += [self.now_s + STARTUP_S] * (self.wanted[kind] - len(machines))
        if before and not self.working():
            self.left = self.kept
        if self.working() != before:
            self.stalled_until_s = self.now_s + STALL_S
        return gone

    def tick(self):
        """A tick of the clock. True after which the job is done."""
        before = self.working()
        self.usd += TICK_S / HOUR * sum(KINDS[kind] * len(machines) for kind, machines in self.up.items())
        if self.now_s >= self.stalled_until_s:
            self.left -= TICK_S * before / ALONE_S
        self.now_s += TICK_S
        if self.working() != before:  # somebody has started up
            self.stalled_until_s = self.now_s + STALL_S
        if self.now_s % KEEP_S == 0:
            self.kept = self.left
        return self.left <= 0

    def status(self):
        size, second = self.working(), 10**9
        return {"step_committed": math.floor(self.steps - self.left), "size": size, "uptime_ns": self.now_s * second, "batch": BATCH,
                "now_ns": self.now_s * second, "steps_per_s": size / ALONE_S, "recoveries": []}

    def running(self):
        """The words that `spotnik fleet` passes on."""
        words = []
        for kind, machines in self.up.items():
            there = sum(ready <= self.now_s for ready in machines)
            if max(there, self.wanted[kind]):
                words += ["--running", f"{kind}:{there}/{max(there, self.wanted[kind])}"]
        return words


class Planner:
    """`spotnik plan` for a job of this market."""

    def __init__(self, spotnik, folder, deadline_s, learn_from, more=()):
        self.folder = folder
        self.write("prices.csv", "instance_type,region,zone,accelerator,accelerator_count,vcpus,on_demand_usd_per_h,spot_usd_per_h\n"
                   f"{TYPE},us-east-1,{ZONE},V100,1,8,{KINDS[ON_DEMAND]},{KINDS[SPOT]}\n")
        self.write("profile.json", json.dumps({
            "name": "loop", "devices": {"V100": {"samples_per_s": BATCH / ALONE_S}}, "batches": [BATCH], "reference_batch": BATCH,
            "samples_per_epoch": BATCH * 16, "gradient_mb": 0.008, "hop_us": 0, "startup_s": STARTUP_S, "recover_s": STALL_S,
            "join_s": STALL_S, "checkpoint_every_s": KEEP_S, "error": 0.05,
            "measured": [["V100", MOST, BATCH, ALONE_S / MOST]]}))
        self.words = [spotnik, "plan", "--profile", self.path("profile.json"), "--prices", self.path("prices.csv"), "--deadline",
                      f"{deadline_s:.0f}s", "--machines", str(MOST), "--confidence", "0.9", "--best", "--release", "--availability",
                      f"{TYPE}@{ZONE}={self.path('seen.json')}", *[word for name in learn_from for word in ("--learn-from", name)], "-o", "json",
                      *more]

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w") as out:
            out.write(text)

    def plan(self, job, first):
        """The wanted machines of a new plan, and its chance; None where there is none."""
        self.write("seen.json", json.dumps({"metadata": {"gap_seconds": job.gap_s}, "data": job.seen()}))
        words = [*self.words, "--target", f"steps={job.steps}"]
        if not first and any(job.wanted.values()):
            self.write("now.json", json.dumps(job.status()))
            words += ["--from-status", self.path("now.json"), *job.running(), "--elapsed", f"{job.now_s}s", "--spent", f"{job.usd:.4f}"]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            if "nothing is left" in done.stderr or "it passed" in done.stderr:
                return None
            raise SystemExit(done.stderr)
        plan = json.loads(done.stdout)
        wanted = dict.fromkeys(KINDS, 0)
        for machine in plan["plan"]["machines"]:
            wanted[SPOT if machine["capacity"] == "spot" else ON_DEMAND] += machine["count"]
        return wanted, plan["plan"]["chance"]


def play(spotnik, trace, start_s, work_h, deadline_h, learn_from, way):
    """One job. Returns what a row needs; late jobs go on until they are done, twice the deadline at most."""
    job = Job(trace["data"], trace["metadata"]["gap_seconds"], start_s, round(work_h * HOUR * MACHINES / ALONE_S))
    chances, changes, planned_s, anew = [], 0, 0, way != "kept"
    with tempfile.TemporaryDirectory(prefix="spotnik-follow-") as folder:
        planner = Planner(spotnik, folder, deadline_h * HOUR, learn_from, ("--follow", f"{EVERY_S}s") if way == "follow" else ())
        job.wanted, chance = planner.plan(job, True)
        chances.append((0, chance))
        job.fit()
        while not job.tick() and job.now_s < 2 * deadline_h * HOUR:
            gone = job.fit()
            if anew and (gone or job.now_s - planned_s >= EVERY_S) and job.now_s < deadline_h * HOUR:
                planned_s, found = job.now_s, planner.plan(job, False)
                if found:
                    changes += found[0] != job.wanted
                    job.wanted = found[0]
                    chances.append((job.now_s / HOUR, found[1]))
                    job.fit()
    return {"way": way, "h": job.now_s / HOUR, "usd": job.usd, "lost": job.lost, "changes": changes, "chances": chances,
            "in_time": job.left <= 0 and job.now_s <= deadline_h * HOUR}


SETS = {"october": ("aws-10-26-2022", ("us-west-2a_v100_1", "us-west-2b_v100_1", "us-west-2a_v100_8", "us-west-2b_v100_8", "us-west-2a_k80_8",
                                       "us-west-2b_k80_8")),
        "february": ("aws-02-15-2023", ("us-west-2a_v100_1", "us-east-2a_v100_1", "us-east-1f_v100_1", "us-east-2b_v100_1"))}
CLIMATES = {"october": ("aws-02-15-2023", ("us-west-2a_v100_1", "us-east-2a_v100_1", "us-east-1f_v100_1", "us-east-2b_v100_1")),
            "february": ("aws-10-26-2022", ("us-west-2a_v100_1", "us-west-2b_v100_1", "us-west-2a_k80_1", "us-west-2b_k80_8"))}


def paths(of, data):
    folder, names = of
    return [os.path.join(data, "plan", "spot-traces", "availability-1-node", folder, name + ".json.gz") for name in names]


def starts(name, data, count):
    """(name, trace, start): of plan_loop.py first, then drawn; all when there is capacity, three days or more after the beginning."""
    draw = random.Random(1)
    for i in range(count):
        path = paths(SETS[name], data)[i % len(SETS[name][1])]
        with gzip.open(path, "rt") as source:
            trace = json.load(source)
        gap_s = trace["metadata"]["gap_seconds"]
        days = len(trace["data"]) * gap_s / 24 / HOUR
        begin = (3 + 7.3 * i) * 24 * HOUR % (40 * 24 * HOUR) if name == "february" and i < 8 else draw.uniform(3, days - 2) * 24 * HOUR
        while not trace["data"][int(begin / gap_s) % len(trace["data"])]:
            begin += 600
        yield os.path.basename(path)[:-8], trace, begin % (len(trace["data"]) * gap_s)


def summary(rows, ways):
    """A line of Markdown a way."""
    for way in ways:
        of = [row for row in rows if row["way"] == way]
        in_time = sum(row["in_time"] for row in of)
        first = [(row["chances"][0][1] - row["in_time"]) ** 2 for row in of]
        print(f"| {way} | {in_time} of {len(of)} | {sum(row['usd'] for row in of) / len(of):.2f} | {sum(row['h'] for row in of) / len(of):.2f} | "
              f"{sum(row['changes'] for row in of) / len(of):.1f} | {100 * sum(row['chances'][0][1] for row in of) / len(of):.0f} % | "
              f"{sum(first) / len(first):.3f} |")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("spotnik")
    options.add_argument("--set", choices=list(SETS), default="february")
    options.add_argument("--starts", type=int, default=8)
    options.add_argument("--ways", nargs="+", default=["kept", "anew", "follow"])
    options.add_argument("--jobs", type=int, default=os.cpu_count())
    options.add_argument("--work", type=float, default=9)
    options.add_argument("--deadline", type=float, default=14)
    given = options.parse_args()
    data, spotnik = os.environ["SPOTNIK_DATA"], os.path.abspath(given.spotnik)

    def one(job):
        (name, trace, begin), way = job
        row = play(spotnik, trace, begin, given.work, given.deadline, paths(CLIMATES[given.set], data), way)
        print(f"{name} day {begin / 24 / HOUR:.1f} {way}: {'in time' if row['in_time'] else 'late'}, {row['h']:.2f} h, ${row['usd']:.2f}, "
              f"{row['lost']} lost, {row['changes']} changes, first chance {row['chances'][0][1]:.2f}", file=sys.stderr, flush=True)
        return row

    jobs = [(start, way) for start in starts(given.set, data, given.starts) for way in given.ways]
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        rows = list(pool.map(one, jobs))
    print("| way | in time | mean $ | mean h | fleets changed | first chance | Brier score of it |\n|---|---|---|---|---|---|---|")
    summary(rows, given.ways)


if __name__ == "__main__":
    main()
