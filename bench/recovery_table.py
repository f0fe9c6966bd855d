#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes one table of runs of `spotnik bench recovery --json`: recovery_table.py NAME=FILE..."""
from __future__ import annotations

import json
import sys
from typing import Any

COLUMNS = ("detect", "these four", "re-reduce", "total")
HEAD = (
    "| workers | transport | killed | detect | to the new view, detection included | re-reduce"
    " | kill to next commit on *all* survivors | undisturbed step | join |"
)


def number(ms: float) -> str:
    """Milliseconds with two significant digits or all before the point."""
    return f"{ms:.2f}" if ms < 1 else f"{ms:.1f}" if ms < 10 else f"{ms:.0f}"


def cell(run: dict[str, Any], phase: str) -> str:
    """Median and, in parentheses, maximum of one phase."""
    ms = run[phase + "_ms"]
    return f"{number(ms['median'])} ({number(ms['max'])})"


def row(name: str, run: dict[str, Any]) -> str:
    """One line of the table, for one number of workers and of those killed at once."""
    cells = [str(run["workers"]), name, str(run["losses"])]
    cells += [cell(run, phase) for phase in COLUMNS]
    cells += [number(run["undisturbed_ms"]["median"]), cell(run, "join")]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Print the table of all files named."""
    print(HEAD)
    print("|" + "---|" * 9)
    for argument in sys.argv[1:]:
        name, _, path = argument.partition("=")
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                print(row(name, json.loads(line)))


if __name__ == "__main__":
    main()
