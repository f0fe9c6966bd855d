#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The loop closed: a job on spot machines of a trace, at 1000 times speed, that is planned for again while it runs.
Usage: SPOTNIK_DATA=... bench/plan_loop.py BUILD [FOLDER] [--clock X] [--starts N] [--follow 15m] [--busy].

Each start is run twice: `spotnik fleet` follows plans that `spotnik plan --from-status` makes anew, or keeps the first
one. Machines are processes (plan_loop_worker); the market here starts and kills them as the trace says, and keeps the
bill. Prints a table, and writes plan_loop.json and plan_loop.svg in FOLDER (default: build/results). Times and prices are those of the trace. Needs the host to itself: a host that is late makes steps longer, which the plans then see."""
import argparse
import gzip
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TYPE, ZONE = "p3.2xlarge", "us-east-1a"
SPOT, ON_DEMAND = f"{TYPE}@{ZONE}=spot", f"{TYPE}=on-demand"
USD = {SPOT: 0.918, ON_DEMAND: 3.06}
BATCH, ALONE_S, MACHINES = 1024, 60, 4  # a step of one machine takes a minute
STARTUP_S = 300
HOUR = 3600
TITLE = "## The loop closed"
LEFT = 75  # of plan_loop_worker: it was told to leave, and did
FAILED_MOST = 20  # machines that end by themselves: excluded while the host was late, mostly


class Market:
    """Machines of both kinds, and the trace of one. Time is that of the trace, from the start of the job."""

    def __init__(self, build, folder, trace, start_s, steps, clock):
        self.build, self.folder, self.trace, self.start_s, self.clock = build, folder, trace, start_s, clock
        self.machines, self.bill_usd, self.done, self.lost, self.failed = [], 0.0, False, 0, 0
        self.begun = self.now = time.monotonic()
        os.mkdir(self.path("peers"))
        open(self.path("peers", "fresh"), "x").close()  # nobody was here before
        subprocess.run([self.spotnik, "key", self.path("key")], check=True)
        self.env = {**os.environ, "SPOTNIK_PEERS": f"file:{self.path('peers')}", "SPOTNIK_KEY_FILE": self.path("key"),
                    "SPOTNIK_CHECKPOINT": self.path("checkpoints"), "SPOTNIK_CHECKPOINT_STEPS": str(round(600 / (ALONE_S / MACHINES))),
                    "SPOTNIK_PRICES": self.path("no-prices-kept"), "SPOTNIK_MIN": "1"}
        self.command = [os.path.join(build, "bench", "plan_loop_worker"), str(steps), str(BATCH),
                        f"{1e6 * ALONE_S / clock / BATCH:.3f}"]
        self.tell()

    @property
    def spotnik(self):
        return os.path.join(self.build, "cli", "spotnik")

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def write(self, name, text):
        with open(self.path(name + ".new"), "w") as out:
            out.write(text)
        os.rename(self.path(name + ".new"), self.path(name))

    def elapsed_s(self):
        return (time.monotonic() - self.begun) * self.clock

    def capacity(self):
        gap, data = self.trace["metadata"]["gap_seconds"], self.trace["data"]
        return data[int((self.start_s + self.elapsed_s()) / gap) % len(data)]

    def tell(self):
        """What one can know at this moment: machines, the bill, and what was seen of the place."""
        there = {kind: sum(m["kind"] == kind and m["process"] is not None for m in self.machines) for kind in USD}
        self.write("have", "done" if self.done else " ".join([str(len(self.machines))] + [f"{k}:{n}" for k, n in there.items()]))
        self.write("elapsed", f"{self.elapsed_s():.0f}s")
        self.write("spent", f"{self.bill_usd:.4f}")
        ticks = int((self.start_s + self.elapsed_s()) / self.trace["metadata"]["gap_seconds"]) + 1
        if ticks != getattr(self, "ticks", None):
            self.ticks = ticks
            self.write("seen.json", json.dumps({"metadata": self.trace["metadata"], "data": self.trace["data"][:ticks]}))

    def wanted(self):
        try:
            with open(self.path("wanted")) as source:
                return {kind: int(n) for kind, n in (word.rsplit(":", 1) for word in source.read().split())}
        except FileNotFoundError:
            return {}

    def end(self, machine, number):
        if machine["process"] is not None:
            machine["process"].send_signal(number)
        self.lost += number == signal.SIGKILL and machine["process"] is not None
        if machine["process"] is None or number == signal.SIGKILL:
            self.machines.remove(machine)
        machine["leaving"] = True

    def step(self):
        """What has happened since the last look: prices are paid, machines end, start and are asked for."""
        now = time.monotonic()
        hours = (now - self.now) * self.clock / HOUR
        self.now = now
        self.bill_usd += hours * sum(USD[m["kind"]] for m in self.machines)
        for machine in list(self.machines):
            if machine["process"] is None and now >= machine["ready"]:
                machine["process"] = subprocess.Popen(self.command, env={**self.env, "SPOTNIK_PRICE": str(USD[machine["kind"]])},
                                                      stderr=self.log)
            code = machine["process"].poll() if machine["process"] else None
            if code is not None:
                self.machines.remove(machine)
                self.done = self.done or code == 0
                self.failed += code not in (0, LEFT, -signal.SIGKILL)
        if self.failed > FAILED_MOST:
            with open(self.path("log")) as said:
                raise SystemExit(f"machines fail:\n{said.read()[-1000:]}")
        capacity, wanted = self.capacity(), self.wanted()
        if not capacity:
            for machine in [m for m in self.machines if m["kind"] == SPOT]:
                self.end(machine, signal.SIGKILL)
        for kind in USD:
            there = [m for m in self.machines if m["kind"] == kind and not m.get("leaving")]
            for machine in there[wanted.get(kind, 0):]:
                self.end(machine, signal.SIGTERM)
            if kind == ON_DEMAND or capacity:
                self.machines += [{"kind": kind, "process": None, "ready": now + STARTUP_S / self.clock}
                                  for _ in range(wanted.get(kind, 0) - len(there))]
        self.tell()

    def watch(self):
        """Where nobody plans anew: what the job would be told, every quarter of an hour."""
        if (self.watching and self.watching.poll() is None) or self.elapsed_s() < self.watch_s:
            return
        self.watch_s = self.elapsed_s() + 900
        there = {kind: sum(m["kind"] == kind for m in self.machines) for kind in USD}
        running = " ".join(f"--running {kind}:{there[kind]}/{max(there[kind], n)}" for kind, n in self.wanted().items())
        self.watching = subprocess.Popen(["sh", self.path("replan.sh"), "watched.json"], env={**self.env, "SPOTNIK_FLEET_RUNNING": running},
                                         stderr=self.log)

    def run(self, keeper, deadline_s, replans):
        """Until the job is done, or half of the deadline late. Returns what a row of the table needs."""
        points, seen, late_s, given_up = [], None, 1.5 * deadline_s, False
        self.watching, self.watch_s, name = None, 900, "plan.json" if replans else "watched.json"
        with open(self.path("log"), "w") as self.log, open(self.path("fleet.log"), "w") as said:
            fleet = subprocess.Popen(keeper, env=self.env, stdout=said, stderr=said)
            while not self.done and not given_up:
                self.step()
                if not replans:
                    self.watch()
                seen = self.look(points, seen, name) if self.elapsed_s() < deadline_s else None
                given_up = self.elapsed_s() > late_s
                time.sleep(0.005)
            took_s = self.elapsed_s()
            fleet.terminate()
            fleet.wait()
            if self.watching:
                self.watching.wait()
            for machine in self.machines:
                if machine["process"]:
                    machine["process"].kill()
                    machine["process"].wait()
        return {"replans": replans, "took_h": took_s / HOUR, "done": self.done, "cost_usd": self.bill_usd, "lost": self.lost,
                "in_time": self.done and took_s <= deadline_s, "points": points}

    def look(self, points, seen, name):
        """A plan that is new: when, how sure, what it wants, and how sure what runs would be without it."""
        try:
            now = os.stat(self.path(name)).st_ino
            if now == seen:
                return seen
            with open(self.path(name)) as source:
                plan = json.load(source)
        except (FileNotFoundError, ValueError):
            return seen
        if plan["found"]:
            left = plan.get("as_it_runs")
            points.append({"h": self.elapsed_s() / HOUR, "chance": plan["plan"]["chance"],
                           "as_it_runs": left and left["chance"], "measured": plan.get("measured"),
                           "fleet": {key: sum(m["count"] for m in plan["plan"]["machines"] if m["capacity"] == key)
                                     for key in ("spot", "on-demand")}})
        return now


def inputs(market, deadline_s, learn_from, more=()):
    """The command that plans, with all but the status."""
    market.write("prices.csv", "instance_type,region,zone,accelerator,accelerator_count,vcpus,on_demand_usd_per_h,spot_usd_per_h\n"
                 f"{TYPE},us-east-1,{ZONE},V100,1,8,{USD[ON_DEMAND]},{USD[SPOT]}\n")
    market.write("profile.json", json.dumps({
        "name": "loop", "devices": {"V100": {"samples_per_s": BATCH / ALONE_S}}, "batches": [BATCH], "reference_batch": BATCH,
        "samples_per_epoch": BATCH * 16, "gradient_mb": 0.008, "hop_us": 0, "startup_s": STARTUP_S, "recover_s": 30, "join_s": 30,
        "checkpoint_every_s": 600, "error": 0.05, "measured": [["V100", 8, BATCH, ALONE_S / 8]]}))
    return [market.spotnik, "plan", "--profile", market.path("profile.json"), "--prices", market.path("prices.csv"), "--deadline",
            f"{deadline_s:.0f}s", "--machines", "8", "--confidence", "0.9", "--best", "--release", "--availability",
            f"{TYPE}@{ZONE}={market.path('seen.json')}", *[word for name in learn_from for word in ("--learn-from", name)], "-o", "json", *more]


def replan_command(market, plan, steps):
    """Plans from what a member answers; where none does, from the last answer: the keeper knows that all are gone."""
    words = shlex.join([*plan, "--target", f"steps={steps}"])
    market.write("replan.sh", f"""cd {shlex.quote(market.folder)}
