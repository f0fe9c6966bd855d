# SPDX-License-Identifier: Apache-2.0
"""Members as processes of their own: started, heard line by line, killed. Waits for lines, never for time.

A member is a function of ``programs.py``, named with its keyword arguments; what it prints is JSON, one value a line.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Optional

sys.path.append(str(Path(__file__).parents[2]))
from faults.job import Job
from faults.process import Process, environment

PROGRAMS = Path(__file__).with_name("programs.py")
LIMIT_S = 120  # of silence: ends a test that hangs


def command(program: str, **settings: Any) -> list[str]:
    return [sys.executable, str(PROGRAMS), program, json.dumps(settings)]


class Worker(Process):
    """One process."""

    def __init__(self, *words: Any, **more: Any) -> None:
        super().__init__(*words, limit_s=LIMIT_S, stderr=subprocess.PIPE, start_new_session=True, **more)

    def said(self) -> str:
        """Where it was."""
        self.send(signal.SIGABRT)
        return self.ended()[1]

    def hear(self) -> Any:
        """The next line."""
        return json.loads(self.until(""))

    def left(self) -> list[Any]:
        """All lines that are left, of a process that has ended."""
        self.rest()
        return [json.loads(line) for line in self.kept[self.at :]]

    def ended(self) -> tuple[int, str]:
        """Exit status (minus the signal) and what was written to standard error."""
        assert self.process.stderr is not None
        status = self.process.wait(timeout=LIMIT_S)
        return status, self.process.stderr.read()


class Cluster(Job):
    """The members of one job, on this host; without an agent, so that they learn of deaths by their connections."""

    def start(self, program: str, env: Optional[dict[str, str]] = None, **settings: Any) -> Any:
        return self.begin(*command(program, **settings), env=env, kind=Worker)

    def start_alone(self, program: str, **settings: Any) -> Any:
        """A job of one, which meets nobody."""
        self.processes.append(Worker(*command(program, **settings), env=environment()))
        return self.processes[-1]
