# SPDX-License-Identifier: Apache-2.0
"""Losses that are no means over samples, as far as the graph of the first backward pass shows: told once.

A step averages gradients by samples. A criterion of PyTorch with class weights, with an index that it ignores, or with
a sum divides by something else, and the training then depends on the number of members, without an error.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Optional

import torch

from ._log import log

_NODES = 64  # of the graph that are looked at, from the loss on
_SUM = 2  # what a node of a criterion keeps of reduction="sum"
_PADDED = "targets of -100, which it leaves out: call spotnik.weigh((y != -100).sum()) before backward()"
_IGNORED = (1 << 64) - 100  # what it keeps where no ignore_index was given


def _roots() -> tuple[Any, ...]:
    """What backward() was called of; asked in the midst of it, perhaps on a thread of the engine."""
    for frame in sys._current_frames().values():
        at: Any = frame
        while at is not None:
            if at.f_code is torch.autograd.backward.__code__:
                roots = at.f_locals["tensors"]
                return (roots,) if isinstance(roots, torch.Tensor) else tuple(roots)
            at = at.f_back
    return ()


def _nodes(roots: tuple[Any, ...]) -> Iterator[Any]:
    found = [root.grad_fn for root in roots if root.grad_fn is not None]
    for number, node in enumerate(found):
        if number == _NODES:
            return
        yield node
        found += [one for one, _ in node.next_functions if one is not None and one not in found]


def _has_weight(node: Any) -> bool:
    try:
        return getattr(node, "_saved_weight", None) is not None
    except RuntimeError:  # it was there, and backward has freed it
        return True


def divisor_of(node: Any, padded: bool) -> Optional[str]:
    """By what a criterion divides its loss, in place of samples, as words for the user; None: nothing is known."""
    if getattr(node, "_saved_reduction", None) == _SUM:
        return 'reduction="sum", which divides it by nothing: multiply it by batch_size / len(batch)'
    if not node.name().startswith("NllLoss"):
        return None
    if _has_weight(node):
        return "class weights, by whose sum it is divided: call spotnik.weigh(weight[y].sum()) before backward()"
    if node._saved_ignore_index not in (_IGNORED, -100):
        return "ignore_index: call spotnik.weigh((y != ignore_index).sum()) before backward()"
    return _PADDED if padded else None


def is_padded(batch: Any) -> bool:
    """Does the batch hold targets of -100? PyTorch's criteria leave them out by default."""
    if isinstance(batch, torch.Tensor):
        return batch.dtype == torch.int64 and batch.device.type == "cpu" and bool((batch == -100).any())
    parts = batch.values() if isinstance(batch, dict) else batch if isinstance(batch, (list, tuple)) else ()
    return any(map(is_padded, parts))


def look(padded: bool) -> None:
    """Tell the program of a loss that is no mean over samples, from within its backward()."""
    found = next((words for words in (divisor_of(node, padded) for node in _nodes(_roots())) if words), None)
    if found:
        log.warning(
            "the loss has %s. Else the training depends on the number of members, since a step averages gradients by "
            "samples",
            found,
        )


def samples_in(batch: Any) -> Optional[int]:
    """Count the samples of a batch: the first dimension of its tensors, where all have the same; else None."""
    parts = list(batch.values()) if isinstance(batch, dict) else batch
    if isinstance(parts, torch.Tensor):
        return len(parts) if parts.dim() else None
    counts = {samples_in(one) for one in parts} if isinstance(parts, (list, tuple)) else {None}
    return counts.pop() if len(counts) == 1 else None


def tell_of_dropped(what: str) -> None:
    """The collate function has dropped samples."""
    log.warning(
        "the loader's collate function made a batch of %s samples. A step averages gradients by the samples that were "
        "dealt: call spotnik.weigh(n) before each backward(), with the number that is left; and where none is left "
        "spotnik.skip() in its place",
        what,
    )
