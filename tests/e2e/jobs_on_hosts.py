# SPDX-License-Identifier: Apache-2.0
"""A job on the hosts of tests/faults/hosts.py: its folder, its workers, and the one digest of each step."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from faults.hosts import CannotRunError, Hosts, ip

__all__ = ["PORT", "SPOTNIK", "STALE_MS", "WORKER", "CannotRunError", "Hosts", "Worker", "World", "ip"]

SPOTNIK, WORKER = (os.path.abspath(word) for word in sys.argv[1:3])
PATIENCE_S, STALE_MS, PORT = 90, 4000, 4100


class World:
    """A job of one scenario: its folder, its workers, and the one digest of each step."""

    def __init__(self, hosts: Hosts, root: Path, name: str) -> None:
        self.hosts, self.root, self.name = hosts, root / name, name
        self.root.mkdir()
        self.peers = self.root / "peers"
        self.peers.mkdir()
        (self.peers / "fresh").touch()  # made for this job alone
        self.spec = f"file:{self.peers}"
        subprocess.run([SPOTNIK, "key", str(self.root / "key")], check=True, capture_output=True)
        self.more: dict[str, str] = {}
        self.command = ["-c", "2000", "-n", "100000", "-b", "640", "-u", "2000"]
        self.workers: list[Worker] = []
        self.digests: dict[int, str] = {}
        self.wrong: str | None = None

    def start(self, host: int, *prefix: str, **more: str) -> Worker:
        worker = Worker(self, host, prefix, more)
        self.workers.append(worker)
        return worker

    def settle(self, worker: Worker, step: int, digest: str) -> None:
        if self.digests.setdefault(step, digest) != digest:
            self.wrong = f"{worker.name} has {digest} after step {step}, another had {self.digests[step]}"

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

    def exclusions(self) -> int:
        return sum(worker.exclusions for worker in self.workers)

    def end(self) -> None:
        for worker in self.workers:
            worker.process.kill()
            worker.process.wait()


class Worker:
    """A process that reports its commits."""

    def __init__(self, world: World, host: int, prefix: tuple[str, ...], more: dict[str, str]) -> None:
        self.world, self.name = world, f"{host}:{len(world.workers)}"
        self.step = self.epoch = self.size = self.exclusions = self.before = 0
        self.digest, self.last, self.errors, self.steps = "", "", [], []  # type: ignore[var-annotated]
        self.told: list[str] = []  # what `spotnik run` said of itself
        boot = f"{host}.{world.hosts.boots[host]}"
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SPOTNIK_")},
            "SPOTNIK_JOB": "neighbours",
            "SPOTNIK_KEY_FILE": str(world.root / "key"),
            "SPOTNIK_PEERS": world.spec,
            "SPOTNIK_BIND": f"{world.hosts.address(host)}:{PORT}",
            "SPOTNIK_HOST": boot,
            "SPOTNIK_STALE_MS": str(STALE_MS),
            "SPOTNIK_MAX": "8",
            **world.more,
            **more,
        }
        words = world.hosts.on(host, *prefix, WORKER, "-e", "1", *world.command)
        self.process = subprocess.Popen(
            words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def rest(self) -> None:
        """Wait for its end, and until all that it said is heard."""
        self.process.wait()
        self.reader.join()

    def read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.last = line.strip()
            words = line.split()
            words = words[1:] if words and words[0].startswith("[w") else words  # `spotnik run` names its workers
            if not words:
                continue
            if words[0] == "commit":
                if self.before and int(words[1]) == self.before + 1:
                    self.world.settle(self, self.before, self.digest)
                self.digest = words[2]
                self.before = int(words[1])
                self.steps.append(self.before)  # first, so that whoever sees a step finds it here
                self.step, self.epoch, self.size = self.before, int(words[3]), int(words[4])
            elif words[0] in ("excluded", "joined"):
                self.exclusions += words[0] == "excluded"
                self.before = 0
            elif words[0] == "spotnik:":
                self.told.append(self.last)
            elif words[0] == "error":
                self.errors.append(" ".join(words[1:]))
                if words[1] == "0":  # its own checks of sums and samples
                    self.world.wrong = f"{self.name}: {self.errors[-1]}"
