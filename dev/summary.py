# SPDX-License-Identifier: Apache-2.0
"""Say what came of the tests: scores and excuses, the skipped, the flaky, the failed, "N passed, N failed".

Usage: summary.py [--again] LOG [LOG_OF_THE_SECOND_TRY]; a LOG is a testlog.json of Meson, one object a line. The
failures come last: the end of an output is what is seen of it from far away. `--again` prints the names of the failed
tests that may be tried a second time instead.
"""

import json
import re
import sys
from pathlib import Path

LAST_LINES, WIDTH = 12, 200
PASSED = ("OK", "EXPECTEDFAIL")
# Of mutants, how many were noticed; of simulated seeds, how many were excused.
STATED = ("mutants: ", "parked in ", "the last survivor stayed parked in ")
# Suites whose tests start processes and depend on what else the machine does.
TIMED = ("e2e", "slurm", "python", "demo")

Test = dict[str, str]


def read(log: str) -> list[Test]:
    """The tests of a log; none where there is no log."""
    return [json.loads(line) for line in Path(log).read_text().splitlines()] if Path(log).exists() else []


def short(test: Test) -> str:
    """The name as `meson test` takes it."""
    return test["name"].split(" / ")[-1].split(":")[-1]


def failed(tests: list[Test]) -> list[Test]:
    """Those that neither passed nor were skipped."""
    return [test for test in tests if test["result"] not in ("SKIP", *PASSED)]


def may_try_again(test: Test) -> bool:
    """A test of real processes."""
    return any(re.search(rf"\b{suite}\b", test["name"].split(" / ")[0]) for suite in TIMED)


def last_words(test: Test) -> list[str]:
    """What the test printed last, errors after the rest."""
    lines = f"{test.get('stdout') or ''}\n{test.get('stderr') or ''}".split("\n")
    return [line[:WIDTH] for line in lines if line.strip()][-LAST_LINES:]


def reason(test: Test) -> str:
    """Why a test was skipped, if it says so."""
    said = [line.split("skipped: ", 1)[1] for line in last_words(test) if "skipped: " in line]
    return f": {said[-1]}" if said else ""


def stated(tests: list[Test]) -> list[str]:
    """Scores and excuses. Lines that differ in numbers alone are one, with the sums: a sweep is several tests."""
    sums: dict[str, list[int]] = {}
    for test in tests:
        for line in map(str.strip, (test.get("stdout") or "").split("\n")):
            if line.startswith(STATED):
                words, numbers = re.sub(r"\d+", "{}", line), [int(number) for number in re.findall(r"\d+", line)]
                sums[words] = [one + other for one, other in zip(sums.get(words, [0] * len(numbers)), numbers)]
    return [words.format(*numbers) for words, numbers in sums.items()]


def main() -> None:
    """Read the logs and print."""
    if sys.argv[1] == "--again":
        print(*(short(test) for test in failed(read(sys.argv[2])) if may_try_again(test)))
        return
    tests = read(sys.argv[1])
    second = {test["name"]: test for test in read(sys.argv[2])} if len(sys.argv) > 2 else {}
    flaky = [test for test in failed(tests) if second.get(test["name"], test)["result"] in PASSED]
    bad = [test for test in failed(tests) if test not in flaky]
    skipped = [test for test in tests if test["result"] == "SKIP"]
    for line in stated(tests):
        print(line)
    for test in skipped:
        print(f"skipped: {test['name']}{reason(test)}")
    for test in flaky:
        print(f"flaky: {test['name']} (failed, then passed alone; mend it)", *last_words(test), sep="\n    ")
    for test in bad:
        print(f"failed: {test['name']} ({test['result']})", *last_words(test), sep="\n    ")
    print(f"{len(tests) - len(skipped) - len(bad)} passed, {len(bad)} failed")


main()
