#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two jobs of one name that meet, on three hosts that are network namespaces. Claims:

  parked  a member that is cut off, at a later step, meets the job that its hosts began anew without it: the younger job stops with
          SPOTNIK_ERR_LINEAGE, all its members, and the parked one never goes back. `spotnik lineage` shows it; forced, it goes on alone,
          from its own step, and takes in a newcomer
  running two jobs with other lists and one folder of checkpoints: the younger one under `spotnik run --respawn` ends with status 76,
          nobody is replaced; the older one goes on. Both say so in their logs, the older one in its status. Checkpoints of both are
          there; a restart goes on from those of the older one
  choose  an operator chooses the younger one of two that do not know of each other
  forked  one of three was told to go on in a minority (SPOTNIK_ON_MINORITY), the others were not. It is cut off, and both sides commit
          steps of their own under one founding. When they meet, one side stops with SPOTNIK_ERR_LINEAGE, all of it, and the other goes on
  yielding  the same, and one of the side that stops is slow to end its process, so that it makes a view of its own meanwhile: the side that
          stands does not hear of that view, and goes on
  flapping  a member that is excluded for silence again and again joins again at once, then after 1 s, then after 2 s

    lineages.py SPOTNIK WORKER [only]"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

SPOTNIK, WORKER = (os.path.abspath(word) for word in sys.argv[1:3])
NAME = f"spotnik-li-{os.getpid()}"
PATIENCE_S = 90
HOSTS = (1, 2, 3)


def fail(what):
    for worker in Worker.all:
        print(f"  {worker.name}: step {worker.step}, size {worker.size}, ended {worker.process.poll()}: {worker.last}")
    sys.exit(f"FAILED: {what}")


def ip(*words, check=True):
    return subprocess.run(["ip", *words], check=check, capture_output=True, text=True)


def skip(why):
    print(f"SKIPPED: {why}")
    sys.exit(77)


def set_up():
    if not shutil.which("ip", path=os.environ["PATH"] + ":/sbin") or os.geteuid() != 0:
        skip("network namespaces need root and the program ip")
    try:
        ip("netns", "add", f"{NAME}-sw")
        ip("-n", f"{NAME}-sw", "link", "add", "br0", "type", "bridge")
        ip("-n", f"{NAME}-sw", "link", "set", "br0", "up")
        for i in HOSTS:
            ip("netns", "add", f"{NAME}-{i}")
            ip("-n", f"{NAME}-{i}", "link", "set", "lo", "up")
            ip("-n", f"{NAME}-{i}", *"link add eth0 type veth peer name".split(), f"p{i}", "netns", f"{NAME}-sw")
            ip("-n", f"{NAME}-sw", "link", "set", f"p{i}", "master", "br0", "up")
            ip("-n", f"{NAME}-{i}", "addr", "add", f"10.78.0.{i}/24", "dev", "eth0")
            ip("-n", f"{NAME}-{i}", "link", "set", "eth0", "up")
    except subprocess.CalledProcessError as error:
        tear_down()
        skip(f"no network namespaces here: {error.stderr}")


def tear_down():
    for name in [f"{NAME}-{i}" for i in HOSTS] + [f"{NAME}-sw"]:
        for pid in ip("netns", "pids", name, check=False).stdout.split():
            with contextlib.suppress(ProcessLookupError):  # it has ended since
                os.kill(int(pid), signal.SIGKILL)
        ip("netns", "del", name, check=False)


def plug(host, state):
    ip("-n", f"{NAME}-sw", "link", "set", f"p{host}", "up" if state else "down")


def at(host, port=4100):
    return f"10.78.0.{host}:{port}"


def on(host, *words):
    return ["ip", "netns", "exec", f"{NAME}-{host}", *words]


def environment(folder, peers, bind, **more):
    return {
        **os.environ,
        "SPOTNIK_JOB": "lineages",
        "SPOTNIK_KEY_FILE": f"{folder}/key",
        "SPOTNIK_PEERS": peers,
        "SPOTNIK_BIND": bind,
        "SPOTNIK_MIN": "1",
        "SPOTNIK_MAX": "8",
        "SPOTNIK_STALE_MS": "4000",
        **more,
    }


def command(compute_us):
    return [WORKER, "-e", "1", "-c", "2000", "-n", "100000", "-b", "640", "-u", str(compute_us)]


