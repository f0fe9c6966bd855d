# SPDX-License-Identifier: Apache-2.0
"""Schedules of a fixed length under losses: no step is added, and the last learning rate is that of a calm run."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Optional

import ledger
import pytest
from cluster import Cluster, Member, Tell, alone
from programs import SAMPLES, data, network
from test_features import told
from torch import nn, optim
from torch.utils.data import DataLoader

import spotnik.torch as spotnik

Make = Callable[..., Cluster]
EPOCHS, BATCH, MEMBERS = 6, 20, 3
STEPS = -(-SAMPLES // BATCH)  # of an epoch; the last one has 3 samples


def one_cycle(tell: Tell, hesitates: Optional[int] = None) -> None:
    net = network()
    opt = optim.SGD(net.parameters(), lr=0.1)
    net, opt = spotnik.prepare(net, opt, on_step=told(tell))
    loader = spotnik.shard(DataLoader(data(), batch_size=BATCH, shuffle=True))
    schedule = optim.lr_scheduler.OneCycleLR(opt, max_lr=0.1, epochs=EPOCHS, steps_per_epoch=len(loader))
    used = []
    for _ in range(EPOCHS):
        for x, y in loader:
            number = spotnik.step() + 1
            tell(begin=number, epoch=spotnik.epoch(), share=share())
            if number == hesitates:
                tell(hesitates=number)
                time.sleep(600)  # to be killed in this step, which the others cannot finish before
            opt.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            used.append(opt.param_groups[0]["lr"])
            opt.step()
            schedule.step()
    assert "step" not in schedule.state_dict()
    tell(done=spotnik.step(), last=used[-1], digest=spotnik.job().digest)


def share() -> list[tuple[int, int]]:
    step = spotnik.job().running
    assert step is not None
    return [(part.start, part.stop) for part in step.ranges]


@pytest.mark.parametrize(
    ("lost_in", "added"),
    [(1, 0), (2 * STEPS + 4, 0), (EPOCHS * STEPS - 1, 0), (3 * STEPS, 1), (EPOCHS * STEPS, 1)],
    ids=["first", "middle", "last_but_one", "last_of_an_epoch", "last"],
)
def test_a_loss_adds_no_step(cluster: Make, tmp_path: Path, lost_in: int, added: int) -> None:
    """Three members; one is killed in a known step, which all of them have begun, before its gradient is sent.

    A member that has not begun the step would begin it without the one that is gone, and then no sample is lost.
    """
    job = cluster()
    job.gather(MEMBERS)
    victim: Member = job.start(one_cycle, hesitates=lost_in)
    for _ in range(MEMBERS - 1):
        job.start(one_cycle)
    begun = 0
    for _member, line in job.events():
        begun += line.get("begin") == lost_in
        if begun == MEMBERS and victim.status is None:
            job.kill(victim)
    assert not job.errors()
    assert victim.status == -9
    first, second = job.lines("done")
    assert first == second
    calm = alone(one_cycle, tmp_path)[-1]
    assert first["done"] == calm["done"] + added == EPOCHS * STEPS + added
    assert first["last"] == calm["last"]
    assert ledger.check_every_sample_once(ledger.contributions(job), SAMPLES) == EPOCHS - 1
