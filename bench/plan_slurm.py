#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A plan followed under Slurm: nodes come and go as a real trace says, at 1000 times speed, and `spotnik fleet --engine slurm`
keeps as many elements as the plan wants.
Usage: bench/plan_slurm.py BUILD TRACE [FOLDER] [--places 0,1,2...] [--hours H] [--clock X] [--replan].

TRACE is a file of events (docs/reference/traces.md) with more machines than the four nodes of the Slurm here. Its machines are
dealt out to PLACES places, by their numbers; at most four of a place are there at once. The plan for one place is made from
what was seen of the other nine, so it has not seen what it is tried on. Each place begins at another instant, as the plan's runs do. A node that goes is drained and its processes are killed: nobody gets
notice. Slurm does not become faster with the clock: how long it takes to start an element is measured first and told to the planner.
Writes plan_slurm.md and .json; with --places the rows of the other places stay. Exit 1: no place was within its intervals."""
import argparse
import collections
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "tests", "slurm")]
from lab import Lab  # noqa: E402

PLACES, NODES = 10, 4
TYPE, ZONE, USD = "p3.2xlarge", "us-east-1a", 0.918
BATCH, ALONE_S = 1024, 60  # a step of one machine takes a minute
RECOVER_S, JOIN_S, CHECKPOINT_S = 60, 60, 600
EVERY_S = 300  # of the fleet and of the clock of the trace, between two looks
HOUR = 3600


def machines(path):
    """[(seconds, +1 or -1, number of the machine)], in order."""
    with open(path) as source:
        rows = [line.strip().split(",") for line in source if line.strip()]
    return [(int(at) / 1000, 1 if verb == "add" else -1, int(name[4:])) for at, verb, name in rows]


def place(events, number):
    """What one place has seen: [(seconds, +1 or -1, slot)]; a machine that finds no slot free is not there."""
    slots, free, out = {}, collections.deque(range(NODES)), []
    for at, change, machine in events:
        if machine % PLACES != number:
            continue
        if change > 0 and free:
            slots[machine] = free.popleft()
            out.append((at, 1, slots[machine]))
        elif change < 0 and machine in slots:
            free.append(slots[machine])
            out.append((at, -1, slots.pop(machine)))
    return out


def laps(events, numbers):
    """Places one after the other: [(seconds, +1 or -1, name)]. What is there at the end of one goes."""
    length_s, out = max(at for at, _, _ in events), []
    for turn, number in enumerate(numbers):
        there = set()
        for at, change, slot in place(events, number):
            out.append((turn * length_s + at, change, slot))
            (there.add if change > 0 else there.discard)(slot)
        out += [((turn + 1) * length_s, -1, slot) for slot in there]
    return out


def turned(events, number):
    """The machines of one place from an instant of its own on, as the plan's runs begin at any: a tenth of the trace later than the place before."""
    length_s = max(at for at, _, _ in events)
    begin_s, there, out = length_s * number / PLACES, set(), collections.deque()
    for at, change, slot in laps(events, [number] * 4):
        if at > begin_s:
            out.append((at - begin_s, change, slot))
        else:
            (there.add if change > 0 else there.discard)(slot)
    out.extendleft((0, 1, slot) for slot in there)
    return out


def seen(events, number):
    """The places but one, as a trace's lines."""
    past = laps(events, [n for n in range(PLACES) if n != number])
    return "".join(f"{at * 1000:.0f},{'add' if change > 0 else 'remove'},n{slot}\n" for at, change, slot in past)


