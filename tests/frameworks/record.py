# SPDX-License-Identifier: Apache-2.0
"""A run of all tests here in pieces: a plugin of pytest that writes each result down, as a line of JSON in the file
SPOTNIK_RECORD, passes over what the file has, and stops when SPOTNIK_RECORD_S seconds are over.

`run.sh` uses it where SPOTNIK_RECORD is set. Usage: python3 record.py FILE prints the results as a table in Markdown.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

_FILE = Path(os.environ.get("SPOTNIK_RECORD", ""))
_LIMIT_S = float(os.environ.get("SPOTNIK_RECORD_S", "inf"))
_BEGAN_S = time.monotonic()
_ENVIRONMENT = Path(sys.prefix).name


def _read(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """The last result of each test in each environment."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {(one["in"], one["test"]): one for one in map(json.loads, lines)}


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Pass over what the file has: a line that is taken out has its test run again."""
    seen = _read(_FILE)
    items[:] = [one for one in items if (_ENVIRONMENT, one.nodeid) not in seen]


def pytest_runtest_logreport(report: Any) -> None:
    """Write a result down."""
    if report.when == "call" or report.outcome != "passed":
        line = {"in": _ENVIRONMENT, "test": report.nodeid, "result": report.outcome, "s": round(report.duration, 1)}
        with _FILE.open("a") as file:
            file.write(json.dumps(line) + "\n")


def pytest_runtest_teardown(item: Any) -> None:
    """No further test when the time is over."""
    if time.monotonic() - _BEGAN_S > _LIMIT_S:
        item.session.shouldstop = "the time of this piece is over"


def table(path: Path) -> str:
    """The results of `path` but for tests that are of another environment."""
    lines = ["| environment | test | result | s |", "|---|---|---|---|"]
    for (environment, test), one in sorted(_read(path).items()):
        if one["result"] != "skipped":
            name = test.rsplit("/", 1)[-1]
            lines.append(f"| {environment} | `{name}` | {one['result']} | {one['s']:.0f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(Path(sys.argv[1])))
