#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Static analysis of the product's C: every file of src/, cli/ and packages/ that BUILD compiles, by gcc -fanalyzer and
clang --analyze. Prints each warning. Usage: dev/analyse.py BUILD"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# gcc 12 loses sight of memory that goes into a list, and of what memcpy() fills in.
GCC_OFF = ["-Wno-analyzer-malloc-leak", "-Wno-analyzer-use-of-uninitialized-value", "-Wno-analyzer-null-argument"]
ANALYSERS = {
    "gcc": ["gcc", "-fanalyzer", "-fdiagnostics-path-format=none", *GCC_OFF, "-c", "-o", os.devnull],
    "clang": ["clang", "--analyze", "-Xclang", "-analyzer-output=text", "-o", os.devnull],
}
FOLDERS = ("src", "cli", "packages")


def options_of(command: str) -> list[str]:
    """Defines, include folders, language and processor: what an analyser has to know of a compilation."""
    return [
        word
        for word in shlex.split(command)
        if word.startswith(("-D", "-I", "-std", "-m", "-f", "-include", "-isystem"))
    ]


def analyse(name: str, folder: str, file: str, options: list[str]) -> str:
    """What one analyser says of a file: nothing, unless it warns or fails."""
    done = subprocess.run(
        [*ANALYSERS[name], *options, "-fdiagnostics-color=never", file], cwd=folder, capture_output=True, text=True
    )
    return done.stderr if done.returncode or "warning: " in done.stderr else ""


def main(build: str) -> int:
    """Both analysers over all files, as many at once as there are processors."""
    root = Path(__file__).resolve().parent.parent
    units = json.loads((Path(build) / "compile_commands.json").read_text())
    seen: dict[str, tuple[str, list[str]]] = {}
    for unit in units:
        path = (Path(unit["directory"]) / unit["file"]).resolve()
        inside = path.is_relative_to(root) and path.relative_to(root).parts[0] in FOLDERS
        if inside and "tests" not in path.parts and path.suffix == ".c":
            seen.setdefault(str(path), (unit["directory"], options_of(unit["command"])))
    work = [(name, folder, file, options) for file, (folder, options) in seen.items() for name in ANALYSERS]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        told = [text for text in pool.map(lambda one: analyse(*one), work) if text]
    print("\n".join(told))
    print(f"{len(work) - len(told)} passed, {len(told)} failed")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
