# SPDX-License-Identifier: Apache-2.0
"""A job for a test, ended with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from workers import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    yield made
    made.end()
