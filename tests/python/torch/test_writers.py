# SPDX-License-Identifier: Apache-2.0
"""SummaryWriter and CSVWriter: one run with each step once, though the member that writes is killed again and again."""

from __future__ import annotations

import contextlib
import csv
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from cluster import Cluster, Member, Tell, alone
from disturb import takes_part
from programs import SAMPLES, data, network
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import spotnik.torch as spotnik
from spotnik.torch._session import current
from spotnik.torch._writing import Record, _Table

with contextlib.suppress(ImportError):
    import torch.utils.tensorboard  # once here, not in every member

Make = Callable[..., Cluster]
KILLS = 3


def train(tell: Tell, folder: str, stop: str, tensorboard: bool) -> None:
    net = network()
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    spotnik.prepare(net, opt, metrics=("place",))
    x, y = data().tensors
    loader = spotnik.shard(DataLoader(TensorDataset(x, y, torch.arange(SAMPLES)), batch_size=20))
    table = spotnik.CSVWriter(Path(folder) / "log.csv")
    events = spotnik.SummaryWriter(Path(folder) / "events") if tensorboard else None
    for _ in spotnik.epochs(20000):
        for features, labels, places in loader:
            spotnik.tell("place", places.double().mean())
            nn.functional.cross_entropy(net(features), labels).backward()
            opt.step()
            opt.zero_grad()
            step, place = spotnik.step(), spotnik.told("place")
            table.add_scalar("place", place)
            table.add_scalar("twice", torch.tensor(2 * place, dtype=torch.float64))
            if events:
                events.add_scalar("place", place)
            tell(step=step, rank=spotnik.rank(), place=place, replay=current().running.last_step.replay)
            if Path(stop).exists() and step >= int(Path(stop).read_text()):
                table.close()
                if events:
                    events.close()
                tell(done=step)
                return


def kill_seniors(job: Cluster, start: Callable[[], Member], stop: Path) -> int:
    """Kill the member that writes, every time all are there, and start another; returns the last step.

    Two that were there from the first step on live to the end: records go when nobody is left that had them.
    """
    kills, due, killed = 0, 8, set[int]()
    job.gather(KILLS + 2)
    for _ in range(KILLS + 2):
        start()
    for member, line in job.events():
        active = [m for m in job.members if m.running and m.number not in killed and takes_part(m)]
        if len(active) < KILLS + 2 or line.get("step", 0) < due or line["rank"] != 0 or member not in active:
            continue
        if kills < KILLS:
            killed.add(member.number)
            job.kill(member)
            start()
            kills, due = kills + 1, line["step"] + 8
        elif not stop.exists():
            fresh = stop.with_suffix(".new")
            fresh.write_text(str(line["step"] + 40))
            fresh.rename(stop)
    assert not job.errors()
    assert kills == KILLS
    return int(stop.read_text())


def told(job: Cluster) -> dict[int, float]:
    """What the members that lived to the end say of each step, and the others where none of those was there yet."""
    found: dict[int, float] = {}
    for member in sorted(job.members, key=lambda m: any("done" in line for line in m.lines)):
        found.update({line["step"]: line["place"] for line in member.lines if "step" in line})
    return found