class Trial:
    """One training in a folder of its own, on nodes that come and go."""

    def __init__(self, lab, build, folder, steps, clock):
        self.lab, self.folder, self.clock, self.steps = lab, folder, clock, steps
        self.spotnik = os.path.join(build, "cli", "spotnik")
        self.worker = os.path.join(build, "bench", "plan_loop_worker")
        os.makedirs(self.path("pids"))
        lab.env.update({"SPOTNIK_CHECKPOINT_STEPS": str(round(CHECKPOINT_S * 2 / ALONE_S)), "SPOTNIK_PRICE": str(USD)})
        element = (f"echo $PPID $$ >{self.path('pids')}/$SLURMD_NODENAME; "
                   f"exec {self.worker} {steps} {BATCH} {1e6 * ALONE_S / clock / BATCH:.3f}")
        done = lab.run(self.spotnik, "slurm", "submit", "--folder", self.path("train"), "--write", "-s", "--no-requeue", "--",
                       "sh", "-c", element)
        if done.returncode:
            raise SystemExit(done.stderr)
        self.up, self.killed, self.changes = set(), 0, 0

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def done(self):
        return os.path.exists(self.path("train", "done"))

    def node(self, slot, there):
        """It is there, or it is gone with all that ran on it. Its processes are killed before Slurm can tell them anything."""
        name = f"n{slot}"
        self.changes += 1
        self.lab.run("scontrol", "update", f"nodename={name}", *(["state=resume"] if there else ["state=drain", "reason=gone"]))
        (self.up.add if there else self.up.discard)(slot)
        if there:
            return
        try:
            with open(self.path("pids", name)) as source:
                pids = [int(word) for word in source.read().split()]
            os.unlink(self.path("pids", name))
        except FileNotFoundError:
            return
        hit = 0
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
                hit = 1
            except ProcessLookupError:
                pass  # the worker ends with its agent
        self.killed += hit

    def elements(self):
        """Asked for, whether they wait or run."""
        return sum(state in ("PENDING", "RUNNING", "CONFIGURING") for state in self.lab.tell("squeue", "-h", "-r", "-o", "%T").split())

    def wanted(self):
        with open(self.path("plan.json")) as source:
            return sum(m["count"] for m in json.load(source)["plan"]["machines"])

    def clear(self):
        self.lab.run("scancel", "--user=root")
        self.lab.until("an empty queue", lambda: not self.lab.tell("squeue", "-h").strip())
        for slot in range(NODES):
            self.node(slot, False)


def start_s(lab, build, folder, clock):
    """From a node's return to the first commit of the element that waits for it, in seconds of the trace."""
    took = []
    for i in range(3):
        trial = Trial(lab, build, os.path.join(folder, f"start-{i}"), 1, clock)
        trial.clear()
        lab.run("sbatch", "--array=0-0", trial.path("train", "job.sbatch"))
        lab.until("an element that waits", lambda here=trial: here.elements() == 1)
        begun = time.monotonic()
        trial.node(0, True)
        lab.until("its first step", trial.done)
        took.append((time.monotonic() - begun) * clock - ALONE_S)
        trial.clear()
    return sorted(took)[1]


def write(path, text):
    with open(path + ".new", "w") as out:
        out.write(text)
    os.rename(path + ".new", path)
    return path


def plan_words(trial, past, started_s, deadline_h):
    profile = {"name": "slurm", "devices": {"V100": {"samples_per_s": BATCH / ALONE_S}}, "batches": [BATCH], "reference_batch": BATCH,
               "samples_per_epoch": BATCH * 16, "gradient_mb": 0.008, "hop_us": 0, "startup_s": started_s, "recover_s": RECOVER_S,
               "join_s": JOIN_S, "checkpoint_every_s": CHECKPOINT_S, "error": 0.05,
               "measured": [["V100", NODES, BATCH, ALONE_S / NODES]]}
    prices = ("instance_type,region,zone,accelerator,accelerator_count,vcpus,on_demand_usd_per_h,spot_usd_per_h\n"
              f"{TYPE},us-east-1,{ZONE},V100,1,8,3.06,{USD}\n")
    return [trial.spotnik, "plan", "--profile", write(trial.path("profile.json"), json.dumps(profile)),
            "--prices", write(trial.path("prices.csv"), prices), "--churn", write(trial.path("seen.csv"), past),
            "--only", "spot", "--machines", str(NODES), "--deadline", f"{deadline_h}h", "--target", f"steps={trial.steps}", "--best",
            "-o", "json"]


