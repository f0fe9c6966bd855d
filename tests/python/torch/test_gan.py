# SPDX-License-Identifier: Apache-2.0
"""Several backward passes before a step, and optimisers that step in turn, as in PyTorch's own GAN example."""

from __future__ import annotations

import collections
import itertools
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ledger
import pytest
import torch
from cluster import Cluster, Tell, alone
from disturb import KILLS, disturb, takes_part
from programs import data
from test_features import together, told
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import spotnik.torch as spotnik
from spotnik import Config, StateError

Make = Callable[..., Cluster]
Loss = nn.functional.binary_cross_entropy_with_logits


def networks() -> tuple[nn.Module, nn.Module, torch.optim.Optimizer, torch.optim.Optimizer]:
    torch.manual_seed(4)
    generator = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 6)).double()
    critic = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    adam = torch.optim.Adam
    return generator, critic, adam(critic.parameters(), lr=0.01), adam(generator.parameters(), lr=0.01)


def loader(samples: int = 192) -> DataLoader[tuple[torch.Tensor, ...]]:
    return DataLoader(TensorDataset(*(tensor[:samples] for tensor in data().tensors)), batch_size=24)


def batch(nets: tuple[nn.Module, nn.Module, torch.optim.Optimizer, torch.optim.Optimizer], real: torch.Tensor) -> None:
    """One batch of the example: critic on real, critic on fake, step; generator, step."""
    generator, critic, critic_opt, generator_opt = nets
    ones, zeros = torch.ones(len(real), 1).double(), torch.zeros(len(real), 1).double()
    critic.zero_grad()
    Loss(critic(real), ones).backward()
    fake = generator(real[:, :2])  # in place of noise, so that every way of dividing the batch draws the same
    Loss(critic(fake.detach()), zeros).backward()
    critic_opt.step()
    generator.zero_grad()
    Loss(critic(fake), ones).backward()
    generator_opt.step()


def plain(tell: Tell, path: str) -> None:
    nets = networks()
    for _ in range(3):
        for real, _y in loader():
            batch(nets, real)
    torch.save([p.detach() for net in nets[:2] for p in net.parameters()], path)


def gan(tell: Tell, path: str) -> None:
    nets = networks()
    spotnik.prepare(nn.ModuleList(nets[:2]), list(nets[2:]), commit="step", on_step=told(tell))
    sharded = spotnik.shard(loader())
    for _ in range(3):
        for real, _y in sharded:
            batch(nets, real)
    torch.save([p.detach() for net in nets[:2] for p in net.parameters()], f"{path}.{spotnik.rank()}")


@pytest.mark.parametrize("members", [1, 3])
def test_a_gan_as_it_is_equals_plain_pytorch(cluster: Make, tmp_path: Path, members: int) -> None:
    path = str(tmp_path / "final")
    job = cluster()
    job.gather(members)
    together(job, gan, members, path=path)
    alone(plain, tmp_path, path=path)
    for rank in range(members):
        assert ledger.distance(f"{path}.{rank}", path) < 1e-9
    assert len(ledger.reports(job)) == 2 * 3 * 8  # a step of the job for each optimiser


def endless(tell: Tell, stop: str) -> None:
    nets = networks()
    spotnik.prepare(nn.ModuleList(nets[:2]), list(nets[2:]), commit="step", on_step=told(tell))
    sharded = spotnik.shard(loader())
    for _ in spotnik.epochs(2000):
        for real, _y in sharded:
            time.sleep(0.01)
            batch(nets, real)
            if Path(stop).exists() and spotnik.step() >= int(Path(stop).read_text()):
                tell(done=spotnik.job().digest)
                return


def test_a_gan_survives_kills_and_joins(cluster: Make, tmp_path: Path) -> None:
    job, stop = cluster(), tmp_path / "stop"
    disturb(job, lambda: job.start(endless, stop=str(stop)), kills=KILLS, stop=stop)
    ledger.agreed(job)
    ends = job.lines("done")
    assert len(ends) == 3 and ends[0] == ends[1] == ends[2]


