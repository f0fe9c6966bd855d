# SPDX-License-Identifier: Apache-2.0
"""Shapes of programs against one process with the same batches: alone, by three, with kills, after a total loss."""

from __future__ import annotations

import collections
import functools
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ledger
import pytest
import torch
from cluster import Cluster, Member, Tell, alone
from disturb import EPOCHS_MOST, disturb, total_loss
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
    turns = 1  #: steps of the job for a batch
    needs = "torch"
    kept = Path()  #: for a file of its own

    def __init__(self) -> None:
        torch.manual_seed(3)
        self.net: Any = self.network()
        self.opt: Any = self.optimizer()
        self.beside: list[Any] = []

    def network(self) -> Any:
        return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2)).double()

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

    def turn(self, x: torch.Tensor, y: torch.Tensor, number: int, job: Any) -> None:
        """Take step `number` of the job: a part of a batch, where that has several."""
        self.step(x, y, number, job)

    def prepare(self, loader: Any, **settings: Any) -> Any:
        """Returns what yields the member's batches."""
        spotnik.prepare(self.net, self.opt, *self.beside, commit=self.commit, **settings)
        return None if self.draws else spotnik.shard(loader)

    def ended(self, epoch: int) -> None:
        """An epoch has ended."""

    def result(self) -> Iterator[torch.Tensor]:
        yield from self.net.parameters()


