# SPDX-License-Identifier: Apache-2.0
"""Loops without a sharded loader, which count their iterations and set learning rates by hand: members come and go."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import ledger
import pytest
import torch
from cluster import Cluster, Tell, alone
from programs import SAMPLES, data, network
from torch import nn

import spotnik.torch as spotnik
from spotnik.torch._optimizers import materialise
from spotnik.torch._session import current

Make = Callable[..., Cluster]


def rate(iteration: int) -> float:
    return 0.01 / (1 + iteration)


class Count(logging.Handler):
    """Counts warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.seen = 0

    def emit(self, _: logging.LogRecord) -> None:
        self.seen += 1


def told(tell: Tell, opt: torch.optim.Optimizer) -> Callable[[spotnik.StepReport], None]:
    """Tells of each committed step, with the learning rate it was applied with."""

    def committed(report: spotnik.StepReport) -> None:
        tell(
            step=report.number,
            samples=report.samples,
            members=report.members,
            contributors=report.contributors,
            digest=spotnik.job().digest,
            member=spotnik.job().status().member,
            lr=opt.param_groups[0]["lr"],
        )

    return committed


def train(
    tell: Tell, job_wide: bool, iterations: int = 1 << 30, checkpoint: str = "", until: int = 1 << 30, stop: str = ""
) -> None:
    """The loop of many scripts: a counter, a learning rate from it, batches drawn at random.

    It ends after `iterations`, or where one of the members has found the file `stop`.
    """
    warnings = Count()
    logging.getLogger("spotnik.torch").addHandler(warnings)
    net = network()
    opt = torch.optim.SGD(net.parameters(), lr=1.0)

    net, opt = spotnik.prepare(net, opt, on_step=told(tell, opt), checkpoint=checkpoint or None, metrics=("stop",))
    x, y = data().tensors
    first = iteration = spotnik.step() if job_wide else 0
    ends = False
    while iteration < min(iterations, until) and not ends:
        opt.param_groups[0]["lr"] = rate(iteration)
        batch = torch.randint(0, SAMPLES, (8,))
        spotnik.tell("stop", bool(stop) and Path(stop).exists())
        nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
        ends = spotnik.told("stop") > 0
        opt.step()
        opt.zero_grad()
        status = spotnik.job().status()
        if status.size < 2 and not status.joining:
            time.sleep(0.01)  # a job that is not over before anybody can join it
        iteration = spotnik.step() if job_wide else iteration + 1
    tell(done=iteration, first=first, digest=spotnik.job().digest, warnings=warnings.seen)


def sets_late(tell: Tell, stop: str, job_wide: bool) -> None:
    """The learning rate is set between backward() and step(), as nanochat has it."""
    net = network()
    opt = torch.optim.SGD(net.parameters(), lr=1.0)

    spotnik.prepare(net, opt, on_step=told(tell, opt), metrics=("stop",))
    x, y = data().tensors
    iteration, ends = 0, False
    while not ends:
        batch = torch.randint(0, SAMPLES, (8,))
        spotnik.tell("stop", Path(stop).exists())
        nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
        ends = spotnik.told("stop") > 0
        opt.param_groups[0]["lr"] = rate(spotnik.step() if job_wide else iteration)
        opt.step()
        opt.zero_grad()
        iteration += 1
        if spotnik.size() < 2:
            time.sleep(0.01)  # a job that is not over before anybody can join it
    tell(done=spotnik.step(), digest=spotnik.job().digest)


def test_rates_set_after_backward_by_the_steps_of_the_job(cluster: Make, tmp_path: Path) -> None:
    job, shared = cluster(), 0
    settings = {"stop": str(tmp_path / "stop"), "job_wide": True}
    job.start(sets_late, **settings)
    for member, line in job.events():
        if line.get("step") == 5 and len(job.members) == 1:
            job.start(sets_late, **settings)
        shared += line.get("members") == 2 and member.number == 1
        if shared == 10:
            (tmp_path / "stop").touch()
    assert shared >= 10 and not job.errors(), job.errors()
    ledger.agreed(job)
    one, other = job.lines("done")
    assert one == other


def test_rates_set_after_backward_by_a_count_of_its_own_end_a_joiner(cluster: Make, tmp_path: Path) -> None:
    """Its parameters have parted from the others', and it says what to write."""
    job, settings = cluster(), {"stop": str(tmp_path / "stop"), "job_wide": False}
    job.start(sets_late, **settings)
    for member, line in job.events():
        if line.get("step") == 5 and len(job.members) == 1:
            job.start(sets_late, **settings)
        if member.number == 1 and "ended" in line:
            (tmp_path / "stop").touch()
    (error,) = job.lines("error")
    assert error["error"] == "StateError" and "Set them before backward()" in error["text"]
    assert [member.status for member in job.members] == [0, 1]


def join_after(job: Cluster, step: int, stop: Path, **settings: object) -> None:
    """One member, a second from `step` on; both end when the second has told of ten steps with both."""
    job.start(train, stop=str(stop), **settings)
    shared = 0
    for member, line in job.events():
        if line.get("step") == step and len(job.members) == 1:
            job.start(train, stop=str(stop), **settings)
        shared += line.get("members") == 2 and member.number == 1
        if shared == 10:
            stop.touch()
    assert shared >= 10  # they met
    assert not job.errors(), job.errors()


def test_settings_are_those_of_the_member_that_has_been_here_longest(cluster: Make, tmp_path: Path) -> None:
    """A joiner counts from 0 and has a greater learning rate: it is not used, by nobody, and said once."""
    job = cluster()
    join_after(job, 5, tmp_path / "stop", job_wide=False)
    for number, line in ledger.agreed(job).items():
        assert line["lr"] == rate(number - 1)
    assert [line["warnings"] for member in job.members for line in member.lines if "done" in line] == [0, 1]


