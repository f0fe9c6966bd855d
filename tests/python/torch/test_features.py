# SPDX-License-Identifier: Apache-2.0
"""What else training loops do: accumulation, scaled gradients, norms, several optimisers, compiled models, ..."""

from __future__ import annotations

import copy
import itertools
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Optional

import ledger
import pytest
import torch
from cluster import Cluster, Member, Tell, alone
from disturb import survivors
from programs import SAMPLES, Homemade, data, elastic, network, stacked
from test_exact import check_against_replay, churn
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

import spotnik.torch as spotnik
from spotnik import Config
from spotnik.torch._session import current

Make = Callable[..., Cluster]


def together(job: Cluster, program: Callable[..., Any], members: int, **settings: Any) -> None:
    for _ in range(members):
        job.start(program, **settings)
    job.wait()
    assert not job.errors()
    assert [member.status for member in job.members] == [0] * members


def disturbed(job: Cluster, program: Callable[..., Any], kills: int, **settings: Any) -> None:
    """Three members; every few steps one is killed and another started."""
    chance = random.Random(1)
    due = 6
    killed: list[Member] = []
    for _ in range(3):
        job.start(program, **settings)
    for _, line in job.events():
        if "done" in line:
            job.dismiss_latecomers()
        if kills and line.get("step", 0) >= due:
            active = survivors(job, killed)
            if len(active) > 1:
                killed.append(chance.choice(active))
                job.kill(killed[-1])
                job.start(program, **settings)
                kills, due = kills - 1, line["step"] + 6
    assert not job.errors()
    assert kills == 0


def told(tell: Tell) -> Callable[[spotnik.StepReport], None]:
    def committed(report: spotnik.StepReport) -> None:
        tell(
            step=report.number,
            samples=report.samples,
            members=report.members,
            contributors=report.contributors,
            replay=report.replay,
            digest=spotnik.job().digest,
            member=spotnik.job().status().member,
        )

    return committed


def forever(loader: DataLoader[Any], steps: int) -> Iterator[Any]:
    sharded = spotnik.shard(loader)
    while spotnik.job().status().step_committed < steps:
        for batch in sharded:
            time.sleep(0.01)  # the time a real backward pass takes
            yield batch


def own(loader: DataLoader[Any], steps: int) -> Iterator[Any]:
    while spotnik.job().status().step_committed < steps:
        for batch in itertools.islice(loader, steps - spotnik.job().status().step_committed):
            time.sleep(0.01)
            yield batch


# ---- the loop of programs.elastic ----


@pytest.mark.parametrize(
    "settings",
    [
        {"accumulate": 2, "batch": 12},
        {"accumulate": 3, "batch": 5},
        {"batch": 5, "batch_mode": "per_member"},
        {"workers": 2},
        {"batch": 2, "shuffle": False},
        {"bucket_mb": 1e-4},
    ],
    ids=lambda settings: " ".join(f"{key}={value}" for key, value in settings.items()),
)
def test_three_members_equal_one_process(cluster: Make, tmp_path: Path, settings: dict[str, Any]) -> None:
    job = cluster(minimum=3)
    together(job, elastic, 3, steps=30, folder=str(job.folder), **settings)
    check_against_replay(job, tmp_path, shuffle=settings.get("shuffle", True))


@pytest.mark.parametrize("model", ["norm", "dropout"])
def test_replicas_with_buffers_or_random_numbers_stay_equal(cluster: Make, model: str) -> None:
    job = cluster(minimum=2)
    assert churn(job, 3, steps_between=6, model=model, compute_ms=15) == 3
    assert not job.errors()
    ledger.reports(job)


def test_prefetching_workers_survive_churn(cluster: Make, tmp_path: Path) -> None:
    job = cluster(minimum=2)
    assert churn(job, 3, steps_between=6, workers=1, compute_ms=20) == 3
    check_against_replay(job, tmp_path)
    assert sum(line["dropped"] for line in job.lines("done")) < 400


