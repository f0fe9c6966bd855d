# SPDX-License-Identifier: Apache-2.0
"""A model that is saved as a whole, or copied, is a plain one: a program that loads the file needs no Spotnik.

Files are read with ``weights_only=True``, which refuses every function that the reader has not named. So nothing may
stand in the place of what prepare() puts into a module: the file leaves it out.
"""

from __future__ import annotations

import collections
import functools
from typing import Any

import torch

_REDUCE = "__reduce_ex__"  # pickle and copy.deepcopy() ask the object for it, before its class
_OWN = (_REDUCE, "__deepcopy__")


class KeptOut:
    """What is in a module, as its hook or its forward(), and in no file of it."""


def keep_out(module: torch.nn.Module) -> None:
    """Have files and copies of `module` without what is KeptOut."""
    module.__dict__[_REDUCE] = functools.partial(_reduce, module)


def _reduce(module: torch.nn.Module, protocol: Any) -> Any:
    made = type(module).__reduce_ex__(module, protocol)
    if not isinstance(made, tuple) or len(made) < 3 or not isinstance(made[2], dict):
        return made  # in a way of its own
    return (*made[:2], plain(made[2]), *made[3:])


def plain(state: dict[str, Any]) -> dict[str, Any]:
    """Return a module's attributes without what is KeptOut."""
    kept = {name: one for name, one in state.items() if name not in _OWN and not isinstance(one, KeptOut)}
    for name in ("_forward_pre_hooks", "_forward_hooks"):
        hooks = kept.get(name, {}).items()
        kept[name] = collections.OrderedDict((number, one) for number, one in hooks if not isinstance(one, KeptOut))
    return kept
