# SPDX-License-Identifier: Apache-2.0
"""What an all-reduce of the manager returns: a Work and a Future as torchft's wrappers use them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Optional

import torch
import torch.distributed as dist

__all__ = ["ManagedWork", "Result", "in_backward"]


def in_backward() -> bool:
    """Is this call made from inside backward()?"""
    return torch._C._current_graph_task_id() != -1


class Result(torch.futures.Future[Any]):
    """Done when the step of the call is committed. A callback of ``then`` runs before ``wait`` of its Work returns."""

    @property
    def _fut(self) -> Result:
        """torchft's DDP hands this one to PyTorch's reducer."""
        return self


class ManagedWork(dist._Work):
    """One all-reduce. `settle` commits the step that it is part of."""

    def __init__(self, result: Result, settle: Callable[[], None]) -> None:
        super().__init__()
        self._result = result
        self._settle = settle

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        """Commit the step. Inside backward() this returns at once: other gradients are still to come."""
        if not in_backward():
            self._settle()
        return True

    synchronize = block_current_stream = wait

    def is_completed(self) -> bool:
        return self._result.done()

    def get_future(self) -> Result:
        return self._result
