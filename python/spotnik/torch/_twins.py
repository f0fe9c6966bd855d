# SPDX-License-Identifier: Apache-2.0
"""Members that do the work of one: a loop with batches of its own that draws the same ones on all of them.

In some steps each member gives a number for its gradient, and one for what its model was given; they travel with the
common numbers. A few equal ones in a row are no chance, and one warning names what to write. Inputs count only
where they change between two of these steps: a graph that is whole in every step is the same everywhere rightly.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Optional

import torch

from ..job import Step
from ..training.shares import mix
from ._log import log

COUNT = 2  #: numbers of a member
_SAMPLES = 64  # elements of a tensor that are looked at
_FIRST, _RARELY = 8, 16  # each of the first steps, then every so many
_IN_A_ROW = 4


def _digest(tensor: torch.Tensor) -> Optional[int]:
    """A number for some elements; None: they are all 0, which tells nothing."""
    flat = tensor.detach().flatten()
    some = flat[:: max(1, flat.numel() // _SAMPLES)].cpu().contiguous()
    return zlib.crc32(some.view(torch.uint8).numpy().tobytes()) if bool(some.any()) else None


class Twins:
    """What this member says of its batches, and what all have said."""

    def __init__(self) -> None:
        self._inputs: Optional[int] = None
        self._inputs_before: Optional[int] = None
        self._equal = [0] * COUNT  # in a row
        self._told = False

    def is_due(self, step: Step) -> bool:
        """Are members to compare in this step? The same on all of them."""
        return not self._told and (step.number <= _FIRST or step.number % _RARELY == 0)

    def saw(self, arguments: Iterable[Any]) -> None:
        """The model's forward pass of a step in which members compare was given `arguments`."""
        given = (_digest(one) for one in arguments if isinstance(one, torch.Tensor) and one.numel())
        self._inputs = next(given, None)

    def numbers(self, step: Step, gradients: Iterable[Optional[torch.Tensor]]) -> list[int]:
        """What this member says: where it has nothing to compare, a number that no other member has."""
        first = next((one for one in gradients if one is not None and not one.is_sparse), None)
        inputs = None if self._inputs == self._inputs_before else self._inputs
        self._inputs_before, self._inputs = self._inputs, None
        found = (None if first is None else _digest(first)), inputs
        return [mix(step.number, step.rank) if one is None else one for one in found]

    def heard(self, are_equal: Sequence[bool], members: int) -> None:
        """The numbers of all `members` in a step: tell the program, once, where each computes what the others do."""
        self._equal = [count + 1 if equal and members > 1 else 0 for count, equal in zip(self._equal, are_equal)]
        if max(self._equal) < _IN_A_ROW:
            return
        self._told = True
        what = "computed the same gradient" if self._equal[0] >= _IN_A_ROW else "gave the model the same samples"
        log.warning(
            "all %d members %s in %d steps one after the other: together they do the work of one. Where all draw the "
            "same batches (in order, or by a generator of the program's own) let each take its part: "
            "x, y = spotnik.part_of(x), spotnik.part_of(y). Or draw at random by PyTorch's own generator, which gives "
            "each member other numbers",
            members,
            what,
            _IN_A_ROW,
        )