def replan_script(trial, words):
    status = f"{trial.spotnik} status --json --peers file:{trial.path('train', 'peers')} --key-file {trial.path('train', 'key')}"
    return write(trial.path("replan.sh"), f"""cd {trial.folder}
{status} >now.new 2>/dev/null && mv now.new now.json
[ -s now.json ] || exit 0
{shlex.join(words)} --from-status now.json $SPOTNIK_FLEET_RUNNING --release --clock {trial.clock:g} \\
    --elapsed $(cat elapsed) --spent $(cat spent) >plan.new && mv plan.new plan.json
""")


def play(trial, events, deadline_h, replan):
    """Runs it to its end. Returns what it cost and took, and how the plan and the trace were followed."""
    trial.clear()
    trial.changes = trial.killed = 0
    words = ["--replan", f"sh {trial.path('replan.sh')}", "--replan-every", "900ms"] if replan else []
    with open(trial.path("fleet.log"), "w") as log:
        fleet = subprocess.Popen(trial.lab.inside(trial.spotnik, "fleet", "--engine", "slurm", "--folder", trial.path("train"), "--plan",
                                                  trial.path("plan.json"), "--every", f"{1000 * EVERY_S / trial.clock:.0f}ms", *words),
                                 env=trial.lab.env, stdout=log, stderr=log)
    bill_usd, followed_s, late_s = 0.0, 0.0, 0.0
    begun = before = time.monotonic()
    deadline = begun + 3 * deadline_h * HOUR / trial.clock
    while not trial.done():
        elapsed_s = (time.monotonic() - begun) * trial.clock
        while events and events[0][0] <= elapsed_s:
            at, change, slot = events.popleft()
            trial.node(slot, change > 0)
            late_s = max(late_s, (time.monotonic() - begun) * trial.clock - at)
        asked, now = trial.elements(), time.monotonic()
        passed_s, before = (now - before) * trial.clock, now
        bill_usd += min(len(trial.up), asked) * USD * passed_s / HOUR  # a node is paid for while somebody wants it
        followed_s += passed_s * (asked == trial.wanted())
        write(trial.path("elapsed"), f"{(now - begun) * trial.clock:.0f}s")
        write(trial.path("spent"), f"{bill_usd:.4f}")
        if now > deadline or fleet.poll():
            break
    took_s = (time.monotonic() - begun) * trial.clock
    try:
        ended = fleet.wait(10 + 10 * EVERY_S / trial.clock) == 0 and trial.done()
    except subprocess.TimeoutExpired:
        fleet.kill()
        ended = False
    with open(trial.path("fleet.log")) as source:
        said = source.read()
    row = {"done": ended, "took_h": took_s / HOUR, "cost_usd": bill_usd, "followed": followed_s / took_s, "late_s": late_s,
            "events": trial.changes, "killed": trial.killed, "asked": said.count("asking for"), "said": said}
    trial.clear()
    return row


def within(row, what):
    low, high = row["plan"][f"{what}_range"]
    return low <= row["took_h" if what == "time_h" else "cost_usd"] <= high


def attempt(lab, build, folder, events, number, given, started_s):
    steps = round(given.hours * HOUR / ALONE_S)
    trial = Trial(lab, build, os.path.join(folder, f"place-{number}"), steps, given.clock)
    words = plan_words(trial, seen(events, number), started_s, given.deadline)
    made = subprocess.run(words, capture_output=True, text=True)
    if made.returncode:
        raise SystemExit(made.stderr)
    write(trial.path("plan.json"), made.stdout)
    replan_script(trial, words)
    plan = json.loads(made.stdout)["plan"]
    row = play(trial, turned(events, number), given.deadline, given.replan)
    row.update({"place": number, "start_s": started_s, "machines": sum(m["count"] for m in plan["machines"]), "hours": given.hours,
                "replan": given.replan, "plan": {key: plan[key] for key in ("time_h", "time_h_range", "cost_usd", "cost_usd_range", "chance")}})
    return row


def miss(value, low, high, unit):
    if low <= value <= high:
        return "yes"
    return f"**no, {abs(value - (low if value < low else high)):.2f} {unit} {'below' if value < low else 'above'}**"


