# SPDX-License-Identifier: Apache-2.0
"""Losses that are means over something else than samples, and mini-batches that are left out: as in one process."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ledger
import pytest
import torch
from cluster import Cluster, Member, Tell, alone
from disturb import KILLS, disturb
from programs import data
from test_features import together, told
from test_twins import Words
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import spotnik.torch as spotnik
from spotnik import ArgumentError, StateError
from spotnik.torch._weights import Weights, units

Make = Callable[..., Cluster]
BATCH, EPOCHS, ROW = 24, 3, 5
CLASSES = torch.tensor([1.0, 30.0], dtype=torch.float64)


def tokens(kind: str) -> TensorDataset:
    """Rows of ROW tokens, of which some are ignored: in "empty" all of the first half of each batch."""
    x, y = data().tensors
    rows = len(y) // ROW
    x, y = x[: rows * ROW].view(rows, ROW, -1), y[: rows * ROW].view(rows, ROW).clone()
    x, y = x.repeat(6, 1, 1), y.repeat(6, 1)
    if kind != "classes":
        y[torch.arange(ROW) > torch.arange(len(y)).unsqueeze(1) % ROW] = -100
    if kind == "empty":
        y[torch.arange(len(y)) % BATCH < BATCH // 2] = -100
    return TensorDataset(x, y)


def network() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(2)
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2)).double()
    return net, torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)


def loss_of(net: nn.Module, x: torch.Tensor, y: torch.Tensor, kind: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss, and by what PyTorch divides it."""
    weight = CLASSES if kind == "classes" else None
    count = CLASSES[y].sum() if kind == "classes" else (y != -100).sum()
    return nn.functional.cross_entropy(net(x).flatten(0, 1), y.flatten(), weight=weight), count


def plain(tell: Tell, path: str, kind: str, batches: list[list[int]]) -> None:
    net, opt = network()
    x, y = tokens(kind).tensors
    for batch in batches:
        opt.zero_grad()
        loss_of(net, x[batch], y[batch], kind)[0].backward()
        opt.step()
    torch.save([p.detach() for p in net.parameters()], path)


def weighed(tell: Tell, path: str, kind: str, stop: str = "", accumulate: int = 1, commit: str = "backward") -> None:
    net, opt = network()
    settings = {"accumulate": accumulate, "commit": commit, "on_step": told(tell), "metrics": ("loss",), "seed": 7}
    spotnik.prepare(net, opt, **settings)
    loader = spotnik.shard(DataLoader(tokens(kind), batch_size=BATCH // accumulate))
    for _ in spotnik.epochs(10_000 if stop else EPOCHS):
        for x, y in loader:
            step = spotnik.job().running
            if step is not None:
                tell(begin=step.number, epoch=step.data_epoch, share=[(one.start, one.stop) for one in step.ranges])
            loss, count = loss_of(net, x, y, kind)
            spotnik.tell("loss", loss)
            spotnik.weigh(count)
            (loss / accumulate).backward()
            if spotnik.job().running is not None and commit == "backward":
                continue  # accumulating
            opt.step()
            opt.zero_grad()
            tell(at=spotnik.step(), loss=spotnik.told("loss"))
            if stop and Path(stop).exists() and spotnik.step() >= int(Path(stop).read_text()):
                break
        if stop and Path(stop).exists() and spotnik.step() >= int(Path(stop).read_text()):
            break
    member = spotnik.job().status().member
    torch.save([p.detach() for p in net.parameters()], f"{path}.{member}")
    tell(done=spotnik.job().digest)


def whole_batches(kind: str) -> list[list[int]]:
    rows = len(tokens(kind))
    return [list(range(at, min(at + BATCH, rows))) for _ in range(EPOCHS) for at in range(0, rows, BATCH)]


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("ignored", {}),
        ("classes", {}),
        ("ignored", {"accumulate": 4}),
        ("classes", {"accumulate": 3}),
        ("empty", {}),
        ("empty", {"accumulate": 4}),
        ("ignored", {"commit": "step"}),
    ],
    ids=lambda one: one if isinstance(one, str) else " ".join(f"{key}={value}" for key, value in one.items()),
)
def test_members_equal_one_process(
    cluster: Make, tmp_path: Path, kind: str, settings: dict[str, Any], members: int
) -> None:
    path, job = str(tmp_path / "final"), cluster()
    job.gather(members)
    together(job, weighed, members, path=path, kind=kind, **settings)
    alone(plain, tmp_path, path=path, kind=kind, batches=whole_batches(kind))
    ends = list(tmp_path.glob("final.*"))
    assert len(ends) == members
    for end in ends:
        assert ledger.distance(str(end), path) < 1e-9


def splits(tell: Tell, path: str, commit: str) -> None:
    """Cuts its labels, weighs by them, and cuts its inputs after that."""
    net, opt = network()
    spotnik.prepare(net, opt, commit=commit, seed=7)
    x, y = tokens("ignored").tensors
    for rows in whole_batches("ignored"):
        labels = spotnik.part_of(y[rows])
        spotnik.weigh((labels != -100).sum())
        loss_of(net, spotnik.part_of(x[rows]), labels, "ignored")[0].backward()
        opt.step()
        opt.zero_grad()
    torch.save([p.detach() for p in net.parameters()], f"{path}.{spotnik.job().status().member}")


