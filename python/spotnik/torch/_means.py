# SPDX-License-Identifier: Apache-2.0
"""Losses that are no means over samples, as far as the graph of the first backward pass shows: told once.

A step averages gradients by samples. A criterion of PyTorch with class weights, with an index that it ignores, or with
a sum divides by something else, and the training then depends on the number of members, without an error. So it does
where the loss is the mean over some of the samples, or bends a mean over all: its root, a quotient of two (Dice).
"""

from __future__ import annotations

import math
import re
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


Edge = tuple[Any, int]  # a node, and which of its outputs

_SELECTS = re.compile(r"(Index|IndexSelect|MaskedSelect|Take)Backward\d")
_BENDS = re.compile(
    r"(R?[Ss]qrt|Log(|2|10|1p|sumexp|Softmax|Sigmoid)|Exp|Expm1|Pow|Reciprocal|Abs|Relu|Clamp(|Min|Max)|Tanh|Sigmoid|Softmax"
    r"|(Linalg)?(Vector)?Norm|Var|Std|A?Max|A?Min|Median|Topk|Kthvalue|Prod|\w+Loss)Backward\d"
)
_OF_MODEL = re.compile(r"Addmm|[BM]mm|Mv|Baddbmm|.*Convolution|.*Embedding|Compiled|Native.*Norm|.*Attention")
_BENT = (
    "a root, a quotient or the like of a mean over the batch (RMSE, Dice), or the greatest of its samples, which are "
    'others for a share: take it for each sample and then the mean, or say prepare(..., batch="per_member")'
)
_PART = (
    "samples that it leaves out (an index, a mask): call spotnik.weigh(n), with the number of the others, before "
    "backward()"
)
_WHOLE = "a sum over its samples, which nothing divides: multiply it by batch_size / len(batch)"


def _shape(edge: Edge) -> tuple[int, ...]:
    """That of the output; (0,), as if it had a row for each sample, where that is not known."""
    try:
        return tuple(map(int, edge[0]._input_metadata[edge[1]].shape))
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):  # another PyTorch, nested tensors
        return (0,)


def _below(edge: Edge) -> list[Edge]:
    return [one for one in edge[0].next_functions if one[0] is not None]


def _is_of_model(edge: Edge) -> bool:
    """Does it come from layers, and not from parameters alone, as a penalty on these does?"""
    found = [edge]
    for number, one in enumerate(found):
        if number == _NODES or _OF_MODEL.match(one[0].name()):
            return number < _NODES
        found += [below for below in _below(one) if below not in found]
    return False


def _bends(edge: Edge, below: Edge) -> bool:
    """Is what this node makes of `below` other than proportional to it?"""
    name, given = edge[0].name(), _below(edge)
    if name.startswith("Div"):
        return len(edge[0].next_functions) > 1 and edge[0].next_functions[1] == below
    if name.startswith("Mul"):
        return any(one != below and _is_of_model(one) for one in given)
    return bool(_BENDS.match(name))


def shape_of(root: Any, samples: int) -> Optional[str]:
    """How a loss differs from a mean over its `samples`, as words for the user; None: not as far as can be seen.

    Looks at what has no row for each sample any more, up to where it was made of what has.
    """
    found: list[tuple[Edge, bool, bool]] = [((root.grad_fn, 0), False, True)]
    for number, (edge, bent, plain) in enumerate(found):
        if number == _NODES:
            return None
        name = edge[0].name()
        for below in _below(edge):
            shape = _shape(below)
            if math.prod(shape) % samples:
                plain = plain and not name.startswith(("Div", "Mul"))
                found.append((below, bent or _bends(edge, below), plain))
            elif _SELECTS.match(name):
                return _PART
            elif (bent or (_bends(edge, below) and "Loss" not in name)) and _is_of_model(below):
                return _BENT
            elif plain and name.startswith("Sum") and shape[0] == samples and not below[0].name().startswith("Mean"):
                return _WHOLE if _is_of_model(below) else None
    return None


_COMPARED = (
    "a comparison of the samples of a batch with one another (pairs, or a mean over the batch in each sample's term), "
    'and a share has fewer pairs: say prepare(..., batch="per_member"), or keep a queue of earlier samples'
)
_COMBINES = re.compile(r"(Sub|Div|Mul|Add)Backward\d")
_REDUCES = re.compile(r"(Mean|Sum|Var|Std|Logsumexp|(Linalg)?(Vector)?Norm)Backward\d")


def _is_reduced(edge: Edge, samples: int) -> bool:
    """Was it made of a mean, or the like, over the rows of what comes from layers?"""
    for _ in range(4):  # in a root, with an epsilon, ...
        below = _below(edge)
        if len(below) != 1:
            return False
        if _REDUCES.match(edge[0].name()) and _shape(below[0])[:1] == (samples,):
            return _is_of_model(below[0])
        edge = below[0]
    return False


def _compares(edge: Edge, samples: int) -> bool:
    """Does this node bring different samples together, all of them rows of what comes from layers?"""
    name, shape, below = edge[0].name(), _shape(edge), _below(edge)
    if name.startswith(("Roll", "Flip")):
        return shape[:1] == (samples,) and 0 in tuple(getattr(edge[0], "_saved_dims", ()))
    if len(below) != 2:
        return False
    first = [_shape(one) for one in below]
    if name.startswith("Mm"):
        is_pair = shape == (samples, samples) or first[0][1:] == (samples,)
    elif name.startswith(("Cdist", "EuclideanDist")):
        is_pair = shape == (samples, samples)
    else:
        is_pair = shape[:2] == (samples, samples) and {one[:2] for one in first} == {(samples, 1), (1, samples)}
    if is_pair:
        return all(map(_is_of_model, below))
    if not _COMBINES.match(name) or shape[:1] != (samples,):
        return False
    return any(one[:1] != (samples,) and _is_reduced(at, samples) for one, at in zip(first, below))


def compares(root: Any, samples: int) -> bool:
    """Does a loss compare its samples with one another, after the layers that made something of each of them?"""
    found: list[Edge] = [(root.grad_fn, 0)]
    for number, edge in enumerate(found):
        if number == _NODES:
            return False
        if _compares(edge, samples):
            return True
        if not _OF_MODEL.match(edge[0].name()):
            found += [one for one in _below(edge) if one not in found]
    return False


def look(padded: bool, samples: int) -> None:
    """Tell the program of a loss that is no mean over samples, from within its backward().

    It was made of a batch of `samples` rows; 0: that is not known.
    """
    roots = _roots()
    found = next((words for words in (divisor_of(node, padded) for node in _nodes(roots)) if words), None)
    if found is None and samples > 1:
        own = [root for root in roots if root.grad_fn is not None and root.dim() == 0]
        found = next((words for words in (shape_of(root, samples) for root in own) if words), None)
        if found is None and any(compares(root, samples) for root in own):
            found = _COMPARED
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
