# SPDX-License-Identifier: Apache-2.0
"""A member whose compute takes as long as a file says: a test makes stragglers and mends them. One line a commit.

Usage: worker.py FOLDER JSON. FOLDER/pace-SLOT has the seconds of a step of the worker at that place; else PACE_S.
"""

from __future__ import annotations

import json
import os
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np

import spotnik

PACE_S = 0.04


def pace_s(folder: Path) -> float:
    try:
        return float((folder / f"pace-{os.environ['SPOTNIK_SLOT']}").read_text())
    except (FileNotFoundError, KeyError, ValueError):  # the last: it is being written
        return PACE_S


def train(folder: Path, count: int = 500, steps: int = 0, average_period: int = 0) -> None:
    job = spotnik.init(samples=64, batch=16, members_max=8, steps_max=steps)
    w = np.full(count, 5.0, dtype=np.float32)
    target = np.random.default_rng(1).standard_normal((64, 1)).astype(np.float32)

    def descend(model: Any, gradient: Any) -> None:
        model -= np.float32(0.1) * gradient

    sync = spotnik.Sync(job, w, descend, average_period=average_period)
    for step in job:
        ran, equal = sync.name, sync.same_bits
        indices = [index for part in step.ranges for index in part]
        time.sleep(0 if step.replay else pace_s(folder))
        gradient = (w - target[indices].mean() if indices else np.zeros_like(w)).astype(np.float32)
        if not sync.step(gradient):
            continue
        bits = zlib.crc32(w.tobytes()) if equal and sync.same_bits else None
        line = {"step": step.number, "size": step.size, "ran": ran, "agreed": sync.digest, "model": bits}
        line.update(pid=os.getpid(), slot=int(os.environ["SPOTNIK_SLOT"]), replay=step.replay)
        print(json.dumps(line), flush=True)
    spotnik.leave()


if __name__ == "__main__":
    try:
        train(Path(sys.argv[1]), **json.loads(sys.argv[2]))
    except spotnik.LeavingError:
        spotnik.leave()
        sys.exit(75)
