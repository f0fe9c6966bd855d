# SPDX-License-Identifier: Apache-2.0
"""Shapes of programs against one process with the same batches: alone, by three, with kills, after a total loss."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ledger
import pytest
import torch
from cluster import Cluster, Member, Tell, alone
from disturb import disturb
from programs import SAMPLES, data
from test_features import together, told
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader

import spotnik.torch as spotnik

Make = Callable[..., Cluster]
BATCH, EPOCHS, ROUNDING = 24, 3, 1e-9
WHOLE = [list(range(at, min(at + BATCH, SAMPLES))) for at in range(0, SAMPLES, BATCH)]  #: the batches of an epoch


class Shape:
    """A program of SGD; others change a part of it."""

    commit = "backward"
    draws = False  #: does it draw its own batches, in order?

    def __init__(self) -> None:
        torch.manual_seed(3)
        self.net: Any = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2)).double()
        self.opt: Any = self.optimizer()
        self.beside: list[Any] = []

    def optimizer(self) -> Any:
        return torch.optim.SGD(self.net.parameters(), lr=0.05, momentum=0.9)

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return cross_entropy(self.net(x), y)

    def apply(self) -> None:
        for opt in self.opt if isinstance(self.opt, list) else [self.opt]:
            opt.step()
            opt.zero_grad()

    def step(self, x: torch.Tensor, y: torch.Tensor, number: int, job: Any) -> None:
        """Take step `number`, from 0. `job` is spotnik.torch, or what stands for it in one process."""
        self.loss(x, y).backward()
        self.apply()

    def result(self) -> Iterator[torch.Tensor]:
        yield from self.net.parameters()


class Averaging(Shape):
    """An average of the weights, by which it validates in the midst of an epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.average = AveragedModel(self.net, multi_avg_fn=get_ema_multi_avg_fn(0.9))
        self.beside = [self.average]

    def apply(self) -> None:
        super().apply()
        self.average.update_parameters(self.net)

    def step(self, x: torch.Tensor, y: torch.Tensor, number: int, job: Any) -> None:
        super().step(x, y, number, job)
        if number % 4 == 3:
            self.net.eval()
            with torch.no_grad():
                self.average(data().tensors[0])
                self.net(data().tensors[0])
            self.net.train()

    def result(self) -> Iterator[torch.Tensor]:
        yield from itertools.chain(self.net.parameters(), self.average.parameters())


class Penalised(Shape):
    """A penalty on gradients with respect to the inputs, as WGAN-GP has it."""

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        out = self.net(x)
        (slope,) = torch.autograd.grad(out[:, 1].sum(), x, create_graph=True)
        return cross_entropy(out, y) + 0.1 * (slope.norm(dim=1) - 1).square().mean()


class Scheduled(Shape):
    """A schedule from the length of the loader, and clipping."""

    def __init__(self) -> None:
        super().__init__()
        length = len(DataLoader(data(), batch_size=BATCH))
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, T_max=length)

    def apply(self) -> None:
        nn.utils.clip_grad_norm_(self.net.parameters(), 0.3)
        super().apply()
        self.schedule.step()


class Weighted(Shape):
    """Class weights in a compiled model."""

    weights = torch.tensor([1.0, 30.0], dtype=torch.float64)

    def __init__(self) -> None:
        super().__init__()
        self.compiled = torch.compile(self.net, backend="aot_eager")

    def step(self, x: torch.Tensor, y: torch.Tensor, number: int, job: Any) -> None:
        loss = cross_entropy(self.compiled(x), y, weight=self.weights)
        job.weigh(self.weights[y].sum())
        loss.backward()
        self.apply()


class Lion(torch.optim.Optimizer):
    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 0.01})
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["mean"] = torch.zeros_like(p)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                mean = self.state[p]["mean"]
                p.mul_(0.999).sub_((0.9 * mean + 0.1 * p.grad).sign() * group["lr"])
                mean.lerp_(p.grad, 0.01)