class Telling(Shape):
    """A model with a parameter for each sample: its gradient tells which samples the committed step has computed."""

    trained = torch.ones(SAMPLES, dtype=torch.bool)  #: the samples that it trains with

    def network(self) -> Any:
        net = super().network()
        self.seen = [self.mark(net)]
        return net

    @staticmethod
    def mark(net: Any) -> Any:
        net.seen = nn.Parameter(torch.zeros(SAMPLES).double())
        return net.seen

    def loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return super().loss(x, y) + self.marks(x, self.seen[0])

    @staticmethod
    def marks(x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        rows = (x[:, None] == data().tensors[0]).all(dim=-1)
        return (rows.double() @ seen).mean()

    def computed(self, number: int) -> list[int]:
        """The samples whose gradients step `number` of the job applies."""
        slope = self.seen[(number - 1) % len(self.seen)].grad
        return [] if slope is None else slope.nonzero().flatten().tolist()


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
    """An optimiser with a mode: it evaluates at other weights than it trains at, also in the midst of an epoch."""

    needs = "schedulefree"

    def optimizer(self) -> Any:
        import schedulefree

        opt = schedulefree.AdamWScheduleFree(self.net.parameters(), lr=0.01, warmup_steps=5, foreach=False)
        opt.train()
        return opt

    def step(self, x: torch.Tensor, y: torch.Tensor, number: int, job: Any) -> None:
        super().step(x, y, number, job)
        if number % 4 == 3:
            self.opt.eval()
            with torch.no_grad():
                self.net(data().tensors[0])
            self.opt.train()

    def result(self) -> Iterator[torch.Tensor]:
        yield from self.net.parameters()
        self.opt.eval()
        yield from (p.detach().clone() for p in self.net.parameters())


class Quantised(nn.Module):
    """A codebook that follows what it is asked for, as the guide has it: sums over the batch, scaled."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(6, 4), nn.Linear(4, 2)
        self.register_buffer("counts", torch.ones(8))
        self.register_buffer("sums", torch.randn(8, 4))

    def forward(self, x: torch.Tensor) -> Any:
        z, codes = self.inner(x), self.sums / self.counts[:, None]
        nearest = torch.cdist(z, codes).argmin(dim=1)
        if self.training:
            with torch.no_grad():
                chosen = nn.functional.one_hot(nearest, 8).to(z) * (BATCH / len(x))
                self.counts.mul_(0.9).add_(chosen.sum(dim=0), alpha=0.1)
                self.sums.mul_(0.9).add_(chosen.T @ z, alpha=0.1)
        return self.outer(z + (codes[nearest] - z).detach())


class Codebook(Shape):
    def network(self) -> Any:
        return Quantised().double()

    def result(self) -> Iterator[torch.Tensor]:
        yield from itertools.chain(self.net.parameters(), self.net.buffers())


class Thawed(Shape):
    """Its first layer is trained from the twelfth step on."""

    def step(self, x: torch.Tensor, y: torch.Tensor, number: int, job: Any) -> None:
        self.net[0].requires_grad_(number >= 12)
        super().step(x, y, number, job)


class Dropping(Telling):
    """It leaves out samples, and batches of which nothing is left."""

    trained = data().tensors[0][:, 2] > 0.8

    def step(self, x: torch.Tensor, y: torch.Tensor, number: int, job: Any) -> None:
        kept = x[:, 2] > 0.8
        if kept.any():
            job.weigh(int(kept.sum()))
            self.loss(x[kept], y[kept]).backward()
        else:
            job.skip()
        self.apply()


class Drawing(Telling):
    """A loop without a loader, which takes its part of each batch."""

    draws = True


class Ascending(Drawing):
    """The guide's class for sharpness-aware minimisation: two steps for a batch."""

    turns = 2

    def optimizer(self) -> Any:
        guide = (Path(__file__).parents[3] / "docs/guide/pytorch.md").read_text()
        names: dict[str, Any] = {"torch": torch}
        exec(guide[guide.index("class SAM") : guide.index("model, optimizer = spotnik.prepare(model, SAM")], names)
        return names["SAM"](self.net.parameters(), lr=0.05, momentum=0.9)


class Adversarial(Telling):
    """Two models, whose optimisers step in turn."""

    commit, turns = "step", 2

    def network(self) -> Any:
        nets = nn.ModuleList([super().network(), nn.Linear(6, 6).double()])
        self.seen = [self.mark(one) for one in nets]
        return nets

    def optimizer(self) -> Any:
        return [torch.optim.Adam(one.parameters(), lr=0.01) for one in self.net]

    def step(self, x: torch.Tensor, y: torch.Tensor, number: int, job: Any) -> None:
        for side in range(2):
            self.turn(x, y, side, job)

    def turn(self, x: torch.Tensor, y: torch.Tensor, number: int, job: Any) -> None:
        critic, generator = self.net
        side = number % 2
        for one in self.opt:
            one.zero_grad()
        fooled = cross_entropy(critic(generator(x)), torch.full_like(y, side))
        (fooled + self.marks(x, self.seen[side])).backward()
        if side == 0:
            cross_entropy(critic(x), torch.ones_like(y)).backward()
        self.opt[side].step()


class Accelerated(Scheduled):
    """The face for accelerate."""

    needs = "accelerate"
    accelerator: Any = None

    def prepare(self, loader: Any, **settings: Any) -> Any:
        import accelerate

        import spotnik.accelerate

        self.accelerator = accelerate.Accelerator(cpu=True)
        given = self.net, self.opt, loader, self.schedule
        self.net, self.opt, batches, self.schedule = spotnik.accelerate.prepare(self.accelerator, *given, **settings)
        return batches

    def step(self, x: torch.Tensor, y: torch.Tensor, number: int, job: Any) -> None:
        backward = self.accelerator.backward if self.accelerator else torch.Tensor.backward
        backward(self.loss(x, y))
        self.apply()


class Keeping(Shape):
    """It goes on from a file of its own, as the guide has it."""

    def prepare(self, loader: Any, **settings: Any) -> Any:
        saved = torch.load(self.kept, weights_only=True) if self.kept.exists() else {}
        if saved:
            self.net.load_state_dict(saved["model"])
            self.opt.load_state_dict(saved["optimizer"])
        return super().prepare(loader, start=saved.get("epochs", 0), **settings)

    def ended(self, epoch: int) -> None:
        if spotnik.rank() == 0:
            whole = {"model": self.net.state_dict(), "optimizer": self.opt.state_dict(), "epochs": epoch + 1}
            torch.save(whole, f"{self.kept}.new")
            os.replace(f"{self.kept}.new", self.kept)


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
    "codebook": Codebook,
    "thawed": Thawed,
    "dropping": Dropping,
    "drawing": Drawing,
    "sam": Ascending,
    "adversarial": Adversarial,
    "accelerate": Accelerated,
    "own files": Keeping,
}


def save(one: Shape, path: str) -> None:
    torch.save([p.detach().clone() for p in one.result()], path)


def plain(tell: Tell, kind: str, path: str, batches: list[list[int]]) -> None:
    """One process, which takes a batch in each step of the job."""
    one, (x, y) = SHAPES[kind](), data().tensors
    for number, batch in enumerate(batches):
        one.turn(x[batch], y[batch], number, NoJob)
    save(one, path)


