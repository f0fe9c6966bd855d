# SPDX-License-Identifier: Apache-2.0
"""``python -m spotnik run ...``: the command, for those whose PATH does not have it."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path


def command() -> str:
    """Return the path of the command beside this Python, else in PATH."""
    own = Path(sysconfig.get_path("scripts")) / "spotnik"
    found = str(own) if own.exists() else shutil.which("spotnik")
    if found is None:
        sys.exit("spotnik: the command is not installed; pip install spotnik brings it, or add its folder to PATH")
    return found


if __name__ == "__main__":
    path = command()
    os.execv(path, [path, *sys.argv[1:]])
