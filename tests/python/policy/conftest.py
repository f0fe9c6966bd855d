# SPDX-License-Identifier: Apache-2.0
"""A job for a test, ended with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from runs import Job


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    made = Job(tmp_path)
    yield made
    made.end()
