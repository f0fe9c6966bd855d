# SPDX-License-Identifier: Apache-2.0
"""``python -m spotnik.demo``: a model trains while its workers are killed. Takes two minutes, and the wheel alone.

The programs and the script are those of ``make demo``. The report goes to ``spotnik-demo.html`` in the working folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from .__main__ import command

_TEXT_BYTES = 1 << 20


def _text() -> bytes:
    """The text that the model learns: Python's own library, which lies wherever Python is."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return b"".join(file.read_bytes() for file in files)[:_TEXT_BYTES]


def main() -> int:
    """Run the demo. Returns its exit status: 0 when every promise in the table was kept."""
    programs = Path(__file__).resolve().parent / "_demo"
    if not programs.is_dir():
        sys.exit("spotnik.demo: the wheel has the demo's programs; in a source tree run `make demo` instead")
    with tempfile.NamedTemporaryFile() as text:
        text.write(_text())
        text.flush()
        settings = {"DEMO_TEXT": text.name, "DEMO_REPORT": "spotnik-demo", "SPOTNIK_PYTHON": sys.executable}
        return subprocess.call([str(programs / "demo.sh"), str(programs), command()], env={**settings, **os.environ})


if __name__ == "__main__":
    sys.exit(main())
