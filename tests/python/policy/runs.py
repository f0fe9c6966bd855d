# SPDX-License-Identifier: Apache-2.0
"""A job under `spotnik run`, heard line by line: what its members commit, what the log and `spotnik status` say.

Waits for lines, never for time; limits only end a test that hangs.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

import pytest

sys.path.append(str(Path(__file__).parents[2]))
import faults.job
from faults.process import Process

WORKER = Path(__file__).with_name("worker.py")
LIMIT_S = 150  # ends a test that hangs
SWITCHED = re.compile(r"step (\d+): (a?synchronous) from here on: (.*) \(")


class Job(faults.job.Job):
    """What all runs of one job have told so far."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.killed: set[int] = set()  #: processes
        self.lines: list[dict[str, Any]] = []  #: commits, in the order heard; each with the "run" it comes from
        self.log: list[str] = []
        self.heard = threading.Condition(threading.RLock())

    def run(self, *options: str, environment: Optional[dict[str, str]] = None, **settings: Any) -> Run:
        words = [*options, "--", sys.executable, WORKER, self.folder, json.dumps(settings)]
        run: Run = super().run(*words, env=environment, kind=Run, job=self, number=len(self.processes))
        return run

    def pace(self, slot: int, seconds: float) -> None:
        """What a step of the worker at that place takes from now on."""
        (self.folder / f"pace-{slot}").write_text(str(seconds))

    def until(self, is_true: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + LIMIT_S
        with self.heard:
            while not is_true():
                if not self.heard.wait(max(0, end - time.monotonic())):
                    pytest.fail(f"{what} did not come within {LIMIT_S} s; {self.lines[-4:]}, {self.log[-8:]}")

    @property
    def switches(self) -> list[tuple[int, str, str]]:
        """Step, mode and reason of each switch in the logs."""
        found = (SWITCHED.search(line) for line in self.log)
        return sorted({(int(hit[1]), hit[2], hit[3]) for hit in found if hit})

    def last(self) -> int:
        """The last step that anybody has told of."""
        return int(self.lines[-1]["step"]) if self.lines else 0

    def until_size(self, size: int) -> None:
        self.until(lambda: bool(self.lines) and self.lines[-1]["size"] == size, f"a view of {size}")

    def until_steps(self, more: int) -> None:
        """Wait for `more` steps from now."""
        goal = self.last() + more
        self.until(lambda: self.last() >= goal, f"step {goal}")

    def until_switches(self, count: int) -> None:
        """Wait until the log has `count` switches, and a step was committed since."""
        self.until(lambda: len(self.switches) >= count, f"switch number {count}")
        at = self.switches[-1][0]
        self.until(lambda: self.last() > at, f"a step after {at}")

    def status(self) -> str:
        words = [self.spotnik, "status", *self.where]
        return subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout


class Run(Process):
    """One `spotnik run`: the workers of one host."""

    def __init__(self, *words: Any, job: Job, number: int, **more: Any) -> None:
        self.job, self.number = job, number
        super().__init__(*words, limit_s=LIMIT_S, start_new_session=True, **more)

    def on_line(self, line: str) -> None:
        rest = line.partition("] ")[2]
        with self.job.heard:
            if rest.startswith("{"):
                self.job.lines.append({**json.loads(rest), "run": self.number})
            else:
                self.job.log.append(line)
            self.job.heard.notify_all()

    def pid(self, slot: int) -> int:
        """The worker at that place, as it told with its last step. Another member may have told of its view before."""

        def own() -> list[dict[str, Any]]:
            return [line for line in self.job.lines if (line["run"], line["slot"]) == (self.number, slot)]

        with self.job.heard:
            assert self.job.heard.wait_for(own, LIMIT_S), f"the worker at place {slot} made no step"
            return int(own()[-1]["pid"])

    def revoke(self, slot: int) -> None:
        """One worker."""
        self._kill(self.pid(slot))

    def _kill(self, pid: int) -> None:
        self.job.killed.add(pid)
        os.kill(pid, signal.SIGKILL)

    def replace(self, slot: int) -> None:
        """Revoke one worker, of a run with --respawn; returns when another at its place has committed a step."""
        old = self.pid(slot)
        self._kill(old)

        def is_back() -> bool:
            own = [line for line in self.job.lines if (line["run"], line["slot"]) == (self.number, slot)]
            return own[-1]["pid"] != old and not own[-1]["replay"]

        self.job.until(is_back, f"a replacement for worker {slot}")

    def vanish(self) -> None:
        """Revoke the host: the agent and all its workers at once."""
        with self.job.heard:
            pids = {line["slot"]: int(line["pid"]) for line in self.job.lines if line["run"] == self.number}
        for pid in [self.process.pid, *pids.values()]:
            with contextlib.suppress(ProcessLookupError):
                self._kill(pid)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.vanish()
        super().kill()
