# SPDX-License-Identifier: Apache-2.0
"""Say what came of the tests: the skipped ones, the failed ones with their last words, then "N passed, N failed".

Usage: summary.py LOG, a testlog.json of Meson, one object a line. The failures come last, since who sees a run from far
away often sees only the end of what it printed.
"""

import json
import sys
from pathlib import Path

LAST_LINES, WIDTH = 12, 200
PASSED = ("OK", "EXPECTEDFAIL")


def last_words(test: dict[str, str]) -> list[str]:
    """What the test printed last, errors after the rest."""
    lines = f"{test.get('stdout') or ''}\n{test.get('stderr') or ''}".split("\n")
    return [line[:WIDTH] for line in lines if line.strip()][-LAST_LINES:]


def reason(test: dict[str, str]) -> str:
    """Why a test was skipped, if it says so."""
    said = [line.split("skipped: ", 1)[1] for line in last_words(test) if "skipped: " in line]
    return f": {said[-1]}" if said else ""


def main() -> None:
    """Read the log and print."""
    log = Path(sys.argv[1])
    tests = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    skipped = [test for test in tests if test["result"] == "SKIP"]
    failed = [test for test in tests if test["result"] not in ("SKIP", *PASSED)]
    for test in skipped:
        print(f"skipped: {test['name']}{reason(test)}")
    for test in failed:
        print(f"failed: {test['name']} ({test['result']})", *last_words(test), sep="\n    ")
    print(f"{len(tests) - len(skipped) - len(failed)} passed, {len(failed)} failed")


main()
