# SPDX-License-Identifier: Apache-2.0
"""Is this process one of several that are a member together? ``spotnik run --group`` or torchrun decides it.

Under torchrun it is where the program has made a process group of all processes of this host, and of no others.
"""

from __future__ import annotations

import os
from typing import Optional

import torch.distributed

from ..config import Config
from ..group_job import GroupJob, Place, place
from ..job import Job

ALONE = Place("alone", 0, 1)


def place_here() -> Optional[Place]:
    """The place of this process in its group; None: it is a member by itself."""
    return place() or _under_torchrun()


def _under_torchrun() -> Optional[Place]:
    run, size = os.environ.get("TORCHELASTIC_RUN_ID"), os.environ.get("LOCAL_WORLD_SIZE", "")
    if run is None or not size.isdigit() or size != os.environ.get("WORLD_SIZE") or process_group_size() != int(size):
        return None
    start = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    name = f"torchrun-{run}-{os.environ.get('MASTER_PORT')}-{start}"
    return Place(name, int(os.environ["LOCAL_RANK"]), int(size)) if int(size) > 1 else None


def process_group_size() -> int:
    """Of the program's process group; 0: there is none."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return 0
    return torch.distributed.get_world_size()


def make_job(config: Config, is_sharded: bool = False) -> Job:
    """The job of this process, or of its group; not joined yet. A sharded model is held by a group, be it of one."""
    where = place_here() or (ALONE if is_sharded else None)
    return GroupJob(config, where) if where is not None else Job(config)
