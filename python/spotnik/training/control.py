# SPDX-License-Identifier: Apache-2.0
"""Where a job stands, as whole numbers that are part of the replica: in one table, for all adapters.

The numbers say what the next step of the job is about. All members change them alike at a commit, and a newcomer
receives them, so it knows which step it is to take.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

from .._native import Dtype

if TYPE_CHECKING:
    from ..job import Job


class Number:
    """One number of a :class:`Control`."""

    def __set_name__(self, owner: Any, name: str) -> None:
        self._place = owner.count
        owner.count += 1

    def __get__(self, control: Any, _owner: Any = None) -> int:
        return int(control.numbers[self._place])

    def __set__(self, control: Any, value: int) -> None:
        control.numbers[self._place] = int(value)


class Control:
    """The numbers. The library reads and writes :attr:`numbers`."""

    count = 0

    # data
    seed = Number()
    epoch = Number()  # of data, from 0
    consumed = Number()  # samples of it

    # a framework's loop over epochs (Keras)
    fit = Number()  # the call of fit() that the job is in, from 1
    closed = Number()  # epochs of all fits
    closed_before = Number()  # those before this fit
    taken = Number()  # steps of the present epoch
    over = Number()  # 1: the present epoch has had its last step

    # a program's loop: steps beside that of a pass through its body
    extra = Number()  # those begun in this pass; -1: none is known
    extra_before = Number()  # those of the pass before

    # PyTorch
    repeats = Number()  # may a joiner repeat steps without the program's loop? see torch/_repeats.py
    turn = Number()  # the optimiser that steps next, where each has steps of its own

    compared_next = Number()  # the step in which members compare their replicas next
    parted = Number()  # the step before which these had parted; 0: they have not

    # pauses between steps (PyTorch)
    pause = Number()
    trained = Number()  # steps of the training
    value_count = Number()
    value_dtype = Number()
    value_op = Number()

    # a process group
    at_work = Number()  # 1: the members are in a communicator, and not at roll calls

    # torchft: how the state reaches newcomers
    stage = Number()
    shared = Number()  # 1: a member has received the state of another
    wanted = Number()  # 1: a newcomer waits for the state
    phase = Number()  # commits since start_quorum()
    donor = Number()
    state_bytes = Number()
    state_sent = Number()
    step = Number()
    batches = Number()

    def __init__(self) -> None:
        self.numbers = array("q", bytes(8 * self.count))

    def register(self, job: Job) -> None:
        """Make the numbers part of the replica."""
        job.state_add("spotnik.control", self.numbers.buffer_info()[0], len(self.numbers), Dtype.I64, self.numbers)

    def reset(self) -> None:
        """Begin anew: all numbers are 0."""
        for place in range(len(self.numbers)):
            self.numbers[place] = 0

    def consume(self, samples: int, of: int) -> None:
        """A step has consumed `samples`; an epoch of data has `of`, or 0 where samples are not counted."""
        self.consumed += samples
        if 0 < of <= self.consumed:
            self.epoch += 1
            self.consumed = 0
