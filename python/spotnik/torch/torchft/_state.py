# SPDX-License-Identifier: Apache-2.0
"""What ``state_dict`` functions return, as bytes: a tree in JSON, and its tensors.

What is not plain is a list whose first item says what it is: "list", "tuple", "dict" (pairs follow), or "tensor" (its
number, type and shape follow).
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from ..._packing import pack, unpack
from ...errors import StateError

__all__ = ["packed", "unpacked"]

_PLAIN = (bool, int, float, str, type(None))


def packed(state: Any) -> torch.Tensor:
    """`state` as a tensor of bytes. StateError: it holds what cannot travel."""
    tensors: list[torch.Tensor] = []
    tree = _told(state, "", tensors)
    return torch.frombuffer(pack(tree, [_bytes_of(one) for one in tensors]), dtype=torch.uint8)


def unpacked(data: torch.Tensor) -> Any:
    """What :func:`packed` was given. StateError: these are no such bytes."""
    tree, buffers = unpack(_bytes_of(data))
    try:
        return _made(tree, buffers)
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:
        raise StateError(f"the state of another member cannot be read: {error}; start this member again") from error


def _told(value: Any, path: str, tensors: list[torch.Tensor]) -> Any:
    if type(value) in _PLAIN:
        return value
    if isinstance(value, torch.Tensor) and value.layout == torch.strided and not value.is_quantized:
        tensors.append(value.detach().to("cpu").resolve_conj().resolve_neg().contiguous())
        return ["tensor", len(tensors) - 1, str(value.dtype).rpartition(".")[2], list(value.shape)]
    if isinstance(value, dict):
        pairs = [[_told(key, path, tensors), _told(one, f"{path}[{key!r}]", tensors)] for key, one in value.items()]
        return ["dict", *pairs]
    if type(value) in (list, tuple, torch.Size):
        kind = "list" if isinstance(value, list) else "tuple"
        return [kind, *(_told(one, f"{path}[{number}]", tensors) for number, one in enumerate(value))]
    raise StateError(
        f"state_dict(){path} is of type {type(value).__qualname__}, which does not travel; return tensors, numbers, "
        "strings, lists, tuples and dicts of them (a NumPy array by torch.from_numpy(), an object by its state_dict())"
    )


def _made(tree: Any, buffers: list[memoryview]) -> Any:
    if not isinstance(tree, list):
        return tree
    kind, *rest = tree
    if kind == "tensor":
        number, name, shape = rest
        dtype = getattr(torch, name)
        if not isinstance(dtype, torch.dtype):
            raise ValueError(f"{name} is no type of tensors")
        tensor = torch.empty(shape, dtype=dtype)
        _bytes_of(tensor)[:] = buffers[number]
        return tensor
    if kind == "dict":
        return {_made(key, buffers): _made(value, buffers) for key, value in rest}
    made = [_made(one, buffers) for one in rest]
    return made if kind == "list" else tuple(made)


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    """The bytes of a contiguous tensor, which lives as long as the view."""
    memory = (ctypes.c_ubyte * tensor.nbytes).from_address(tensor.data_ptr() if tensor.nbytes else 0)
    setattr(memory, "owner", tensor)  # noqa: B010 (the view keeps `memory`)
    return memoryview(memory).cast("B")