class Signed(Shape):
    def optimizer(self) -> Any:
        return Lion(self.net.parameters())


class Orthogonal(Shape):
    """Muon for matrices, AdamW for the rest."""

    def optimizer(self) -> Any:
        matrices = [p for p in self.net.parameters() if p.dim() == 2]
        rest = [p for p in self.net.parameters() if p.dim() != 2]
        return [torch.optim.Muon(matrices, lr=0.02), torch.optim.AdamW(rest, lr=0.01)]


class ScheduleFree(Shape):
    """An optimiser with a mode: it evaluates at other weights than it trains at."""

    def optimizer(self) -> Any:
        import schedulefree

        opt = schedulefree.AdamWScheduleFree(self.net.parameters(), lr=0.01, warmup_steps=5, foreach=False)
        opt.train()
        return opt

    def result(self) -> Iterator[torch.Tensor]:
        yield from self.net.parameters()
        self.opt.eval()
        yield from (p.detach().clone() for p in self.net.parameters())


class Thawed(Shape):
    """Its first layer is trained from the twelfth step on."""

    def step(self, x: torch.Tensor, y: torch.Tensor, number: int, job: Any) -> None:
        self.net[0].requires_grad_(number >= 12)
        super().step(x, y, number, job)


class Dropping(Shape):
    """It leaves out samples, and batches of which nothing is left."""

    def step(self, x: torch.Tensor, y: torch.Tensor, number: int, job: Any) -> None:
        kept = x[:, 2] > 0.8
        if kept.any():
            job.weigh(int(kept.sum()))
            self.loss(x[kept], y[kept]).backward()
        else:
            job.skip()
        self.apply()


class Drawing(Shape):
    """A loop without a loader, which takes its part of each batch."""

    draws = True


class Adversarial(Shape):
    """Two models, whose optimisers step in turn."""

    commit = "step"

    def optimizer(self) -> Any:
        self.net = nn.ModuleList([self.net, nn.Linear(6, 6).double()])
        return [torch.optim.Adam(one.parameters(), lr=0.01) for one in self.net]

    def step(self, x: torch.Tensor, y: torch.Tensor, number: int, job: Any) -> None:
        critic, generator = self.net
        for side, opt in enumerate(self.opt):
            for one in self.opt:
                one.zero_grad()
            cross_entropy(critic(generator(x)), torch.full_like(y, side)).backward()
            if side == 0:
                cross_entropy(critic(x), torch.ones_like(y)).backward()
            opt.step()


class NoJob:
    @staticmethod
    def weigh(_: Any) -> None:
        pass

    @staticmethod
    def skip() -> None:
        pass


SHAPES: dict[str, type[Shape]] = {
    "average": Averaging,
    "penalty": Penalised,
    "schedule": Scheduled,
    "compiled": Weighted,
    "lion": Signed,
    "muon": Orthogonal,
    "schedule-free": ScheduleFree,
    "thawed": Thawed,
    "dropping": Dropping,
    "drawing": Drawing,
    "adversarial": Adversarial,
}


def save(one: Shape, path: str) -> None:
    torch.save([p.detach().clone() for p in one.result()], path)


def plain(tell: Tell, kind: str, path: str, batches: list[list[int]]) -> None:
    one, (x, y) = SHAPES[kind](), data().tensors
    for number, batch in enumerate(batches):
        one.step(x[batch], y[batch], number, NoJob)
    save(one, path)


def drawn(steps: int) -> Iterator[Any]:
    x, y = data().tensors
    while spotnik.step() < steps:
        rows = WHOLE[spotnik.step() % len(WHOLE)]
        yield spotnik.part_of(x[rows]), spotnik.part_of(y[rows])


def dealt(epochs: int) -> Iterator[Any]:
    loader = spotnik.shard(DataLoader(data(), batch_size=BATCH))
    for _ in spotnik.epochs(epochs):
        yield from loader