@pytest.mark.parametrize("tensorboard", [False, True], ids=["csv", "tensorboard"])
def test_one_run_with_every_step_once(cluster: Make, tmp_path: Path, tensorboard: bool) -> None:
    if tensorboard:
        pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    job, stop = cluster(), tmp_path / "stop"
    last = kill_seniors(
        job, lambda: job.start(train, folder=str(tmp_path), stop=str(stop), tensorboard=tensorboard), stop
    )
    wanted = told(job)
    with open(tmp_path / "log.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for name, factor in (("place", 1), ("twice", 2)):
        log = [(int(row["step"]), float(row["value"])) for row in rows if row["name"] == name]
        assert log == [(step, pytest.approx(factor * wanted[step])) for step in range(1, last + 1)]
    if tensorboard:
        assert _scalars(tmp_path / "events") == [(step, pytest.approx(wanted[step])) for step in range(1, last + 1)]


def test_the_last_step_of_the_dead_is_that_of_the_others(tmp_path: Path) -> None:
    """The member that wrote died with a step that nobody else had: the others made it again, with another result."""
    path = tmp_path / "log.csv"
    dead = _Table(path, [], 1)
    for step in (1, 2, 3):
        dead.write(Record(step, "place", 10.0 * step, 0.0))
    dead.write(Record(3, "own", 1.0, 0.0))
    dead.close()
    _Table(path, [Record(step, "place", 100.0 * step, 0.0) for step in (2, 3, 4)], 5).close()
    with open(path, newline="") as file:
        found = [(int(row["step"]), row["name"], float(row["value"])) for row in csv.DictReader(file)]
    places = [(1, "place", 10.0), (2, "place", 20.0), (3, "place", 300.0), (4, "place", 400.0)]
    assert sorted(found) == sorted([*places, (3, "own", 1.0)])


def few(tell: Tell, path: str) -> None:
    """The last step of each epoch has one sample, and the last member gets it."""
    net = network()
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    spotnik.prepare(net, opt, metrics=("loss",))
    x, y = (part[:201] for part in data().tensors)
    loader = spotnik.shard(DataLoader(TensorDataset(x, y), batch_size=20))
    with spotnik.CSVWriter(path) as table:
        for _ in spotnik.epochs(3):
            for features, labels in loader:
                loss = nn.functional.cross_entropy(net(features), labels)
                spotnik.tell("loss", loss)
                loss.backward()
                opt.step()
                opt.zero_grad()
                table.add_scalar("loss", spotnik.told("loss"))
                tell(step=spotnik.step(), bits=[p.double().sum().item() for p in net.parameters()])


@pytest.mark.parametrize("members", [2, 3])
def test_a_step_without_samples_for_the_senior_is_in_the_log(cluster: Make, tmp_path: Path, members: int) -> None:
    job = cluster()
    job.gather(members)
    for _ in range(members):
        job.start(few, path=str(tmp_path / "log.csv"))
    job.wait()
    assert not job.errors(), job.errors()
    with open(tmp_path / "log.csv", newline="") as file:
        assert [int(row["step"]) for row in csv.DictReader(file)] == list(range(1, 34))
    assert len({str(member.lines) for member in job.members}) == 1


def brief(tell: Tell, folder: str) -> None:
    net = network()
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    spotnik.prepare(net, opt)
    writer = spotnik.SummaryWriter(folder)
    for features, labels in spotnik.shard(DataLoader(data(), batch_size=20)):
        nn.functional.cross_entropy(net(features), labels).backward()
        opt.step()
        opt.zero_grad()
        writer.add_scalar("place", spotnik.step())
    writer.close()


def test_events_follow_those_of_a_predecessor_of_the_same_second(tmp_path: Path) -> None:
    """TensorBoard reads files by name. The predecessor's clock is ahead, its name as large as can be."""
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from torch.utils.tensorboard import SummaryWriter

    events = tmp_path / "events"
    with SummaryWriter(str(events)) as old:
        for step in range(1, 6):
            old.add_scalar("place", -1, step)
    (made,) = events.iterdir()
    made.rename(events / f"events.out.tfevents.{int(time.time()) + 1}.zzz.99999.9")
    alone(brief, tmp_path, folder=str(events))
    assert _scalars(events) == [(step, step) for step in range(1, 12)]


def _scalars(folder: Path) -> list[tuple[int, float]]:
    """As TensorBoard itself reads the run: all files in order, without what a later one hides."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    run.Reload()
    return [(event.step, event.value) for event in run.Scalars("place")]


def test_rows_of_a_life_that_was_lost_are_dropped(tmp_path: Path) -> None:
    """Resumed from a checkpoint of step 2; the last row was cut in the middle."""
    from spotnik.torch._writing import Record, _Table

    path = tmp_path / "log.csv"
    path.write_text("step,name,value,date\n1,a,1.0,0.000\n2,a,2.0,0.000\n3,a,3.0,0.000\n4,a,4.")
    table = _Table(path, [Record(1, "b", 9.0, 0), Record(2, "a", 7.0, 0)], 3)
    table.write(Record(3, "a", 5.0, 0))
    table.close()
    assert path.read_text().splitlines()[1:] == ["1,a,1.0,0.000", "1,b,9.0,0.000", "2,a,2.0,0.000", "3,a,5.0,0.000"]
