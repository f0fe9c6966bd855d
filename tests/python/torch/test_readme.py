# SPDX-License-Identifier: Apache-2.0
"""The README's promise: three lines between a plain script and one that survives, and no others. And the program in
place of Horovod's, as docs/guide/coming-from.md has it."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
from pathlib import Path

import pytest
import torch
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


@pytest.mark.quick
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


@pytest.mark.quick
@pytest.mark.parametrize("script", [plain, with_us])
def test_both_scripts_run_and_learn(tmp_path: Path, script: object) -> None:
    path = tmp_path / "train.py"
    text = "\n".join(plain() if script is plain else with_us())
    assert ("spotnik" in text) == (script is with_us)
    path.write_text(text.replace("range(20)", "range(3)"))
    (told,) = alone(run, tmp_path, path=str(path))
    assert told["loss"] < 0.3  # a guess has 0.69


BEFORE = """
import torch
torch.manual_seed(1)
inputs = torch.randn(640, 4)
dataset = torch.utils.data.TensorDataset(inputs, inputs @ torch.tensor([[1.0], [2.0], [-1.0], [0.5]]))
model = torch.nn.Linear(4, 1)
"""
AFTER = """
import json, os
weights = [value for parameter in model.parameters() for value in parameter.flatten().tolist()]
loss = torch.nn.functional.mse_loss(model(dataset.tensors[0]), dataset.tensors[1]).item()
with open(f"end.{os.environ['SPOTNIK_SLOT']}", "w") as file:
    json.dump({"rank": spotnik.rank(), "size": spotnik.size(), "weights": weights, "loss": loss}, file)
"""


def test_the_program_in_place_of_horovods_runs(tmp_path: Path) -> None:
    pieces = re.findall(r"```python\n(.*?)```", (ROOT / "docs/guide/coming-from.md").read_text(), flags=re.S)
    (program,) = [piece for piece in pieces if "import spotnik.torch" in piece]
    (tmp_path / "train.py").write_text(BEFORE + program + AFTER)
    subprocess.run(["spotnik", "run", "-q", "-n", "2", "--", "python", "train.py"], cwd=tmp_path, check=True)
    ends = [json.loads((tmp_path / f"end.{slot}").read_text()) for slot in range(2)]
    assert ends[0]["weights"] == ends[1]["weights"] and ends[0]["loss"] < 1  # of 6 before
    assert sorted(end["rank"] for end in ends) == [0, 1] and {end["size"] for end in ends} == {2}
    saved = torch.load(tmp_path / "model.pt", weights_only=True)
    assert [value for tensor in saved.values() for value in tensor.flatten().tolist()] == ends[0]["weights"]
