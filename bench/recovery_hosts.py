#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What TLS costs a recovery between hosts: members in network namespaces, one killed after another, mode by mode.

    sudo bench/recovery_hosts.py BUILD [--hosts 4] [--rate 1gbit] [--count 262144] [--kills 20] [--rounds 2] [--modes off psk]

The hosts are those of wire.py. Each member is a worker of the end-to-end tests, which all-reduces COUNT floats a step.
A kill's times are those of the survivor that was last: from SIGKILL to the evidence, from there to the new view, from
there to the commit. Then the host's next worker joins. Prints the median of each, and its ratio to the first mode. Needs
root, `ip` and `tc`; the hosts share this machine's processors.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import cast

from wire import NET, Network

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from faults.job import Job
from faults.process import Process

PHASES = ("detect", "view", "re-reduce", "total", "step")
STEPS = 10  # in a view before the next kill


class Member(Process):
    """The worker of a host. Keeps the size of its view, its steps in it, and its last recovery."""

    size = steps = 0
    before_ns = took_ns = 0
    lost: tuple[int, ...] = ()

    def on_line(self, line: str) -> None:
        words = line.split()
        if words[:1] == ["commit"]:
            self.steps = self.steps + 1 if int(words[4]) == self.size else 0
            self.size, self.took_ns = int(words[4]), int(words[6]) - self.before_ns
            self.before_ns = int(words[6])
        if words[:1] == ["recovery"] and int(words[2]):
            self.lost = tuple(map(int, words[4:]))  # detected, reconciled, accepted, restarted, committed


def start(network: Network, job: Job, build: Path, host: int, wanted: argparse.Namespace, tls: str) -> Member:
    hosts = range(wanted.hosts)
    peers = ",".join(f"{NET}.{i + 1}:4100" for i in hosts)
    where = {"SPOTNIK_PEERS": peers, "SPOTNIK_BIND": f"{NET}.{host + 1}:4100", "SPOTNIK_MIN": "2"}
    worker = [build / "tests/e2e/e2e-worker", "-c", str(wanted.count), "-D"]
    inside = ["ip", "netns", "exec", network.names[host]]
    env = {**where, "SPOTNIK_TRANSPORT": "tcp", "SPOTNIK_TLS": tls}
    return cast(Member, job.begin(*inside, *worker, kind=Member, env=env))


def settle(members: list[Member]) -> None:
    for member in members:
        member.wait_for("steps with all", lambda member=member: member.size == len(members) and member.steps >= STEPS)


def kill(members: list[Member], host: int) -> dict[str, float]:
    """Milliseconds of each phase."""
    others = [member for member in members if member is not members[host]]
    step = statistics.median(member.took_ns for member in members) / 1e6
    for other in others:
        other.lost = ()
    begun = time.monotonic_ns()
    members[host].process.send_signal(signal.SIGKILL)
    for other in others:
        other.wait_for("a recovery", lambda other=other: other.lost)
    last = max((other.lost for other in others), key=lambda lost: lost[-1])
    points = (begun, last[0], last[3], last[4])
    spans = [(later - before) / 1e6 for before, later in zip(points, points[1:])]
    return dict(zip(PHASES, (*spans, (last[4] - begun) / 1e6, step)))


def job_of(build: Path, wanted: argparse.Namespace, tls: str) -> list[dict[str, float]]:
    with Network(wanted, build / "bench") as network, tempfile.TemporaryDirectory() as folder:
        job = Job(Path(folder) / "job")
        try:
            members = [start(network, job, build, host, wanted, tls) for host in range(wanted.hosts)]
            found = []
            for number in range(wanted.kills):
                settle(members)
                host = number % wanted.hosts
                found.append(kill(members, host))
                members[host].rest()
                members[host] = start(network, job, build, host, wanted, tls)
            return found
        finally:
            job.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--count", type=int, default=262144, metavar="FLOATS")
    parser.add_argument("--kills", type=int, default=20, help="in a job")
    parser.add_argument("--rounds", type=int, default=2, help="jobs of each mode, by turns")
    parser.add_argument("--modes", nargs="+", default=["off", "psk"])
    parser.set_defaults(mtu=1500, delay=0, flow="", congestion="")
    wanted = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {mode: [] for mode in wanted.modes}
    for _ in range(wanted.rounds):
        for mode in wanted.modes:
            found[mode] += job_of(wanted.build.resolve(), wanted, mode)
    medians = {m: [statistics.median(kill[phase] for kill in found[m]) for phase in PHASES] for m in found}
    base = medians[wanted.modes[0]]
    print("| mode | kills | " + " | ".join(f"{phase}, ms" for phase in PHASES) + " |\n" + "|---" * 7 + "|")
    for mode, values in medians.items():
        cells = [f"{value:.2f} ({value / first:.2f})" for value, first in zip(values, base)]
        print(f"| {mode} | {len(found[mode])} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
