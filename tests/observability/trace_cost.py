# SPDX-License-Identifier: Apache-2.0
"""Claim: a trace adds few instructions to a step, and few bytes to its file, whatever else this machine does. They are counted under
callgrind with and without SPOTNIK_TRACE, over two lengths of one job, so that what is not of the steps cancels out.

With printf they were 45,000, and 9 of the 92 µs that the shortest step of 4 MiB takes. Digit by digit they were 5,200.

    trace_cost.py TRACE_STEPS
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from lib import skip

SHORT, LONG = 500, 2500
MOST_INSTRUCTIONS, MOST_BYTES = 800, 150
PROGRAM = os.path.abspath(sys.argv[1])


def run(steps: int, trace: bool) -> tuple[int, int]:
    """Instructions of the whole process, all threads; bytes of its trace."""
    with tempfile.TemporaryDirectory(prefix="spotnik-cost-") as folder:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SPOTNIK_")}
        if trace:
            environment["SPOTNIK_TRACE"] = folder + "/trace"
        done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", PROGRAM, str(steps)], env=environment, cwd=folder,
                              capture_output=True, text=True, check=False)
        counted = re.search(r"Collected : (\d+)", done.stderr)
        assert done.returncode == 0 and counted, done.stderr[-2000:]
        return int(counted.group(1)), sum(path.stat().st_size for path in Path(folder).glob("trace/*.trace"))


def a_step(trace: bool) -> tuple[float, float]:
    short, long = run(SHORT, trace), run(LONG, trace)
    return (long[0] - short[0]) / (LONG - SHORT), (long[1] - short[1]) / (LONG - SHORT)


def main() -> None:
    if not shutil.which("valgrind"):
        skip("no callgrind here (Debian: valgrind)")
    without, _ = a_step(False)
    traced, size = a_step(True)
    print(f"a step: {without:.0f} instructions; with a trace {traced - without:.0f} more, and {size:.0f} bytes")
    assert without > 1000, "callgrind counted no steps"
    assert size > 100, "no trace was written"
    assert traced - without < MOST_INSTRUCTIONS, f"a trace takes {traced - without:.0f} instructions a step"
    assert size < MOST_BYTES, f"a trace takes {size:.0f} bytes a step"


if __name__ == "__main__":
    main()
