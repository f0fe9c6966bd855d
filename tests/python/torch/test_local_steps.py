# SPDX-License-Identifier: Apache-2.0
"""Steps of a strategy that send no model touch the memory of an accelerator alone.

Claims: such a step copies nothing of the model's size to the host or back. Newcomers and checkpoints receive the
optimiser's state as it was at one boundary, and it is copied while the members compute, not in step_begin.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cluster import Cluster, Tell
from fake_device import FakeDevice
from test_state_beside import Slow
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import spotnik.torch as spotnik
from spotnik import Config
from spotnik.torch import _replica, _strategic, _strategies
from spotnik.torch._session import current

Make = Callable[..., Cluster]
ELEMENTS = 1 << 15
JOINS = 4


class Crossings(TorchDispatchMode):
    """Counts the elements that go between vectors of the host and other memory, which stands for a device's."""

    def __init__(self) -> None:
        super().__init__()
        self._places: set[int] = set()
        self.elements = 0

    def know(self, vector: torch.Tensor) -> torch.Tensor:
        """It is one of the host's."""
        self._places.add(vector.untyped_storage().data_ptr())
        return vector

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        tensors = [one for one in tree_leaves((args, kwargs, found)) if isinstance(one, torch.Tensor)]
        if len({one.untyped_storage().data_ptr() in self._places for one in tensors}) == 2:
            self.elements += tensors[0].numel()
        return found


class Aged(torch.optim.Optimizer):
    """Its state says how many steps it has taken, as often as a parameter has elements."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 0.01})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self.state[parameter].setdefault("age", torch.zeros_like(parameter)).add_(1)
                    parameter.sub_(parameter.grad, alpha=group["lr"])


def line(steps: int, sync: str, **options: Any) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(1)
    net = nn.Linear(ELEMENTS, 1, bias=False)
    opt = Aged(net.parameters())
    return spotnik.prepare(net, opt, sync=sync, seed=3, config=Config(steps_max=steps), **options)


def train(net: nn.Module, opt: torch.optim.Optimizer) -> None:
    net(torch.randn(2, ELEMENTS)).square().mean().backward()
    opt.step()
    opt.zero_grad()


def counts(tell: Tell, sync: str, steps: int) -> None:
    """Tells how often the model was copied in each step."""
    crossings, make = Crossings(), _strategies._vector
    _strategies._vector = lambda pointer, count: crossings.know(make(pointer, count))
    net, opt = line(steps, sync)
    train(net, opt)
    strategy = current().strategy
    assert strategy is not None
    crossings.know(strategy.model)
    crossings.know(strategy.gradient)
    for _ in range(2, steps + 1):
        crossings.elements = 0
        with crossings:
            train(net, opt)
        tell(step=spotnik.step(), copies=crossings.elements / ELEMENTS, digest=spotnik.digest())


@pytest.mark.parametrize(
    ("sync", "local"),
    [
        ("localsgd", lambda step: step % 8),
        ("easgd", lambda step: step % 4),
        ("lookahead+localsgd", lambda step: step % 8 and step % 5),
    ],
    ids=["localsgd", "easgd", "lookahead"],
)
def test_a_step_that_sends_nothing_copies_nothing(cluster: Make, sync: str, local: Callable[[int], int]) -> None:
    job = cluster()
    job.gather(2)
    for _ in range(2):
        job.start(counts, sync=sync, steps=25)
    job.wait()
    assert not job.errors()
    told = {one["step"]: one for one in job.members[0].lines}
    print({step: one["copies"] for step, one in told.items()})
    assert all((one["copies"] == 0) == bool(local(step)) for step, one in told.items())
    assert len({one["digest"] for one in job.lines("step")}) == len({one["digest"] for one in told.values()})


def aged(tell: Tell, sync: str, path: str = "", **options: Any) -> None:
    """On a device whose copies are slow. Tells the ages that come with the state of others, and of which step it is.

    With checkpoints it ends, without a word to the job, as soon as one is complete; else when there is a file `path`.
    """
    fake = FakeDevice(seed=1, eager=True)

    class Watched(Slow):
        def read(self, offset: int, address: int, size: int) -> None:
            in_program = threading.current_thread() is threading.main_thread()
            if in_program and spotnik.job().running is None:
                tell(held_up=True)
            super().read(offset, address, size)

    class Receives(_strategic.ByStrategy):
        def received(self) -> None:
            super().received()
            step = spotnik.job().running
            assert step is not None
            ages = [state["age"] for state in opt.state.values()]
            tell(came=step.number - 1, ages=[[age.min().item(), age.max().item()] for age in ages])

    _replica.accelerator_of = lambda _tensor: fake  # type: ignore[assignment]
    _replica.Reach = Watched  # type: ignore[misc]
    spotnik.ByStrategy = Receives  # type: ignore[misc]
    net, opt = line(100000, sync, **options)
    while not (path and Path(path).exists()):
        train(net, opt)
        tell(step=spotnik.step(), digest=spotnik.digest())
        if options and spotnik.job().checkpoint.complete_step > 2:
            os._exit(0)


@pytest.mark.parametrize("sync", ["localsgd", "asp"])
def test_newcomers_receive_one_boundary(cluster: Make, tmp_path: Path, sync: str) -> None:
    """Two members stay; one after the other joins them, and is killed."""
    job, path = cluster(minimum=2), tmp_path / "stop"
    for _ in range(2):
        job.start(aged, sync=sync, path=str(path))
    came = []
    for member, told in job.events():
        if told.get("step") == 5 and len(job.members) == 2:
            job.start(aged, sync=sync, path=str(path))
        if "came" in told and member.number >= 2:
            came.append(told)
            job.kill(member)
            if len(came) < JOINS:
                job.start(aged, sync=sync, path=str(path))
            else:
                path.touch()
    assert not job.errors() and not job.lines("held_up")
    assert len(came) == JOINS
    for one in came:
        assert one["ages"] == [[one["came"], one["came"]]]


@pytest.mark.parametrize("sync", ["localsgd", "asp"])
def test_a_checkpoint_is_of_one_boundary(cluster: Make, tmp_path: Path, sync: str) -> None:
    job, settings = cluster(), {"sync": sync, "checkpoint": str(tmp_path / "saved")}
    job.environment["SPOTNIK_CHECKPOINT_STEPS"] = "3"
    for _ in range(2):
        job.start(aged, **settings)
        job.wait()
    assert not job.errors() and not job.lines("held_up")
    first, second = (member.lines for member in job.members)
    came = next(one for one in second if "came" in one)
    assert came["ages"] == [[came["came"], came["came"]]] and came["came"] > 2
    if sync == "localsgd":  # what is agreed is the average of step 8, 16, ...
        before = {one["step"]: one["digest"] for one in first if "step" in one}
        after = next(one for one in second if "step" in one)
        assert after["step"] == came["came"] + 1
        assert after["step"] % 8 == 0 or after["digest"] == before[came["came"]]
