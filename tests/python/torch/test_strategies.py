# SPDX-License-Identifier: Apache-2.0
"""Strategies other than averaging gradients: what is agreed is the same bits everywhere, and as good a model."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any, Optional

import pytest
import torch
from cluster import Cluster, Tell, alone
from programs import data, network, optimizer_for
from torch import nn
from torch.utils.data import DataLoader

import spotnik.torch as spotnik
from spotnik import Config
from spotnik.sync import Sync, Vectors

Make = Callable[..., Cluster]
STRATEGIES = ["sma", "easgd", "localsgd", "lookahead", "lookahead+sma", "adpsgd", "asp"]
STEPS = 300


class Halfway:
    """Every other step the models go half of the way to their average."""

    name, synchronous, same_bits, early = "halfway", True, False, False

    def begin(self, sync: Sync[torch.Tensor], now: Vectors[torch.Tensor]) -> None:
        if now.step % 2 == 0:
            now.scratch.copy_(now.model)
            sync.average(now.scratch)

    def finish(self, sync: Sync[torch.Tensor], now: Vectors[torch.Tensor]) -> None:
        if now.step % 2 == 0:
            now.centre.copy_(now.scratch)
            now.model.lerp_(now.centre, 0.5)
        assert now.gradient is not None
        sync.apply(now.model, now.gradient)


def loss_of(net: nn.Module) -> float:
    x, y = data(torch.float32).tensors
    with torch.no_grad():
        return nn.functional.cross_entropy(net.eval()(x), y).item()


def under(
    tell: Tell,
    sync: Optional[str],
    steps: int = STEPS,
    kind: str = "mlp",
    optimizer: str = "adamw",
    clip: float = 0,
    decay_every: int = 50,
    awaits: int = 0,
    **settings: Any,
) -> None:
    """Train under a strategy; tells each step with the digest of what is agreed, and the loss of it at the end.

    Steps are slow until `awaits` members are there.
    """
    net = network(kind, torch.float32)
    opt = optimizer_for(net, optimizer)

    def committed(report: spotnik.StepReport) -> None:
        tell(step=report.number, digest=spotnik.digest(), members=report.members, samples=report.samples)

    rule: Any = Halfway() if sync == "halfway" else sync
    config = Config(steps_max=steps)
    net, opt = spotnik.prepare(net, opt, sync=rule, config=config, on_step=committed, seed=7, **settings)
    schedule = torch.optim.lr_scheduler.StepLR(opt, step_size=decay_every, gamma=0.9 ** (decay_every / 50))
    loader = spotnik.shard(DataLoader(data(torch.float32), batch_size=24, shuffle=True))
    for _ in itertools.count():
        for x, y in loader:
            opt.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            if clip:
                nn.utils.clip_grad_norm_(net.parameters(), clip)
            opt.step()
            schedule.step()
            if spotnik.size() < awaits:
                time.sleep(0.02)
        if spotnik.job().status().step_committed >= steps:
            break
    own = loss_of(net)
    with spotnik.agreed():
        tell(done=True, loss=loss_of(net), own=own, digest=spotnik.digest())


def digests(job: Cluster) -> dict[int, int]:
    """Of each step; fails where members differ. A killed member's last step may be nobody's."""
    assert not job.errors()
    told: dict[int, int] = {}
    for member in job.members:
        steps = [line for line in member.lines if "step" in line]
        for line in steps[: -1 if member.status else None]:
            assert told.setdefault(line["step"], line["digest"]) == line["digest"], f"step {line['step']}"
    return told


@pytest.mark.parametrize("strategy", [*STRATEGIES, "halfway", "auto:schedule=0.5"])
def test_learns_while_members_are_killed(cluster: Make, strategy: str) -> None:
    """Three members, one killed every 60 steps and replaced."""
    job = cluster(minimum=2)
    for _ in range(3):
        job.start(under, sync=strategy)
    due = 40
    for member, line in job.events():
        if "done" in line:
            job.dismiss_latecomers()
        if line.get("step", 0) >= due and due < STEPS - 60:
            due += 60
            job.kill(member)
            job.start(under, sync=strategy)
    assert sorted(digests(job)) == list(range(1, STEPS + 1))
    ends = job.lines("done")
    assert ends and len({line["digest"] for line in ends}) == 1
    assert max(line["loss"] for line in ends) < 0.63, "0.69 is to know nothing"


@pytest.mark.parametrize("strategy", ["lookahead", "auto:schedule=0.5"])
def test_a_joiner_has_the_learning_rate_of_the_others(cluster: Make, strategy: str) -> None:
    """It changes in every step, so a copy that is a scheduler's tick older shows at once."""
    job, settings = cluster(minimum=2), {"sync": strategy, "decay_every": 1, "steps": 200, "awaits": 3}
    for _ in range(2):
        job.start(under, **settings)
    late = False
    for _, line in job.events():
        if "done" in line:
            job.dismiss_latecomers()
        if line.get("step", 0) >= 20 and not late:
            late = True
            job.start(under, **settings)
    assert len(digests(job)) == 200
    assert len({line["digest"] for line in job.lines("done")}) == 1


def test_alone_it_is_the_optimizer_itself(cluster: Make, tmp_path: Any) -> None:
    """A job of one has nobody to average with: all strategies but Lookahead take the program's own steps."""
    names = ("ssgd", "sma", "localsgd")
    ends = {name: alone(under, tmp_path, sync=name, steps=40, clip=0.5)[-1] for name in names}
    assert ends["localsgd"]["own"] == ends["ssgd"]["own"]
    assert abs(ends["sma"]["own"] - ends["ssgd"]["own"]) < 1e-5, "0.9 w + 0.1 w is w but for rounding"


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_buffers_and_optimisers(cluster: Make, optimizer: str) -> None:
    job = cluster(minimum=2)
    for _ in range(2):
        job.start(under, sync="sma", kind="norm", optimizer=optimizer, steps=60)
    job.wait()
    assert sorted(digests(job)) == list(range(1, 61))


def misused(tell: Tell, what: str) -> None:
    net = network("mlp", torch.float32)
    opt = optimizer_for(net, "sgd")
    config = Config(steps_max=3)
    net, opt = spotnik.prepare(net, opt, sync="nonsense" if what == "name" else "sma", config=config)
    scaler = torch.amp.GradScaler("cpu") if what == "scaler" else None
    loader = spotnik.shard(DataLoader(data(torch.float32), batch_size=24))
    for x, y in loader:
        if what == "closure":
            opt.step(lambda: 0.0)
        nn.functional.cross_entropy(net(x), y).backward()
    tell(scaler=scaler is not None)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("name", "ssgd, sma, easgd"),
        ("scaler", "bfloat16"),
        ("closure", "not in a closure"),
        ("nothing", "not optimizer.step()"),
    ],
)
def test_misuse(cluster: Make, what: str, said: str) -> None:
    job = cluster()
    job.start(misused, what=what)
    job.wait()
    assert said in job.errors()[0]
