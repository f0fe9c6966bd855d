# SPDX-License-Identifier: Apache-2.0
"""The README's promise: three lines between a plain script and one that survives, and no others."""

from __future__ import annotations

import os
import re
import runpy
from pathlib import Path

import pytest
from cluster import Tell, alone

ROOT = Path(os.environ["SPOTNIK_ROOT"])
MARK = re.compile(r"  # \(\d\)$")  # of a line that is ours


def example() -> list[str]:
    """examples/torch/minimal.py up to where it looks at its progress."""
    code = (ROOT / "examples/torch/minimal.py").read_text().split('"""')[2]
    return [line for line in code.partition("    if spotnik.rank()")[0].splitlines() if line]


def with_us() -> list[str]:
    return [MARK.sub("", line) for line in example()]


def plain() -> list[str]:
    return [line for line in example() if not MARK.search(line)]


@pytest.mark.parametrize("page", ["README.md", "docs/guide/pytorch.md"])
def test_the_diff_shown_is_that_of_the_example(page: str) -> None:
    (shown,) = re.findall(r"```diff\n(.*?)```", (ROOT / page).read_text(), flags=re.S)
    lines = [line for line in shown.splitlines() if line and line != " ..."]
    assert {line[0] for line in lines} == {" ", "+"}
    assert [line[1:] for line in lines if line[0] == "+"] == [line for line in with_us() if line not in plain()]
    assert sum(line[0] == "+" for line in lines) == len(with_us()) - len(plain()) == 3
    rest = iter(with_us())
    for line in lines:  # in this order
        assert line[1:] in rest, line


def run(tell: Tell, path: str) -> None:
    result = runpy.run_path(path)
    tell(loss=result["loss"].item())


@pytest.mark.parametrize("script", [plain, with_us])
def test_both_scripts_run_and_learn(tmp_path: Path, script: object) -> None:
    path = tmp_path / "train.py"
    text = "\n".join(plain() if script is plain else with_us())
    assert ("spotnik" in text) == (script is with_us)
    path.write_text(text.replace("range(20)", "range(3)"))
    (told,) = alone(run, tmp_path, path=str(path))
    assert told["loss"] < 0.3  # a guess has 0.69