def trains(tell: Tell, kind: str, path: str, stop: str = "", epochs: int = EPOCHS, checkpoint: str = "") -> None:
    one = SHAPES[kind]()
    settings = {"on_step": told(tell), "seed": 7, "checkpoint": checkpoint or None, "commit": one.commit}
    spotnik.prepare(one.net, one.opt, *one.beside, **settings)
    for x, y in drawn(epochs * len(WHOLE)) if one.draws else dealt(10_000 if stop else epochs):
        step = spotnik.job().running
        assert step is not None
        tell(begin=step.number, epoch=step.data_epoch, share=[(part.start, part.stop) for part in step.ranges])
        one.step(x, y, spotnik.step(), spotnik)
        if stop and Path(stop).exists() and spotnik.step() >= int(Path(stop).read_text()):
            break
    member, digest = spotnik.job().status().member, spotnik.job().digest
    spotnik.leave()
    save(one, f"{path}.{member}")
    tell(done=digest)


@pytest.fixture(params=SHAPES)
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "schedule-free":
        pytest.importorskip("schedulefree", reason="schedulefree is not installed")
    return str(request.param)


def check(tmp_path: Path, kind: str, batches: list[list[int]], members: int = 0) -> None:
    """All that ended have what one process has that took these batches."""
    alone(plain, tmp_path, kind=kind, path=str(tmp_path / "plain"), batches=batches)
    ends = list(tmp_path.glob("final.*"))
    assert ends and members in (0, len(ends))
    for end in ends:
        assert ledger.distance(str(end), str(tmp_path / "plain")) < ROUNDING


@pytest.mark.parametrize("members", [1, 3])
def test_members_equal_one_process(cluster: Make, tmp_path: Path, kind: str, members: int) -> None:
    job = cluster()
    job.gather(members)
    together(job, trains, members, kind=kind, path=str(tmp_path / "final"))
    check(tmp_path, kind, WHOLE * EPOCHS, members)


UNTOLD = ("dropping", "drawing", "adversarial")  # shares of samples do not say what their steps have computed


@pytest.mark.parametrize("kind", [one for one in SHAPES if one not in UNTOLD], indirect=True)
def test_kills_and_joins_change_nothing(cluster: Make, tmp_path: Path, kind: str) -> None:
    job, stop = cluster(), tmp_path / "stop"

    def start() -> Member:
        return job.start(trains, kind=kind, path=str(tmp_path / "final"), stop=str(stop))

    disturb(job, start, kills=2, stop=stop)
    batches = ledger.batches(ledger.contributions(job), SAMPLES, seed=7, shuffle=False)
    check(tmp_path, kind, batches)


def test_a_total_loss_changes_nothing(cluster: Make, tmp_path: Path, kind: str) -> None:
    """Two members are killed together; two others go on from the checkpoint."""
    folder, jobs = tmp_path / "checkpoints", [cluster(minimum=2), cluster(minimum=2)]
    folder.mkdir()
    settings = {"kind": kind, "path": str(tmp_path / "final"), "checkpoint": str(folder)}
    for job in jobs:
        job.environment["SPOTNIK_CHECKPOINT_STEPS"] = "7"
    before, after = jobs
    for _ in range(2):
        before.start(trains, epochs=1000, **settings)
    killed = 0
    for _, line in before.events():
        # The third falls due after step 21, between the two optimisers of a batch.
        if line.get("step", 0) > 21 and not killed and len(list(folder.rglob("manifest.json"))) > 2:
            killed = line["step"]
            for member in before.members:
                before.kill(member)
    epochs = killed * BATCH // SAMPLES + 3
    together(after, trains, 2, epochs=epochs, **settings)
    assert 1 < min(ledger.agreed(after)) <= killed + 1
    check(tmp_path, kind, WHOLE * epochs, 2)
