# SPDX-License-Identifier: Apache-2.0
"""The same loss curve as DistributedDataParallel with Gloo, to rounding."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from cluster import Cluster, Tell
from programs import data, network
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import spotnik.torch as spotnik

Make = Callable[..., Cluster]
SAMPLES, BATCH, MEMBERS, EPOCHS = 192, 24, 4, 8


def with_ddp(tell: Tell, rank: int, store: str) -> None:
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.FileStore(store, MEMBERS), rank=rank, world_size=MEMBERS)
    net = nn.parallel.DistributedDataParallel(network(dtype=torch.float32))
    opt = torch.optim.AdamW(net.parameters(), lr=0.01)
    x, y = data(torch.float32).tensors
    part = BATCH // MEMBERS
    for epoch in range(EPOCHS):
        for at in range(0, SAMPLES, BATCH):
            own = slice(at + rank * part, at + (rank + 1) * part)
            opt.zero_grad()
            loss = nn.functional.cross_entropy(net(x[own]), y[own])
            loss.backward()
            opt.step()
            tell(key=[epoch, at], loss=loss.item(), count=part)
    dist.barrier()


def with_spotnik(tell: Tell) -> None:
    net = network(dtype=torch.float32)
    opt = torch.optim.AdamW(net.parameters(), lr=0.01)
    spotnik.prepare(net, opt)
    samples = TensorDataset(*(tensor[:SAMPLES] for tensor in data(torch.float32).tensors))
    loader = spotnik.shard(DataLoader(samples, batch_size=BATCH))
    for epoch in range(EPOCHS):
        for step, (x, y) in enumerate(loader):
            opt.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
            tell(key=[epoch, step * BATCH], loss=loss.item(), count=len(x))


def curve(job: Cluster) -> dict[tuple[int, int], float]:
    job.wait()
    assert not job.errors()
    sums: dict[tuple[int, int], float] = {}
    for line in job.lines("loss"):
        key = (line["key"][0], line["key"][1])
        sums[key] = sums.get(key, 0.0) + line["loss"] * line["count"] / BATCH
    return sums


def test_loss_curve_of_ddp_with_gloo(cluster: Make, tmp_path: Path) -> None:
    ddp, own = cluster(), cluster(minimum=MEMBERS)
    ddp.environment = {}
    for rank in range(MEMBERS):
        ddp.start(with_ddp, rank=rank, store=str(tmp_path / "store"))
    theirs = curve(ddp)
    for _ in range(MEMBERS):
        own.start(with_spotnik)
    ours = curve(own)
    assert len(theirs) == len(ours) == EPOCHS * SAMPLES // BATCH
    difference = max(abs(theirs[key] - ours[key]) for key in theirs)
    print(f"largest difference of the loss over {len(ours)} steps: {difference:.1e}")
    assert difference < 1e-5
    assert ours[(EPOCHS - 1, 0)] < 0.9 * ours[(0, 0)]
