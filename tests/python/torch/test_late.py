# SPDX-License-Identifier: Apache-2.0
"""A member that joins late, in a program whose loop is ``for epoch in range(count)``, with validation after it; and one
that comes to a finished job."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

import ledger
import pytest
import torch
from cluster import Cluster, Tell, alone
from programs import SAMPLES, data, network
from test_features import told
from torch import nn, optim
from torch.utils.data import DataLoader

import spotnik.torch as spotnik
from spotnik import Config

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
    tell(place=spotnik.rank(), at=-1)
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
            tell(over=epoch)
            before, until = at.read_text(), time.monotonic() + 10  # ends the wait where the others wait for us
            while at.read_text() == before and time.monotonic() < until:
                time.sleep(0.01)
            tell(others_went_on=at.read_text() != before)
        validated.append(epoch)
        tell(place=spotnik.rank(), at=epoch)
    tell(done=spotnik.step(), validated=validated, digest=spotnik.job().digest)
    spotnik.leave()
    tell(place=spotnik.rank(), at=EPOCHS)


def late_join(job: Cluster, tmp_path: Path, skips: bool) -> list[int]:
    settings = {"progress": str(tmp_path / "progress"), "skips": skips}
    job.gather(2)
    for _ in range(2):
        job.start(train, late=False, **settings)
    for _, line in job.events():
        if line.get("epoch") == LATE and len(job.members) == 2:
            job.start(train, late=True, **settings)
    assert not job.errors()
    first, *others = job.lines("done")
    assert len(others) == 2
    assert all(one["digest"] == first["digest"] and one["done"] == first["done"] for one in others)
    places = {
        (member.number, line["at"]): line["place"] for member in job.members for line in member.lines if "at" in line
    }
    for at in range(-1, EPOCHS + 1):
        assert [places.get((number, at)) for number in range(3)].count(0) <= 1, (at, places)
    assert sorted((places[0, -1], places[1, -1])) == [0, 1]  # before the first step
    assert places[2, EPOCHS] != 0 and sorted((places[0, EPOCHS], places[1, EPOCHS])) == [0, 1]  # and after the job
    over = [places[2, line["over"]] for line in job.members[2].lines if "over" in line]
    assert skips or -1 in over  # it stood aside
    steps = ledger.contributions(job)
    assert ledger.check_every_sample_once(steps, SAMPLES) == EPOCHS - 1
    assert any(len(shares) == 3 for _, shares in steps)  # the late one did take part
    return next(line["validated"] for line in job.members[2].lines if "done" in line)


def test_nobody_waits_for_the_validation_of_epochs_that_are_over(cluster: Make, tmp_path: Path) -> None:
    job = cluster()
    assert late_join(job, tmp_path, skips=False) == list(range(EPOCHS))
    went_on = [line["others_went_on"] for line in job.lines("others_went_on")]
    assert went_on.count(True) >= LATE - 1  # but for the last one perhaps, when it is a member again


def test_a_member_that_comes_back_to_no_job_does_not_begin_another(cluster: Make, tmp_path: Path) -> None:
    job = cluster()
    settings = {"progress": str(tmp_path / "progress")}
    job.gather(2)
    first = [job.start(train, late=False, **settings) for _ in range(2)]
    for _, line in job.events():
        if line.get("epoch") == LATE and len(job.members) == 2:
            job.start(train, late=True, **settings)
        if line.get("over") == 1:
            for one in first:
                job.kill(one)
    assert job.members[2].status == 75
    assert not job.lines("done")


def test_epochs_skips_what_is_over(cluster: Make, tmp_path: Path) -> None:
    validated = late_join(cluster(), tmp_path, skips=True)
    assert validated == list(range(validated[0], EPOCHS))
    assert validated[0] >= LATE


class Words(logging.Handler):
    """Keeps warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def trains_twice(tell: Tell, checkpoint: str) -> None:
    words, trained = Words(), 0
    logging.getLogger("spotnik.torch").addHandler(words)
    torch.manual_seed(1)
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    spotnik.prepare(net, optimizer, checkpoint=checkpoint, config=Config(checkpoint_steps=1))
    loader = spotnik.shard(DataLoader(data(), batch_size=20))
    for _ in spotnik.epochs(2):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
            trained += 1
    tell(trained=trained, steps=spotnik.step(), digest=spotnik.digest(), said=words.said)


def test_a_finished_job_says_so_and_repeats_nothing(tmp_path: Path) -> None:
    (first,) = alone(trains_twice, tmp_path, checkpoint=str(tmp_path / "checkpoints"))
    (second,) = alone(trains_twice, tmp_path, checkpoint=str(tmp_path / "checkpoints"))
    assert first["trained"] == first["steps"] == second["steps"] > 0
    assert second["trained"] == 0
    assert second["digest"] == first["digest"]
    assert first["said"] == []
    (words,) = second["said"]
    assert "the job has trained its 2 epochs already" in words


def counts_by_itself(tell: Tell, checkpoint: str, until: int, asks: bool) -> None:
    """An engine takes its first epoch as a number."""
    words = Words()
    logging.getLogger("spotnik.torch").addHandler(words)
    net = network()
    opt = optim.SGD(net.parameters(), lr=0.05)
    spotnik.prepare(net, opt, checkpoint=checkpoint)
    loader = spotnik.shard(DataLoader(data(), batch_size=24))
    first = spotnik.epoch() if asks else next(spotnik.epochs(until), until)
    for _ in range(first, until):
        for x, y in loader:
            nn.functional.cross_entropy(net(x), y).backward()
            opt.step()
            opt.zero_grad()
    tell(done=spotnik.epoch(), first=first, warned=words.said)


@pytest.mark.parametrize("asks", [False, True])
def test_an_engine_that_is_told_where_to_begin(cluster: Make, tmp_path: Path, asks: bool) -> None:
    """With the epoch alone it would get no batch in its first epochs, and end too early: it is warned."""
    settings = {"checkpoint": str(tmp_path / "checkpoints"), "asks": asks}
    for until in (3, 8):
        job = cluster()
        job.start(counts_by_itself, until=until, **settings)
        job.wait()
        assert not job.errors()
    (line,) = job.lines("done")
    assert line["first"] == 3
    assert (line["done"], len(line["warned"])) == ((5, 1) if asks else (8, 0)), line
    assert not asks or "write: for epoch in spotnik.epochs(count)" in line["warned"][0]
