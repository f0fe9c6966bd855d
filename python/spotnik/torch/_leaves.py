# SPDX-License-Identifier: Apache-2.0
"""The numbers in a program's objects: learning rates, a scheduler's counters, a scaler's scale.

Whatever has ``state_dict()`` is seen as a tree; its numbers, in order, become 64-bit integers that keep every bit (a
float travels as its IEEE pattern). Each step carries them, so that a joiner that repeats the step takes it with
the very same numbers. The structure must stay what it was at the first step; numbers may change freely.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Protocol

import torch

#: Stands for "this member does not know": the identity of MAX.
UNKNOWN = -(1 << 63)


class Stateful(Protocol):
    """What can be part of a replica beside tensors."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state as a tree of dicts and lists."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> Any:
        """Take over such a state."""
        ...


def _is_number(value: object) -> bool:
    return isinstance(value, (bool, int, float)) or (isinstance(value, torch.Tensor) and value.dim() == 0)


def numbers(tree: object, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (path, value) of every number in `tree`, in a fixed order."""
    if _is_number(tree):
        yield path, tree
    elif isinstance(tree, dict):
        for key in tree:
            yield from numbers(tree[key], f"{path}.{key}" if path else str(key))
    elif isinstance(tree, (list, tuple)):
        for index, value in enumerate(tree):
            yield from numbers(value, f"{path}[{index}]")


def tensors(tree: object, path: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Yield (path, tensor) of every tensor in `tree` that is more than one number."""
    if isinstance(tree, torch.Tensor):
        if tree.dim() > 0:
            yield path, tree
    elif isinstance(tree, dict):
        for key in tree:
            yield from tensors(tree[key], f"{path}.{key}" if path else str(key))
    elif isinstance(tree, (list, tuple)):
        for index, value in enumerate(tree):
            yield from tensors(value, f"{path}[{index}]")


def encode(value: Any) -> int:
    """One number as a signed 64-bit integer, bit for bit."""
    if isinstance(value, torch.Tensor):
        value = value.item()
    if isinstance(value, float):
        return int(struct.unpack("<q", struct.pack("<d", value))[0])
    return ((int(value) + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


def _decode_scalar(code: int, kind: type) -> Any:
    if kind is float:
        return struct.unpack("<d", struct.pack("<q", code))[0]
    return kind(code)


def decode(code: int, like: Any) -> Any:
    """Turn an integer made by :func:`encode` into a number of the kind of `like`; a tensor is written in place."""
    if isinstance(like, torch.Tensor):
        kind: type = float if like.is_floating_point() else int
        like.fill_(_decode_scalar(code, kind))
        return like
    return _decode_scalar(code, type(like) if type(like) in (bool, int, float) else float)


def replaced(tree: Any, codes: Iterator[int]) -> Any:
    """A copy of `tree` with its numbers taken from `codes`, which must have one for each."""
    if _is_number(tree):
        return decode(next(codes), tree)
    if isinstance(tree, dict):
        return {key: replaced(value, codes) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return (list if isinstance(tree, list) else tuple)(replaced(value, codes) for value in tree)
    return tree


def _keep_memory(before: Any, after: Any) -> None:
    """The memory of tensors is registered: an object that has taken over copies of them goes on in that memory."""
    kept = dict(tensors(before))
    for path, tensor in tensors(after):
        old = kept.get(path, tensor)
        if old.data_ptr() != tensor.data_ptr() and (old.shape, old.dtype) == (tensor.shape, tensor.dtype):
            tensor.data = old.data.copy_(tensor.data)


class Leaves:
    """The numbers of all objects of a program, as one list of integers.

    `groups` are the parameter groups of the optimisers: their settings (learning rate, momentum, ...), never their
    parameters. `objects` have ``state_dict()``.
    """

    def __init__(self, groups: list[dict[str, Any]], objects: list[Stateful]) -> None:
        self.groups = groups
        self.objects = objects
        self.keys = [[key for key in group if key != "params"] for group in groups]
        self.paths = [path for path, _ in self._walk()]
        self._last: list[int] = self.read()

    def _trees(self) -> list[Any]:
        settings = [{key: group.get(key) for key in keys} for group, keys in zip(self.groups, self.keys)]
        return [*settings, *(one.state_dict() for one in self.objects)]

    def _walk(self) -> Iterator[tuple[str, Any]]:
        for number, tree in enumerate(self._trees()):
            yield from numbers(tree, self._label(number))

    def _label(self, number: int) -> str:
        if number < len(self.groups):
            return f"param_groups[{number}]"
        number -= len(self.groups)
        return f"{type(self.objects[number]).__name__}[{number}]"

    def __len__(self) -> int:
        return len(self.paths)

    def read(self) -> list[int]:
        """All numbers as they are now.

        A number whose object has changed its structure since the start keeps its last known value.
        """
        now = dict(self._walk())
        self._last = [
            encode(now[path]) if path in now else last
            for path, last in zip(self.paths, getattr(self, "_last", [0] * len(self.paths)))
        ]
        return self._last

    def write(self, codes: list[int]) -> list[str]:
        """Give all objects these numbers; returns the paths of those that were different."""
        changed = [path for path, old, new in zip(self.paths, self.read(), codes) if old != new]
        if not changed:
            return changed
        wanted = dict(zip(self.paths, codes))
        for number, tree in enumerate(self._trees()):
            self._write_one(number, tree, wanted)
        self._last = codes
        return changed

    def _write_one(self, number: int, tree: Any, wanted: dict[str, int]) -> None:
        codes = [wanted.get(path, encode(value)) for path, value in numbers(tree, self._label(number))]
        new = replaced(tree, iter(codes))
        if number < len(self.groups):
            self.groups[number].update(new)
        else:
            held = self.objects[number - len(self.groups)]
            held.load_state_dict(new)
            _keep_memory(tree, held.state_dict())