def read_ahead(tell: Tell, path: str, ahead: bool, accumulate: int = 3, steps: int = 20) -> None:
    """All mini-batches of a step first, then their backward passes, as frameworks do that accumulate."""
    net = network()
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    net, opt = spotnik.prepare(net, opt, accumulate=accumulate, config=Config(steps_max=steps), on_step=told(tell))
    sharded = spotnik.shard(DataLoader(data(), batch_size=5))
    while spotnik.step() < steps:
        batches = iter(sharded)
        while taken := list(itertools.islice(batches, accumulate if ahead else 1)):
            for x, y in taken:
                (nn.functional.cross_entropy(net(x), y) / accumulate).backward()
            if current().running.step is None:
                opt.step()
                opt.zero_grad()
    torch.save([p.detach() for p in net.parameters()], f"{path}.{spotnik.rank()}")


def test_mini_batches_of_a_step_may_be_read_ahead(cluster: Make, tmp_path: Path) -> None:
    ahead, behind = str(tmp_path / "ahead"), str(tmp_path / "behind")
    for path in (ahead, behind):
        job = cluster()
        job.gather(2)
        together(job, read_ahead, 2, path=path, ahead=path is ahead)
    assert ledger.distance(f"{ahead}.0", f"{behind}.0") == ledger.distance(f"{ahead}.0", f"{ahead}.1") == 0


# ---- gradient scaling: steps are skipped, by all or by none ----


def scaled(tell: Tell, steps: int, sharded: bool) -> None:
    net = network(dtype=torch.float32)
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**120, growth_interval=3)
    net, opt = spotnik.prepare(net, opt, config=Config(steps_max=steps), on_step=told(tell))
    loader = DataLoader(data(torch.float32), batch_size=16, drop_last=True)
    for x, y in forever(loader, steps) if sharded else own(loader, steps):
        opt.zero_grad()
        scaler.scale(8 * nn.functional.cross_entropy(net(x), y)).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        scaler.step(opt)
        scaler.update()
    tell(done=spotnik.job().digest, scale=scaler.get_scale())


@pytest.mark.parametrize("sharded", [True, False])
def test_gradient_scaler_skips_on_all_members_alike(cluster: Make, sharded: bool) -> None:
    job = cluster(minimum=2)
    disturbed(job, scaled, kills=2, steps=300, sharded=sharded)
    assert 150 < len(ledger.agreed(job)) < 300  # the scale is too large again and again
    assert len({(line["done"], line["scale"]) for line in job.lines("done")}) == 1


def as_most_do(tell: Tell, steps: int) -> None:
    """Nobody unscales or clips: scaler.step() does what is to be done."""
    net = network(dtype=torch.float32)
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    net, opt = spotnik.prepare(net, opt, config=Config(steps_max=steps), on_step=told(tell))
    scaler = torch.amp.GradScaler("cpu")
    for x, y in forever(DataLoader(data(torch.float32), batch_size=16, drop_last=True), steps):
        opt.zero_grad()
        scaler.scale(nn.functional.cross_entropy(net(x), y)).backward()
        scaler.step(opt)
        scaler.update()
    tell(done=spotnik.job().digest)


def by_data(tell: Tell, steps: int) -> None:
    """Averages are changed where no version tells of it, as programs of old do."""
    net = network(dtype=torch.float32)
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    net, opt = spotnik.prepare(net, opt, config=Config(steps_max=steps), on_step=told(tell))
    for x, y in forever(DataLoader(data(torch.float32), batch_size=16, drop_last=True), steps):
        opt.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        for p in net.parameters():
            assert p.grad is not None
            p.grad.data.mul_(0.5)
        opt.step()
    tell(done=spotnik.job().digest)


@pytest.mark.parametrize("program", [as_most_do, by_data])
def test_averages_that_change_unseen_change_in_joiners_too(cluster: Make, program: Callable[..., None]) -> None:
    """A joiner repeats such steps by the program's loop: alone it would apply what nobody else did."""
    job = cluster(minimum=2)
    disturbed(job, program, kills=3, steps=200)
    ledger.agreed(job)
    assert len({line["done"] for line in job.lines("done")}) == 1


# ---- models and optimisers of all kinds, against plain PyTorch ----