@pytest.mark.parametrize("commit", ["backward", "step"])
def test_a_part_that_is_cut_late_leaves_the_weight(cluster: Make, tmp_path: Path, commit: str) -> None:
    path, job = str(tmp_path / "final"), cluster()
    job.gather(3)
    together(job, splits, 3, path=path, commit=commit)
    alone(plain, tmp_path, path=path, kind="ignored", batches=whole_batches("ignored"))
    for end in tmp_path.glob("final.*"):
        assert ledger.distance(str(end), path) < 1e-9


def test_the_metric_of_a_step_is_the_mean_over_what_counts(cluster: Make, tmp_path: Path) -> None:
    losses = []
    for members in (1, 3):
        job = cluster()
        job.gather(members)
        together(job, weighed, members, path=str(tmp_path / f"of{members}"), kind="ignored")
        losses.append([line["loss"] for line in job.members[0].lines if "at" in line])
    assert losses[0] == pytest.approx(losses[1], abs=1e-9)


def test_kills_and_joins_change_nothing(cluster: Make, tmp_path: Path) -> None:
    job, stop, path = cluster(), tmp_path / "stop", str(tmp_path / "final")

    def start() -> Member:
        return job.start(weighed, path=path, kind="ignored", stop=str(stop))

    disturb(job, start, kills=KILLS, stop=stop)
    steps = ledger.contributions(job)
    batches = [[place for share in shares for a, b in share for place in range(a, b)] for _, shares in steps]
    alone(plain, tmp_path, path=path, kind="ignored", batches=batches)
    ends = list(tmp_path.glob("final.*"))
    assert ends
    for end in ends:
        assert ledger.distance(str(end), path) < 1e-9


# ---- mini-batches that are left out ----

BROKEN = {5, 30, 31, 100, 110}  # samples; the last two are of one step, and of different members


def skips(tell: Tell, path: str, clip: bool = False, commit: str = "backward") -> None:
    """A loop that leaves out what is not finite."""
    net, opt = network()
    spotnik.prepare(net, opt, on_step=told(tell), commit=commit)
    x, y = data().tensors
    x = x.clone()
    x[list(BROKEN)] = math.nan
    loader = spotnik.shard(DataLoader(TensorDataset(x, y), batch_size=BATCH))
    for _ in spotnik.epochs(EPOCHS):
        for batch, labels in loader:
            step = spotnik.job().running
            tell(begin=step.number, epoch=step.data_epoch, share=[(one.start, one.stop) for one in step.ranges])
            loss = nn.functional.cross_entropy(net(batch), labels)
            opt.zero_grad()
            if loss.isfinite():
                loss.backward()
            else:
                spotnik.skip()
            if clip:
                nn.utils.clip_grad_norm_(net.parameters(), 0.1)
            opt.step()
    torch.save([p.detach() for p in net.parameters()], f"{path}.{spotnik.job().status().member}")
    tell(done=spotnik.job().digest)


def unbroken(tell: Tell, path: str, clip: bool, batches: list[list[int]]) -> None:
    net, opt = network()
    x, y = data().tensors
    for batch in batches:
        if not batch:
            continue
        opt.zero_grad()
        nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
        if clip:
            nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        opt.step()
    torch.save([p.detach() for p in net.parameters()], path)


@pytest.mark.parametrize(
    ("members", "clip", "commit"), [(1, True, "backward"), (2, True, "backward"), (2, False, "step")]
)
def test_a_skipped_mini_batch_counts_for_nothing(
    cluster: Make, tmp_path: Path, members: int, clip: bool, commit: str
) -> None:
    path, job = str(tmp_path / "final"), cluster()
    job.gather(members)
    together(job, skips, members, path=path, clip=clip, commit=commit)
    batches: dict[int, list[int]] = {}
    for line in job.lines("begin"):
        share = [place for a, b in line["share"] for place in range(a, b)]
        batches.setdefault(line["begin"], []).extend([] if BROKEN & set(share) else share)
    alone(unbroken, tmp_path, path=path, clip=clip, batches=[batches[step] for step in sorted(batches)])
    assert [] in batches.values() and max(map(len, batches.values())) == BATCH
    ends = list(tmp_path.glob("final.*"))
    assert len(ends) == members
    for end in ends:
        assert ledger.distance(str(end), path) < 1e-9


def skips_of_four(tell: Tell, path: str) -> None:
    """Of four mini-batches in a step the third is left out, in every other step the last one."""
    net, opt = network()
    spotnik.prepare(net, opt, accumulate=4)
    x, y = data().tensors
    for number, (batch, labels) in enumerate(spotnik.shard(DataLoader(TensorDataset(x[:192], y[:192]), batch_size=6))):
        if number % 4 == (2 if number % 8 < 4 else 3):
            spotnik.skip()
        else:
            (nn.functional.cross_entropy(net(batch), labels) / 4).backward()
        if number % 4 == 3:
            opt.step()
            opt.zero_grad()
    torch.save([p.detach() for p in net.parameters()], f"{path}.job")


