# SPDX-License-Identifier: Apache-2.0
"""Print the names of the tests of a tier, one a line. The first line of tests/tiers that fits a test decides.

Usage: tier.py BUILD quick|check|rest|nightly|unused. `check` holds quick, too; `rest` is check without quick; `unused`
prints the patterns of the table that fit no test of this build.
"""

import fnmatch
import json
import subprocess
import sys
from pathlib import Path

TABLE = Path(__file__).parent.parent / "tests" / "tiers"
HOLDS = {"quick": ("quick",), "check": ("quick", "check"), "rest": ("check",), "nightly": ("nightly",), "unused": ()}


def main() -> None:
    """Ask Meson for the tests, and the table for their tiers."""
    tiers = HOLDS[sys.argv[2]]
    lines = [line.split("#")[0].split() for line in TABLE.read_text().splitlines()]
    rows = [(row[0], pattern) for row in lines if row for pattern in row[1:]]
    unused = [pattern for _, pattern in rows]
    for test in json.loads(subprocess.check_output(["meson", "introspect", "--tests", sys.argv[1]])):
        name = f"{test['suite'][0].split(':')[-1]}/{test['name']}"
        tier, pattern = next(row for row in rows if fnmatch.fnmatchcase(name, row[1]))
        unused = [other for other in unused if other != pattern]
        if " " in test["name"]:
            sys.exit(f"tier: the name of a test has a blank, so a shell would split it: {test['name']}")
        if tier in tiers:
            print(test["name"])
    if sys.argv[2] == "unused":
        print(*unused, sep="\n")


main()
