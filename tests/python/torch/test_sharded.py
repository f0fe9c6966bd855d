# SPDX-License-Identifier: Apache-2.0
"""FSDP2 inside groups, on the CPU by Gloo: groups of 2 and 3 train as one process without Spotnik does.

Claims: parameters are those of one process, whatever part of the samples each process has (none, in some steps); all
hold the same bits, with clipping too; a lost group's successor, of another size, takes the state; FSDP1 is refused.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed
from cluster import Cluster, Member, Tell
from programs import SAMPLES, data, network
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from spotnik import ArgumentError, Config
from spotnik.torch import sharded

Make = Callable[..., Cluster]
BATCH, STEPS = 20, 55


def losses(model: nn.Module, indices: list[int]) -> torch.Tensor:
    x, y = (tensor[indices] for tensor in data().tensors)
    return nn.functional.cross_entropy(model(x), y, reduction="sum")


def alone() -> list[torch.Tensor]:
    """What one process makes of the same steps, without Spotnik."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    done = 0
    while done < STEPS:
        for first in range(0, SAMPLES, BATCH):
            indices = list(range(first, min(SAMPLES, first + BATCH)))
            optimizer.zero_grad()
            (losses(model, indices) / len(indices)).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.3)
            optimizer.step()
            done += 1
    return [parameter.detach() for parameter in model.parameters()]


def train(tell: Tell, name: str, rank: int, size: int, port: int, steps: int = STEPS) -> None:
    os.environ["SPOTNIK_GROUP"] = f"{name}:{rank}:{size}"
    store = torch.distributed.TCPStore("127.0.0.1", port, size, is_master=rank == 0)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=size)
    mesh = init_device_mesh("cpu", (size,))
    model = network()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    with sharded.join(Config(samples=SAMPLES, batch=BATCH, steps_max=steps)) as job:
        replica = sharded.Replica(job, model, optimizer)
        for step in replica.steps():
            indices = [index for one in step.ranges for index in one]
            optimizer.zero_grad()
            if not step.replay:
                scale = replica.scale(step) if indices else 0.0
                (losses(model, indices or [0]) * scale).backward()
            if replica.average():
                replica.clip_grad_norm_(0.3)
                optimizer.step()
                tell(step=step.number)
        whole = [parameter.full_tensor().tolist() for parameter in model.parameters()]
        tell(done=step.number, digest=f"{job.digest:x}", parameters=whole)


def start_group(job: Cluster, name: str, size: int, **settings: Any) -> list[Member]:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    return [
        job.start(train, name=f"{name}-{job.folder}", rank=rank, size=size, port=port, **settings)
        for rank in range(size)
    ]


def check_ends(job: Cluster, processes: int) -> list[dict[str, Any]]:
    assert not job.errors(), job.errors()
    ends = job.lines("done")
    assert len(ends) == processes
    assert len({line["digest"] for line in ends}) == 1
    assert all(line["parameters"] == ends[0]["parameters"] for line in ends)
    return ends


def test_as_one_process(cluster: Make) -> None:
    job = cluster()
    job.gather(2)
    start_group(job, "a", 2)
    start_group(job, "b", 3)
    job.wait()
    end = check_ends(job, 5)[0]
    assert end["done"] == STEPS
    for one, other in zip(end["parameters"], alone()):
        assert float((torch.tensor(one, dtype=torch.float64) - other).abs().max()) < 1e-9


def test_a_killed_process(cluster: Make) -> None:
    job = cluster()
    job.gather(2)
    first, second = start_group(job, "a", 2, steps=150), start_group(job, "b", 2, steps=400)
    third: list[Member] = []
    for member, line in job.events():
        if member is second[1] and line.get("step") == 10:
            job.kill(member)
        if not third and all(one.status is not None for one in second):
            third = start_group(job, "c", 3, steps=150)
    assert [one.status for one in second] == [-9, -9]
    assert [one.status for one in first + third] == [0] * 5
    check_ends(job, 5)


def test_fsdp1_is_refused() -> None:
    class FullyShardedDataParallel(nn.Module):
        """As PyTorch's is recognised: it needs a process group to be made."""

    model = nn.Sequential(FullyShardedDataParallel())
    with pytest.raises(ArgumentError, match="is FSDP1"):
        sharded.Replica(None, model, torch.optim.SGD(network().parameters()))  # type: ignore[arg-type]
