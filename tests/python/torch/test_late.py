# SPDX-License-Identifier: Apache-2.0
"""A member that joins late, in a program whose loop is ``for epoch in range(count)``, with validation after it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import ledger
from cluster import Cluster, Tell
from programs import SAMPLES, data, network
from test_features import told
from torch import nn, optim
from torch.utils.data import DataLoader

import spotnik.torch as spotnik

Make = Callable[..., Cluster]
EPOCHS, LATE = 30, 4


def train(tell: Tell, late: bool, progress: str, skips: bool = False) -> None:
    """Validation of a late member, after an epoch that was over, takes until the others have done another step."""
    net = network()
    opt = optim.SGD(net.parameters(), lr=0.05)
    at = Path(progress)

    def committed(report: spotnik.StepReport) -> None:
        told(tell)(report)
        if not late:
            at.write_text(str(report.number))

    net, opt = spotnik.prepare(net, opt, on_step=committed)
    loader = spotnik.shard(DataLoader(data(), batch_size=24, shuffle=True))
    validated = []
    for epoch in spotnik.epochs(EPOCHS) if skips else range(EPOCHS):
        batches = 0
        for x, y in loader:
            batches += 1
            step = spotnik.job().running
            assert step is not None
            tell(begin=step.number, epoch=step.data_epoch, share=[(part.start, part.stop) for part in step.ranges])
            time.sleep(0.01)  # the time a real backward pass takes
            opt.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            opt.step()
        if late and not batches:
            before, until = at.read_text(), time.monotonic() + 3  # ends the wait where the others wait for us
            while at.read_text() == before and time.monotonic() < until:
                time.sleep(0.01)
            tell(others_went_on=at.read_text() != before)
        validated.append(epoch)
    tell(done=spotnik.step(), validated=validated, digest=spotnik.job().digest)


def late_join(job: Cluster, tmp_path: Path, skips: bool) -> list[int]:
    settings = {"progress": str(tmp_path / "progress"), "skips": skips}
    job.start(train, late=False, **settings)
    for _, line in job.events():
        if line.get("epoch") == LATE and len(job.members) == 1:
            job.start(train, late=True, **settings)
    assert not job.errors()
    first, second = job.lines("done")
    assert first["digest"] == second["digest"] and first["done"] == second["done"]
    steps = ledger.contributions(job)
    assert ledger.check_every_sample_once(steps, SAMPLES) == EPOCHS - 1
    assert any(len(shares) == 2 for _, shares in steps)  # the late one did take part
    return next(line["validated"] for line in job.members[1].lines if "done" in line)


def test_nobody_waits_for_the_validation_of_epochs_that_are_over(cluster: Make, tmp_path: Path) -> None:
    job = cluster()
    assert late_join(job, tmp_path, skips=False) == list(range(EPOCHS))
    went_on = [line["others_went_on"] for line in job.lines("others_went_on")]
    assert went_on.count(True) >= LATE - 1  # but for the last one perhaps, when it is a member again


def test_epochs_skips_what_is_over(cluster: Make, tmp_path: Path) -> None:
    validated = late_join(cluster(), tmp_path, skips=True)
    assert validated == list(range(validated[0], EPOCHS))
    assert validated[0] >= LATE
