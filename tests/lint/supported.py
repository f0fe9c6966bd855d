#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""README's table of supported versions is the one that the sources yield: what pyproject.toml and dev/wheel.sh
ask for, and what the scripts install that run the tests. Files that repeat the version of meson.build have that one.

    supported.py ROOT"""

import re
import sys
from pathlib import Path

ROOT = Path(sys.argv[1])
# Name, Python and glibc of the bare systems of dev/verify-release.sh.
SYSTEMS = {
    "bullseye": ("Debian 11", "3.9", "2.31"),
    "bookworm": ("Debian 12", "3.11", "2.36"),
    "trixie": ("Debian 13", "3.13", "2.41"),
    "jammy": ("Ubuntu 22.04", "3.10", "2.35"),
    "noble": ("Ubuntu 24.04", "3.12", "2.39"),
}


def found(path, pattern):
    """What the pattern finds in that file, sorted by number; at least once."""
    values = set(re.findall(pattern, (ROOT / path).read_text(encoding="utf-8")))
    if not values:
        sys.exit(f"supported: {path} has nothing like {pattern}")
    return sorted(values, key=lambda value: [int(number) for number in re.findall(r"\d+", value)])


def table():
    """The rows of the table."""
    suites = found("dev/verify-release.sh", r" echo ([a-z]+ [a-z ]+)\n")[0].split()
    suites += found("dev/verify-release.sh", r" held ([a-z]+) /usr/share/keyrings/ubuntu")
    systems = sorted((SYSTEMS[suite] for suite in suites), key=lambda system: system[0])
    pythons, glibcs = (", ".join(f"{system[part]} ({system[0]})" for system in systems) for part in (1, 2))
    torches = [found(path, r"torch==(\d+\.\d+)")[-1] for path in ("dev/python.sh", "dev/frameworks.sh")]
    native, foreign = found("dev/release.sh", r"set -- (\w+ \w+) deb")[0].replace("_", "-").split()
    assert foreign == "aarch64", foreign
    kernel = found("cli/doctor/doctor_here.c", r"Linux (\d+\.\d+)")
    assert kernel == found("src/group/process_watch.c", r"Linux (\d+\.\d+)"), kernel
    return [
        f"| Python | {found('pyproject.toml', r'requires-python = .>=([0-9.]+)')[0]} or later | {pythons} |",
        f"| PyTorch | {torches[0]} or later | {', '.join(torches)} |",
        f"| glibc (wheel) | {found('dev/wheel.sh', r'glibc=([0-9.]+)')[0]} or later | {glibcs} |",
        f"| Linux | {kernel[0]} or later | the kernel of CI |",
        f"| processor | {native} | {native}; wheel and kernels for 64-bit ARM under qemu |",
    ]


def check_version():
    """Refuse a file that repeats the version of an earlier release."""
    (version,) = found("meson.build", r"  version: '(.+?)',")
    for path, pattern in (("CITATION.cff", r"\nversion: (.+)"), ("packaging/conda/recipe.yaml", r'  version: "(.+)"')):
        if found(path, pattern) != [version]:
            sys.exit(f"supported: {path} names another version than meson.build: {version}")


def main():
    """Compare; the exit status."""
    check_version()
    rows = table()
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    stands = re.search(r"\| \| supported \| tests run with \|\n\|[-|]+\|\n((?:\|.*\n)+)", text)
    if stands and stands[1].splitlines() == rows:
        print(f"supported: {len(rows)} rows are what the sources yield")
        return 0
    print("supported: the table of README.md must have these rows:", *rows, sep="\n")
    return 1


sys.exit(main())