def report(rows, folder, given):
    held = {what: sum(within(row, what) for row in rows) for what in ("time_h", "cost_usd")}
    out = ["# A plan followed under Slurm", "", f"Made by `bench/plan_slurm.py BUILD {os.path.basename(given.trace)}`: "
           f"{rows[0]['hours']:g} machine-hours of work at {given.clock:g} times speed, on a Slurm of {NODES} nodes in a namespace. Nodes come and go as the "
           f"machines of one place of the trace do (a tenth of its machines), from an instant that differs; the plan was made from the other {PLACES - 1} places. A node that goes is killed "
           f"without notice. A spot machine costs ${USD} an hour. Slurm took {min(r['start_s'] for r in rows):.0f} to {max(r['start_s'] for r in rows):.0f} s of "
           "the trace to start an element, and the plan was told so. The intervals hold 90 % of what the plan foresees. ", "",
           "| place | wanted | changes of the trace | killed | asked again | as wanted | h: plan | measured | within | $: plan | measured | within |",
           "|" + "---|" * 12]
    for row in rows:
        plan = row["plan"]
        out.append(f"| {row['place']} | {row['machines']} | {row['events']}, {row['late_s']:.0f} s late at most | {row['killed']} | {row['asked']} | "
                   f"{100 * row['followed']:.0f} % | {plan['time_h_range'][0]:.2f} to {plan['time_h_range'][1]:.2f} | "
                   f"{row['took_h']:.2f}{'' if row['done'] else ' (given up)'} | {miss(row['took_h'], *plan['time_h_range'], 'h')} | "
                   f"{plan['cost_usd_range'][0]:.2f} to {plan['cost_usd_range'][1]:.2f} | {row['cost_usd']:.2f} | "
                   f"{miss(row['cost_usd'], *plan['cost_usd_range'], '$')} |")
    out += ["", f"Within the interval: the end {held['time_h']} of {len(rows)} times, the cost {held['cost_usd']} of {len(rows)} times. *as wanted*: the share of the "
            "time in which Slurm had as many elements, waiting or running, as the plan wanted.", "", "What the fleet said at the first place:", "", "```",
            *rows[0]["said"].splitlines()[:12], "```", ""]
    write(os.path.join(folder, "plan_slurm.md"), "\n".join(out))
    print("\n".join(out))
    return all(held.values())


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("build")
    options.add_argument("trace")
    options.add_argument("results", nargs="?", default="build/results")
    options.add_argument("--places", default=",".join(map(str, range(PLACES))))
    options.add_argument("--hours", type=float, default=12, help="of work for one machine")
    options.add_argument("--deadline", type=float, default=15)
    options.add_argument("--clock", type=float, default=1000)
    options.add_argument("--replan", action="store_true", help="plans are made anew from what the job has measured")
    given = options.parse_args()
    os.makedirs(given.results, exist_ok=True)
    events, rows, build = machines(given.trace), {}, os.path.abspath(given.build)
    kept = os.path.join(given.results, "plan_slurm.json")
    if os.path.exists(kept):
        with open(kept) as source:
            rows = {row["place"]: row for row in json.load(source)}
    with tempfile.TemporaryDirectory(prefix="spotnik-slurm-") as folder, Lab(folder) as lab:
        started_s = start_s(lab, build, folder, given.clock)
        print(f"Slurm starts an element in {started_s:.0f} s of the trace", flush=True)
        for number in map(int, given.places.split(",")):
            row = rows[number] = attempt(lab, build, folder, events, number, given, started_s)
            print(f"place {number}: {row['took_h']:.2f} h of {row['plan']['time_h_range']}, ${row['cost_usd']:.2f} of {row['plan']['cost_usd_range']}, "
                  f"{row['killed']} elements killed, as wanted {100 * row['followed']:.0f} %", flush=True)
    rows = [rows[number] for number in sorted(rows)]
    with open(kept, "w") as out:
        json.dump(rows, out, indent=1)
    sys.exit(0 if report(rows, given.results, given) else 1)


if __name__ == "__main__":
    main()