class Worker:
    """A process that reports its commits; or `spotnik run` over some."""

    all: list = []

    def __init__(self, host, env, words):
        self.name, self.step, self.size, self.errors, self.last, self.steps = f"{host}:{len(Worker.all)}", 0, 0, [], "", []
        self.process = subprocess.Popen(on(host, *words), env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        Worker.all.append(self)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.last = line.strip()
            words = line.split()
            words = words[1:] if words and words[0].startswith("[w") else words
            if words and words[0] == "commit":
                self.steps.append(int(words[1]))
                self.step, self.size = int(words[1]), int(words[4])
            elif words and words[0] == "error":
                self.errors.append(" ".join(words[1:]))

    def end(self):
        self.process.kill()
        self.process.wait()

    def rest(self):
        """Wait for its end, and until all that it said is heard."""
        self.process.wait()
        self.reader.join()


def until(what, true):
    limit = time.monotonic() + PATIENCE_S
    while not true():
        if time.monotonic() > limit:
            fail(f"waited {PATIENCE_S} s for {what}")
        time.sleep(0.02)


def lineage(host, folder, peers, *words, status=0):
    done = subprocess.run(
        on(host, SPOTNIK, "lineage", *words), env=environment(folder, peers, at(host)), capture_output=True, text=True, timeout=60
    )
    said = done.stdout + done.stderr
    if done.returncode != status:
        fail(f"spotnik lineage {words} ended with {done.returncode}, not {status}: {said}")
    return said


def new_folder(root, name):
    folder = Path(root) / name
    folder.mkdir()
    subprocess.run([SPOTNIK, "key", str(folder / "key")], check=True, capture_output=True)
    return folder


def end_all():
    for worker in Worker.all:
        worker.end()
    Worker.all.clear()


def has_yielded(worker):
    return any(error.startswith("-303 ") for error in worker.errors)


def ended_with_lineage(worker):
    return worker.process.poll() is not None and has_yielded(worker)


# ---- parked, and forced


def parked(root):
    folder = new_folder(root, "parked")
    peers = "majority:" + ",".join(at(i) for i in HOSTS)
    old = [Worker(i, environment(folder, peers, at(i)), command(2000)) for i in HOSTS]
    until("three members at step 200", lambda: all(w.step >= 200 and w.size == 3 for w in old))
    plug(1, False)
    until("the two others to go on", lambda: all(w.size == 2 for w in old[1:]))
    for worker in old[1:]:
        worker.end()
    new = [Worker(i, environment(folder, peers, at(i)), command(200000)) for i in HOSTS[1:]]
    until("an accidental job", lambda: all(w.step >= 2 and w.size == 2 for w in new))
    had = old[0].step  # it is parked for long, and has told of all that it had committed
    if new[0].step >= had:
        fail(f"the accident is at step {new[0].step} already, the parked member at {had}")
    plug(1, True)
    until("the younger job to stop", lambda: all(ended_with_lineage(w) for w in new))
    if old[0].step != had or old[0].process.poll() is not None:
        fail(f"the parked member was at step {had}, and is at {old[0].step}")

    said = lineage(1, folder, peers)
    if "all parked" not in said or f"at step {had}" not in said:
        fail(f"the parked lineage does not show: {said}")
    if "answer for" not in lineage(1, folder, peers, "force", at(1), status=2):
        fail("nobody says what force means")
    lineage(1, folder, peers, "force", at(1), "--yes")
    until("the forced member to go on", lambda: old[0].step > had + 5 and old[0].size == 1)
    if had + 1 not in old[0].steps:
        fail(f"it was at step {had}, and went on with another one: {old[0].steps[-10:]}")
    newcomer = Worker(2, environment(folder, peers, at(2)), command(2000))
    until("a newcomer beside it", lambda: newcomer.size == 2 and newcomer.step > had)
    print(f"parked: the accident at step {new[0].step} has stopped, the parked member has kept step {had}, and goes on when forced")
    end_all()


# ---- both running


def said(saved, what):
    """A warning of that lineage, in the log of some member."""
    lines = [line for path in (saved / "events").glob("*.jsonl") for line in path.read_text().splitlines()]
    return any("S123" in line and what in line for line in lines)


def status(host, folder, peers):
    done = subprocess.run(
        on(host, SPOTNIK, "status"), env=environment(folder, peers, at(host)), capture_output=True, text=True, timeout=60
    )
    return done.stdout


def checkpoints(folder):
    """{founding: [steps]} of complete ones, and the foundings that have yielded."""
    found: dict = {}
    for path in Path(folder).glob("step-*-*/manifest.json"):
        _, step, founding = path.parent.name.split("-")
        found.setdefault(founding, []).append(int(step))
    return found, {path.name.split("-")[1] for path in Path(folder).glob("yielded-*")}


def running(root):
    folder = new_folder(root, "running")
    saved = folder / "checkpoints"
    more = {"SPOTNIK_CHECKPOINT": str(saved), "SPOTNIK_CHECKPOINT_STEPS": "50"}
    peers, stray = f"{at(1)},{at(2)}", at(3)
    old = [Worker(i, environment(folder, peers, at(i), **more), command(10000)) for i in (1, 2)]
    until("a checkpoint of the older job", lambda: saved.exists() and checkpoints(saved)[0])
    (elder,) = checkpoints(saved)[0]
    words = [SPOTNIK, "run", "-n", "1", "--respawn", "--peers", stray, "--key-file", f"{folder}/key", "--bind", at(3), "--"]
    run = Worker(3, environment(folder, stray, at(3), **more), [*words, *command(10000)])
    beside = Worker(3, environment(folder, stray, at(3, 4101), **more), command(10000))
    until("checkpoints of both jobs", lambda: len(checkpoints(saved)[0]) == 2 and beside.size == 2)
    (younger,) = set(checkpoints(saved)[0]) - {elder}
    newcomer = Worker(2, environment(folder, f"{peers},{stray}", at(2, 4200), **more), command(10000))
    until("the younger job to end, all of it", lambda: run.process.poll() is not None and ended_with_lineage(beside))
    run.rest()
    if run.process.returncode != 76 or not ended_with_lineage(run) or len(run.errors) != 1:
        fail(f"spotnik run ended with {run.process.returncode}, and its workers with {run.errors}")
    until("both to have said so in their logs", lambda: all(said(saved, what) for what in ("ours is the younger one", "ours goes on")))
    until("all others in one view", lambda: all(w.size == 3 for w in [*old, newcomer]))
    shown = [line for where in (at(1), at(2), at(2, 4200)) for line in status(3, folder, where).splitlines() if line.startswith("lineage: ")]
    if not any(younger in line and "ours goes on" in line for line in shown):
        fail(f"no status of the older job tells of the other: {shown}")
    step = old[0].step
    until("the older job to go on", lambda: all(w.step > step + 60 for w in [*old, newcomer]))
    found, yielded = checkpoints(saved)
    if yielded != {younger} or set(found) != {elder, younger}:
        fail(f"checkpoints of {set(found)}, yielded {yielded}; the elder is {elder}")
    for worker in [*old, newcomer]:
        worker.end()
    newest = max(checkpoints(saved)[0][elder])
    again = [Worker(i, environment(folder, peers, at(i), **more), command(10000)) for i in (1, 2)]
    until("a restart", lambda: all(w.steps for w in again))
    if min(w.steps[0] for w in again) != newest + 1:
        fail(f"the restart began with step {again[0].steps[0]}; the elder's newest checkpoint is after {newest}")
    print("running: the younger job has ended with status 76, the older one goes on, and its checkpoints are those that are resumed")
    end_all()


# ---- the operator's choice


def choose(root):
    folder = new_folder(root, "choose")
    old = Worker(1, environment(folder, at(1), at(1)), command(10000))
    until("the older job", lambda: old.step > 5)
    new = Worker(2, environment(folder, at(2), at(2)), command(10000))
    until("the younger job", lambda: new.step > 5)
    both = f"{at(1)},{at(2)}"
    said = lineage(3, folder, both, status=3)
    ids = [line.split()[0] for line in said.splitlines() if " founded " in line]
    if len(ids) != 2:
        fail(f"two lineages do not show: {said}")
    (younger,) = [line.split()[0] for line in lineage(3, folder, at(2)).splitlines() if " founded " in line]
    lineage(3, folder, both, "choose", "0123456789abcdef", status=1)
    lineage(3, folder, both, "choose", younger)
    until("the older job to stop", lambda: ended_with_lineage(old))
    step = new.step
    until("the chosen one to go on", lambda: new.step > step + 5)
    print("choose: the lineage that was not chosen has stopped, the other goes on")
    end_all()


# ---- one founding, two histories


def fork(folder, **more):
    """One of three, and the two others: each side with a history of its own, and the cable plugged in again."""
    peers = ",".join(at(i) for i in HOSTS)
    saved = {"SPOTNIK_CHECKPOINT": f"{folder}/checkpoints", "SPOTNIK_CHECKPOINT_STEPS": "20"}
    stubborn = Worker(1, environment(folder, peers, at(1), SPOTNIK_ON_MINORITY="continue", **saved), command(10000))
    rest = [Worker(i, environment(folder, peers, at(i), **saved, **(more if i == 3 else {})), command(10000)) for i in HOSTS[1:]]
    until("three members in one view", lambda: all(w.size == 3 for w in [stubborn, *rest]))
    plug(1, False)
    until("both sides to go on", lambda: stubborn.size == 1 and all(w.size == 2 for w in rest))
    forked_at = max(w.step for w in [stubborn, *rest])
    until("steps of both sides", lambda: all(w.step > forked_at + 5 for w in [stubborn, *rest]))
    plug(1, True)
    return stubborn, rest


def nothing_set_aside(folder):
    """Both histories have the founding whose checkpoints the side that stands goes on from."""
    aside = list((folder / "checkpoints").glob("yielded-*"))
    if aside:
        fail(f"the checkpoints of the side that stands are set aside: {aside}")


def forked(root):
    folder = new_folder(root, "forked")
    stubborn, rest = fork(folder)
    sides = ([stubborn], rest)
    until("one side to stop", lambda: any(all(ended_with_lineage(w) for w in side) for side in sides))
    (stands,) = [side for side in sides if not any(ended_with_lineage(w) for w in side)]
    step = max(w.step for w in stands)
    until("the other side to go on", lambda: all(w.step > step + 20 for w in stands))
    nothing_set_aside(folder)
    print(f"forked: of two histories under one founding that of {len(stands)} stands, the other has stopped")
    end_all()


def yielding(root):
    """Which side stops is chance: the ids of the members decide. Here it has to be the two."""
    rounds = 0
    while True:
        rounds += 1
        folder = new_folder(root, f"yielding-{rounds}")
        stubborn, rest = fork(folder, WORKER_KEEPS=str(folder / "go"))
        until("one side to stop", lambda: has_yielded(stubborn) or all(has_yielded(w) for w in rest))
        if not has_yielded(stubborn):
            break
        end_all()
    until("the first of them to be gone", lambda: rest[0].process.poll() is not None)
    step = stubborn.step
    until("the other side to go on", lambda: stubborn.step > step + 200)
    if stubborn.size != 1 or rest[1].process.poll() is not None:
        fail("the side that stands is not alone, or the slow one did not wait")
    nothing_set_aside(folder)
    (folder / "go").touch()
    until("the slow one to be gone", lambda: rest[1].process.poll() is not None)
    print(f"yielding: in round {rounds} the two stopped, and the other went on beside the slower one of them")
    end_all()


# ---- excluded again and again


def flapping(root):
    folder = new_folder(root, "flapping")
    peers = f"{at(1)},{at(2)}"
    workers = [Worker(i, environment(folder, peers, at(i)), command(5000)) for i in HOSTS]
    rest, flapper = workers[:2], workers[2]
    took = []
    for _ in range(3):
        until("all three in one view", lambda: all(w.size == 3 for w in workers))
        os.kill(flapper.process.pid, signal.SIGSTOP)
        until("the others to go on", lambda: all(w.size == 2 for w in rest))
        step = max(w.step for w in rest)
        begun = time.monotonic()
        os.kill(flapper.process.pid, signal.SIGCONT)
        until("its return", lambda step=step: flapper.step > step)
        took.append(time.monotonic() - begun)
    if took[1] < 1 or took[2] < 2:
        fail(f"it was back after {took} s")
    print("flapping: back after " + ", ".join(f"{s:.2f} s" for s in took))
    end_all()


def main():
    set_up()
    only = sys.argv[3] if len(sys.argv) > 3 else None
    try:
        with tempfile.TemporaryDirectory() as root:
            for scenario in (parked, running, choose, forked, yielding, flapping):
                if only in (None, scenario.__name__):
                    scenario(root)
    finally:
        end_all()
        tear_down()


main()
