# SPDX-License-Identifier: Apache-2.0
"""Data that a framework's face deals out, without a job."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spotnik import ArgumentError
from spotnik.training.data import Arrays, Batches


class Shuffled:
    """A data set that shuffles itself after each epoch by NumPy's generator, as those of Keras' tutorials."""

    def __init__(self, state: int) -> None:
        np.random.seed(state)
        self.order = np.arange(40)

    def fetch(self, number: int) -> Any:
        part = self.order[number * 8 : number * 8 + 8]
        return part * 2.0, part

    def shuffle(self) -> None:
        self.order = np.arange(40)
        np.random.shuffle(self.order)


def _member(state: int) -> tuple[Shuffled, Batches]:
    data = Shuffled(state)
    batches = Batches(5, data.fetch, shuffle=False)
    batches.at_epoch_end = data.shuffle
    return data, batches


def test_data_that_shuffle_themselves_after_an_epoch_do_it_alike() -> None:
    taken = []
    for state in (1, 2):
        _, batches = _member(state)
        before = np.random.get_state()[1]
        taken.append([batches.take(7, epoch, [range(0, 40)])[1].tolist() for epoch in (0, 1, 2)])
        assert (np.random.get_state()[1] == before).all(), "the program's own generator has moved"
    assert taken[0] == taken[1]
    assert len(set(map(tuple, taken[0]))) == 3 and all(sorted(one) == list(range(40)) for one in taken[0])


def test_a_late_member_has_the_order_of_its_epoch() -> None:
    _, early = _member(1)
    for epoch in range(3):
        early.advance(7, epoch)
    _, late = _member(2)
    assert late.take(7, 3, [range(0, 40)])[1].tolist() == early.take(7, 3, [range(0, 40)])[1].tolist()
    assert late.mark == early.mark


def test_another_order_has_another_mark() -> None:
    data, batches = _member(1)
    same = Batches(5, data.fetch, shuffle=False)
    data.shuffle()
    other = Batches(5, data.fetch, shuffle=False)
    assert batches.mark == same.mark != other.mark


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ((np.zeros((2, 3)), [0, 1]), "belongs where the data have int"),
        ((np.zeros((2, 3)), np.zeros(3)), r"arrays of \[2, 3\] samples"),
        (np.zeros((0, 3)), r"arrays of \[0\] samples"),
    ],
)
def test_what_makes_no_arrays_is_told(data: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        Arrays(data, 2, shuffle=False)


def test_the_last_samples_are_split_off() -> None:
    x, y = np.arange(10.0), np.arange(10)
    first, last = Arrays((x, y), 4, shuffle=True).split(0.25)
    assert [one.tolist() for one in last] == [[7, 8, 9], [7, 8, 9]]
    assert sorted(first.take(1, 0, [range(0, 7)])[1].tolist()) == list(range(7)) and first.batch == 4
    with pytest.raises(ArgumentError, match="none of 10 samples on one side"):
        Arrays(x, 4, shuffle=False).split(0.99)