def test_joiners_repeat_from_between_any_two_optimizers(cluster: Make, tmp_path: Path) -> None:
    """They come one at a time, until one had a copy from before each optimiser, and repeat to the same bits."""
    job, stop = cluster(), tmp_path / "stop"
    first: set[int] = set()  # of a joiner's repeats: whose turn was it?
    settings = {"stop": str(stop)}
    founder = job.start(endless, **settings)
    for member, line in job.events():
        steps = [told for told in member.lines if "step" in told]
        if member is founder and len(steps) == 1 and len(job.members) == 1:
            job.start(endless, **settings)
        if member is founder or len(steps) == 0 or line is not steps[-1] or member is not job.members[-1]:
            continue
        if steps[0]["replay"]:
            first.add(steps[0]["step"] % 2)
        if takes_part(member) and len(first) < 2:
            job.kill(member)
            job.start(endless, **settings)
        elif takes_part(member) and not stop.exists():
            new = stop.with_suffix(".new")
            new.write_text(str(line["step"] + 40))
            new.rename(stop)
    assert not job.errors()
    assert first == {0, 1}
    ledger.agreed(job)
    assert len({line["done"] for line in job.lines("done")}) == 1


def pausing(tell: Tell, steps: int) -> None:
    """The member with slot 2 is stopped once, between the steps of its two optimisers."""
    nets = networks()
    extra = {"config": Config(steps_max=steps), "on_step": told(tell)}
    spotnik.prepare(nn.ModuleList(nets[:2]), list(nets[2:]), commit="step", **extra)

    def stop_once(*_: Any) -> None:
        hook.remove()
        tell(stops=True)
        os.kill(os.getpid(), signal.SIGSTOP)

    if os.environ["SPOTNIK_SLOT"] == "2":
        hook = nets[2].register_step_post_hook(stop_once)
    for real, _y in spotnik.shard(loader()):
        step = spotnik.job().running
        assert step is not None
        tell(begin=step.number, count=step.sample_count)
        batch(nets, real)


def test_who_comes_back_between_two_optimizers_takes_no_samples(cluster: Make) -> None:
    """The others go on without it, and wait for it at the next batch: of that its loop computes nothing."""
    job = cluster(minimum=3)
    for _ in range(3):
        job.start(pausing, steps=12)
    for member, line in job.events():
        if line.get("step") == 2 and member.number < 2:
            job.kill(job.members[2], signal.SIGCONT)
    assert not job.errors()
    steps = ledger.agreed(job)
    assert steps[2]["members"] == 2 and steps[3]["members"] in (2, 3)  # it may be back at once
    computed: collections.Counter[int] = collections.Counter()
    for line in job.lines("begin"):
        computed[line["begin"]] += line["count"]
    for number in range(1, 12, 2):
        assert steps[number]["samples"] == computed[number], number


def two_losses(tell: Tell, path: str, sharded: bool) -> None:
    torch.manual_seed(4)
    net = nn.Linear(6, 2).double()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    batches = loader()
    if sharded:
        spotnik.prepare(net, opt, commit="step")
        batches = spotnik.shard(batches)  # type: ignore[assignment]
    for x, y in batches:
        opt.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        (net(x) ** 2).mean().backward()
        opt.step()
    torch.save([p.detach() for p in net.parameters()], f"{path}.{spotnik.rank()}" if sharded else path)


def test_several_losses_with_a_backward_each(cluster: Make, tmp_path: Path) -> None:
    path = str(tmp_path / "final")
    job = cluster()
    job.gather(2)
    together(job, two_losses, 2, path=path, sharded=True)
    alone(two_losses, tmp_path, path=path, sharded=False)
    assert ledger.distance(f"{path}.0", path) < 1e-12


def every_third(nets: Any, real: torch.Tensor, number: int) -> None:
    """The critic steps in every batch, the generator in every third one."""
    generator, critic, critic_opt, generator_opt = nets
    critic.zero_grad()
    (critic(generator(real[:, :2])).mean() - critic(real).mean()).backward()  # which gives the generator gradients, too
    critic_opt.step()
    if number % 3 == 2:
        generator.zero_grad()
        (-critic(generator(real[:, :2])).mean()).backward()
        generator_opt.step()


def plain_every_third(tell: Tell, path: str) -> None:
    nets = networks()
    for number, (real, _y) in enumerate(itertools.chain(loader(), loader())):
        every_third(nets, real, number)
    torch.save([p.detach() for net in nets[:2] for p in net.parameters()], path)


