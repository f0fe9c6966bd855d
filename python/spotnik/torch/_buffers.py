# SPDX-License-Identifier: Apache-2.0
"""Buffers of the model (running statistics of BatchNorm, ...): bit-identical on all replicas after every step.

A forward pass changes them on each member differently, and before the step is committed. So each buffer has a
*committed* copy, which is what joiners receive. With every step travel, for each buffer, the member's new value and
whether it changed at all. What no member changed stays as it was; floating buffers become the mean over the members,
weighted by samples; whole numbers (num_batches_tracked) the maximum.
"""

from __future__ import annotations

import contextlib
import dataclasses

import torch

from ..errors import ArgumentError
from ._log import log

#: Larger buffers are taken for constants (tables, masks): they are part of the state, but do not travel each step.
ELEMENTS_MAX = 1 << 16
WHOLES_MAX = 1 << 10
_LOOKS = 20  #: first steps in which a member compares what it wrote with what the step made of it
_CLOSE = 1e-4  #: what different kernels make of the same value, and no more


_MEAN = (
    "it becomes their mean, weighed by samples. That is what one process has where the value is a mean over samples. "
    "Multiply what is added up over the batch (the counts of a codebook) by batch_size / len(batch), and compute what "
    "follows from it in the next pass. A greatest or least value depends on the number of members"
)
_GREATEST = (
    "it becomes the greatest of them, as numbers of steps need it. To count samples, count batch_size in place of "
    "len(batch), or let the buffer have a floating type and a mean over samples"
)


@dataclasses.dataclass
class _Entry:
    name: str
    module: torch.nn.Module
    key: str
    committed: torch.Tensor
    at: int  # in the mean or among the whole numbers
    given: torch.Tensor  # the buffer, as it was when it last became what is committed
    version: int

    @property
    def working(self) -> torch.Tensor:
        value = self.module._buffers[self.key]
        if value is None or value.shape != self.committed.shape or value.dtype != self.committed.dtype:
            raise ArgumentError(
                f"buffer {self.name} changed its shape or type after prepare(); prepare the model when it is complete"
            )
        return value

    @property
    def of_norm(self) -> bool:
        """Is it a statistic of a normalisation, of which prepare() has told?"""
        return isinstance(self.module, torch.nn.modules.batchnorm._NormBase)

    @property
    def stirred(self) -> bool:
        """Has the program written to the buffer since?"""
        return self.working is not self.given or self.working._version != self.version

    def give(self) -> None:
        """The buffer becomes what is committed.

        A graph may live on: that of a generator, when the critic has stepped. Statistics of a normalisation are none of
        its business, since its backward pass in training does not look at them.
        """
        working = self.working
        apart = self.of_norm and self.module.training
        with torch.autograd.grad_mode._unsafe_preserve_version_counter(working) if apart else contextlib.nullcontext():
            working.copy_(self.committed)
        self.given, self.version = working, working._version


def _named(model: torch.nn.Module) -> list[tuple[str, torch.nn.Module, str, torch.Tensor]]:
    found, seen = [], set()
    for prefix, module in model.named_modules():
        for key, value in module._buffers.items():
            if value is not None and value.numel() and id(value) not in seen:
                seen.add(id(value))
                found.append((f"{prefix}.{key}" if prefix else key, module, key, value))
    return found


