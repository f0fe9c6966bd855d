# SPDX-License-Identifier: Apache-2.0
"""Say what came of the tests: scores and excuses, the skipped, the failed with their last words, "N passed, N failed".

Usage: summary.py LOG, a testlog.json of Meson, one object a line. The failures come last, since who sees a run from far
away often sees only the end of what it printed.
"""

import json
import re
import sys
from pathlib import Path

LAST_LINES, WIDTH = 12, 200
PASSED = ("OK", "EXPECTEDFAIL")
# Of mutants, how many were noticed; of simulated seeds, how many were excused.
STATED = ("mutants: ", "parked in ", "the last survivor stayed parked in ")


def last_words(test: dict[str, str]) -> list[str]:
    """What the test printed last, errors after the rest."""
    lines = f"{test.get('stdout') or ''}\n{test.get('stderr') or ''}".split("\n")
    return [line[:WIDTH] for line in lines if line.strip()][-LAST_LINES:]


def reason(test: dict[str, str]) -> str:
    """Why a test was skipped, if it says so."""
    said = [line.split("skipped: ", 1)[1] for line in last_words(test) if "skipped: " in line]
    return f": {said[-1]}" if said else ""


def stated(tests: list[dict[str, str]]) -> list[str]:
    """Scores and excuses. Lines that differ in numbers alone are one, with the sums: a sweep is several tests."""
    sums: dict[str, list[int]] = {}
    for test in tests:
        for line in map(str.strip, (test.get("stdout") or "").split("\n")):
            if line.startswith(STATED):
                words, numbers = re.sub(r"\d+", "{}", line), [int(number) for number in re.findall(r"\d+", line)]
                sums[words] = [one + other for one, other in zip(sums.get(words, [0] * len(numbers)), numbers)]
    return [words.format(*numbers) for words, numbers in sums.items()]


def main() -> None:
    """Read the log and print."""
    log = Path(sys.argv[1])
    tests = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    skipped = [test for test in tests if test["result"] == "SKIP"]
    failed = [test for test in tests if test["result"] not in ("SKIP", *PASSED)]
    for line in stated(tests):
        print(line)
    for test in skipped:
        print(f"skipped: {test['name']}{reason(test)}")
    for test in failed:
        print(f"failed: {test['name']} ({test['result']})", *last_words(test), sep="\n    ")
    print(f"{len(tests) - len(skipped) - len(failed)} passed, {len(failed)} failed")


main()