class Odd(nn.Module):
    """Shared weights, a frozen layer, a layer that is never used, and one that is used now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(6, 8)
        self.shared = nn.Linear(8, 8)
        self.frozen = nn.Linear(8, 8).requires_grad_(False)
        self.unused = nn.Linear(8, 8)
        self.rare = nn.Linear(8, 8)
        self.out = nn.Linear(8, 2)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.shared(torch.tanh(self.shared(self.embed(x)))))
        if self.training:
            self.calls += 1
        if int(self.calls) % 3 == 0:
            x = x + self.rare(x)
        return self.out(torch.tanh(self.frozen(x)))


class Table(nn.Module):
    """A model whose embedding has sparse gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(32, 6, sparse=True)
        self.out = nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(torch.tanh(self.table((x.abs() * 4).long().clamp(max=31)).mean(1)))


class Segments(nn.Module):
    """All that is trained lies in segments that are computed again, each in a backward pass of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Linear(6, 16).requires_grad_(False)
        self.a = nn.Sequential(nn.Linear(16, 16), nn.Tanh())
        self.b = nn.Sequential(nn.Linear(16, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = checkpoint(self.a, self.frozen(x).requires_grad_(), use_reentrant=True)
        return checkpoint(self.b, x, use_reentrant=True)


def make(kind: str) -> tuple[nn.Module, list[torch.optim.Optimizer]]:
    torch.manual_seed(3)
    if kind in ("odd", "two optimizers", "segments"):
        net: nn.Module = (Segments() if kind == "segments" else Odd()).double()
        parameters = [p for p in net.parameters() if p.requires_grad]
    else:
        net = (Table() if kind == "sparse" else network("mlp")).double()
        parameters = list(net.parameters())
    if kind == "two optimizers":
        return net, [torch.optim.SGD(parameters[:4], lr=0.1, momentum=0.9), torch.optim.Adam(parameters[4:], lr=0.01)]
    if kind == "sparse":
        return net, [torch.optim.SGD(parameters, lr=0.1)]
    if kind == "stacked":
        return net, [stacked(parameters)]
    maker = Homemade if kind == "Homemade" else getattr(torch.optim, kind, None)
    if maker is not None:
        return net, [maker(parameters, lr=0.01)]
    return net, [torch.optim.AdamW(parameters, lr=0.01, amsgrad=True)]


def plain(tell: Tell, kind: str, steps: int, path: str) -> None:
    net, optimizers = make(kind)
    x, y = (t[:192] for t in data().tensors)
    for step in range(steps):
        at = step % 8 * 24
        net.zero_grad()
        nn.functional.cross_entropy(net(x[at : at + 24]), y[at : at + 24]).backward()
        for one in optimizers:
            one.step()
    torch.save([p.detach() for p in net.parameters()], path)


def shared(tell: Tell, kind: str, steps: int, path: str, compiled: bool = False, ddp: bool = False) -> None:
    net, optimizers = make(kind)
    extra: dict[str, Any] = {"sparse": "dense"} if kind == "sparse" else {}
    wrapped = distributed(net) if ddp else net
    spotnik.prepare(wrapped, optimizers, config=Config(steps_max=steps), on_step=told(tell), **extra)
    call = torch.compile(net, backend="aot_eager") if compiled else wrapped
    x, y = (t[:192] for t in data().tensors)
    for xs, ys in forever(DataLoader(TensorDataset(x, y), batch_size=24), steps):
        net.zero_grad()
        nn.functional.cross_entropy(call(xs), ys).backward()
        assert current().running.step is None  # committed: what follows sees averages
        for one in optimizers:
            one.step()
    if spotnik.rank() == 0:
        torch.save([p.detach() for p in net.parameters()], path)


def distributed(net: nn.Module) -> nn.Module:
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    return nn.parallel.DistributedDataParallel(net, bucket_cap_mb=1e-4)


OPTIMIZERS = ["SGD", "Adam", "NAdam", "RAdam", "Adamax", "Adadelta", "Adagrad", "ASGD", "Rprop", "RMSprop", "Adafactor"]


@pytest.mark.parametrize("kind", ["odd", "two optimizers", "segments", "sparse", "Homemade", "stacked", *OPTIMIZERS])
def test_models_and_optimizers_equal_plain_pytorch(cluster: Make, tmp_path: Path, kind: str) -> None:
    job = cluster(minimum=2)
    a, b = str(tmp_path / "shared.pt"), str(tmp_path / "plain.pt")
    together(job, shared, 2, kind=kind, steps=16, path=a)
    alone(plain, tmp_path, kind=kind, steps=16, path=b)
    ledger.reports(job)
    # Rprop looks at signs: a gradient that is zero but for rounding may go either way.
    assert ledger.distance(a, b) < (1e-3 if kind == "Rprop" else 1e-9)


@pytest.mark.parametrize("how", ["compiled", "ddp"])
def test_compiled_and_wrapped_models_equal_plain_pytorch(cluster: Make, tmp_path: Path, how: str) -> None:
    job = cluster(minimum=2)
    a, b = str(tmp_path / "shared.pt"), str(tmp_path / "plain.pt")
    together(job, shared, 2, kind="mlp", steps=16, path=a, **{how: True})
    alone(plain, tmp_path, kind="mlp", steps=16, path=b)
    assert ledger.distance(a, b) < 1e-9


# ---- extra state ----


def averaging(tell: Tell, steps: int) -> None:
    net = network()
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    ema = torch.optim.swa_utils.AveragedModel(net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    net, opt, ema = spotnik.prepare(net, opt, ema, config=Config(steps_max=steps), on_step=told(tell))
    for x, y in forever(DataLoader(data(), batch_size=16), steps):
        opt.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        opt.step()
        ema.update_parameters(net)
    tell(done=sum(float(p.sum()) for p in ema.parameters()), calls=int(ema.n_averaged))


def test_an_averaged_model_is_part_of_the_replica(cluster: Make) -> None:
    job = cluster(minimum=2)
    disturbed(job, averaging, kills=2, steps=300)
    assert len({(line["done"], line["calls"]) for line in job.lines("done")}) == 1
    ledger.reports(job)


def whole(tell: Tell, path: str) -> None:
    """Saves and copies its model as a whole in each step, and trains on the copy beside."""
    net = network("norm")
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    net, opt = spotnik.prepare(net, opt, config=Config(steps_max=6), on_step=told(tell))
    for x, y in forever(DataLoader(data(), batch_size=16), 6):
        other = copy.deepcopy(net)
        nn.functional.cross_entropy(other(x), y).backward()
        opt.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        opt.step()
        if spotnik.rank() == 0:
            torch.save(net, path)
    tell(done=net.eval()(data().tensors[0]).sum().item(), rank=spotnik.rank())


LOADS = """
import pathlib, sys, torch
torch.serialization.add_safe_globals([getattr(torch.nn, name) for name in ("BatchNorm1d", "Linear", "Tanh")])
torch.serialization.add_safe_globals([torch.nn.Sequential])
for path in sorted(pathlib.Path().glob("*.pt")):
    loaded = torch.load(path, weights_only=path.stem not in ("optimizer", "scheduler"))
    said = loaded.eval()(torch.load("x")).sum().item() if hasattr(loaded, "eval") else loaded.state_dict()
    print(str(said).replace(chr(10), ""))