def _on_host(values: list[torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
    """`values` one behind the other in host memory: one copy, where all are on one device."""
    if not values:
        return torch.zeros(0, dtype=dtype)
    is_one = len({value.device for value in values}) == 1
    parts = [value.reshape(-1).to(value.device if is_one else "cpu", dtype) for value in values]
    return torch.cat(parts).to("cpu")


def _on_device(values: torch.Tensor, device: torch.device) -> torch.Tensor:
    return values.to(device)


def _spread(values: torch.Tensor, entries: list[_Entry]) -> None:
    """`values`, in host memory, become what is committed of `entries`: one copy for each device."""
    for device in {entry.committed.device for entry in entries}:
        there, on_device = _on_device(values, device), [entry for entry in entries if entry.committed.device == device]
        parts = [there[entry.at : entry.at + entry.committed.numel()].view_as(entry.committed) for entry in on_device]
        torch._foreach_copy_([entry.committed for entry in on_device], parts)


class Buffers:
    """All buffers of a model, what each contributes to a step, and what the step makes of them."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.means: list[_Entry] = []
        self.wholes: list[_Entry] = []
        self.constants: list[tuple[str, torch.Tensor, int]] = []
        mean_count = whole_count = 0
        for name, module, key, value in _named(model):
            limit = ELEMENTS_MAX if value.is_floating_point() else WHOLES_MAX
            if value.numel() > limit or value.is_complex():
                self.constants.append((name, value, value._version))
                continue
            copy, now = value.detach().clone(), (value, value._version)
            if value.is_floating_point():
                self.means.append(_Entry(name, module, key, copy, mean_count, *now))
                mean_count += value.numel()
            else:
                self.wholes.append(_Entry(name, module, key, copy, whole_count, *now))
                whole_count += value.numel()
        #: What travels as MEAN: float64, so that float32 values survive it unharmed.
        self.mean = torch.zeros(mean_count, dtype=torch.float64)
        self.whole_count = whole_count
        self._looks = _LOOKS if any(not entry.of_norm for entry in self.means + self.wholes) else 0
        self._own: tuple[torch.Tensor, list[int], list[int]] = (self.mean, [], [])  # what this member contributed

    @property
    def flag_count(self) -> int:
        """How many "it changed" flags travel."""
        return len(self.means) + len(self.wholes)

    def state(self) -> list[tuple[str, torch.Tensor]]:
        """What a joiner receives."""
        entries = [(f"buffer {entry.name}", entry.committed) for entry in self.means + self.wholes]
        return entries + [(f"buffer {name}", value) for name, value, _ in self.constants]

    @torch.no_grad()
    def contribute(self) -> tuple[list[int], list[int]]:
        """Fill `mean`; returns the whole numbers and the flags of this member."""
        mean, mean_flags = self._look(self.means, torch.float64)
        whole, whole_flags = self._look(self.wholes, torch.int64)
        self.mean.copy_(mean)
        self._own = mean, whole.tolist(), mean_flags + whole_flags
        for name, value, version in self.constants:
            if value._version != version:
                raise ArgumentError(
                    f"buffer {name} ({value.numel()} elements) is changed by forward(), and buffers of more than "
                    f"{ELEMENTS_MAX} elements ({WHOLES_MAX} of whole numbers) are not kept equal; split it, or keep it "
                    "out of the model"
                )
        return self._own[1:]

    @staticmethod
    def _look(entries: list[_Entry], dtype: torch.dtype) -> tuple[torch.Tensor, list[int]]:
        """The values of this member, and for each entry whether it differs from what is committed."""
        values = _on_host([*(entry.working for entry in entries), *(entry.committed for entry in entries)], dtype)
        own, committed = values.chunk(2) if entries else (values, values)
        ends = [(entry.at, entry.at + entry.committed.numel()) for entry in entries]
        return own, [int(not torch.equal(own[begin:end], committed[begin:end])) for begin, end in ends]

    @torch.no_grad()
    def adopt(self, wholes: list[int], flags: list[int]) -> None:
        """Take over what the step made of them, in the committed copies and in the model."""
        if self._looks:
            self._looks -= 1
            self._look_for_different(wholes, flags)
        _spread(self.mean, [entry for entry, flag in zip(self.means, flags) if flag > 0])
        changed = [entry for entry, flag in zip(self.wholes, flags[len(self.means) :]) if flag > 0]
        _spread(torch.tensor(wholes, dtype=torch.int64), changed)
        for entry, flag in zip(self.means + self.wholes, flags):
            if flag > 0 or entry.stirred:
                entry.give()

    def _look_for_different(self, wholes: list[int], flags: list[int]) -> None:
        """Tell of a buffer to which members wrote different values, once: is their mean what the program means?"""
        own, own_wholes, own_flags = self._own
        for entry, flag, is_own in zip(self.means + self.wholes, flags, own_flags):
            if not (flag > 0 and is_own) or entry.of_norm:
                continue
            end = entry.at + entry.committed.numel()
            if entry.committed.is_floating_point():
                now = self.mean[entry.at : end]
                differs, what = bool((own[entry.at : end] - now).abs().max() > _CLOSE * now.abs().max()), _MEAN
            else:
                differs, what = own_wholes[entry.at : end] != wholes[entry.at : end], _GREATEST
            if differs:
                self._looks = 0
                log.warning("members write different values to buffer %s in forward(): %s", entry.name, what)
                return

    @torch.no_grad()
    def keep(self) -> None:
        """A job of one: what the model has is committed."""
        for entry in self.means + self.wholes:
            entry.committed.copy_(entry.working)

    def received(self) -> None:
        """The state of others has come: it was written to constants, too."""
        self.constants = [(name, value, value._version) for name, value, _ in self.constants]
        self.restore()

    @torch.no_grad()
    def restore(self) -> None:
        """The model's buffers become what is committed."""
        for entry in self.means + self.wholes:
            entry.give()
