# SPDX-License-Identifier: Apache-2.0
"""The one training loop, in a job of one.

Claims: steps beside the training come before those of it, as the numbers of the replica say. A member that retreats
joins again. A number of the replica has a place of its own. Neutral values change no result.
"""

from __future__ import annotations

import numpy as np
import pytest

from spotnik import Config, Dtype, Op, Step
from spotnik.training.control import Control, Number
from spotnik.training.membership import Membership
from spotnik.training.neutral import neutral
from spotnik.training.steps import Steps

KINDS = {
    Dtype.F32: np.float32,
    Dtype.F64: np.float64,
    Dtype.F16: np.float16,
    Dtype.U8: np.uint8,
    Dtype.I8: np.int8,
    Dtype.I16: np.int16,
    Dtype.U16: np.uint16,
    Dtype.I32: np.int32,
    Dtype.U32: np.uint32,
    Dtype.I64: np.int64,
    Dtype.U64: np.uint64,
}


class Extra:
    """Steps beside the training: as many as the control says."""

    def __init__(self, control: Control, membership: Membership) -> None:
        self.control, self.membership = control, membership
        self.taken: list[int] = []

    @property
    def is_next(self) -> bool:
        return self.control.extra > 0

    def take(self, step: Step) -> None:
        assert self.membership.gather([7, step.number]) == [[7, step.number]]
        self.taken.append(step.number)
        self.control.extra -= 1


@pytest.mark.quick
def test_steps_beside_the_training_come_first() -> None:
    control = Control()
    membership = Membership(control.register)
    extra, begun = Extra(control, membership), []
    steps = Steps(membership, lambda: None, lambda step, came: begun.append((step.number, came)), [extra])
    membership.join(Config())
    control.extra = 2
    step = steps.begin()
    assert (step.number, extra.taken) == (3, [1, 2])
    assert membership.step is step and membership.begin() is step
    assert membership.commit() and membership.step is None
    assert steps.begin().number == 4
    assert begun == [(1, False), (2, False), (3, False), (4, False)]
    membership.abandon()
    assert membership.job is None


@pytest.mark.quick
def test_a_member_that_retreats_joins_again() -> None:
    control, joined = Control(), []
    membership = Membership(control.register)

    def ready() -> None:
        if membership.job is None:
            joined.append(membership.join(Config()))

    def begun(_step: Step, _came: bool) -> None:
        if len(joined) < 3:
            membership.retreat()

    step = Steps(membership, ready, begun, []).begin()
    assert len(joined) == 3 and membership.job is joined[-1]
    assert [job.joined for job in joined] == [False, False, True]
    assert step.number == 1
    membership.leave()


@pytest.mark.quick
def test_each_number_has_its_place() -> None:
    control = Control()
    names = [name for name, one in vars(Control).items() if isinstance(one, Number)]
    for value, name in enumerate(names, 1):
        setattr(control, name, value)
    assert [getattr(control, name) for name in names] == control.numbers.tolist() == [*range(1, len(names) + 1)]
    control.reset()
    assert not any(control.numbers)


@pytest.mark.quick
def test_an_epoch_ends_with_its_last_sample() -> None:
    control = Control()
    seen = []
    for samples in (40, 40, 20, 40):
        control.consume(samples, of=100)
        seen.append((control.epoch, control.consumed))
    assert seen == [(0, 40), (0, 80), (1, 0), (1, 40)]
    control.consume(1000, of=0)
    assert control.epoch == 1  # samples are not counted


@pytest.mark.quick
@pytest.mark.parametrize("dtype", [*KINDS])
def test_neutral_values_change_nothing(dtype: Dtype) -> None:
    for value in (0, 1, 3, 100):
        for op, reduce in {Op.SUM: np.add, Op.PRODUCT: np.multiply, Op.MIN: np.minimum, Op.MAX: np.maximum}.items():
            nothing = np.frombuffer(neutral(3, dtype, op), KINDS[dtype])
            given = np.full(3, value, KINDS[dtype])
            assert reduce(given, nothing).tolist() == given.tolist()


@pytest.mark.quick
def test_bfloat16_is_the_upper_half_of_float32() -> None:
    for op in (Op.SUM, Op.PRODUCT, Op.MIN, Op.MAX):
        bits = np.frombuffer(neutral(2, Dtype.BF16, op), np.uint16).astype(np.uint32) << 16
        assert bits.view(np.float32).tolist() == np.frombuffer(neutral(2, Dtype.F32, op), np.float32).tolist()