def test_of_accumulated_mini_batches_those_left_out_count_for_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "final")
    alone(skips_of_four, tmp_path, path=path)
    kept = [[at + i for i in range(24) if i // 6 != (2 if at % 48 < 24 else 3)] for at in range(0, 192, 24)]
    alone(unbroken, tmp_path, path=path, clip=False, batches=kept)
    assert ledger.distance(f"{path}.job", path) < 1e-9


# ---- what mini-batches weigh ----


def made(samples: list[int]) -> tuple[Weights, list[float], list[int]]:
    rescaled: list[float] = []
    said: list[int] = []
    weights = Weights(rescaled.append, said.append)
    weights.plan(samples)
    return weights, rescaled, said


def test_samples_weigh_where_nothing_is_said() -> None:
    weights, rescaled, said = made([3, 1, 0])
    assert [weights.scale(number) for number in range(4)] == [9 / 4, 3 / 4, 0, 1]
    assert weights.count is None and not rescaled and not said


def test_a_count_that_was_left_out_is_told() -> None:
    weights, _, _ = made([1, 1])
    weights.weigh(0, 5)
    with pytest.raises(StateError, match="before each backward"):
        weights.scale(1)
    weights, _, _ = made([1, 1])
    with pytest.raises(StateError, match="before each backward"):
        weights.weigh(1, 5)


@pytest.mark.parametrize("count", [-1, math.nan, math.inf, "3", None])
def test_what_is_no_count_is_refused(count: Any) -> None:
    with pytest.raises(ArgumentError, match="by which the loss was divided"):
        units(count)


def test_fractions_and_whole_numbers() -> None:
    assert units(7) == units(torch.tensor(7)) == 7
    assert units(0.5) == units(torch.tensor(0.5)) == 1 << 19


# ---- what can be noticed ----


def noticed(tell: Tell, loss: str, weighs: bool, sometimes: bool = False) -> None:
    """One epoch of a criterion; `sometimes`: weighed on the first member only."""
    words = Words()
    logging.getLogger("spotnik.torch").addHandler(words)
    net, opt = network()
    criterion = {
        "mean": nn.CrossEntropyLoss(),
        "padded": nn.CrossEntropyLoss(),
        "smoothed": nn.CrossEntropyLoss(label_smoothing=0.1),
        "sum": nn.CrossEntropyLoss(reduction="sum"),
        "squares": lambda z, y: nn.functional.mse_loss(z[:, 0], y.double(), reduction="sum") / 7 + z.pow(2).mean(),
        "classes": nn.CrossEntropyLoss(weight=CLASSES),
        "ignored": nn.CrossEntropyLoss(ignore_index=0),
        "root": lambda z, y: nn.functional.mse_loss(z[:, 0], y.double()).sqrt(),
    }[loss]
    spotnik.prepare(net, opt)
    rows = data()
    if loss == "padded":
        rows.tensors[1][::5] = -100
    for x, y in spotnik.shard(DataLoader(rows, batch_size=BATCH)):
        value = criterion(net(x), y)
        if weighs and (not sometimes or spotnik.rank() == 0):
            spotnik.weigh(len(x))
        value.backward()
        opt.step()
        opt.zero_grad()
    tell(done=words.kept)


@pytest.mark.parametrize(
    ("loss", "weighs", "words"),
    [
        ("mean", False, ""),
        ("smoothed", False, ""),
        ("sum", False, r"multiply it by batch_size / len\(batch\)"),
        ("squares", False, r"multiply it by batch_size / len\(batch\)"),
        ("classes", False, r"spotnik.weigh\(weight\[y\].sum\(\)\)"),
        ("padded", False, r"spotnik.weigh\(\(y != -100\).sum\(\)\)"),
        ("ignored", False, r"spotnik.weigh\(\(y != ignore_index\).sum\(\)\)"),
        ("root", False, r"take it for each sample and then the mean"),
        ("classes", True, ""),
    ],
)
def test_a_criterion_that_is_no_mean_over_samples_is_told(
    cluster: Make, loss: str, weighs: bool, words: str
) -> None:
    job = cluster()
    together(job, noticed, 1, loss=loss, weighs=weighs)
    (line,) = job.lines("done")
    assert len(line["done"]) == (1 if words else 0), line["done"]
    assert not words or re.search(words, line["done"][0])


def test_members_of_which_some_weigh_are_told(cluster: Make) -> None:
    job = cluster()
    job.gather(2)
    for _ in range(2):
        job.start(noticed, loss="mean", weighs=True, sometimes=True)
    for _ in job.events():
        pass
    assert [line["error"] for line in job.lines("error")] == ["StateError"] * 2
    assert all("some members called weigh() in this step" in line["text"] for line in job.lines("error"))
