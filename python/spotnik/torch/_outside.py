# SPDX-License-Identifier: Apache-2.0
"""Models that the program changes and that are no part of the replica: told once.

An average of the weights, or the target network of a learner, begins anew in a member that joins, and a second model
with an optimiser of its own trains on each member by itself: both without an error. A teacher that stays as it is may
be left out.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable

import torch

from ._log import log
from ._shards import local_of

_LOOKS = 20  # first steps before which the versions are compared


def _parameters(model: torch.nn.Module) -> list[torch.nn.Parameter]:
    """Those that have memory; of a model that cannot be asked yet, none."""
    try:
        return [p for p in model.parameters() if _place(p) and not p.is_inference()]
    except Exception:
        return []


def _place(one: torch.Tensor) -> int:
    try:
        return int(local_of(one).data_ptr())
    except RuntimeError:  # it has no memory of its own
        return 0


class Outside:
    """The parameters of this program's models that do not lie in memory which is `known`."""

    def __init__(self, known: Iterable[torch.Tensor]) -> None:
        known = list(known)
        ids, places = {id(one) for one in known}, {_place(one) for one in known}
        # some 300,000 objects, of which few are models; isinstance() would wake proxies
        found = [one for one in gc.get_objects() if issubclass(type(one), torch.nn.Module)]
        models = [(type(one).__name__, _parameters(one)) for one in found]
        self._found: dict[int, tuple[str, weakref.ref[torch.Tensor], int]] = {}
        for name, parameters in sorted(models, key=lambda model: -len(model[1])):  # the whole before its parts
            for one in parameters:
                if id(one) not in ids and _place(one) not in places:
                    self._found.setdefault(id(one), (name, weakref.ref(one), one._version))
        self._looks = _LOOKS

    def look(self) -> None:
        """A step is about to begin: has the program changed one?"""
        if not self._looks:
            return
        self._looks -= 1
        now = [(name, parameter(), before) for name, parameter, before in self._found.values()]
        changed = next((name for name, one, before in now if one is not None and one._version != before), None)
        if changed is not None:
            self._looks = 0
            log.warning(
                "the program changes parameters of a model (%s) that prepare() was not given: each member, and one "
                "that joins, has its own. An average of the weights: prepare(model, optimizer, average). A second "
                "model that is trained: prepare(torch.nn.ModuleList([one, other]), [its optimizer, the other's])",
                changed,
            )
        if not self._looks:
            self._found.clear()
