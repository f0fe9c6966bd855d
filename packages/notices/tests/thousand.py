#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Notices to a job of real processes, one after the other on several hosts at once. Claims: each makes its
worker leave at the boundary of a step and end with 75, and when it is taken back a new worker joins; the
others see leaves and no loss; every step is committed once, with one digest on all members, none is missing
in any member's life, and every sample is used once (the workers check that themselves). A worker all of whose
donors leave before it is in copies the state again; none does so after it has added to a step.

    thousand.py SPOTNIK WORKER [notices=1000] [hosts=6]"""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../tests"))
from faults.job import Job
from faults.process import Process

SPOTNIK, WORKER = sys.argv[1:3]
NOTICES = int(sys.argv[3]) if len(sys.argv) > 3 else 1000
HOSTS = int(sys.argv[4]) if len(sys.argv) > 4 else 6
WORK = ["-u", "4000", "-c", "500", "-n", "100000", "-b", "240"]


def new_life(worker, line):
    """What is known of a worker: its commits, None where it copied the state again, whether it has added to a step."""
    return {"worker": worker, "commits": [], "lines": [line], "is_in": False, "end": None, "lost": 0}


def stretches(commits):
    """The commits between two copies of the state."""
    found = [[]]
    for commit in commits:
        if commit is None:
            found.append([])
        else:
            found[-1].append(commit[0])
    return [steps for steps in found if steps]


class Host(Process):
    """An agent with one worker, and the file in which its notices stand."""

    def __init__(self, *words, job, number, **more):
        self.path, self.name = os.path.join(job.folder, f"notice-{number}"), f"host {number}"
        self.events = queue.Queue()
        self.lives = []  # of each worker: its commits, and how it ended
        super().__init__(*words, **more)

    def on_line(self, line):
        worker, rest = line.split(" ", 1)
        word = rest.split()
        if not worker.startswith("[w"):  # the agent itself
            if " left (75)" in line:
                self.events.put("left")
            return
        if self.lives and worker == self.lives[-1]["worker"]:
            self.lives[-1]["lines"].append(rest)
        if word[0] == "joined" and (not self.lives or self.lives[-1]["worker"] != worker):
            self.lives.append(new_life(worker, rest))
        elif word[0] == "joined" and not self.lives[-1]["is_in"]:
            self.lives[-1]["commits"].append(None)  # all its donors have left: it copies the state again
        elif word[0] == "commit":
            life = self.lives[-1]
            life["commits"].append((int(word[1]), word[2]))
            life["is_in"] |= word[5] == "0"
            if sum(commit is not None for commit in life["commits"]) == 2:
                self.events.put("in")
        elif word[0] == "recovery":
            self.lives[-1]["lost"] += int(word[2])
        elif word[0] == "excluded":
            self.lives[-1]["excluded"] = line
        elif word[0] in ("leaving", "done", "error"):
            self.lives[-1]["end"] = line

    def wait(self, event):
        try:
            got = self.events.get(timeout=self.limit_s)
        except queue.Empty:
            got = "nothing"
        if got != event:
            raise RuntimeError(f"{self.name}: waited for '{event}', got '{got}'; " + "; ".join(self.kept[-5:]))

    def notice(self):
        with open(self.path + ".new", "w") as file:
            file.write("+30 a test\n")
        os.rename(self.path + ".new", self.path)

    def cycles(self, count, failures):
        try:
            self.wait("in")
            for _ in range(count):
                self.notice()
                self.wait("left")
                os.unlink(self.path)
                self.wait("in")
        except Exception as error:  # told by the thread that started us
            failures.append(str(error))


def check(hosts):
    """One history: no gap, no repetition, one digest for each step."""
    digests, wrong = {}, []
    for host in hosts:
        for life in host.lives:
            for steps in stretches(life["commits"]):
                if steps != list(range(steps[0], steps[0] + len(steps))):
                    wrong.append(
                        f"{host.name}: steps of {life['worker']} have a gap or come twice: " + " / ".join(life["lines"][-12:])
                    )
            if "excluded" in life:
                wrong.append(f"{host.name}: {life['excluded']}")
            if life["lost"]:
                wrong.append(f"{host.name}: {life['worker']} was told of {life['lost']} losses")
            if not (life["end"] or "").split("] ", 1)[-1].startswith("leaving"):
                wrong.append(f"{host.name}: {life['worker']} ended with {life['end']}")
            for step, digest in filter(None, life["commits"]):
                if digests.setdefault(step, digest) != digest:
                    wrong.append(f"step {step} has two digests")
    missing = set(range(1, max(digests) + 1)) - set(digests)
    if missing:
        wrong.append(f"{len(missing)} steps were committed by nobody")
    return len(digests), wrong


def main():
    failures = []
    with tempfile.TemporaryDirectory(prefix="spotnik-thousand-") as folder:
        job = Job(folder, SPOTNIK)

        def host(number, notice):
            words = ["-n", 1, "--notice", notice, "--", WORKER, *WORK]
            env = {"SPOTNIK_NOTICE_INTERVAL": "10ms", "SPOTNIK_MIN": "1", "SPOTNIK_SILENCE_MS": "20000"}
            return job.run(*words, env=env, kind=Host, job=job, number=number)

        anchors = [host(i, "off") for i in range(2)]
        for anchor in anchors:
            anchor.wait("in")
        hosts = [host(10 + i, f"file:{folder}/notice-{10 + i}") for i in range(HOSTS)]
        share = [NOTICES // HOSTS + (i < NOTICES % HOSTS) for i in range(HOSTS)]
        threads = [threading.Thread(target=host.cycles, args=(count, failures)) for host, count in zip(hosts, share)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ask = [SPOTNIK, "status", "--json", *job.where]
        asked = [subprocess.run(ask, capture_output=True, text=True) for _ in range(8)]
        status = [host.end() for host in hosts + anchors]
        seen = [json.loads(answer.stdout) for answer in asked if answer.returncode == 0]
    if any(code != 75 for code in status):
        failures.append(f"agents ended with {status}, not 75 each")
    steps, wrong = check(hosts + anchors)
    failures += wrong
    left = sum(len(host.lives) - 1 for host in hosts)
    if left != NOTICES:
        failures.append(f"{left} workers left for {NOTICES} notices")
    if any(answer["losses"] for answer in seen):
        failures.append(f"members count losses: {[answer['losses'] for answer in seen]}")
    if failures:
        sys.exit("FAILED: " + "\n".join(failures[:20]))
    print(
        f"{NOTICES} notices on {HOSTS} hosts: {NOTICES} leaves and as many joins; {steps} steps, each committed once with one digest: "
        f"0 lost, 0 repeated; a member that was asked has seen {max([answer['leaves'] for answer in seen], default=0)} leaves, and no loss"
    )


main()
