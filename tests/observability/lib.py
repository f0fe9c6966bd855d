# SPDX-License-Identifier: Apache-2.0
"""A job to look at: started with SPOTNIK_HTTP, asked over HTTP, ended without leaving anything behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from typing import Any, Optional

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from faults.process import environment as clean_environment
from faults.process import skip, wait_for

__all__ = ["Job", "get", "is_worker", "metric", "port_of", "skip", "wait_for"]


def get(url: str, token: Optional[str] = None, host: Optional[str] = None) -> tuple[int, str]:
    """Status and body; 0 when nobody answers."""
    request = urllib.request.Request(url)
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    if host:
        request.add_header("Host", host)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def metric(text: str, name: str) -> float:
    """The value of the sample whose name, with labels, is this one."""
    for line in text.splitlines():
        if line.startswith(name + " "):
            return float(line.rsplit(" ", 1)[1])
    raise AssertionError(f"no metric {name} in:\n{text}")


def is_worker(pid: int) -> bool:
    """Has this process become the program that the agent was given?"""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return b"\0SPOTNIK_SLOT=" in b"\0" + file.read()
    except OSError:  # it has ended
        return False


class Job:
    """Workers under `spotnik run`, in a folder of their own."""

    def __init__(self, spotnik: str, options: list[str], command: list[str], environment: Optional[dict[str, str]] = None) -> None:
        self.folder = tempfile.mkdtemp(prefix="spotnik-seeing-")
        self.out = open(os.path.join(self.folder, "out"), "wb")
        self.err = open(os.path.join(self.folder, "err"), "wb")
        # Nobody is lost but who is killed: a loaded machine may not let a member speak for long.
        settings = clean_environment(**{"SPOTNIK_HTTP": "127.0.0.1:0", "SPOTNIK_SILENCE_MS": "30000", **(environment or {})})
        self.process = subprocess.Popen(
            [spotnik, "run", *options, "--", *command], stdout=self.out, stderr=self.err, env=settings, cwd=self.folder
        )

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.out.close()
        self.err.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def said(self, which: str = "err") -> str:
        """What was written so far."""
        with open(os.path.join(self.folder, which), encoding="utf-8", errors="replace") as file:
            return file.read()

    def path(self, name: str) -> str:
        """A path in the job's folder."""
        return os.path.join(self.folder, name)

    def workers(self) -> list[int]:
        """Processes of the running workers: the agent has other children, too."""
        path = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        with open(path, encoding="ascii") as file:
            return [pid for pid in map(int, file.read().split()) if is_worker(pid)]

    def events(self, folder: str) -> list[dict[str, Any]]:
        """All lines of the event log, by date."""
        lines = []
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                lines += [json.loads(line) for line in file if line.endswith("\n")]
        return sorted(lines, key=lambda line: line["t"])


def port_of(job: Job, folder: str) -> list[str]:
    """Addresses of the pages, as the event log names them."""
    if not os.path.isdir(folder):
        return []
    started = [line["text"] for line in job.events(folder) if line["id"] == "S100"]
    return [text.rsplit("http://", 1)[1] for text in started if "http://" in text]