def gan_every_third(tell: Tell, path: str, stop: str = "") -> None:
    nets = networks()
    spotnik.prepare(nn.ModuleList(nets[:2]), list(nets[2:]), commit="step", on_step=told(tell))
    sharded = spotnik.shard(loader())
    for _ in spotnik.epochs(2000 if stop else 2):
        for real, _y in sharded:
            every_third(nets, real, spotnik.step() // 2)
            if stop and Path(stop).exists() and spotnik.step() >= int(Path(stop).read_text()):
                tell(done=spotnik.job().digest)
                return
    torch.save([p.detach() for net in nets[:2] for p in net.parameters()], f"{path}.{spotnik.rank()}")


@pytest.mark.parametrize("members", [1, 3])
def test_an_optimizer_that_steps_now_and_then_equals_plain_pytorch(
    cluster: Make, tmp_path: Path, members: int
) -> None:
    path = str(tmp_path / "final")
    job = cluster()
    job.gather(members)
    together(job, gan_every_third, members, path=path)
    alone(plain_every_third, tmp_path, path=path)
    for rank in range(members):
        assert ledger.distance(f"{path}.{rank}", path) < 1e-9


def test_an_optimizer_that_steps_now_and_then_survives_kills_and_joins(cluster: Make, tmp_path: Path) -> None:
    job, stop = cluster(), tmp_path / "stop"
    disturb(job, lambda: job.start(gan_every_third, path="", stop=str(stop)), kills=KILLS, stop=stop)
    ledger.agreed(job)
    ends = job.lines("done")
    assert len({line["done"] for line in ends}) == 1


def normed(tell: Tell) -> None:
    """As the example of PyTorch: BatchNorm in the generator, whose graph outlives the step of the critic."""
    nets = networks()
    generator = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Tanh(), Scaled(), nn.Linear(8, 6)).double()
    optimizer = torch.optim.Adam(generator.parameters(), lr=0.01)
    spotnik.prepare(nn.ModuleList([generator, nets[1]]), [nets[2], optimizer], commit="step", on_step=told(tell))
    for real, _y in spotnik.shard(loader()):
        batch((generator, nets[1], nets[2], optimizer), real)
    norm = generator[1]
    tell(done=spotnik.job().digest, seen=int(norm.num_batches_tracked), mean=float(norm.running_mean[0]))


class Scaled(nn.Module):
    """A constant in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.full((8,), 2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


def test_a_graph_with_batchnorm_outlives_the_step_of_another_optimizer(cluster: Make) -> None:
    job = cluster()
    job.gather(2)
    together(job, normed, 2)
    ends = job.lines("done")
    assert ends[0] == ends[1] and ends[0]["seen"] == 8 and ends[0]["mean"] != 0


def own_batches(tell: Tell, path: str, prepares: bool, batches: int = 9) -> None:
    """Without a loader; all members draw the same, so that their average is what one process computes."""
    nets = networks()
    if prepares:
        spotnik.prepare(nn.ModuleList(nets[:2]), list(nets[2:]), commit="step", on_step=told(tell))
    x = data().tensors[0]
    for number in range(batches):
        every_third(nets, x[number * 20 : number * 20 + 20], number)
    rank = f".{spotnik.rank()}" if prepares else ""
    torch.save([p.detach() for net in nets[:2] for p in net.parameters()], path + rank)


@pytest.mark.parametrize("members", [1, 2])
def test_optimizers_in_turn_on_batches_of_the_program(cluster: Make, tmp_path: Path, members: int) -> None:
    path = str(tmp_path / "final")
    job = cluster()
    job.gather(members)
    together(job, own_batches, members, path=path, prepares=True)
    alone(own_batches, tmp_path, path=path, prepares=False)
    for rank in range(members):
        assert ledger.distance(f"{path}.{rank}", path) < 1e-9


def wrong_order(tell: Tell) -> None:
    nets = networks()
    spotnik.prepare(nn.ModuleList(nets[:2]), [nets[3], nets[2]], commit="step")
    try:
        for real, _y in spotnik.shard(loader()):
            batch(nets, real)
    except StateError as error:
        tell(text=str(error))


def test_optimizers_out_of_turn(tmp_path: Path) -> None:
    (told_of,) = alone(wrong_order, tmp_path)
    assert "it is the turn of 0" in told_of["text"]
