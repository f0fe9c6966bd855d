# SPDX-License-Identifier: Apache-2.0
"""The harness itself: a member that fails for a reason of its own is heard at once."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest
from cluster import LIMIT_S, Cluster, Tell

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
