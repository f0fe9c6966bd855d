# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training on machines that may vanish at any moment.

This module needs no framework; with NumPy it has collectives on arrays. ``spotnik.torch`` is for PyTorch.
"""

from __future__ import annotations

from .apart import Arrival, Request, exchange, publish, pull, settle
from .arrays import (
    allgather,
    allreduce,
    barrier,
    broadcast,
    current,
    init,
    leave,
    on_change,
    register,
    start,
)
from .errors import (
    EXIT_INTERRUPTED,
    ArgumentError,
    CheckpointError,
    ClosedError,
    DoneError,
    ExcludedError,
    ForkError,
    JobNameError,
    KeyFileError,
    LeavingError,
    LibraryError,
    LimitError,
    MismatchError,
    NoMemoryError,
    ParkedError,
    PeersError,
    RootError,
    SpotnikError,
    StateError,
    SystemCallError,
    VersionError,
)
from .job import Change, CheckpointStatus, Config, Dtype, Job, Member, Op, Recovery, Status, Step, leave_on_sigterm
from .sync import Rule, Sync, Vectors

__version__ = "0.1.0"

__all__ = [
    "EXIT_INTERRUPTED",
    "ArgumentError",
    "Arrival",
    "Change",
    "CheckpointError",
    "CheckpointStatus",
    "ClosedError",
    "Config",
    "DoneError",
    "Dtype",
    "ExcludedError",
    "ForkError",
    "Job",
    "JobNameError",
    "KeyFileError",
    "LeavingError",
    "LibraryError",
    "LimitError",
    "Member",
    "MismatchError",
    "NoMemoryError",
    "Op",
    "ParkedError",
    "PeersError",
    "Recovery",
    "Request",
    "RootError",
    "Rule",
    "SpotnikError",
    "StateError",
    "Status",
    "Step",
    "Sync",
    "SystemCallError",
    "Vectors",
    "VersionError",
    "allgather",
    "allreduce",
    "barrier",
    "broadcast",
    "current",
    "exchange",
    "init",
    "leave",
    "leave_on_sigterm",
    "on_change",
    "publish",
    "pull",
    "register",
    "settle",
    "start",
]
