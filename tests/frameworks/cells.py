# SPDX-License-Identifier: Apache-2.0
"""The table of docs/results/frameworks.md: what each test of test_members.py saw, one line of JSON in SPOTNIK_CELLS.

Usage: python3 cells.py FILE prints it as Markdown. A cell that FILE has is not run again.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Optional

FACES = ("keras-jax", "keras-tensorflow", "keras-torch", "tape-eager", "tape-graph", "jax", "jax-inside")
PROGRAMS = ("mlp", "conv", "transformer")
CASES = ("alone", "three members", "kills", "total loss")


def _read(path: Path) -> dict[tuple[str, str, str], str]:
    lines = path.read_text().splitlines() if path.exists() else []
    return {(one["face"], one["program"], one["case"]): one["seen"] for one in map(json.loads, lines)}


def _file() -> Optional[Path]:
    name = os.environ.get("SPOTNIK_CELLS")
    return Path(name) if name else None


@contextmanager
def cell(subject: Any, case: str) -> Iterator[list[str]]:
    """Write down what the test appends, unless it fails; skip the test whose cell is there."""
    import pytest

    path = _file()
    if path and (subject.host, subject.program, case) in _read(path):
        pytest.skip(f"{path} has this cell")
    seen: list[str] = []
    yield seen
    if path:
        line = {"face": subject.host, "program": subject.program, "case": case, "seen": ", ".join(seen)}
        with path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def table(path: Path) -> str:
    """The cells of `path`, a line for each face and program."""
    found = _read(path)
    lines = [f"| face | program | {' | '.join(CASES)} |", "|---" * (2 + len(CASES)) + "|"]
    for face, program in itertools.product(FACES, PROGRAMS):
        cells = [found.get((face, program, case), "not seen") for case in CASES]
        lines.append(f"| {face} | {program} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(Path(sys.argv[1])))