spotnik={shlex.quote(market.spotnik)}
$spotnik status --json >now.new 2>/dev/null && mv now.new now.json
status=
[ ! -s now.json ] || status="--from-status now.json $SPOTNIK_FLEET_RUNNING --clock {market.clock:g} --elapsed $(cat elapsed) --spent $(cat spent)"
{words} $status >plan.new; [ -s plan.new ] && mv plan.new "${{1:-plan.json}}"
""")
    return f"sh {shlex.quote(market.path('replan.sh'))} 2>>{shlex.quote(market.path('replan.log'))}"


def play(build, trace, start_s, work_h, deadline_h, clock, learn_from, replans, more=()):
    """One job. `work_h`: of four machines. Without `replans`, the first plan is kept. `more`: words for the planner."""
    steps = round(work_h * HOUR / (ALONE_S / MACHINES))
    with tempfile.TemporaryDirectory(prefix="spotnik-loop-") as folder:
        market = Market(os.path.abspath(build), folder, trace, start_s, steps, clock)
        engine = f"exec:printf %s \"$SPOTNIK_FLEET_KINDS\" >{folder}/w && mv {folder}/w {folder}/wanted && cat {folder}/have"
        keeper = [market.spotnik, "fleet", "--engine", engine, "--folder", folder, "--plan", market.path("plan.json"), "--every", "50ms"]
        first = replan_command(market, inputs(market, deadline_h * HOUR, learn_from, more if replans else ()), steps)
        subprocess.run(first, shell=True, check=True, env=market.env)
        market.begun = market.now = time.monotonic()
        if replans:
            keeper += ["--replan", first, "--replan-every", f"{max(50, 1000 * 900 / clock):.0f}ms"]
        return market.run(keeper, deadline_h * HOUR, replans)


def starts(p, count):
    """(trace's name, trace, where it begins): spread over zones of February 2023, a day after each beginning at least."""
    names = ("us-west-2a_v100_1", "us-east-2a_v100_1", "us-east-1f_v100_1", "us-east-2b_v100_1")
    folder = os.path.join(p, "plan", "spot-traces", "availability-1-node", "aws-02-15-2023")
    for i in range(count):
        with gzip.open(os.path.join(folder, names[i % len(names)] + ".json.gz"), "rt") as source:
            trace = json.load(source)
        begin = (3 + 7.3 * i) * 24 * HOUR % (40 * 24 * HOUR)
        while not trace["data"][int(begin / trace["metadata"]["gap_seconds"])]:
            begin += 600  # somebody who looks for machines begins when there are some
        yield names[i % len(names)], trace, begin


def learned_of(p):
    folder = os.path.join(p, "plan", "spot-traces", "availability-1-node", "aws-10-26-2022")
    return [os.path.join(folder, f"us-west-{z}.json.gz") for z in ("2a_v100_1", "2b_v100_1", "2a_k80_1", "2b_k80_8")]


def changes(row):
    fleets = [point["fleet"] for point in row["points"]]
    return sum(a != b for a, b in zip(fleets, fleets[1:]))


def chance(row, at):
    """Stated by then (a share of the run); of a first plan that is kept, for what runs."""
    which = "chance" if row["replans"] else "as_it_runs"
    stated = [point[which] for point in row["points"] if point[which] is not None and point["h"] <= at * row["took_h"] + 1e-9]
    return f"{100 * stated[-1]:.0f} %" if stated else ""


def paid(with_plans, without):
    if with_plans["in_time"] != without["in_time"]:
        return "in time" if with_plans["in_time"] else "**late**"
    return f"{without['cost_usd'] - with_plans['cost_usd']:+.2f} $"


def command(kept):
    """What made the table."""
    return " ".join(["bench/plan_loop.py BUILD", *([f"--clock {kept['clock']:g}"] if kept["clock"] != 1000 else []),
                     *([f"--follow {kept['follow']}"] if kept.get("follow") else []), *(["--busy"] if kept.get("busy") else [])])


def report(folder):
    """Prints what was measured last."""
    with open(os.path.join(folder, "plan_loop.json")) as source:
        kept = json.load(source)
    follow = f" --follow {kept['follow']}" if kept.get("follow") else ""
    rows, anew, first = kept["rows"], [row[2] for row in kept["rows"]], [row[3] for row in kept["rows"]]
    out = [TITLE, "", f"`{command(kept)}`: a job on processes of one host, at {kept['clock']:g} times speed. {kept['work']:g} h of work for "
            f"{MACHINES} machines, {kept['deadline']:g} h to the deadline, spot ${USD[SPOT]} and on-demand ${USD[ON_DEMAND]} an hour. Machines come "
            "and go as traces of February 2023 say; regimes are of October 2022. Each start is run twice. Once `spotnik fleet` orders new plans "
            "every quarter of an hour and after each loss, from what the job has measured (`spotnik plan --from-status" + f"{follow}`). Once the first "
            "plan is kept, and only the chance of what runs is stated anew. The last chance is the last one before the end, or before the deadline."
            + (" Others used the host meanwhile." if kept.get("busy") else ""), "",
            "| place, day | plans | fleet changed | chance, new plans: first | half-way | last | in time | h | $ | "
            "chance, first plan: half-way | last | in time | h | $ | new plans paid |", "|" + "---|" * 15]
    for name, day, new, old in rows:
        out.append(f"| {name}, {day:.1f} | {len(new['points'])} | {changes(new)} | {chance(new, 0.05)} | {chance(new, .5)} | "
                   f"{chance(new, 1)} | {'yes' if new['in_time'] else 'no'} | {new['took_h']:.2f} | {new['cost_usd']:.2f} | "
                   f"{chance(old, .5)} | {chance(old, 1)} | {'yes' if old['in_time'] else 'no'} | "
                   f"{old['took_h']:.2f}{'' if old['done'] else '+'} | {old['cost_usd']:.2f} | {paid(new, old)} |")
    out += ["", f"In time: {sum(r['in_time'] for r in anew)} of {len(anew)} with new plans, {sum(r['in_time'] for r in first)} with the "
            f"first. Mean cost ${sum(r['cost_usd'] for r in anew) / len(anew):.2f} and ${sum(r['cost_usd'] for r in first) / len(first):.2f}; "
            f"on demand alone it would be ${kept['work'] * MACHINES * USD[ON_DEMAND]:.2f}. Brier score of the stated chances by thirds of a run: "
            f"{brier(anew, 'chance')} with new plans, {brier(first, 'as_it_runs')} with the first.", ""]
    print("\n".join(out))


def brier(rows, which):
    """How far chances were from what came, in thirds of each run."""
    sums = [[], [], []]
    for row in rows:
        for point in row["points"]:
            if point[which] is not None:
                sums[min(2, int(3 * point["h"] / row["took_h"]))].append((point[which] - row["in_time"]) ** 2)
    return ", ".join(f"{sum(s) / len(s):.3f}" if s else "-" for s in sums)


def draw(rows, deadline_h, folder):
    sys.path[:0] = [HERE]
    import pictures
    figure, axes = pictures.stack(2, 9, 7)
    for axis, which, column, title in ((axes[0], "chance", 2, "Plans made anew"), (axes[1], "as_it_runs", 3, "The first plan kept")):
        series = {f"{row[0]}, day {row[1]:.1f}": [(point["h"], 100 * point[which]) for point in row[column]["points"]
                                                  if point[which] is not None] for row in rows}
        pictures.lines(axis, series, "hours since the start", "chance stated, %", marks=False)
        for name, points in series.items():
            in_time = next(row[column]["in_time"] for row in rows if name.startswith(f"{row[0]}, day {row[1]:.1f}"))
            if points:
                axis.plot(*points[-1], marker="o" if in_time else "x", color="#333333", markersize=7, linestyle="none")
        axis.set_xlim(0, deadline_h * 1.05)
        axis.set_ylim(-3, 103)
        axis.axvline(deadline_h, color="#5a6570", linestyle=":")
        axis.set_title(f"{title} (o: in time, x: late)")
    pictures.legend(figure, axes[0])
    pictures.save(figure, os.path.join(folder, "plan_loop.svg"))


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("build")
    options.add_argument("results", nargs="?", default="build/results")
    options.add_argument("--clock", type=float, default=1000)
    options.add_argument("--starts", type=int, default=8)
    options.add_argument("--work", type=float, default=9)
    options.add_argument("--deadline", type=float, default=14)
    options.add_argument("--follow", help="plans made anew know that they are followed by others, after this time at most")
    options.add_argument("--busy", action="store_true", help="others use the host meanwhile; the page says so")
    given = options.parse_args()
    os.makedirs(given.results, exist_ok=True)
    data = os.environ["SPOTNIK_DATA"]
    rows = []
    for name, trace, begin in starts(data, given.starts):
        pair = [play(given.build, trace, begin, given.work, given.deadline, given.clock, learned_of(data), anew,
                     ("--follow", given.follow) if given.follow else ()) for anew in (True, False)]
        rows.append((name, begin / 24 / HOUR, *pair))
        for row in pair:
            for point in row["points"]:
                point["measured"] = point["measured"] and point["measured"]["step_s"]  # the rest is of that moment
            print(f"{name} {begin / 24 / HOUR:.1f}: {'anew' if row['replans'] else 'kept'}, in time {row['in_time']}, {row['took_h']:.2f} h, "
                  f"${row['cost_usd']:.2f}, {row['lost']} lost, chances {[round(point['chance'], 2) for point in row['points']]}", flush=True)
    with open(os.path.join(given.results, "plan_loop.json"), "w") as out:
        json.dump({"work": given.work, "deadline": given.deadline, "clock": given.clock, "follow": given.follow, "busy": given.busy, "rows": rows}, out, separators=(",", ":"))
    report(given.results)
    draw(rows, given.deadline, given.results)


if __name__ == "__main__":
    main()
