# SPDX-License-Identifier: Apache-2.0
"""Groups of processes as members: `spotnik run --group` with real processes, killed at random.

Claims: a kill of any process of a group ends all of it, and the other groups finish the very step; the digests of all
groups are equal after every step; no group misses a step; every sample of an epoch is used once (group_worker.c); a
new group joins for each lost one; SIGTERM to any process is its group's notice; a process that hangs is named, and
its group ended after --stall-timeout; no process outlives the run.

    groups.py SPOTNIK WORKER [kills=20] [groups=3] [size=4] [count=20000] [seed=1]
"""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

LIMIT_S = 120.0  # for whatever is waited for
WAITS = "its group waits for a call of rank 1"
GONE_S = 5.0  # a busy machine; the median is printed


def is_alive(pid: int) -> bool:
    """A zombie is dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Run:
    """One `spotnik run`, and what its processes have told."""

    def __init__(self, spotnik: str, options: list[str], command: list[str], folder: Path) -> None:
        self.events = folder / "events"
        self.events.touch()
        self.said = folder / "said"
        self.reader, self.begun = self.events.open(), ""
        self.pids: dict[str, dict[int, int]] = {}  # of a group, by rank
        self.commits: dict[str, list[tuple[int, str, int, int, int]]] = {}  # step, digest, epoch, size, ns
        self.excluded: dict[str, set[int]] = {}  # commits that a group had told before it was excluded and came back
        self.ends: dict[str, int] = {}
        environment = {**os.environ, "GROUP_EVENTS": str(self.events), "TMPDIR": str(folder)}
        with self.said.open("w") as said:
            words = [spotnik, "run", *options, "--", *command]
            self.process = subprocess.Popen(words, env=environment, stdout=said, stderr=said)

    def fail(self, what: str) -> NoReturn:
        self.process.kill()
        raise SystemExit(f"FAILED: {what}\n{self.said.read_text()[-3000:]}")

    def look(self) -> None:
        """Read the lines that have come. The last one may be half written."""
        *lines, self.begun = (self.begun + self.reader.read()).split("\n")
        for line in lines:
            kind, group, *rest = line.split()
            if kind == "process":
                self.pids.setdefault(group, {})[int(rest[0])] = int(rest[1])
            elif kind == "commit":
                step, digest, epoch, size, ns = rest
                self.commits.setdefault(group, []).append((int(step), digest, int(epoch), int(size), int(ns)))
            elif kind == "excluded":
                self.excluded.setdefault(group, set()).add(len(self.commits.get(group, ())))
            elif kind == "end":
                self.ends[group] = int(rest[0])
            else:
                self.fail(line)

    def until(self, what: str, is_true: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
        end = time.monotonic() + limit_s
        while not is_true():
            if time.monotonic() > end:
                self.fail(f"waited for: {what}")
            time.sleep(0.002)  # between two looks
            self.look()

    def is_whole(self, groups: int, size: int) -> bool:
        """Are all groups there, in one view?"""
        self.look()
        now = [one for one, pids in self.pids.items() if len(pids) == size and all(map(is_alive, pids.values()))]
        last = [self.commits[one][-1] for one in now if one in self.commits]
        return len(last) == groups and all(commit[3] == groups for commit in last) and len({c[2] for c in last}) == 1

    def living(self) -> list[str]:
        return [one for one, pids in self.pids.items() if all(map(is_alive, pids.values()))]

    def check(self) -> None:
        """Equal digests; no gap in any group's steps, but where a busy host had it excluded.

        The last commit of a group that was killed or excluded is not compared: it may be the only one that made it (P3).
        """
        digests: dict[int, str] = {}
        for group, commits in self.commits.items():
            last = self.excluded.get(group, set()) | (set() if group in self.ends else {len(commits)})
            for at, (before, after) in enumerate(zip(commits, commits[1:]), 1):
                if after[0] != before[0] + 1 and at not in last:
                    self.fail(f"group {group} went from step {before[0]} to {after[0]}")
            for step, digest in (commit[:2] for at, commit in enumerate(commits, 1) if at not in last):
                if digests.setdefault(step, digest) != digest:
                    self.fail(
                        f"group {group} has another digest after step {step} of {commits[0][0]}..{commits[-1][0]}"
                    )

    def check_orphans(self) -> None:
        left = [pid for pids in self.pids.values() for pid in pids.values() if is_alive(pid)]
        if left:
            self.fail(f"processes outlive the run: {left}")


def kill_one(run: Run, chance: random.Random, groups: int, size: int) -> tuple[int, float, float]:
    """Kill a process. Returns its rank, seconds until its group was gone, and until the others had finished a step."""
    run.until("all groups together", lambda: run.is_whole(groups, size))
    victim = chance.choice(run.living())
    others = [one for one in run.living() if one != victim]
    epoch, rank = run.commits[victim][-1][2], chance.randrange(size)
    killed_ns = time.monotonic_ns()
    os.kill(run.pids[victim][rank], signal.SIGKILL)
    run.until("the end of the group", lambda: not any(map(is_alive, run.pids[victim].values())), GONE_S)
    gone_s = (time.monotonic_ns() - killed_ns) / 1e9

    def next_ns() -> list[int]:
        """Of each other group: when it first committed a step in a view after the one with the victim."""
        return [min((c[4] for c in run.commits[one] if c[2] > epoch), default=0) for one in others]

    run.until("the others' next commit", lambda: all(next_ns()))
    return rank, gone_s, (max(next_ns()) - killed_ns) / 1e9


def kills(spotnik: str, worker: str, folder: Path, numbers: dict[str, int]) -> None:
    """Kill processes at random, and end by a notice to the whole run."""
    groups, size = numbers["groups"], numbers["size"]
    run = Run(
        spotnik,
        ["-n", f"1:{groups}", "--group", str(size), "--respawn", "--max-failures", "1000"],
        [worker, "0", str(numbers["count"])],
        folder,
    )
    chance = random.Random(numbers["seed"])
    told = [kill_one(run, chance, groups, size) for _ in range(numbers["kills"])]
    run.until("all groups together", lambda: run.is_whole(groups, size))
    run.process.send_signal(signal.SIGTERM)
    status = run.process.wait(LIMIT_S)
    run.look()
    if status != 75 or len(run.ends) != groups:
        run.fail(f"SIGTERM: exit status {status}, {len(run.ends)} groups left in good order")
    run.check()
    run.check_orphans()
    leaders = sum(rank == 0 for rank, _, _ in told)
    gone = sorted(gone_s for _, gone_s, _ in told)
    print(
        f"{len(told)} kills, {leaders} of them of leaders; {max(len(c) for c in run.commits.values())} steps in a life"
    )
    print(f"group gone after: median {statistics.median(gone) * 1e3:.1f} ms, most {gone[-1] * 1e3:.1f} ms")
    for name, is_leader in (("leader", True), ("sibling", False)):
        after = sorted(next_s for rank, _, next_s in told if (rank == 0) == is_leader)
        if after:
            median = statistics.median(after)
            print(
                f"{name} killed: others' next commit after median {median * 1e3:.1f} ms, most {after[-1] * 1e3:.1f} ms"
            )


def notice_to_a_sibling(spotnik: str, worker: str, folder: Path) -> None:
    """SIGTERM to one process: its group leaves, the other trains on."""
    run = Run(spotnik, ["-n", "1:2", "--group", "3"], [worker, "0", "1000"], folder)
    run.until("both groups together", lambda: run.is_whole(2, 3))
    leaver, stayer = run.living()
    os.kill(run.pids[leaver][2], signal.SIGTERM)
    run.until("the group's end", lambda: leaver in run.ends and not any(map(is_alive, run.pids[leaver].values())))
    seen = run.commits[stayer][-1][0]
    run.until("steps without it", lambda: run.commits[stayer][-1][0] > seen and run.commits[stayer][-1][3] == 1)
    run.process.send_signal(signal.SIGTERM)
    if run.process.wait(LIMIT_S) != 75:
        run.fail("not 75")
    if "w" + leaver + " left (75)" not in run.said.read_text():
        run.fail("the group was not told to have left")
    run.check()
    run.check_orphans()
    print("SIGTERM to a sibling: its group left, the other trained on")


def statuses(spotnik: str, ask: list[str]) -> Iterator[str]:
    """What each member answers; `ask`: status --peers WHERE ..."""
    status, peers, where, *more = ask
    first = subprocess.run([spotnik, *ask, "--json"], stdout=subprocess.PIPE, text=True).stdout
    for member in json.loads(first or "{}").get("members", ()):
        where = f"{member['address']}:{member['port']}"
        words = [spotnik, status, peers, where, *more, "--json"]
        yield subprocess.run(words, stdout=subprocess.PIPE, text=True).stdout


def a_process_that_hangs(spotnik: str, worker: str, folder: Path) -> None:
    """A stopped sibling is named, in the status too, and its group is ended after the limit and comes back."""
    options = ["-n", "1:2", "--group", "2", "--respawn", "--stall-timeout", "8s"]
    run = Run(spotnik, options, [worker, "0", "1000"], folder)
    run.until("both groups together", lambda: run.is_whole(2, 2))
    victim = run.living()[0]
    pid = run.pids[victim][1]
    os.kill(pid, signal.SIGSTOP)
    ask = shlex.split(re.search(r"ask with: spotnik (.*)", run.said.read_text())[1])  # type: ignore[index]
    run.until("the status of its member to name it", lambda: any(WAITS in said for said in statuses(spotnik, ask)))
    run.until("the group's end", lambda: not any(map(is_alive, run.pids[victim].values())))
    said = run.said.read_text()
    for words in (f"for 4 s: 1 (process {pid}, stopped). The job waits for them; --stall-timeout", "ending the group"):
        if f"w{victim} on " not in said or words not in said:
            run.fail(f"not said: {words}")
    run.until("a new group in its place", lambda: run.is_whole(2, 2))
    run.process.send_signal(signal.SIGTERM)
    if run.process.wait(LIMIT_S) != 75:
        run.fail("not 75")
    run.look()
    run.check()
    run.check_orphans()
    print("a stopped sibling: named, ended after the limit, and its group came back")


def steps_to_an_end(spotnik: str, worker: str, folder: Path) -> None:
    """A job of two groups that is done ends with 0; its failure is that of the process that failed."""
    run = Run(spotnik, ["-n", "2", "--group", "2"], [worker, "50", "1000"], folder)
    if run.process.wait(LIMIT_S) != 0:
        run.fail("not 0")
    run.look()
    if set(run.ends.values()) != {50}:
        run.fail(f"ends: {run.ends}")
    run.check()
    run.check_orphans()
    run = Run(spotnik, ["-n", "1", "--group", "3"], ["sh", "-c", "[ $RANK = 1 ] && exit 9; sleep 100"], folder)
    if run.process.wait(LIMIT_S) != 9:
        run.fail("not the status of the process that failed")
    print("done: 0; one process fails: its status, and the others are ended")


def main() -> None:
    spotnik, worker = sys.argv[1:3]
    numbers = {"kills": 20, "groups": 3, "size": 4, "count": 20000, "seed": 1}
    for word in sys.argv[3:]:
        key, value = word.split("=")
        numbers[key] = int(value)
    for name, part in (("steps", steps_to_an_end), ("notice", notice_to_a_sibling), ("hang", a_process_that_hangs)):
        with tempfile.TemporaryDirectory() as folder:
            part(spotnik, worker, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        kills(spotnik, worker, Path(folder), numbers)


main()
