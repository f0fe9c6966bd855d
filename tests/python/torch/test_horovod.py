# SPDX-License-Identifier: Apache-2.0
"""Horovod's words: newcomers to the loop under elastic.run, in the middle of it and at its end."""

from __future__ import annotations

import os
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cluster import Cluster, Tell
from torch.nn import functional

import spotnik.horovod.torch as hvd
from spotnik.horovod import _world

Make = Callable[..., Cluster]


def train(tell: Tell, stop: str, batches: int = 6) -> None:
    """A few steps under elastic.run, then collective calls until the file `stop` is there."""
    hvd.init()
    torch.manual_seed(1)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    @hvd.elastic.run
    def loop(state: Any) -> None:
        while state.batch < batches:
            optimizer.zero_grad()
            functional.mse_loss(model(torch.ones(3, 4)), torch.zeros(3, 2)).backward()
            optimizer.step()
            state.batch += 1
            if state.batch % 4 == 0:
                state.commit()

    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, batch=0)
    loop(state)
    tell(left=state.batch)
    calls = 0
    while not float(hvd.allreduce(torch.tensor([float(Path(stop).exists())]), op=hvd.Max)[0]):
        calls += 1
        tell(call=calls)
    tell(done=[float(value) for value in model.weight.flatten()])


def test_a_newcomer_after_the_loop_ends_and_disturbs_nobody(cluster: Make, tmp_path: Path) -> None:
    job, stop = cluster(), tmp_path / "stop"
    job.gather(2)
    for _ in range(2):
        job.start(train, stop=str(stop))
    for member, line in job.events():
        if len(job.lines("left")) == 2 and len(job.members) == 2 and "call" in line:
            job.start(train, stop=str(stop))
        if "ended" in line and member.number == 2:
            stop.touch()
    assert not job.errors(), job.errors()
    assert [member.status for member in job.members] == [0, 0, 0]
    assert not job.members[2].lines, "it went on beyond the loop"
    ends = job.lines("done")
    assert len(ends) == 2 and ends[0] == ends[1]


def call_and_commit(tell: Tell, stop: str) -> None:
    """Under elastic.run, a call of three numbers, and then calls of one with a commit behind each."""
    hvd.init()
    torch.manual_seed(os.getpid())
    model = torch.nn.Linear(4, 2)

    @hvd.elastic.run
    def loop(state: Any) -> None:
        greeting = hvd.allreduce(torch.ones(3) * (1 + state.calls), op=hvd.Max)
        rows = hvd.allgather(torch.ones(1, 2))
        tell(entered=state.calls, size=hvd.size(), greeting=greeting.tolist(), rows=len(rows))
        while not float(hvd.allreduce(torch.tensor([float(Path(stop).exists())]), op=hvd.Max)[0]):
            state.calls += 1
            tell(call=state.calls)
            state.commit()
            time.sleep(0.02)  # a newcomer repeats steps as fast as it can, and catches up with those that train

    state = hvd.elastic.TorchState(model=model, calls=0)
    loop(state)
    tell(done=[float(value) for value in model.weight.flatten()], calls=state.calls)


def test_a_newcomer_whose_first_call_is_another_one(cluster: Make, tmp_path: Path) -> None:
    job, stop = cluster(), tmp_path / "stop"
    job.gather(2)
    for _ in range(2):
        job.start(call_and_commit, stop=str(stop))
    for member, line in job.events():
        if line.get("call") == 5 and len(job.members) == 2:
            job.start(call_and_commit, stop=str(stop))
        if member.number == 2 and "entered" in line:
            stop.touch()
    assert not job.errors(), job.errors()
    assert [member.status for member in job.members] == [0, 0, 0]
    together = [line for line in job.lines("entered") if line["size"] == 3]
    assert len(together) == 3 and len({line["entered"] for line in together}) == 1, job.lines("entered")
    assert {line["rows"] for line in together} == {3}
    assert {tuple(line["greeting"]) for line in together} == {(1.0 + together[0]["entered"],) * 3}
    ends = job.lines("done")
    assert len(ends) == 3 and ends[0] == ends[1] == ends[2], "models differ, which began at random"


def test_a_newcomer_that_no_step_has_told_of_tells_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others may have finished a step before the newcomer was in it: what it said does not count then."""
    newcomer = _world.World()
    newcomer._newcomer = True
    step, control = types.SimpleNamespace(replay=False), np.zeros(8, np.int64)
    replica = types.SimpleNamespace(step=step, job=object(), control=control)
    heard = iter([0, 1])
    monkeypatch.setattr(newcomer, "_roll", lambda *_: newcomer._agreed.__setitem__(1, next(heard)))
    newcomer._follow(replica)  # type: ignore[arg-type]
    assert newcomer._newcomer, "it goes on as if the others would begin anew"
    newcomer._follow(replica)  # type: ignore[arg-type]
    assert not newcomer._newcomer
