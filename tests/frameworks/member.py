# SPDX-License-Identifier: Apache-2.0
"""What the members have in common: lines of JSON, steps of PACE seconds at least, a death at step DIE_AT."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

_steps = 0  # that this process has told


def tell(**what: Any) -> None:
    """Write a line; all members die at step DIE_AT, which is as a power cut."""
    print(json.dumps(what), flush=True)
    if what.get("step", 0) >= int(os.environ.get("DIE_AT", "1000000")):
        os.kill(os.getpid(), signal.SIGKILL)
    if "step" in what:
        _pace()


def _pace() -> None:
    """A training lasts as long as kills need to come: the later, the slower; not at all when enough came."""
    global _steps
    _steps += 1
    enough = os.environ.get("ENOUGH")
    if not enough or not Path(enough).exists():
        factor = 1 if not enough or _steps <= 20 else 4 if _steps <= 30 else 16
        time.sleep(factor * float(os.environ.get("PACE", "0")))
