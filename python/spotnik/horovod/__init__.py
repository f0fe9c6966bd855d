# SPDX-License-Identifier: Apache-2.0
"""Horovod's words for programs that come from it; import the module for your framework in place of Horovod's.

    import spotnik.horovod.torch as hvd              # was: import horovod.torch as hvd
    import spotnik.horovod.tensorflow as hvd
    import spotnik.horovod.keras as hvd              # the same as spotnik.horovod.tensorflow.keras

Start with ``spotnik run -n 4 -- python train.py``. Needs NumPy alone until one of them is imported. What can mean
something else than Horovod's is said once, as a :class:`HorovodWarning`. See docs/guide/coming-from.md.
"""

from __future__ import annotations

from typing import Any

from ..errors import StateError
from ._world import HorovodInternalError, HorovodWarning, HostsUpdatedInterrupt

__all__ = ["HorovodInternalError", "HorovodWarning", "HostsUpdatedInterrupt", "run"]


def run(func: Any, *_ignored: Any, np: Any = None, num_proc: Any = None, **_more: Any) -> Any:
    """Not here: raises StateError, which says how to start the program."""
    count = num_proc or np or 1
    raise StateError(f"a program starts no members itself; start it with: spotnik run -n {count} -- python PROGRAM")
