# SPDX-License-Identifier: Apache-2.0
"""The harness itself: a member that fails for a reason of its own is heard at once."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cluster import LIMIT_S, Cluster, Member, Tell
from test_features import disturbed

from spotnik import PeersError


def failing(tell: Tell) -> None:
    raise ValueError("pool INTERNAL ASSERT FAILED")


def waiting(tell: Tell) -> None:
    signal.pause()


def test_who_fails_alone_is_heard_at_once(cluster: Callable[..., Cluster]) -> None:
    job = cluster(minimum=2)
    job.start(waiting)
    job.start(failing)
    begin = time.monotonic()
    with pytest.raises(RuntimeError, match="pool INTERNAL ASSERT FAILED"):
        job.wait()
    assert time.monotonic() - begin < LIMIT_S / 2, "it waited for the others"


def test_who_fails_last_leaves_its_error(cluster: Callable[..., Cluster]) -> None:
    job = cluster()
    job.start(failing)
    job.wait()
    assert "pool INTERNAL ASSERT FAILED" in job.errors()[0]


def finding_nobody(tell: Tell) -> None:
    raise PeersError("nobody has founded the job")


def finishing(tell: Tell) -> None:
    tell(done=1)


def test_who_comes_when_the_job_is_done_has_not_failed(cluster: Callable[..., Cluster]) -> None:
    job = cluster()
    job.start(finding_nobody)
    job.wait()
    assert "nobody has founded" in job.errors()[0], "the job was not done: it should have found somebody"
    for program in (finishing, failing):
        job.start(program)
        job.wait()
    assert ["ValueError" in error for error in job.errors()] == [True]


def left_behind(tell: Tell) -> None:
    tell(step=5)
    signal.pause()


def finishing_later(tell: Tell, step: int) -> None:
    signal.sigwait({signal.SIGUSR1})
    tell(step=step)
    tell(done=step)


def test_who_is_left_behind_is_sent_home(cluster: Callable[..., Cluster]) -> None:
    job = cluster()
    job.start(left_behind)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})  # inherited: it does not come too early
    last = job.start(finishing_later, step=20)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
    for _, line in job.events():
        if "step" in line and line["step"] == 5:
            job.kill(last, signal.SIGUSR1)
        if "done" in line:
            job.dismiss_latecomers()
    assert [member.status for member in job.members] == [-signal.SIGKILL, 0]


class Scripted(Cluster):
    """Members that are words on paper: (who, step, whether it repeats it). Nobody hears of a kill."""

    def __init__(self, words: list[tuple[int, int, bool]]) -> None:
        self.members, self.words, self.heard = [], words, 0
        self.kills: list[tuple[int, int]] = []  # (words heard, who)

    def start(self, program: Callable[..., Any], **settings: Any) -> Member:
        self.members.append(Member(-1, -1, len(self.members)))
        return self.members[-1]

    def kill(self, member: Member, number: int = signal.SIGKILL) -> None:
        self.kills.append((self.heard, member.number))

    def events(self, limit_s: float = LIMIT_S) -> Iterator[tuple[Member, dict[str, Any]]]:
        for who, step, replay in self.words:
            self.heard += 1
            self.members[who].lines.append({"step": step, "replay": replay})
            yield self.members[who], self.members[who].lines[-1]


def test_the_last_one_with_the_state_is_not_killed() -> None:
    """A death of all who have the state begins the job anew, and its steps cannot be compared with those before."""
    founder_alone = [(0, 6, False), (1, 6, True), (2, 6, True), (0, 7, False)]
    one_came_in = [(1, 8, False)]
    one_is_left = [(0, 20, False), (1, 20, False), (2, 20, True)]
    another_came_in = [(2, 21, False)]
    job = Scripted(founder_alone + one_came_in + one_is_left + another_came_in)
    disturbed(job, waiting, kills=2)
    assert [heard for heard, _ in job.kills] == [5, 9]
    assert len({who for _, who in job.kills}) == 2
