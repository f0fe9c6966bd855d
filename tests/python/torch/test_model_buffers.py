# SPDX-License-Identifier: Apache-2.0
"""Buffers of a model. Claims: on an accelerator a step waits for the device a few times, however many they are; a
warning names one to which members write different values.

The buffers, and what is computed from them, are taken to be on the device. To read it from the host waits, and so does
a copy between the two, which is what `_on_host` and `_on_device` do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Optional

import pytest
import torch
from cluster import Cluster, Tell
from programs import data
from test_features import together
from test_weights import Words
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.data import DataLoader

import spotnik.torch as spotnik
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


class Watching(nn.Module):
    """It keeps something of what passes through it."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.inner = kind, nn.Linear(6, 2)
        self.norm = nn.BatchNorm1d(2) if kind == "norm" else nn.Identity()
        self.register_buffer("kept", torch.zeros((), dtype=torch.int64 if kind == "mixed" else torch.float32))

    def forward(self, x: torch.Tensor) -> Any:
        found = {"steps": self.kept + 1, "mixed": self.kept + (x > 0).sum(), "greatest": self.kept.maximum(x.max())}
        found["half"] = 0.5 * self.kept + 0.5
        with torch.no_grad():
            self.kept.copy_(found.get(self.kind, self.kept))
        return self.norm(self.inner(x))


def watches(tell: Tell, kind: str) -> None:
    words = Words()
    logging.getLogger("spotnik.torch").addHandler(words)
    model = Watching(kind)
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    spotnik.prepare(model, opt)
    for x, y in spotnik.shard(DataLoader(data(torch.float32), batch_size=24)):
        nn.functional.cross_entropy(model(x), y).backward()
        opt.step()
        opt.zero_grad()
    tell(done=[one for one in words.kept if "to buffer" in one])


@pytest.mark.parametrize(
    ("kind", "words"),
    [("steps", ""), ("half", ""), ("norm", ""), ("mixed", "becomes the greatest"), ("greatest", "becomes their mean")],
)
def test_a_buffer_to_which_members_write_different_values_is_told(
    cluster: Callable[..., Cluster], kind: str, words: str
) -> None:
    job = cluster()
    job.gather(2)
    together(job, watches, 2, kind=kind)
    for line in job.lines("done"):
        assert len(line["done"]) <= (1 if words else 0), line
    told = [one for line in job.lines("done") for one in line["done"]]
    assert bool(told) == bool(words) and all(words in one for one in told)
