# SPDX-License-Identifier: Apache-2.0
"""The place of a process in its group, and its part of a step, without processes."""

from __future__ import annotations

import pytest

from spotnik import ArgumentError
from spotnik.group_job import Place, part_of, place
from spotnik.job import Step


def step_of(ranges: list[range], share: int = 1, shares: int = 2, rank: int = 1) -> Step:
    count = sum(len(one) for one in ranges)
    return Step(5, 1, rank, 2, 0, count, ranges, replay=False, share=share, shares=shares)


@pytest.mark.parametrize("ranges", [[range(10)], [range(3), range(7, 8), range(20, 31)], [range(2)], []])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_parts_are_the_whole(ranges: list[range], size: int) -> None:
    parts = [part_of(step_of(ranges), Place("a", rank, size)) for rank in range(size)]
    samples = [sample for one in ranges for sample in one]
    assert [sample for part in parts for one in part.ranges for sample in one] == samples
    assert [part.sample_count for part in parts] == [sum(map(len, part.ranges)) for part in parts]
    counts = [part.sample_count for part in parts]
    assert max(counts) - min(counts) <= 1
    assert all(part.ranges == [one for one in part.ranges if one] for part in parts)


def test_places_count_processes() -> None:
    parts = [part_of(step_of([range(4)]), Place("a", rank, 4)) for rank in range(4)]
    assert [(part.rank, part.size) for part in parts] == [(4, 8), (5, 8), (6, 8), (7, 8)]
    assert [(part.share, part.shares) for part in parts] == [(4, 8), (5, 8), (6, 8), (7, 8)]
    without = part_of(step_of([], share=2, shares=2, rank=-1), Place("a", 1, 4))
    assert without.rank == -1
    assert without.share == without.shares


def test_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPOTNIK_GROUP", raising=False)
    assert place() is None
    monkeypatch.setenv("SPOTNIK_GROUP", "run:w3:2:4")
    assert place() == Place("run:w3", 2, 4)
    monkeypatch.setenv("SPOTNIK_GROUP", "alone:0:1")
    assert place() is None
    for wrong in ("", "a:1", "a:b:2"):
        monkeypatch.setenv("SPOTNIK_GROUP", wrong)
        with pytest.raises(ArgumentError, match="NAME:RANK:SIZE"):
            place()
