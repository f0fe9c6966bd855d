# SPDX-License-Identifier: Apache-2.0
"""tell() and told(): means over the samples of a step, the same on all members, whoever is killed or joins."""

from __future__ import annotations

import itertools
import logging
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cluster import Cluster, Tell, alone
from disturb import disturb
from programs import SAMPLES, data, network
from test_features import together
from test_twins import Words
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import spotnik.torch as spotnik
from spotnik import ArgumentError

Make = Callable[..., Cluster]
BATCH = 20


def train(tell: Tell, stop: str, accumulate: int = 1, sync: str = "ssgd", clip: bool = False) -> None:
    """Tell the mean of the places of the samples, which the test can compute, and the loss; stop when the file says."""
    net = network()
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    spotnik.prepare(net, opt, metrics=("place", "loss", "never"), accumulate=accumulate, sync=sync)
    x, y = data().tensors
    loader = spotnik.shard(DataLoader(TensorDataset(x, y, torch.arange(SAMPLES)), batch_size=BATCH // accumulate))
    for _ in spotnik.epochs(2000):
        for number, (features, labels, places) in enumerate(loader):
            step = spotnik.job().running
            assert step is not None
            loss = nn.functional.cross_entropy(net(features), labels)
            spotnik.tell("place", places.double().mean())
            spotnik.tell("loss", loss)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                spotnik.observe("loss", loss)
            (loss / accumulate).backward()
            if (number + 1) % accumulate:
                continue
            if clip:
                nn.utils.clip_grad_norm_(net.parameters(), 0.3)
            opt.step()
            opt.zero_grad()
            ranges = [(part.start, part.stop) for part in step.ranges]
            place, loss_told = spotnik.told("place"), spotnik.told("loss")
            assert math.isnan(spotnik.told("never"))
            tell(step=step.number, share=ranges, replay=step.replay, place=place, loss=loss_told)
            if Path(stop).exists() and step.number >= int(Path(stop).read_text()):
                tell(done=step.number)
                return


def check(job: Cluster, whole: bool) -> None:
    """All that tell of a step tell the same; where it lost nobody, the mean over the ranges of its shares."""
    by_step: dict[int, list[dict[str, Any]]] = {}
    for member in job.members:
        lines = [line for line in member.lines if "step" in line]
        finished = any("done" in line for line in member.lines)
        for line in lines if finished else lines[:-1]:  # a commit made alone may be made again without it
            by_step.setdefault(line["step"], []).append(line)
    for number, lines in by_step.items():
        assert len({(line["place"], line["loss"]) for line in lines}) == 1, f"step {number}: {lines}"
        places = list(itertools.chain(*(range(a, b) for line in lines for a, b in line["share"])))
        if whole:
            assert lines[0]["place"] == pytest.approx(sum(places) / len(places)), f"step {number}: {lines}"
    assert len(by_step) > 20


@pytest.mark.parametrize("settings", [{}, {"accumulate": 2}, {"sync": "sma"}], ids=["plain", "accumulate", "sma"])
def test_three_members_tell_the_mean(cluster: Make, tmp_path: Path, settings: dict[str, Any]) -> None:
    stop = tmp_path / "stop"
    stop.write_text("40")
    job = cluster()
    job.gather(3)
    for _ in range(3):
        job.start(train, stop=str(stop), **settings)
    job.wait()
    assert not job.errors()
    check(job, whole="accumulate" not in settings)  # whose halves of a share differ by a sample
    (tmp_path / "alone").mkdir()
    calm = [line for line in alone(train, tmp_path / "alone", stop=str(stop), **settings) if "step" in line]
    together = {line["step"]: line for line in job.members[0].lines if "step" in line}
    if not settings:
        for line in calm:
            assert together[line["step"]]["place"] == pytest.approx(line["place"])
            assert together[line["step"]]["loss"] == pytest.approx(line["loss"])


@pytest.mark.parametrize("clip", [False, True], ids=["plain", "clip"])
def test_kills_and_joins(cluster: Make, tmp_path: Path, clip: bool) -> None:
    job, stop = cluster(), tmp_path / "stop"
    last = disturb(job, lambda: job.start(train, stop=str(stop), clip=clip), kills=3, stop=stop)
    assert [line["done"] for line in job.lines("done")] == [last] * 3
    check(job, whole=False)


def test_a_name_that_was_not_given() -> None:
    net = network()
    spotnik.prepare(net, torch.optim.SGD(net.parameters(), lr=0.05), metrics=("loss",))
    try:
        with pytest.raises(ArgumentError, match=r"'accuracy' is not among the metrics \(loss\)"):
            spotnik.tell("accuracy", 1)
        with pytest.raises(ArgumentError, match="not among"):
            spotnik.told("accuracy")
    finally:
        spotnik.leave()
    with pytest.raises(ArgumentError, match="different names"):
        spotnik.prepare(net, torch.optim.SGD(net.parameters(), lr=0.05), metrics="loss")


# ---- loops that end by a loss ----


def stops(tell: Tell, how: str, limit: float = 0.4) -> None:
    words = Words()
    logging.getLogger("spotnik.torch").addHandler(words)
    net = network()
    opt = torch.optim.SGD(net.parameters(), lr=0.3, momentum=0.9)
    spotnik.prepare(net, opt, metrics=("loss",))
    loader = spotnik.shard(DataLoader(data(), batch_size=24))
    for _ in spotnik.epochs(200):
        for x, y in loader:
            loss = nn.functional.cross_entropy(net(x), y)
            spotnik.tell("loss", loss)
            loss.backward()
            opt.step()
            opt.zero_grad()
            if (loss.item() if how == "own" else spotnik.told("loss")) < limit:
                return tell(done=spotnik.step(), words=words.kept)


@pytest.mark.parametrize("how", ["own", "told"])
def test_early_stops_by_a_loss_are_those_of_one_process_or_told(cluster: Make, tmp_path: Path, how: str) -> None:
    one = alone(stops, tmp_path, how=how)[0]
    job = cluster()
    job.gather(3)
    together(job, stops, 3, how=how)
    ends, words = [line["done"] for line in job.lines("done")], [line["words"] for line in job.lines("done")]
    if how == "told":
        assert ends == [one["done"]] * 3 and words == [[]] * 3
        return
    assert len(set(ends)) > 1, "this test can fail"
    (last,) = words[ends.index(max(ends))]
    assert "a member left in good order" in last and 'spotnik.told("loss") < limit: break' in last
