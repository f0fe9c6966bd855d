# SPDX-License-Identifier: Apache-2.0
"""The table of buckets.

Claims: no number that the package adds is one of a gradient or of the library's strategies.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from spotnik.training.buckets import GRADIENTS, Bucket


def of_strategies() -> range:
    """The buckets of src/api/sync.h: states lie below STATE, vectors end at VECTOR."""
    text = (Path(os.environ["SPOTNIK_ROOT"]) / "src/api/sync.h").read_text()
    numbers = {name: int(value) for name, value in re.findall(r"#define SPOTNIK_SYNC_(\w+) (\d+)", text)}
    return range(numbers["BUCKET_STATE"] + 1 - numbers["STATES"], numbers["BUCKET_VECTOR"] + 1)


@pytest.mark.quick
def test_numbers_are_of_one_owner() -> None:
    taken = {*GRADIENTS, *of_strategies()}
    assert len(taken) == len(GRADIENTS) + len(of_strategies())
    assert not taken & set(Bucket)
    assert max(Bucket) <= 255
