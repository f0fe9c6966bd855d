# SPDX-License-Identifier: Apache-2.0
"""A program that saves and loads files of its own, as docs/guide/pytorch.md has it: the recipe, run with members."""

from __future__ import annotations

import collections
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cluster import Cluster, Tell, alone
from disturb import tell_to_stop
from programs import SAMPLES, data, network
from torch import nn
from torch.utils.data import DataLoader

import spotnik.torch as spotnik
from spotnik import ArgumentError

Make = Callable[..., Cluster]
BATCH = 20
STEPS = -(-SAMPLES // BATCH)
MOST = 100_000  # epochs: more than a test takes


def train(tell: Tell, kept: str, stop: str, by_range: bool = False) -> None:
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    start = 0
    if Path(kept).exists():
        saved = torch.load(kept, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        start = saved["epochs"]
    model, optimizer = spotnik.prepare(model, optimizer, start=start, seed=7)
    loader = spotnik.shard(DataLoader(data(), batch_size=BATCH, shuffle=True))
    tell(start=start)
    for epoch in range(start, MOST) if by_range else spotnik.epochs(MOST):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            tell(epoch=epoch, members=spotnik.size(), samples=len(x))
        if spotnik.rank() == 0:
            files = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epochs": epoch + 1}
            torch.save(files, f"{kept}.new")
            os.replace(f"{kept}.new", kept)
        if Path(stop).exists() and epoch + 1 >= int(Path(stop).read_text()):
            break
    tell(done=spotnik.step(), sum=sum(float(p.detach().sum()) for p in model.parameters()))


@pytest.mark.parametrize(("by_range", "killed"), [(False, False), (True, False), (False, True)])
def test_a_job_goes_on_from_a_file_of_its_own_and_is_joined(
    cluster: Make, tmp_path: Path, by_range: bool, killed: bool
) -> None:
    """Members end as one process that was never broken off, a joiner that has loaded a later file among them.

    Those before them have ended, or were `killed` in an epoch.

    A joiner whose loop counts epochs by itself may stand aside in its first step until it has caught up. What it was
    dealt there is dealt again in the epoch, so later batches are larger, or another step is taken at its end, and the
    sum is not equal to the last bit.
    """
    stop, kept, before, after = tmp_path / "stop", str(tmp_path / "own.pt"), cluster(), cluster()
    settings: dict[str, Any] = {"kept": kept, "stop": str(stop), "by_range": by_range}
    if not killed:
        stop.write_text("4")
    before.gather(2)
    for _ in range(2):
        before.start(train, **settings)
    for _, line in before.events():
        for member in before.members if killed and line.get("epoch", 0) >= 4 else []:
            if member.running:
                before.kill(member)
    epochs = torch.load(kept, weights_only=True)["epochs"]
    assert not before.errors() and (epochs >= 4 if killed else epochs == 4)
    stop.unlink(missing_ok=True)
    after.gather(2)
    for _ in range(2):
        after.start(train, **settings)
    for member, line in after.events():
        if line.get("epoch", 0) >= epochs + 2 and len(after.members) == 2:
            after.start(train, **settings)
        if member.number == 2 and "members" in line and not stop.exists():
            tell_to_stop(stop, line["epoch"] + 10)
    assert not after.errors(), after.errors()
    (tmp_path / "alone").mkdir()
    plain = alone(train, tmp_path / "alone", kept=str(tmp_path / "alone.pt"), stop=str(stop))[-1]
    first, second, joiner = (member.lines[0]["start"] for member in after.members)
    assert first == second == epochs < joiner
    assert max(line["members"] for line in after.lines("members")) == 3
    ends = after.lines("done")
    more = ends[0]["done"] - (plain["done"] - epochs * STEPS)
    assert len({line["done"] for line in ends}) == 1 and more in ((0, 1) if by_range else (0,))
    assert len({line["sum"] for line in ends}) == 1
    assert ends[0]["sum"] == pytest.approx(plain["sum"], abs=0.1 if by_range else 1e-9)
    computed: collections.Counter[int] = collections.Counter()
    for line in after.lines("samples"):
        computed[line["epoch"]] += line["samples"]
    assert set(computed.values()) == {SAMPLES}, "each sample once an epoch"


def test_a_start_that_is_no_epoch_is_refused() -> None:
    net = network()
    with pytest.raises(ArgumentError, match=r"number of an epoch, 0 or more, not -1"):
        spotnik.prepare(net, torch.optim.SGD(net.parameters(), lr=0.1), start=-1)
