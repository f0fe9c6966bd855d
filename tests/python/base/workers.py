# SPDX-License-Identifier: Apache-2.0
"""Members as processes of their own: started, heard line by line, killed. Waits for lines, never for time.

A member is a function of ``programs.py``, named with its keyword arguments; what it prints is JSON, one value a line.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import secrets
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Optional

import pytest

PROGRAMS = Path(__file__).with_name("programs.py")
LIMIT_S = 120  # of silence: ends a test that hangs
PLACE = ("SPOTNIK_SLOT", "SPOTNIK_SLOTS_FD", "SPOTNIK_SLOTS_PID")
KEPT_OUT = ("SPOTNIK_PEERS", "SPOTNIK_KEY_FILE", "SPOTNIK_JOB", "SPOTNIK_BIND", *PLACE)


def command(program: str, **settings: Any) -> list[str]:
    return [sys.executable, str(PROGRAMS), program, json.dumps(settings)]


class Worker:
    """One process."""

    def __init__(self, program: str, environment: dict[str, str], **settings: Any) -> None:
        kept = {name: value for name, value in os.environ.items() if name not in KEPT_OUT}
        self.process = subprocess.Popen(
            command(program, **settings),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**kept, **environment},
            start_new_session=True,
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def hear(self) -> Any:
        """The next line; fails when there is none any more, or none comes."""
        try:
            line = self._lines.get(timeout=LIMIT_S)
        except queue.Empty:
            self.signal(signal.SIGABRT)
            pytest.fail(f"{self.process.args!r} says nothing; it was in {self.end()[1]}")
        assert line, f"{self.process.args!r} ended: {self.end()}"
        return json.loads(line)

    def rest(self) -> list[Any]:
        """All lines that are left, of a process that has ended."""
        self._reader.join()
        return [json.loads(line) for line in iter(self._lines.get, "")]

    def kill(self) -> None:
        """This process alone, not what it forked."""
        self.process.send_signal(signal.SIGKILL)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> tuple[int, str]:
        """Exit status (minus the signal) and what was written to standard error."""
        assert self.process.stderr is not None
        status = self.process.wait(timeout=LIMIT_S)
        return status, self.process.stderr.read()

    def clean(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


class Cluster:
    """The members of one job, on this host; without an agent, so that they learn of deaths by their connections."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workers: list[Worker] = []
        (folder / "peers").mkdir()
        (folder / "peers" / "fresh").touch()  # nobody was here before
        self.key = self.key_new("key")

    def key_new(self, name: str) -> Path:
        key = self.folder / name
        key.touch(mode=0o600)
        key.write_text(secrets.token_hex(32) + "\n")
        return key

    @property
    def environment(self) -> dict[str, str]:
        return {"SPOTNIK_PEERS": f"file:{self.folder / 'peers'}", "SPOTNIK_KEY_FILE": str(self.key)}

    def start(self, program: str, environment: Optional[dict[str, str]] = None, **settings: Any) -> Worker:
        worker = Worker(program, {**self.environment, **(environment or {})}, **settings)
        self.workers.append(worker)
        return worker

    def start_alone(self, program: str, **settings: Any) -> Worker:
        """A job of one, which meets nobody."""
        worker = Worker(program, {}, **settings)
        self.workers.append(worker)
        return worker

    def clean(self) -> None:
        for worker in self.workers:
            worker.clean()
