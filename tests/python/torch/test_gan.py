# SPDX-License-Identifier: Apache-2.0
"""Several backward passes before a step, and optimisers that step in turn, as in PyTorch's own GAN example."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import ledger
import pytest
import torch
from cluster import Cluster, Tell, alone
from programs import data
from test_features import disturbed, together, told
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


def endless(tell: Tell, steps: int) -> None:
    nets = networks()
    extra = {"config": Config(steps_max=steps), "on_step": told(tell)}
    spotnik.prepare(nn.ModuleList(nets[:2]), list(nets[2:]), commit="step", **extra)
    sharded = spotnik.shard(loader())
    while spotnik.job().status().step_committed < steps:
        for real, _y in sharded:
            time.sleep(0.01)
            batch(nets, real)
    tell(done=spotnik.job().digest)


def test_a_gan_survives_kills_and_joins(cluster: Make) -> None:
    job = cluster()
    disturbed(job, endless, kills=3, steps=300)
    ledger.agreed(job)
    assert len({line["done"] for line in job.lines("done")}) == 1


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


def wrong_order(tell: Tell, forgets: bool) -> None:
    nets = networks()
    spotnik.prepare(nn.ModuleList(nets[:2]), [nets[3], nets[2]], commit="step")
    try:
        for real, _y in spotnik.shard(loader()):
            if forgets:
                Loss(nets[1](nets[0](real[:, :2])), torch.ones(len(real), 1).double()).backward()
                nets[3].step()
            else:
                batch(nets, real)
    except StateError as error:
        tell(text=str(error))


@pytest.mark.parametrize(("forgets", "words"), [(False, "it is the turn of 0"), (True, "before optimizer 1 of 2")])
def test_optimizers_out_of_turn(tmp_path: Path, forgets: bool, words: str) -> None:
    (told_of,) = alone(wrong_order, tmp_path, forgets=forgets)
    assert words in told_of["text"]
