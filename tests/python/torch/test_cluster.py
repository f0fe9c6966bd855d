# SPDX-License-Identifier: Apache-2.0
"""The harness itself: a member that fails for a reason of its own is heard at once."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest
from cluster import LIMIT_S, Cluster, Tell


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