def test_a_loop_by_the_steps_of_the_job_ends_at_the_same_step_everywhere(cluster: Make, tmp_path: Path) -> None:
    job = cluster()
    join_after(job, 5, tmp_path / "stop", job_wide=True)
    steps = ledger.agreed(job)
    assert all(line["lr"] == rate(number - 1) for number, line in steps.items())
    ends = job.lines("done")
    assert [line["done"] for line in ends] == [max(steps)] * 2
    assert len({line["digest"] for line in ends}) == 1
    assert ends[0]["warnings"] == ends[1]["warnings"] == 0


def test_a_resumed_loop_goes_on_where_it_was(tmp_path: Path) -> None:
    settings = {"iterations": 12, "job_wide": True, "checkpoint": str(tmp_path / "kept")}
    first = alone(train, tmp_path, until=7, **settings)[-1]
    second = alone(train, tmp_path, **settings)
    assert (first["first"], first["done"]) == (0, 7)
    assert (second[-1]["first"], second[-1]["done"]) == (7, 12)
    assert [line["lr"] for line in second if "step" in line] == [rate(i) for i in range(7, 12)]
    again = alone(train, tmp_path, **settings)  # a finished job repeats nothing
    assert [line for line in again if "step" in line] == []
    assert again[-1]["first"] == again[-1]["done"] == 12


class Agent(nn.Module):
    """As reinforcement learning has it: it acts as a whole, and learns in parts."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.actor = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))
        self.critics = nn.ModuleList([nn.Linear(6, 1), nn.Linear(6, 1)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.actor(x).argmax(1)

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        values = sum(critic(x).squeeze(1) for critic in self.critics)
        return nn.functional.cross_entropy(self.actor(x), y) + (values - y).pow(2).mean()


def in_parts(tell: Tell, stop: str) -> None:
    net = Agent()
    opt = torch.optim.Adam(net.parameters(), lr=0.01)

    net, opt = spotnik.prepare(net, opt, on_step=told(tell, opt), metrics=("stop",))
    x, y = data(torch.float32).tensors
    ends = False
    while not ends:
        batch = torch.randint(0, SAMPLES, (8,))
        with torch.no_grad():
            net(x[batch])  # a look that trains nothing
        net.loss(x[batch], y[batch]).backward()
        spotnik.tell("stop", Path(stop).exists())
        opt.step()
        opt.zero_grad()
        ends = spotnik.told("stop") > 0
    tell(done=spotnik.job().digest)


def test_a_model_whose_parts_are_called_by_themselves_trains_and_is_joined(cluster: Make, tmp_path: Path) -> None:
    job, stop = cluster(), tmp_path / "stop"
    job.gather(2)
    for _ in range(2):
        job.start(in_parts, stop=str(stop))
    for _, line in job.events():
        if line.get("step", 0) >= 3 and len(job.members) == 2:
            job.start(in_parts, stop=str(stop))
        if line.get("members") == 3:
            stop.touch()
    assert not job.errors(), job.errors()
    steps = ledger.agreed(job)
    assert max(line["members"] for line in steps.values()) == 3
    assert len({line["done"] for line in job.lines("done")}) == 1


def test_hooks_of_parts_are_gone_when_the_model_itself_is_trained() -> None:
    net = Agent()
    net.forward = net.loss  # type: ignore[method-assign]
    opt = torch.optim.Adam(net.parameters())
    net, opt = spotnik.prepare(net, opt)
    try:
        x, y = data(torch.float32).tensors
        assert net.actor._forward_pre_hooks
        with torch.no_grad():
            net(x[:4], y[:4])
        assert net.actor._forward_pre_hooks
        with patch.object(current(), "begin"):
            net(x[:4], y[:4])
        assert not net.actor._forward_pre_hooks
        assert not net.critics[0]._forward_pre_hooks
    finally:
        spotnik.leave()


def sam(tell: Tell, path: str) -> None:
    """The guide's class, two passes for each batch."""
    guide = (Path(__file__).parents[3] / "docs" / "guide" / "pytorch.md").read_text()
    names = {"torch": torch}
    exec(guide[guide.index("class SAM") : guide.index("model, optimizer = spotnik.prepare(model, SAM")], names)
    net = network(dtype=torch.float32)
    net, opt = spotnik.prepare(net, names["SAM"](net.parameters(), lr=0.1))
    x, y = data(torch.float32).tensors
    while spotnik.step() < 60:
        batch = slice(spotnik.step() // 2 % 8 * 16, spotnik.step() // 2 % 8 * 16 + 16)
        opt.zero_grad()
        nn.functional.cross_entropy(net(spotnik.part_of(x[batch])), spotnik.part_of(y[batch])).backward()
        opt.step()
    torch.save([p.detach() for p in net.parameters()], f"{path}.{spotnik.rank()}")


def test_an_optimiser_that_steps_twice_for_a_batch(cluster: Make, tmp_path: Path) -> None:
    """Two members compute what one does."""
    job, path = cluster(minimum=2), str(tmp_path / "end")
    for _ in range(2):
        job.start(sam, path=path)
    job.wait()
    assert not job.errors(), job.errors()
    alone(sam, tmp_path, path=f"{path}.alone")
    assert ledger.distance(f"{path}.0", f"{path}.1") == 0
    assert ledger.distance(f"{path}.0", f"{path}.alone.0") < 1e-5


def test_an_optimiser_without_step_is_told_the_way() -> None:
    class Halves(torch.optim.Optimizer):
        def step(self, closure: object = None) -> None:  # type: ignore[override]
            raise NotImplementedError

    net = network()
    with pytest.raises(spotnik.ArgumentError, match="Two steps for a batch"):
        materialise(Halves(net.parameters(), {}))
