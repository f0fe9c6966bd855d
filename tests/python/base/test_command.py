# SPDX-License-Identifier: Apache-2.0
"""``python -m spotnik`` is the command ``spotnik``, with its output and its exit status."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("arguments", [["--version"], ["run"], ["run", "-q", "--", "sh", "-c", "echo said; exit 7"]])
def test_the_module_is_the_command(arguments: list[str]) -> None:
    results = [
        subprocess.run([*command, *arguments], capture_output=True, text=True)
        for command in (["spotnik"], [sys.executable, "-m", "spotnik"])
    ]
    assert results[0].returncode == results[1].returncode
    assert results[0].stdout == results[1].stdout
    assert results[0].stderr == results[1].stderr
    assert results[0].stdout or results[0].stderr


@pytest.mark.parametrize(("workers", "said"), [("2", "0"), ("1:2", "1")])
def test_workers_know_whether_a_range_was_asked_for(workers: str, said: str) -> None:
    # SPOTNIK_MIN is 1 in both.
    command = ["spotnik", "run", "-q", "-n", workers, "--", "sh", "-c", "echo is $SPOTNIK_ELASTIC"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told.count(f"is {said}") == 2, told