def drawn(steps: int, turns: int) -> Iterator[Any]:
    x, y = data().tensors
    while spotnik.step() < steps:
        rows = WHOLE[spotnik.step() // turns % len(WHOLE)]
        yield spotnik.part_of(x[rows]), spotnik.part_of(y[rows])


def dealt(one: Shape, loader: Any, epochs: int) -> Iterator[Any]:
    for epoch in spotnik.epochs(epochs):
        yield from loader
        one.ended(epoch)


def trains(tell: Tell, kind: str, path: str, stop: str = "", epochs: int = EPOCHS) -> None:
    one = SHAPES[kind]()
    one.kept = Path(path).parent / "own.pt"

    def committed(report: spotnik.StepReport) -> None:
        rows = one.computed(report.number) if isinstance(one, Telling) else []
        told(functools.partial(tell, rows=rows))(report)

    loader = one.prepare(DataLoader(data(), batch_size=BATCH), on_step=committed, seed=7)
    for x, y in drawn(epochs * len(WHOLE) * one.turns, one.turns) if one.draws else dealt(one, loader, epochs):
        step = spotnik.job().running
        assert step is not None
        share = [(part.start, part.stop) for part in step.ranges]
        tell(begin=step.number, epoch=step.data_epoch, share=share, shares=step.shares, replay=step.replay)
        one.step(x, y, spotnik.step(), spotnik)
        if stop and Path(stop).exists() and spotnik.step() >= int(Path(stop).read_text()):
            break
    member, digest = spotnik.job().status().member, spotnik.job().digest
    spotnik.leave()
    save(one, f"{path}.{member}")
    tell(done=digest)


@pytest.fixture(params=SHAPES)
def kind(request: pytest.FixtureRequest) -> str:
    needs = SHAPES[request.param].needs
    pytest.importorskip(needs, reason=f"{needs} is not installed")
    return str(request.param)


def check(tmp_path: Path, kind: str, batches: list[list[int]], members: int = 0) -> None:
    """All that ended have what one process has that took these batches, one in each step of the job."""
    alone(plain, tmp_path, kind=kind, path=str(tmp_path / "plain"), batches=batches)
    ends = list(tmp_path.glob("final.*"))
    assert ends and members in (0, len(ends))
    for end in ends:
        assert ledger.distance(str(end), str(tmp_path / "plain")) < ROUNDING


def whole(kind: str, epochs: int) -> list[list[int]]:
    """The batches of one process, one for each step."""
    return [rows for rows in WHOLE * epochs for _ in range(SHAPES[kind].turns)]


@pytest.mark.parametrize("members", [1, 3])
def test_members_equal_one_process(cluster: Make, tmp_path: Path, kind: str, members: int) -> None:
    job = cluster()
    job.gather(members)
    together(job, trains, members, kind=kind, path=str(tmp_path / "final"))
    check(tmp_path, kind, whole(kind, EPOCHS), members)


def computed(job: Cluster, kind: type[Telling]) -> list[list[int]]:
    """What each step has computed. Of a batch that was drawn, or goes on, it lacks what lost members had begun."""
    steps, used = [line for _, line in sorted(ledger.reports(job).items())], collections.Counter[int]()
    shares = {line["begin"]: line["shares"] for line in job.lines("begin") if not line["replay"]}
    for number, line in enumerate(steps):
        batch, members = WHOLE[number // kind.turns % len(WHOLE)], shares.get(number + 1)
        if not kind.draws and number % kind.turns == 0:
            used.update(line["rows"])
            continue
        if not kind.draws:
            batch, members = steps[number - 1]["rows"], steps[number - 1]["members"]
        assert line["rows"] == batch or (line["members"] < members and set(line["rows"]) < set(batch)), line
    if not kind.draws:
        assert sorted(used) == kind.trained.nonzero().flatten().tolist()
        assert max(used.values()) - min(used.values()) <= 1, "each once an epoch"
    return [line["rows"] for line in steps]


def test_kills_and_joins_change_nothing(cluster: Make, tmp_path: Path, kind: str) -> None:
    job, stop = cluster(), tmp_path / "stop"

    def start() -> Member:
        return job.start(trains, kind=kind, path=str(tmp_path / "final"), stop=str(stop), epochs=EPOCHS_MOST)

    disturb(job, start, kills=2, stop=stop)
    shape = SHAPES[kind]
    if issubclass(shape, Telling):
        check(tmp_path, kind, computed(job, shape))
    else:
        check(tmp_path, kind, ledger.batches(ledger.contributions(job), SAMPLES, seed=7, shuffle=False))


def test_a_total_loss_changes_nothing(cluster: Make, tmp_path: Path, kind: str) -> None:
    """Two members are killed together; two others go on from the checkpoint."""
    settings = {"kind": kind, "path": str(tmp_path / "final")}
    # The third checkpoint falls due after step 21, between the two optimisers of a batch.
    _, after, killed = total_loss(
        cluster,
        tmp_path / "checkpoints",
        lambda job: job.start(trains, epochs=EPOCHS_MOST, **settings),
        since=22,
        checkpoints=3,
    )
    epochs = killed * BATCH // SAMPLES + 3
    together(after, trains, 2, epochs=epochs, **settings)
    assert 1 < min(ledger.agreed(after)) <= killed + 1
    check(tmp_path, kind, whole(kind, epochs), 2)
