# SPDX-License-Identifier: Apache-2.0
"""What the members have in common: lines of JSON, steps of PACE seconds at least, a death at step DIE_AT."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any


def tell(**what: Any) -> None:
    """Write a line; all members die at step DIE_AT, which is as a power cut."""
    print(json.dumps(what), flush=True)
    if what.get("step", 0) >= int(os.environ.get("DIE_AT", "1000000")):
        os.kill(os.getpid(), signal.SIGKILL)
    if "step" in what:
        time.sleep(float(os.environ.get("PACE", "0")))  # a training that lasts as long as kills need to come
