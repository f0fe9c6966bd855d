# SPDX-License-Identifier: Apache-2.0
"""A job on the hosts of tests/faults/hosts.py: its folder, its workers, and the one digest of each step."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))
from faults.hosts import CannotRunError, Hosts, ip
from faults.job import Job
from faults.process import Process

__all__ = ["PORT", "SPOTNIK", "STALE_MS", "WORKER", "CannotRunError", "Hosts", "Worker", "World", "ip"]

SPOTNIK, WORKER = (os.path.abspath(word) for word in sys.argv[1:3])
PATIENCE_S, STALE_MS, PORT, JOB = 90, 4000, 4100, "network-faults"


class World(Job):
    """A job of one scenario, on hosts."""

    def __init__(self, hosts: Hosts, root: Path, name: str) -> None:
        super().__init__(root / name, SPOTNIK)
        self.hosts, self.root, self.name = hosts, self.folder, name
        self.more: dict[str, str] = {}
        self.command = ["-c", "2000", "-n", "100000", "-b", "640", "-u", "2000"]
        self.workers: list[Worker] = self.processes

    def start(self, host: int, *prefix: str, **more: str) -> Worker:
        env = {
            "SPOTNIK_JOB": JOB,
            "SPOTNIK_BIND": f"{self.hosts.address(host)}:{PORT}",
            "SPOTNIK_HOST": f"{host}.{self.hosts.boots[host]}",
            "SPOTNIK_STALE_MS": str(STALE_MS),
            "SPOTNIK_MAX": "8",
            **self.more,
            **more,
        }
        words = self.hosts.on(host, *prefix, WORKER, "-e", "1", *self.command)
        worker: Worker = self.begin(*words, env=env, kind=Worker, world=self, host=host)
        return worker

    def forget_after(self, step: int) -> None:
        """What came after that step is as if it had never been."""
        self.digests = {at: digest for at, digest in self.digests.items() if at <= step}

    def fail(self, what: str) -> None:
        for worker in self.workers:
            print(
                f"  {worker.name}: step {worker.step}, size {worker.size}, ended {worker.process.poll()}: {worker.last}"
            )
        self.end()  # or its members keep the ports of the scenario that is next
        sys.exit(f"FAILED: {self.name}: {what}")

    def until(self, what: str, true: Callable[[], bool], patience_s: float = PATIENCE_S) -> float:
        begun = time.monotonic()
        while not true():
            if self.wrong:
                self.fail(self.wrong)
            if time.monotonic() > begun + patience_s:
                self.fail(f"waited {patience_s} s for {what}")
            time.sleep(0.02)
        return time.monotonic() - begun

    def go_on(self, workers: list[Worker], steps: int = 20) -> float:
        """Wait until all of these, and only these, have made `steps` more steps in one view."""
        step = max(worker.step for worker in workers) + steps
        return self.until(
            f"{len(workers)} in one view", lambda: all(w.step >= step and w.size == len(workers) for w in workers)
        )

    def waits(self, worker: Worker, members: list[Worker], seconds: float) -> None:
        """The members make steps for so long; the worker makes none, and does not give up."""
        begun, step = time.monotonic(), max(w.step for w in members)
        self.until(
            "members to go on", lambda: time.monotonic() > begun + seconds and all(w.step > step + 20 for w in members)
        )
        if worker.step or worker.process.poll() is not None:
            self.fail(f"{worker.name} did not wait")

    def foundings(self) -> list[str]:
        return sorted(path.name for path in self.peers.glob("genesis-*"))

    def status(self, host: int, *options: str, peers: str = "") -> str:
        """What `spotnik status` says on that host; "" where no member answers."""
        words = [SPOTNIK, "status", "--peers", peers or self.spec, "--key-file", str(self.key), "--job", JOB]
        words = self.hosts.on(host, *words, *options)
        return subprocess.run(words, check=False, capture_output=True, text=True, timeout=60).stdout

    def until_told(self, host: int, what: str) -> None:
        """The status of a process of that host, a member or not yet, has these words."""
        peers = f"{self.hosts.address(host)}:{PORT}"
        self.until(f"a status that says {what!r}", lambda: what in self.status(host, "--json", peers=peers))

    def exclusions(self) -> int:
        return sum(worker.exclusions for worker in self.workers)


class Worker(Process):
    """A process that reports its commits."""

    def __init__(self, *words: str, world: World, host: int, **more: Any) -> None:
        self.world, self.host, self.name = world, host, f"{host}:{len(world.workers)}"
        self.step = self.epoch = self.size = self.exclusions = self.before = 0
        self.digest, self.last, self.member, self.errors, self.steps = "", "", "", [], []  # type: ignore[var-annotated]
        self.commits: list[tuple[int, int, int]] = []  # when, how long after the one before, in a view of how many
        self.told: list[str] = []  # what `spotnik run` said of itself
        super().__init__(*words, **more)

    def on_line(self, line: str) -> None:
        self.last = line
        words = line.split()
        words = words[1:] if words and words[0].startswith("[w") else words  # `spotnik run` names its workers
        if not words:
            return
        if words[0] == "commit":
            if self.before and int(words[1]) == self.before + 1:
                self.world.settle(self.name, self.before, self.digest)
            self.digest = words[2]
            self.before = int(words[1])
            self.steps.append(self.before)  # first, so that whoever sees a step finds it here
            ns = int(words[6])
            self.commits.append((ns, ns - self.commits[-1][0] if self.commits else 0, int(words[4])))
            self.step, self.epoch, self.size = self.before, int(words[3]), int(words[4])
        elif words[0] in ("excluded", "joined"):
            self.exclusions += words[0] == "excluded"
            self.member = words[1] if words[0] == "joined" else self.member
            self.before = 0
        elif words[0] == "spotnik:":
            self.told.append(line)
        elif words[0] == "error":
            self.errors.append(" ".join(words[1:]))
            if words[1] == "0":  # its own checks of sums and samples
                self.world.wrong = f"{self.name}: {self.errors[-1]}"
