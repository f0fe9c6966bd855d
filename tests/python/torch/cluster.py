# SPDX-License-Identifier: Apache-2.0
"""Members of a job as forks of the test process, which has PyTorch loaded already: they start in milliseconds.

Each tells what it does in JSON lines through a pipe; the test waits for lines, never for time. The test process itself
never joins a job and never runs backward(): both would be inherited.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import os
import secrets
import selectors
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Optional

import torch
import torch._dynamo  # optimisers import it, which takes seconds: once here, not in every member

LIMIT_S = 120.0  #: of silence: ends a test that hangs
TOTAL = 5  #: times as long in all: ends one whose members go on for ever
torch.set_num_threads(1)

Tell = Callable[..., None]


@dataclasses.dataclass
class Member:
    pid: int
    pipe: int
    number: int
    text: bytes = b""
    status: Optional[int] = None  # exit status, or minus the signal
    lines: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    @property
    def running(self) -> bool:
        return self.status is None


def _run(program: Callable[..., Any], pipe: int, settings: dict[str, Any]) -> None:
    """In the child."""

    def tell(**what: Any) -> None:
        os.write(pipe, json.dumps(what).encode() + b"\n")

    status = 1
    gc.freeze()  # else looking through all objects, as prepare() does for schedulers, copies all their memory
    # PyTorch replaces the thread pool that a fork inherits at its first use, and of two that come first together
    # one fails with "Invalid thread pool!" (pytorch issue 75147). Compiled code and backward() bring threads: so it is
    # done here, alone.
    torch.set_num_threads(1)
    try:
        program(tell, **settings)
        status = 0
        from spotnik.torch import leave

        leave()
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException as error:
        tell(error=type(error).__name__, text=str(error), trace=traceback.format_exc()[-2000:])
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


class Cluster:
    """Starts, kills and hears the members of one job. A later life of it needs the same key file."""

    def __init__(self, folder: Path, minimum: int = 1, key: Optional[Path] = None) -> None:
        self.folder = folder
        self.members: list[Member] = []
        self._selector = selectors.DefaultSelector()
        self._table = -1
        if not (folder / "peers").exists():
            (folder / "peers").mkdir()
            (folder / "peers" / "fresh").touch()  # nobody was here before
        key = key or folder / "key"
        if not key.exists():
            key.write_text(secrets.token_hex(32) + "\n")
            key.chmod(0o600)
        self.environment = {
            "SPOTNIK_PEERS": f"file:{folder / 'peers'}",
            "SPOTNIK_KEY_FILE": str(key),
            "SPOTNIK_MIN": str(minimum),
        }

    def gather(self, members: int) -> None:
        """Have the first step wait for `members`, as `spotnik run -n` does: by the head of its table (link/slots.h)."""
        table = os.memfd_create("slots", 0)
        os.ftruncate(table, 64 + 64 * (128 + 16 * 416))  # the head, 64 slots, and room for 16 messages of each
        os.pwrite(table, struct.pack("<5I", 0x746F6C73, 3, 64, members, 0), 0)
        self.environment["SPOTNIK_SLOTS_FD"] = str(table)
        self._table = table

    def stands(self) -> list[tuple[int, int, int]]:
        """What each member tells `spotnik run`: its last step; members that are there, and that it waits for (or 0)."""
        found = []
        for number in range(len(self.members)):
            step, here, needed = struct.unpack("<Q2I", os.pread(self._table, 16, 64 + 128 * number + 64))
            found.append((step, here, needed))
        return found

    def start(self, program: Callable[..., Any], **settings: Any) -> Member:
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.environ.update(self.environment, SPOTNIK_SLOT=str(len(self.members)))
            _run(program, write, settings)
        os.close(write)
        member = Member(pid, read, len(self.members))
        self.members.append(member)
        self._selector.register(read, selectors.EVENT_READ, member)
        return member

    def kill(self, member: Member, number: int = signal.SIGKILL) -> None:
        os.kill(member.pid, number)

    def events(self, limit_s: float = LIMIT_S) -> Iterator[tuple[Member, dict[str, Any]]]:
        """Lines as they come; ends when no member runs any more. A member that ends is told as {"ended": status}.

        Fails after `limit_s` of silence, and after TOTAL times as long in all.
        """
        until = time.monotonic() + TOTAL * limit_s
        while self._selector.get_map():
            ready = self._selector.select(timeout=limit_s)
            if not ready or time.monotonic() > until:
                what = "it does not end" if ready else "nothing happens"
                raise TimeoutError(f"{what}; last words: {[(m.status, m.lines[-1:]) for m in self.members]}")
            for key, _ in ready:
                yield from self._hear(key.data)

    def _hear(self, member: Member) -> Iterator[tuple[Member, dict[str, Any]]]:
        data = os.read(member.pipe, 1 << 16)
        if not data:
            self._selector.unregister(member.pipe)
            os.close(member.pipe)
            _, status = os.waitpid(member.pid, 0)
            member.status = os.waitstatus_to_exitcode(status)
            yield member, {"ended": member.status}
            return
        *lines, member.text = (member.text + data).split(b"\n")
        for line in lines:
            member.lines.append(json.loads(line))
            yield member, member.lines[-1]

    def dismiss_latecomers(self) -> None:
        """The job is done: who came too late, or was left behind, would wait for others for ever.

        `spotnik run` sends such members home. A member is left behind when a busy machine stops it for seconds, and one
        that still repeats steps may be near the end and yet have no part in it.
        """
        last = max(self._last_step(member) for member in self.members if any("done" in line for line in member.lines))
        for member in self.members:
            if member.running and (self._last_step(member) < last - 2 or self._repeats(member)):
                self.kill(member)

    @staticmethod
    def _last_step(member: Member) -> int:
        return max((int(line["step"]) for line in member.lines if "step" in line), default=-1)

    @staticmethod
    def _repeats(member: Member) -> bool:
        steps = [line for line in member.lines if "step" in line]
        return not steps or bool(steps[-1].get("replay"))

    def wait(self, limit_s: float = LIMIT_S) -> None:
        """Until all have ended. When one fails while others run, they may wait for it in vain: its error is raised."""
        for member, line in self.events(limit_s):
            failed = line.get("ended") == 1 and any("error" in told for told in member.lines)
            if failed and any(other.running for other in self.members):
                raise RuntimeError("a member failed while others ran: " + "".join(self.errors()))

    def lines(self, key: str) -> list[dict[str, Any]]:
        return [line for member in self.members for line in member.lines if key in line]

    def errors(self) -> list[str]:
        """Errors of members, but for those that came when the job was done and so found nobody."""
        return [
            f"member {member.number}: {line['error']}: {line['text']}\n{line['trace']}"
            for member in self.members
            for line in member.lines
            if "error" in line and not self._came_too_late(member)
        ]

    def _came_too_late(self, member: Member) -> bool:
        """On a busy machine the test hears of a step, and starts a member, when the job has run on to its end."""
        found_nobody = [line.get("error") for line in member.lines] == ["PeersError"]
        return found_nobody and bool(self.lines("done"))

    def close(self) -> None:
        for member in self.members:
            if member.running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(member.pid, signal.SIGKILL)
                os.waitpid(member.pid, 0)
                member.status = -signal.SIGKILL
                os.close(member.pipe)
        self._selector.close()
        if self._table >= 0:
            os.close(self._table)


def alone(
    program: Callable[..., Any], where: Path, key: Optional[Path] = None, **settings: Any
) -> list[dict[str, Any]]:
    """Run a program as a job of one, or as no job at all, and return what it told. `key` has signed its checkpoints."""
    cluster = Cluster(where)
    cluster.environment = {"SPOTNIK_KEY_FILE": str(key)} if key else {}
    try:
        member = cluster.start(program, **settings)
        cluster.wait()
    finally:
        cluster.close()
    assert member.status == 0, cluster.errors() or member.status
    return member.lines
