# SPDX-License-Identifier: Apache-2.0
"""Batch systems signal every process: a member leaves in good order, and its loader's workers do not end before it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest
import torch
from cluster import Cluster, Tell
from programs import data, network
from torch.utils.data import DataLoader

import spotnik.torch as spotnik

Make = Callable[..., Cluster]
WORKERS = 2


def children() -> list[int]:
    """The workers of this process's loader; multiprocessing has no other children here."""
    return [worker.pid for worker in torch.multiprocessing.active_children() if worker.pid]


def train(tell: Tell) -> None:
    """Trains until it is told to leave, and tells each step."""
    net = network()
    net, opt = spotnik.prepare(net, torch.optim.SGD(net.parameters(), lr=0.01))
    workers = {"num_workers": WORKERS, "persistent_workers": True}
    loader = spotnik.shard(DataLoader(data(), batch_size=8, shuffle=True, **workers))
    for _ in spotnik.epochs(1_000_000):
        for x, y in loader:
            opt.zero_grad()
            torch.nn.functional.cross_entropy(net(x), y).backward()
            opt.step()
            tell(step=spotnik.step(), size=spotnik.job().status().size, workers=children())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_to_every_process_is_a_leave(cluster: Make, number: signal.Signals) -> None:
    """SIGUSR1 reaches a member by its agent, which is not here: so members get SIGTERM."""
    job = cluster(minimum=2)
    for _ in range(2):
        job.start(train)
    steps, told = {0: 0, 1: 0}, False
    for member, line in job.events():
        steps[member.number] += line.get("size") == 2
        if not told and min(steps.values()) >= 3:
            told = True
            for one in job.members:
                workers = [line["workers"] for line in one.lines if "workers" in line][-1]
                assert len(workers) == WORKERS
                for pid in workers:
                    os.kill(pid, number)
                os.kill(one.pid, signal.SIGTERM)
    assert not job.errors(), job.errors()
    assert [member.status for member in job.members] == [75, 75]


def test_workers_outlive_a_signal_that_is_not_their_members(cluster: Make) -> None:
    job = cluster()
    one = job.start(train)
    signalled_at, workers = 0, []
    for _, line in job.events():
        if not workers and "workers" in line:
            signalled_at, workers = line["step"], line["workers"]
            for pid in workers:
                os.kill(pid, signal.SIGTERM)
                os.kill(pid, signal.SIGUSR1)
        # What the loader has read ahead would do for some steps more.
        if line.get("step") == signalled_at + 40:
            assert line["workers"] == workers
            os.kill(one.pid, signal.SIGTERM)
    assert not job.errors(), job.errors()
    assert one.status == 75
