#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Circles of calls: files of one folder of src/ that call each other round, by the names in what a build has compiled.

    dev/circles.py [BUILD]

Prints, for each folder that has any, how many circles there are, and the files of the largest. The line
"core+vote+route" takes the three folders as one, since they call each other by core/meet.h.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

BUILD = Path(sys.argv[1] if len(sys.argv) > 1 else "build")
MACHINE = ("core", "vote", "route")


def sources(build: Path) -> dict[str, Path]:
    """FOLDER/NAME of each object. One of another folder than its archive is called .._FOLDER_NAME.c.o."""
    found = {}
    for made in (build / "src").glob("*/lib*.a.p/*.c.o"):
        if made.parent.name.endswith("_planted.a.p"):
            continue
        other = re.fullmatch(r"\.\._([a-z]+)_(\w+)\.c\.o", made.name)
        folder, name = other.groups() if other else (made.parent.parent.name, made.name[: -len(".c.o")])
        found[f"{folder}/{name}"] = made
    return found


def symbols(made: Path) -> tuple[set[str], set[str]]:
    """What it defines, and what it wants."""
    has: set[str] = set()
    wants: set[str] = set()
    for line in subprocess.run(
        ["nm", "--format=posix", str(made)], capture_output=True, text=True, check=True
    ).stdout.splitlines():
        name, kind = line.split()[:2]
        (wants if kind == "U" else has if kind.isupper() else set()).add(name)
    return has, wants


def circles(calls: dict[str, set[str]]) -> list[list[str]]:
    """Strongly connected sets of more than one file."""
    reach: dict[str, set[str]] = {}
    for start in calls:
        seen: set[str] = set()
        todo = [start]
        while todo:
            for to in calls[todo.pop()] - seen:
                seen.add(to)
                todo.append(to)
        reach[start] = seen
    rounds = {frozenset(b for b in reach[a] if a in reach[b]) for a in calls if a in reach[a]}
    return [sorted(circle) for circle in rounds if len(circle) > 1]


def main() -> None:
    """Print them."""
    made = sources(BUILD)
    tables = {name: symbols(path) for name, path in made.items()}
    home = {symbol: name for name, (has, _) in tables.items() for symbol in has}
    folders = {
        name.split("/")[0]: {other for other in made if other.split("/")[0] == name.split("/")[0]} for name in made
    }
    folders["+".join(MACHINE)] = {name for name in made if name.split("/")[0] in MACHINE}
    for folder, files in sorted(folders.items()):
        calls = {name: {home[want] for want in tables[name][1] if home.get(want) in files} - {name} for name in files}
        found = sorted(circles(calls), key=len, reverse=True)
        if found:
            largest = f"{len(found[0])} ({' '.join(found[0])})"
            print(f"{folder}: {len(files)} files, circles: {len(found)}, the largest: {largest}")


if __name__ == "__main__":
    main()
