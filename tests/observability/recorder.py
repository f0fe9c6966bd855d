# SPDX-License-Identifier: Apache-2.0
"""Claims: what the flight recorder of a churned job has kept runs through the core again and comes out the same, over shared memory and
over TCP, also after the record has been written over; a member that was stopped and excluded leaves a dump by itself; a dump that was
spoilt is not taken for one that comes out the same; `spotnik status --dump` says where the files are.

    recorder.py SPOTNIK CHARLM
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from lib import Job, wait_for

SPOTNIK, CHARLM = map(os.path.abspath, sys.argv[1:3])


def ask(*command: str, status: int = 0) -> str:
    """What it says; the status is checked."""
    done = subprocess.run([SPOTNIK, *command], capture_output=True, text=True, timeout=120)
    assert done.returncode == status, f"{command} ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr}"
    return done.stdout + done.stderr


class Recorded(Job):
    """A job whose members leave their dumps in its folder `dumps`."""

    def __init__(self, options: list[str]) -> None:
        self.top = tempfile.mkdtemp(prefix="spotnik-recorder-")
        self.at = ["--peers", f"file:{self.top}/job", "--key-file", f"{self.top}/key"]
        self.dumps = Path(self.top) / "dumps"
        os.mkdir(f"{self.top}/job")
        ask("key", f"{self.top}/key")
        settings = {"SPOTNIK_DUMP": str(self.dumps), "SPOTNIK_HTTP": "", "SPOTNIK_SILENCE_MS": "250"}  # one that stands still is lost
        super().__init__(SPOTNIK, ["-n", "2:4", *self.at, *options], [CHARLM, "--steps", "0", "--quiet"], settings)

    def __exit__(self, *what: object) -> None:
        super().__exit__(*what)
        shutil.rmtree(self.top, ignore_errors=True)

    def size(self) -> int:
        """Of the view, as the first member that answers knows it; 0: nobody answers."""
        done = subprocess.run([SPOTNIK, "status", "--json", *self.at], capture_output=True, text=True, timeout=60)
        return int(json.loads(done.stdout)["size"]) if done.stdout.startswith("{") else 0


def churned(transport: str) -> None:
    """Three losses, and then the record of everybody that is there."""
    with Recorded(["--respawn", "--kill-every", "700ms", "--transport", transport]) as job:
        wait_for("three losses", lambda: job.said().count(" lost (SIGKILL)") >= 3)
        said = wait_for("dumps of two", lambda: dump(job))
        paths = re.findall(r" (/\S+\.dump)$", said, re.MULTILINE)
        for path in paths:
            assert re.search(r"[1-9]\d* events, [1-9]\d* actions as recorded", ask("replay", "--check", path))
        story = "".join(ask("replay", path) for path in paths)
        assert "- view " in story and "> message of" in story and re.search("> (death of|link down of .*gone)", story), story[:2000]
        spoilt(paths[0])


def dump(job: Recorded) -> str:
    """What `spotnik status --dump` says, if two members have written; some are about to be killed."""
    done = subprocess.run([SPOTNIK, "status", "--dump", *job.at], capture_output=True, text=True, timeout=60)
    return done.stdout if done.stdout.count(".dump") >= 2 and all(map(os.path.exists, re.findall(r"/\S+\.dump", done.stdout))) else ""


def spoilt(path: str) -> None:
    """The record of a commit is changed, and then the file is cut."""
    whole = Path(path).read_bytes()
    cut = Path(path + ".cut")
    cut.write_bytes(whole[: len(whole) - 1000])
    assert "damaged or cut off" in ask("replay", "--check", str(cut), status=1)
    cut.write_bytes(b"no dump")
    ask("replay", str(cut), status=2)
    changed = bytearray(whole)
    action = whole.rindex(b"\x30\0\0\0\2")  # the last record of an action: 48 bytes
    changed[action + 5] ^= 1  # its kind
    cut.write_bytes(bytes(changed))
    assert "goes another way" in ask("replay", "--check", str(cut), status=1)
    changed[action + 5] = 200
    cut.write_bytes(bytes(changed))
    assert "a record is damaged: there is no action 200" in ask("replay", "--check", str(cut), status=1)
    changed[action + 4] = 3  # a frame that was placed, and no frame follows
    cut.write_bytes(bytes(changed))
    assert "a record is damaged: it has no frame" in ask("replay", "--check", str(cut), status=1)


def excluded() -> None:
    """One that stands still until the others have gone on finds out, and leaves its record."""
    with Recorded([]) as job:
        wait_for("four members", lambda: job.size() == 4)
        victim = job.workers()[0]
        os.kill(victim, signal.SIGSTOP)
        try:
            wait_for("the others to go on", lambda: job.size() == 3)
        finally:
            os.kill(victim, signal.SIGCONT)
        path = wait_for("its dump", lambda: list(job.dumps.glob(f"*-{victim}-*.dump")))[0]
        assert "went on without this member" in ask("replay", str(path))


if __name__ == "__main__":
    churned("shm")
    churned("tcp")
    excluded()
