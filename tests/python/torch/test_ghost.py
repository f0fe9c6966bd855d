# SPDX-License-Identifier: Apache-2.0
"""BatchNorm over groups of a fixed size: three members train as one process does, whatever their shares are."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ledger
import pytest
import torch
from cluster import Cluster, Tell, alone
from programs import data, elastic, network
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import spotnik.torch as spotnik
from spotnik import ArgumentError, Config

Make = Callable[..., Cluster]
GROUP, BATCH = 8, 48


def train(tell: Tell, path: str, steps: int = 8) -> None:
    net = spotnik.ghost_batchnorm(network("norm"), GROUP)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    net, opt = spotnik.prepare(net, opt, config=Config(steps_max=steps))
    x, y = (tensor[:192] for tensor in data().tensors)
    for _ in range(2):
        for xs, ys in spotnik.shard(DataLoader(TensorDataset(x, y), batch_size=BATCH)):
            opt.zero_grad()
            nn.functional.cross_entropy(net(xs), ys).backward()
            opt.step()
    torch.save([p.detach() for p in net.parameters()], f"{path}.{spotnik.rank()}")


def test_training_does_not_depend_on_how_many_there_are(cluster: Make, tmp_path: Path) -> None:
    together, by_itself = str(tmp_path / "together"), str(tmp_path / "alone")
    job = cluster(minimum=3)
    for _ in range(3):
        job.start(train, path=together)
    job.wait()
    assert not job.errors()
    alone(train, tmp_path, path=by_itself)
    for rank in range(3):
        assert ledger.distance(f"{together}.{rank}", f"{by_itself}.0") < 1e-12


def warned(tell: Tell, ghost: bool, batch: str = "global") -> None:
    seen: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: seen.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("spotnik.torch").addHandler(handler)
    net = network("norm")
    if ghost:
        spotnik.ghost_batchnorm(net, GROUP)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    spotnik.prepare(net, opt, config=Config(steps_max=3), batch=batch)
    x, y = (tensor[: 3 * BATCH] for tensor in data().tensors)
    for xs, ys in spotnik.shard(DataLoader(TensorDataset(x, y), batch_size=BATCH)):
        opt.zero_grad()
        nn.functional.cross_entropy(net(xs), ys).backward()
        opt.step()
    tell(warnings=[text for text in seen if "BatchNorm, which normalises over this member's share" in text])


@pytest.mark.parametrize(
    ("settings", "count"),
    [({"ghost": False}, 1), ({"ghost": True}, 0), ({"ghost": False, "batch": "per_member"}, 0)],
    ids=["share", "ghost", "per_member"],
)
def test_a_batchnorm_over_shares_is_told_of_once(cluster: Make, settings: dict[str, Any], count: int) -> None:
    job = cluster(minimum=2)
    for _ in range(2):
        job.start(warned, **settings)
    job.wait()
    assert not job.errors()
    assert [len(line["warnings"]) for line in job.lines("warnings")] == [count] * 2


@pytest.mark.parametrize("samples", [16, 21, 5])
def test_groups_are_batches_of_batchnorm(samples: int) -> None:
    torch.manual_seed(1)
    x = torch.randn(samples, 4, 3, dtype=torch.float64)
    ghost, plain = (nn.BatchNorm1d(4).double() for _ in range(2))
    spotnik.ghost_batchnorm(ghost, GROUP)
    parts = torch.tensor_split(x, -(-samples // GROUP))
    assert max(len(part) for part in parts) <= GROUP
    expected, means, variances = [], [], []
    for part in parts:
        plain.reset_running_stats()
        plain.momentum = 1.0
        expected.append(plain(part))
        means.append(plain.running_mean.clone())
        variances.append(plain.running_var.clone())
    torch.testing.assert_close(ghost(x), torch.cat(expected))
    torch.testing.assert_close(ghost.running_mean, 0.1 * torch.stack(means).mean(0))
    torch.testing.assert_close(ghost.running_var, 0.9 + 0.1 * torch.stack(variances).mean(0))
    plain.load_state_dict(ghost.state_dict())
    torch.testing.assert_close(ghost.eval()(x), plain.eval()(x))


def test_a_group_of_one_has_no_variance() -> None:
    with pytest.raises(ArgumentError, match="2 samples or more"):
        spotnik.ghost_batchnorm(nn.BatchNorm1d(3), 1)


def test_a_share_of_one_sample_is_taken(cluster: Make) -> None:
    """Three samples a step among three members: PyTorch by itself ends a member with an error."""
    job = cluster(minimum=3)
    for _ in range(3):
        job.start(elastic, steps=12, folder=str(job.folder), model="norm", batch=3)
    job.wait()
    assert not job.errors()
    ledger.reports(job)
