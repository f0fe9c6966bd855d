# SPDX-License-Identifier: Apache-2.0
"""What the members have in common: lines of JSON, and a death at a step when DIE_AT asks for it."""

from __future__ import annotations

import json
import os
import signal
from typing import Any


def tell(**what: Any) -> None:
    """Write a line; all members die at step DIE_AT, which is as a power cut."""
    print(json.dumps(what), flush=True)
    if what.get("step", 0) >= int(os.environ.get("DIE_AT", "1000000")):
        os.kill(os.getpid(), signal.SIGKILL)
