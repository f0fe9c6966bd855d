# SPDX-License-Identifier: Apache-2.0
"""allreduce() between two steps: the same value on all members, whoever is killed or joins; wrong calls name who."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from cluster import Cluster, Tell, alone
from disturb import EXIT_INTERRUPTED, KILLS, disturb, tell_to_stop
from programs import SAMPLES, data, network
from torch import nn
from torch.utils.data import DataLoader

import spotnik.torch as spotnik
from spotnik import ArgumentError, MismatchError, StateError
from spotnik.torch._wish import Wish
from spotnik.training.control import Control
from spotnik.training.membership import Membership
from spotnik.training.pauses import CALLS, Pauses, Row

Make = Callable[..., Cluster]
BATCH = 40
STEPS = math.ceil(SAMPLES / BATCH)  # of an epoch


def train(tell: Tell, stop: str, pauses: Any = "epoch", accumulate: int = 1, clip: bool = False) -> None:
    """After each epoch, or each third step, reduce what tells of the members; the file says when to stop."""
    net = network()
    opt = torch.optim.AdamW(net.parameters(), lr=0.01)
    spotnik.prepare(net, opt, pauses=pauses, accumulate=accumulate)
    schedule = torch.optim.lr_scheduler.StepLR(opt, step_size=3, gamma=0.99)
    loader = spotnik.shard(DataLoader(data(), batch_size=BATCH // accumulate))
    for epoch in spotnik.epochs(100000):
        seen = 0
        for number, (x, y) in enumerate(loader):
            running = spotnik.job().running
            assert running is not None
            (nn.functional.cross_entropy(net(x), y) / accumulate).backward()
            if (number + 1) % accumulate:
                continue
            seen += 0 if running.replay else running.sample_count
            if clip:
                nn.utils.clip_grad_norm_(net.parameters(), 0.3)
            opt.step()
            opt.zero_grad()
            schedule.step()
            tell(step=spotnik.step(), replay=running.replay, members=spotnik.size())
            if pauses != "epoch" and spotnik.step() % pauses == 0:
                told(tell, seen, epoch)
        if pauses == "epoch":
            told(tell, seen, epoch)
        if Path(stop).exists() and spotnik.step() >= int(Path(stop).read_text()):
            break
    tell(done=spotnik.step(), digest=spotnik.job().digest, lr=opt.param_groups[0]["lr"])


def told(tell: Tell, seen: int, epoch: int) -> None:
    """Three calls, of sizes, types and operations of their own."""
    total = spotnik.allreduce(seen, "sum")
    mean = spotnik.allreduce(torch.tensor([float(seen), 1.0], dtype=torch.float32))
    least = spotnik.allreduce(epoch, "min")
    assert isinstance(total, int) and mean.dtype == torch.float32
    tell(at=spotnik.step(), total=total, mean=mean.tolist(), epoch=epoch, least=least)


def check(job: Cluster) -> dict[int, dict[str, Any]]:
    """All that tell of a pause tell the same."""
    pauses: dict[int, dict[str, Any]] = {}
    for member in job.members:
        lines = [line for line in member.lines if "at" in line]
        finished = any("done" in line for line in member.lines)
        for line in lines if finished else lines[:-1]:  # a commit made alone may be made again without it
            assert pauses.setdefault(line["at"], line) == line
            assert line["least"] == line["epoch"]
    done = job.lines("done")
    assert done and all(line == done[0] for line in done), done
    assert done[0]["lr"] == pytest.approx(0.01 * 0.99 ** (done[0]["done"] // 3))
    return pauses


@pytest.mark.parametrize("settings", [{}, {"accumulate": 2}, {"pauses": 3}], ids=["epoch", "accumulate", "steps"])
def test_three_members(cluster: Make, tmp_path: Path, settings: dict[str, Any]) -> None:
    stop = tmp_path / "stop"
    stop.write_text(str(6 * STEPS))
    job = cluster()
    job.gather(3)
    for _ in range(3):
        job.start(train, stop=str(stop), **settings)
    job.wait()
    assert not job.errors()
    pauses = check(job)
    assert sorted(pauses) == list(range(settings.get("pauses", STEPS), 6 * STEPS + 1, settings.get("pauses", STEPS)))
    if settings.get("pauses") is None:
        assert [line["total"] for line in pauses.values()] == [SAMPLES] * 6
        assert [line["mean"] for line in pauses.values()] == [[pytest.approx(SAMPLES / 3), 1.0]] * 6
    (tmp_path / "alone").mkdir()
    calm = [line for line in alone(train, tmp_path / "alone", stop=str(stop), **settings) if "at" in line]
    assert [(line["at"], line["total"]) for line in calm] == [(at, pauses[at]["total"]) for at in sorted(pauses)]


@pytest.mark.parametrize(
    "settings",
    [{}, {"clip": True, "accumulate": 2}, {"clip": True, "pauses": 3}],
    ids=["plain", "clip", "steps"],
)
def test_kills_and_joins(cluster: Make, tmp_path: Path, settings: dict[str, Any]) -> None:
    job, stop = cluster(), tmp_path / "stop"
    last = disturb(job, lambda: job.start(train, stop=str(stop), **settings), kills=KILLS, stop=stop)
    done = [line["done"] for line in job.lines("done")]
    assert len(done) == 3 and min(done) >= last
    pauses = check(job)
    assert len(pauses) > 20
    if "pauses" not in settings:
        assert any(line["total"] == SAMPLES for line in pauses.values())


@pytest.mark.parametrize(("when", "wanted"), [("epoch", [4, 8, 10, 12]), (3, [3, 6, 9, 10, 12])])
def test_epochs_of_a_framework_are_its_own(when: Any, wanted: list[int]) -> None:
    """A loss lengthens an epoch of data by a step, but none of a Trainer; and a Trainer may end in the midst of one."""
    control = Control()
    pauses = Pauses(when, control, cast(Any, None), lambda: None)
    pauses.plan(4, last=10)
    opened = []
    for number in range(1, 13):
        pauses.step_trained(shown=True, is_end_of_epoch=number in (5, 9))
        if pauses.is_next:
            opened.append(number)
        control.pause = 0
    assert opened == wanted


@pytest.mark.parametrize("pauses", ["epoch", 3])
def test_a_member_that_was_stopped_goes_on_or_asks_for_a_restart(cluster: Make, tmp_path: Path, pauses: Any) -> None:
    job, stop = cluster(), tmp_path / "stop"
    job.gather(3)
    for _ in range(3):
        job.start(train, stop=str(stop), pauses=pauses)
    stopped = job.members[1]
    since, goes_on = 0, False
    for member, line in job.events():
        step = line.get("step", 0)
        if not since and member is not stopped and step >= 8:
            since = step
            job.kill(stopped, signal.SIGSTOP)
        elif since and not goes_on and member is not stopped and step >= since + 20 and line["members"] == 2:
            goes_on = True
            job.kill(stopped, signal.SIGCONT)
            tell_to_stop(stop, step + 60)
    assert not job.errors()
    assert [member.status for member in job.members if member is not stopped] == [0, 0]
    assert stopped.status in (0, EXIT_INTERRUPTED)
    check(job)


def one_comes_back_in_it(tell: Tell, victim: bool, go: str) -> None:
    """The victim misses two steps, and receives its state in the pause after them: the others stay in it until then."""
    net = network()
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    spotnik.prepare(net, opt, pauses=3)
    while spotnik.step() < 12:
        loss = nn.functional.cross_entropy(net(data().tensors[0]), data().tensors[1])
        if victim and spotnik.step() == 4:
            tell(waits=True)  # to be stopped
            while not Path(go).exists():
                time.sleep(0.01)  # between two looks; nothing rests on it
        loss.backward()
        opt.step()
        opt.zero_grad()
        if spotnik.step() == 6:
            tell(members=spotnik.size())  # of the step before
            while spotnik.allreduce(int(spotnik.job().size == 3), "min") == 0:
                pass
    tell(done=spotnik.step(), digest=spotnik.job().digest)


def test_one_that_comes_back_in_a_pause_is_excused(cluster: Make, tmp_path: Path) -> None:
    """Its loop took a step before it was stopped, and none of those after which the pause is."""
    job, go = cluster(), tmp_path / "go"
    job.gather(3)
    victim, *_ = [job.start(one_comes_back_in_it, victim=number == 0, go=str(go)) for number in range(3)]
    for member, line in job.events():
        if "waits" in line:
            job.kill(member, signal.SIGSTOP)
        elif line.get("members") == 2 and not go.exists():
            go.touch()
            job.kill(victim, signal.SIGCONT)
    assert not job.errors()
    assert [member.lines[-1]["done"] for member in job.members] == [12, 12, 12]
    assert len({member.lines[-1]["digest"] for member in job.members}) == 1


def one_is_killed_in_it(tell: Tell, victim: bool) -> None:
    net = network()
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    spotnik.prepare(net, opt, pauses=1)
    for _ in range(4):
        nn.functional.cross_entropy(net(data().tensors[0]), data().tensors[1]).backward()
        opt.step()
        opt.zero_grad()
        if spotnik.step() == 2:
            tell(waits=spotnik.rank())
            if victim:
                signal.pause()  # until it is killed, and the others wait for it
        tell(total=spotnik.allreduce(1, "sum"), most=spotnik.allreduce(float(spotnik.step()), "max"))
    tell(done=spotnik.step())


def test_survivors_finish_a_call_without_the_lost(cluster: Make) -> None:
    job = cluster()
    job.gather(3)
    for number in range(3):
        job.start(one_is_killed_in_it, victim=number == 1)
    waiting = 0
    for _, line in job.events():
        waiting += "waits" in line
        if "waits" in line and waiting == 3:
            job.kill(job.members[1])
    assert not job.errors()
    for member in (job.members[0], job.members[2]):
        assert [line["total"] for line in member.lines if "total" in line] == [3, 2, 2, 2]
        assert [line["most"] for line in member.lines if "most" in line] == [1.0, 2.0, 3.0, 4.0]
        assert member.lines[-1] == {"done": 4}


def differ(tell: Tell, odd: bool, kind: str) -> None:
    net = network()
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    spotnik.prepare(net, opt, pauses=2)
    try:
        for _ in range(4):
            nn.functional.cross_entropy(net(data().tensors[0]), data().tensors[1]).backward()
            opt.step()
            opt.zero_grad()
            if spotnik.step() == 2 and not (odd and kind == "none"):
                spotnik.allreduce(torch.ones(3 if odd else 2), "sum")
                if odd and kind == "twice":
                    spotnik.allreduce(1)
    except MismatchError as error:
        tell(told=str(error), rank=spotnik.rank(), odd=odd)
        return
    raise AssertionError("nobody noticed")


@pytest.mark.parametrize("kind", ["none", "size"])
def test_different_calls_are_told_to_all_with_the_ranks(cluster: Make, kind: str) -> None:
    job = cluster()
    job.gather(3)
    for number in range(3):
        job.start(differ, odd=number == 2, kind=kind)
    job.wait()
    assert not job.errors()
    lines = job.lines("told")
    assert len(lines) == 3 and len({line["told"] for line in lines}) == 1
    (odd,) = [line["rank"] for line in lines if line["odd"]]
    others = ", ".join(str(rank) for rank in range(3) if rank != odd)
    if kind == "none":
        assert f"ranks {others} called spotnik.allreduce() and rank {odd} went on" in lines[0]["told"]
    else:
        assert "sum of 3 float32" in lines[0]["told"] and "sum of 2 float32" in lines[0]["told"]


def wrong_places(tell: Tell) -> None:
    net = network()
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    spotnik.prepare(net, opt, pauses=2)
    for _ in range(2):
        with pytest.raises(StateError, match="leaves no place"):
            spotnik.allreduce(1)
        loss = nn.functional.cross_entropy(net(data().tensors[0]), data().tensors[1])
        with pytest.raises(StateError, match="in the midst of a step"):
            spotnik.allreduce(loss)
        loss.backward()
        opt.step()
        opt.zero_grad()
    for value, op, wanted in ((3, "mean", 3.0), (True, "sum", 1), (2.5, "product", 2.5), (7, "max", 7)):
        result = spotnik.allreduce(value, op)
        assert (type(result), result) == (type(wanted), wanted)
    for kind in (torch.float16, torch.bfloat16, torch.int32, torch.uint8, torch.float64):
        given = torch.full((2, 3), 2, dtype=kind)
        result = spotnik.allreduce(given, "min")
        assert result is not given and result.dtype == kind and torch.equal(result, given)
    assert spotnik.allreduce(torch.zeros(0), "sum").shape == (0,)
    with pytest.raises(ArgumentError, match='op must be "mean"'):
        spotnik.allreduce(1, "median")
    assert spotnik.step() == 2
    tell(done=True)


def test_places_types_and_words(tmp_path: Path) -> None:
    assert alone(wrong_places, tmp_path)[-1] == {"done": True}
    net = network()
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    with pytest.raises(ArgumentError, match="pauses is"):
        spotnik.prepare(net, opt, pauses="step")
    with pytest.raises(ArgumentError, match="pauses go with"):
        spotnik.prepare(net, opt, pauses=1, sync="sma")
    spotnik.prepare(net, opt)
    try:
        with pytest.raises(ArgumentError, match="say prepare"):
            spotnik.allreduce(1)
    finally:
        spotnik.leave()


class Nobody:
    """A job in whose step this member had no share, as one that came in its midst: its data do not count."""

    def samples_decline(self) -> None: ...

    def allreduce_start(self, bucket: int, pointer: int, count: int, dtype: Any, op: Any, owner: Any) -> None:
        for place in range(count):
            owner[place] = 0

    def step_commit(self) -> bool:
        return True


def test_a_value_survives_a_step_that_did_not_count_it() -> None:
    membership = Membership(lambda job: None)
    membership.job = cast(Any, Nobody())
    pauses, wish = Pauses(1, Control(), membership, lambda: None), Wish(torch.tensor([3.0, 4.0]), "sum")
    pauses.step_trained(shown=True, is_end_of_epoch=False)
    pauses._decide([Row(CALLS, 0, wish.what)], wish)
    assert pauses.answer(cast(Any, None), wish) is False  # it is to ask again
    assert pauses.is_next and wish.memory.tolist() == [3.0, 4.0]


def metric_of_torchmetrics(tell: Tell) -> None:
    from torchmetrics.classification import MulticlassAccuracy

    net = network()
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    spotnik.prepare(net, opt, pauses=1)
    nn.functional.cross_entropy(net(data().tensors[0]), data().tensors[1]).backward()
    opt.step()
    accuracy = MulticlassAccuracy(
        10,
        average="micro",
        dist_sync_fn=lambda state, group=None: [spotnik.allreduce(state, "sum")],
        distributed_available_fn=lambda: True,
    )
    right = [1, 2, 3] if spotnik.rank() == 0 else [4, 5, 9]  # the last of which is not
    accuracy.update(torch.tensor(right), torch.tensor([*right[:2], 3]))
    tell(value=accuracy.compute().item())


def test_torchmetrics_reduces_by_it(cluster: Make) -> None:
    pytest.importorskip("torchmetrics", reason="torchmetrics is not installed")
    job = cluster()
    job.gather(2)
    for _ in range(2):
        job.start(metric_of_torchmetrics)
    job.wait()
    assert not job.errors()
    assert [line["value"] for line in job.lines("value")] == [pytest.approx(5 / 6)] * 2
