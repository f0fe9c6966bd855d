#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Print the largest circle of files of the pure library, and fail if it holds more files than the limit.

A file refers to another if it includes it or uses a symbol that the other defines. NAME.c and NAME.h of one folder
count as one file. A circle is a set of files each of which reaches every other by such references.

Usage: circles.py [--limit COUNT] BUILD. BUILD is a build folder: symbols are read from its archives with nm.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("ring", "ledger", "member", "step", "core", "membership", "allreduce", "wire")
ARCHIVES = ("ring", "ledger", "member", "step", "core", "wire")  # libcore holds membership and allreduce
Graph = dict[str, set[str]]


def includes() -> Graph:
    """Which files each file includes."""
    graph: Graph = {}
    for folder in FOLDERS:
        for path in (ROOT / "src" / folder).glob("*.[ch]"):
            found = re.findall(r'^#include "(.+)\.h"', path.read_text(), re.M)
            graph.setdefault(f"{folder}/{path.stem}", set()).update(found)
    return graph


def add_symbols(graph: Graph, build: Path) -> None:
    """Add the files whose symbols each file uses."""
    defined: dict[str, str] = {}
    used: list[tuple[str, str]] = []
    for archive in ARCHIVES:
        path = build / "src" / archive / f"lib{archive}.a"
        for line in subprocess.check_output(["nm", "-A", path], text=True).splitlines():
            match = re.match(r"\S*[:/](?:\.\._(membership|allreduce)_)?(\w+)\.c\.o: *\w* (\w) (\S+)$", line)
            if match is None:
                sys.exit(f"circles: nm says what was not expected: {line}")
            name = f"{match[1] or archive}/{match[2]}"
            if match[3] == "U":
                used.append((name, match[4]))
            elif match[3].isupper():
                defined[match[4]] = name
    for name, symbol in used:
        if symbol in defined:
            graph[name].add(defined[symbol])


def circle_of(start: str, reached: dict[str, set[str]]) -> set[str]:
    """Return all files that `start` reaches and that reach it."""
    return {name for name in reached[start] if start in reached[name]} | {start}


def reach(graph: Graph, start: str) -> set[str]:
    """Return all files that `start` reaches."""
    seen: set[str] = set()
    todo = [start]
    while todo:
        for name in graph.get(todo.pop(), set()) - seen:
            seen.add(name)
            todo.append(name)
    return seen & graph.keys()


def main() -> None:
    """Build the graph and print its largest circle."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=0, help="fail above this many files; 0: only print")
    parser.add_argument("build", type=Path)
    args = parser.parse_args()
    graph = includes()
    add_symbols(graph, args.build)
    reached = {name: reach(graph, name) for name in graph}
    largest = max((circle_of(name, reached) for name in sorted(graph)), key=len)
    print(f"circles: {len(largest)} of {len(graph)} files refer to each other in a circle")
    print(*sorted(largest), sep="\n")
    if args.limit and len(largest) > args.limit:
        sys.exit(f"circles: {len(largest)} files, the limit is {args.limit}: let one of them return what to do")


main()
