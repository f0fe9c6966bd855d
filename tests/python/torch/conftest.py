# SPDX-License-Identifier: Apache-2.0
"""Fixtures. SPOTNIK_LONG=1 in the environment runs the long versions of the tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from cluster import Cluster


@pytest.fixture
def long_run() -> bool:
    return os.environ.get("SPOTNIK_LONG", "0") not in ("", "0")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    made: list[Cluster] = []

    def make(minimum: int = 1) -> Cluster:
        folder = tmp_path / f"job{len(made)}"
        folder.mkdir()
        made.append(Cluster(folder, minimum, tmp_path / "key"))
        return made[-1]

    yield make
    for one in made:
        one.close()