assert "spotnik" not in sys.modules
"""


def loads(folder: Path) -> list[str]:
    """What a program says that loads the files, without Spotnik and by the safe globals of the model's classes."""
    torch.save(data().tensors[0], folder / "x")
    return subprocess.check_output([sys.executable, "-c", LOADS], text=True, cwd=folder).splitlines()


def test_a_model_is_saved_and_copied_as_a_whole(cluster: Make, tmp_path: Path) -> None:
    job, path = cluster(minimum=2), tmp_path / "whole.pt"
    together(job, whole, 2, path=str(path))
    ledger.reports(job)
    assert [line["done"] for line in job.lines("done")] == [pytest.approx(float(loads(tmp_path)[0]))] * 2


def saves(tell: Tell, folder: str) -> None:
    """A loop with batches of its own, and gradients accumulated; saves all it has at each place of a step."""
    net = spotnik.ghost_batchnorm(network("norm"), 4)
    models = nn.ModuleList([copy.deepcopy(net)])
    opt = torch.optim.Adam(models.parameters(), lr=0.01)
    spotnik.prepare(models, opt, accumulate=2)
    net = models[0]
    schedule = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.1, total_steps=9)
    x, y = data().tensors
    for place in ("first", "second"):
        loss = nn.functional.cross_entropy(net(x[:16]), y[:16]) / 2
        torch.save(net, f"{folder}/forward-{place}.pt")
        loss.backward()
        torch.save(net, f"{folder}/backward-{place}.pt")
    before = copy.deepcopy(net).eval()(x).sum().item()
    opt.step()
    schedule.step()
    for name, one in {"model": net, "optimizer": opt, "scheduler": schedule}.items():
        torch.save(one, f"{folder}/{name}.pt")
    spotnik.leave()
    torch.save(net, f"{folder}/left.pt")
    states = [str(one.state_dict()).replace("\n", "") for one in (opt, schedule)]
    tell(before=before, after=net.eval()(x).sum().item(), states=states)
    tell(groups=[type(one.forward).__name__ for one in copy.deepcopy(net) if isinstance(one, nn.BatchNorm1d)])


