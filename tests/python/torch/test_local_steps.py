# SPDX-License-Identifier: Apache-2.0
"""The state of a program under a strategy, on an accelerator.

Claims: newcomers and checkpoints receive the optimiser's state as it was at one boundary, and it is copied while the
members compute, not in step_begin.
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

import spotnik.torch as spotnik
from spotnik import Config
from spotnik.torch import _replica, _strategic

Make = Callable[..., Cluster]
ELEMENTS = 1 << 15
JOINS = 4


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
