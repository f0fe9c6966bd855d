#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A cluster of hosts that are network namespaces, members of one job on them, and a random nemesis
(docs/reference/how-we-test.md).

    nemesis.py MEMBER SPOTNIK --seed N [--seconds S] [--keep FOLDER] [--record FILE] [--limits FACTOR]
    nemesis.py MEMBER SPOTNIK --seed N --plan       print what the seed means

Storms and calms follow each other until S seconds have passed. Then checker.py judges what the members wrote. Status
0: nothing was broken; 1: something was, and the folder of the run is kept; 77: hosts cannot be had here."""

from __future__ import annotations

import argparse
import heapq
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from checker import judge, read, report
from plan import World, draw_storm, draw_world

sys.path.append(str(Path(__file__).parents[1]))
from faults.hosts import CannotRunError, Hosts
from job import Job, Member

SAMPLES, BATCH, STEPS_TOGETHER = 1000, 64, 10


def calm_limit_s(world: World, factor: float) -> float:
    """docs/design/0002: all processes are one view 3 T + 40 s after everything has healed; whoever was excluded
    again and again waits up to 32 s before it joins again. `factor` is for machines that are busy with other things."""
    return (3 * world.stale_ms / 1000 + 40 + 32) * factor


class Run:
    def __init__(self, arguments: argparse.Namespace, world: World, hosts: Hosts, folder: Path) -> None:
        key = folder / "key"
        subprocess.run([arguments.spotnik, "key", str(key)], check=True, capture_output=True)
        options = ["-n", str(SAMPLES), "-b", str(BATCH)]
        self.world, self.hosts, self.folder = world, hosts, folder
        self.limit_s = calm_limit_s(world, arguments.limits)
        self.job = Job(world, hosts, folder, os.path.abspath(arguments.member), key, options)
        self.spotnik = arguments.spotnik
        (folder / "world.json").write_text(json.dumps({**world.words(), "samples": SAMPLES, "calm_s": self.limit_s}))
        self.storms = 0

    def storm(self) -> None:
        """All faults of one storm; over when the last has healed."""
        begin, order = time.monotonic(), 0
        self.job.tell("storm", number=self.storms)
        todo: list[tuple[float, int, object]] = []
        for fault in draw_storm(self.world, self.storms):
            heapq.heappush(todo, (fault.at, order := order + 1, fault))
        while todo:
            at, _, thing = heapq.heappop(todo)
            time.sleep(max(0, begin + at - time.monotonic()))  # that is when it is to happen
            self.job.reap()
            if callable(thing):
                thing()
                continue
            undo = self.job.do(thing)  # type: ignore[arg-type]
            if undo:
                heapq.heappush(todo, (at + thing.heal, order := order + 1, undo))  # type: ignore[attr-defined]
        self.storms += 1

    def together(self, since_ns: int, first: dict[str, int]) -> bool:
        self.job.reap()
        for place in range(len(self.world.places)):
            self.job.start(place)  # in the place of whoever has ended
        members = list(self.job.at.values())
        for member in members:
            if member.commit_ns > since_ns:
                first.setdefault(member.name, member.step)
        if len({member.view for member in members}) != 1 or any(member.leaving for member in members):
            return False
        return all(
            member.name in first and member.size == len(members) and member.step >= first[member.name] + STEPS_TOGETHER
            for member in members
        )

    def calm(self) -> bool:
        self.job.power_on()
        self.job.tell("calm")
        since_ns = time.monotonic_ns()
        first: dict[str, int] = {}
        while not self.together(since_ns, first):
            if time.monotonic_ns() - since_ns > self.limit_s * 1e9:
                return self.give_up()
            time.sleep(0.05)
        self.job.tell("together")
        return True

    def ask(self, member: Member, *what: str) -> str:
        """What that member, and no other, says to a command of Spotnik's."""
        environment = self.job.environment(member.place)
        words = self.job.hosts.on(member.host, self.spotnik, *what, "--peers", environment["SPOTNIK_BIND"])
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60)
        return done.stdout + done.stderr

    def give_up(self) -> bool:
        """With a list the parked may wait for ever (section 16). Then a person begins anew."""
        for member in self.job.at.values():
            (self.folder / f"{member.name}.status").write_text(self.ask(member, "status", "--json"))
            self.ask(member, "dump")
        forsaken = self.world.peers == "list" and any(member.parked for member in self.job.at.values())
        self.job.tell("forsaken" if forsaken else "gave_up")
        if forsaken:
            self.job.tell("total")
            for place in range(len(self.world.places)):
                self.job.signal(place, signal.SIGKILL)
            return self.calm()
        return False

    def end(self) -> None:
        """All leave."""
        self.job.tell("end")
        for place in list(self.job.at):
            self.job.signal(place, signal.SIGTERM)
        limit = time.monotonic() + self.limit_s
        while self.job.at and time.monotonic() < limit:
            self.job.reap()
            time.sleep(0.05)
        if self.job.at:
            self.job.tell("did_not_leave", members=[member.name for member in self.job.at.values()])

    def go(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        going = self.calm()
        while going and time.monotonic() < until:
            self.storm()
            going = self.calm()
        if going:
            self.end()
        for place in list(self.job.at):
            self.job.signal(place, signal.SIGKILL)
            self.job.at[place].process.wait()


def command(arguments: argparse.Namespace) -> str:
    words = [sys.executable, sys.argv[0], arguments.member, arguments.spotnik, "--seed", str(arguments.seed)]
    return " ".join([*words, "--seconds", f"{arguments.seconds:g}"])


def commit() -> str:
    """Of this tree; empty where git cannot tell."""
    words = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    told = subprocess.run(words, check=False, capture_output=True, text=True)
    return told.stdout.strip()


def note(arguments: argparse.Namespace, folder: Path, began: float, verdict: object) -> None:
    faults = Counter(json.loads(line)["kind"] for line in (folder / "faults.jsonl").read_text().splitlines())
    bookkeeping = ("started", "exit", "calm", "storm", "together", "end")
    record = {
        "seed": arguments.seed,
        "commit": commit(),
        "minutes": round((time.monotonic() - began) / 60, 2),
        "steps": verdict.steps,  # type: ignore[attr-defined]
        "storms": faults["storm"],
        "longest_s": round(max(verdict.recovery_s, default=0), 1),  # type: ignore[attr-defined]
        "faults": {kind: count for kind, count in faults.items() if kind not in bookkeeping},
        "excuses": dict(verdict.excuses),  # type: ignore[attr-defined]
        "failures": verdict.failures[:20],  # type: ignore[attr-defined]
        "kept": str(folder) if verdict.failures else "",  # type: ignore[attr-defined]
    }
    with open(arguments.record, "a") as out:
        out.write(json.dumps(record) + "\n")


def run(arguments: argparse.Namespace) -> int:
    world, began = draw_world(arguments.seed), time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix=f"nemesis-{arguments.seed}-", dir=arguments.keep))
    try:
        hosts = Hosts(world.hosts, f"spn{os.getpid()}")
    except CannotRunError as why:
        shutil.rmtree(folder)
        print(f"skipped: {why}")
        return 77
    try:
        if world.proxies:
            hosts.use_proxies()
        Run(arguments, world, hosts, folder).go(arguments.seconds)
    finally:
        hosts.remove()
    verdict = judge(*read(folder))
    if arguments.record:
        note(arguments, folder, began, verdict)
    print(f"seed {arguments.seed}: {report(verdict)}")
    if verdict.failures:
        print(f"the same plan again: {command(arguments)}\nkept: {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("member")
    parser.add_argument("spotnik")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--limits", type=float, default=1, help="multiply the time that a calm may take")
    parser.add_argument("--keep", help="where folders of runs are made")
    parser.add_argument("--record", help="append a line of JSON to this file")
    parser.add_argument("--plan", action="store_true")
    arguments = parser.parse_args()
    if arguments.plan:
        world = draw_world(arguments.seed)
        print(json.dumps(world.words()))
        for number in range(5):
            for fault in draw_storm(world, number):
                print(number, json.dumps(vars(fault)))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
