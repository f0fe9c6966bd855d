# SPDX-License-Identifier: Apache-2.0
"""Buffers of a model on an accelerator. Claim: a step waits for the device a few times, however many buffers there are.

The buffers, and what is computed from them, are taken to be on the device. To read it from the host waits, and so does
a copy between the two, which is what `_on_host` and `_on_device` do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from spotnik.torch import _buffers

READS = ("equal", "_local_scalar_dense", "is_nonzero")


class Device(TorchDispatchMode):
    """Knows which memory is on it, and counts waits."""

    def __init__(self, own: list[torch.Tensor]) -> None:
        super().__init__()
        self._kept: list[torch.Tensor] = []  # so that no address is used twice
        self._own: set[int] = set()
        self._crosses = False
        self.waits = 0
        for tensor in own:
            self._take(tensor)

    def _take(self, tensor: torch.Tensor) -> None:
        self._kept.append(tensor)
        self._own.add(tensor.untyped_storage().data_ptr())

    def crossing(self, copy: Callable[..., torch.Tensor], to_device: bool) -> Callable[..., torch.Tensor]:
        def copied(*arguments: Any) -> torch.Tensor:
            self.waits, self._crosses = self.waits + 1, True
            made = copy(*arguments).clone()
            self._crosses = False
            if to_device:
                self._take(made)
            return made

        return copied

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Optional[Any] = None) -> Any:
        made = function(*args, **(kwargs or {}))
        if self._crosses:
            return made
        given = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor) and one.numel()]
        there = [one for one in given if one.untyped_storage().data_ptr() in self._own]
        name = function._schema.name.split("::")[1]
        self.waits += bool(there) and (name in READS or len(there) < len(given))
        for one in tree_leaves(made) if there else ():
            if isinstance(one, torch.Tensor):
                self._take(one)
        return made


@pytest.mark.parametrize("layers", [1, 53])
def test_a_step_waits_for_the_device_a_few_times(layers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Sequential(*(nn.BatchNorm1d(8) for _ in range(layers)))
    buffers = _buffers.Buffers(model)
    before = [entry.committed.clone() for entry in buffers.means]
    model(torch.randn(16, 8) + 1)
    entries = buffers.means + buffers.wholes
    device = Device([*(one for _, one in model.named_buffers()), *(entry.committed for entry in entries)])
    monkeypatch.setattr(_buffers, "_on_host", device.crossing(_buffers._on_host, to_device=False))
    monkeypatch.setattr(_buffers, "_on_device", device.crossing(_buffers._on_device, to_device=True))
    with device:
        wholes, flags = buffers.contribute()
        assert flags == [1] * (3 * layers)
        buffers.mean.mul_(0.5)
        buffers.adopt([one + 1 for one in wholes], flags)
    assert 0 < device.waits <= 6
    assert all(not torch.equal(entry.committed, one) for entry, one in zip(buffers.means, before))
    assert all(torch.equal(entry.working, entry.committed) for entry in entries)
    assert wholes == [1] * layers
    assert [int(entry.committed) for entry in buffers.wholes] == [2] * layers
    wholes, flags = buffers.contribute()
    assert flags == [0] * (3 * layers)