def test_files_of_a_model_need_no_spotnik_wherever_they_are_saved(tmp_path: Path) -> None:
    said, groups = alone(saves, tmp_path, folder=str(tmp_path))
    *in_step, left, model, optimizer, scheduler = loads(tmp_path)
    assert len(in_step) == 4 and float(in_step[1]) == pytest.approx(said["before"])
    assert float(left) == float(model) == pytest.approx(said["after"])
    assert [optimizer, scheduler] == said["states"]
    assert groups["groups"] == ["_Ghost"]


# ---- batch and learning rate ----


def rated(tell: Tell, rule: str, mode: str, steps: int) -> None:
    net = network()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    seen: list[float] = []
    net, opt = spotnik.prepare(net, opt, config=Config(steps_max=steps), lr_rule=rule, batch=mode, on_step=told(tell))
    opt.register_step_pre_hook(lambda one, *_: seen.append(one.param_groups[0]["lr"]))
    for x, y in forever(DataLoader(TensorDataset(*(t[:192] for t in data().tensors)), batch_size=8), steps):
        opt.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        opt.step()
        assert opt.param_groups[0]["lr"] == 0.1
    tell(done=True, rates=seen)


@pytest.mark.parametrize(
    ("rule", "mode", "rate", "samples"),
    [("linear", "per_member", 0.2, 16), ("sqrt", "per_member", 0.1 * 2**0.5, 16), ("linear", "global", 0.1, 8)],
)
def test_learning_rate_follows_the_batch(cluster: Make, rule: str, mode: str, rate: float, samples: int) -> None:
    job = cluster(minimum=2)
    together(job, rated, 2, rule=rule, mode=mode, steps=10)
    assert {line["samples"] for line in job.lines("step")} == {samples}
    assert {value for line in job.lines("done") for value in line["rates"]} == {rate}


# ---- without a sharded loader ----


def free(tell: Tell, steps: int, seed: Optional[int] = None) -> None:
    net = network(seed=1 if seed is None else seed)
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.ExponentialLR(opt, 0.99)
    net, opt = spotnik.prepare(net, opt, config=Config(steps_max=steps), on_step=told(tell))
    x, y = data().tensors
    while spotnik.job().status().step_committed < steps:
        batch = torch.randint(0, SAMPLES, (8,))
        time.sleep(0.01)
        opt.zero_grad()
        nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
        opt.step()
        schedule.step()
    tell(done=spotnik.job().digest)


def test_a_loop_over_its_own_data_survives(cluster: Make) -> None:
    job = cluster(minimum=2)
    disturbed(job, free, kills=3, steps=300)
    ledger.reports(job)
    assert len({line["done"] for line in job.lines("done")}) == 1
