# SPDX-License-Identifier: Apache-2.0
"""``python -m spotnik`` is the command ``spotnik``, with its output and its exit status."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.quick


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
