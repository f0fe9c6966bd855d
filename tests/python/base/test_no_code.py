# SPDX-License-Identifier: Apache-2.0
"""What comes from other members, and from a folder, is data: no module of the package can run code from it.

Claims: no pickle and its kin, no evaluation of text, anywhere in the package; the look that says so finds each of them.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.quick
PACKAGE = Path(os.environ["SPOTNIK_ROOT"]) / "python/spotnik"
MODULES = {"pickle", "_pickle", "pickletools", "copyreg", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
WORDS = {"eval", "exec", "compile", "__import__"}
CALLS = {"torch.save", "torch.load", "np.save", "np.savez", "np.savez_compressed", "np.load", "numpy.load"}


def found(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [one.name for one in node.names] + [getattr(node, "module", None) or ""]
            yield from MODULES & {name.partition(".")[0] for name in names}
        elif isinstance(node, ast.Attribute):
            yield from MODULES & {node.attr}
            yield from CALLS & {ast.unparse(node)}
        elif isinstance(node, ast.Name):
            yield from WORDS & {node.id}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            name = getattr(node.args[0], "value", None)
            yield from {name} & MODULES if isinstance(name, str) else {"import_module"}


def test_nothing_in_the_package_runs_code_that_came() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 60
    assert {str(file.relative_to(PACKAGE)): words for file in files if (words := set(found(file.read_text())))} == {}


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from pickle import loads",
        "import numpy, cloudpickle as c",
        "from multiprocessing.reduction import pickle",
        "torch.load(file, weights_only=True)",
        "load = torch.load",
        "np.load(file, allow_pickle=True)",
        "torch.serialization.pickle.loads(data)",
        "eval(text)",
        "importlib.import_module(name)",
        "importlib.import_module('marshal')",
    ],
)
def test_the_look_finds(text: str) -> None:
    assert set(found(text))
    assert not set(found("import json\nmodel.eval()\nimportlib.import_module('wandb')\nvalue = loads(text)"))
