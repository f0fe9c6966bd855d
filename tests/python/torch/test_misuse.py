# SPDX-License-Identifier: Apache-2.0
"""Every misuse gets a message that names the fix."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cluster import Cluster, Tell, alone
from programs import Homemade, data, network
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset, RandomSampler

import spotnik.torch as spotnik
from spotnik import ArgumentError, Config, MismatchError, SpotnikError, StateError
from spotnik.torch._session import current

Loss = Callable[[], torch.Tensor]


def prepared(**options: Any) -> tuple[nn.Module, torch.optim.Optimizer, DataLoader[Any]]:
    net = network()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    spotnik.prepare(net, opt, **options)
    return net, opt, DataLoader(data(), batch_size=16)


def loss_of(net: nn.Module, batch: Any) -> torch.Tensor:
    return nn.functional.cross_entropy(net(batch[0]), batch[1])


def memory_replaced() -> None:
    net, opt, loader = prepared()
    for batch in spotnik.shard(loader):
        loss_of(net, batch).backward()
        opt.step()
        net[0].weight.data = net[0].weight.data.clone()


def layer_added() -> None:
    net, opt, loader = prepared()
    for batch in spotnik.shard(loader):
        loss_of(net, batch).backward()
        opt.step()
        net.append(nn.Linear(2, 2).double())


def unfrozen() -> None:
    net = network()
    net[0].requires_grad_(False)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    spotnik.prepare(net, opt)
    for batch in spotnik.shard(DataLoader(data(), batch_size=16)):
        loss_of(net, batch).backward()
        opt.step()
        net[0].requires_grad_(True)


def optimizer_loaded() -> None:
    net = network()
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    spotnik.prepare(net, opt)
    opt.load_state_dict(opt.state_dict())
    for batch in spotnik.shard(DataLoader(data(), batch_size=16)):
        loss_of(net, batch).backward()
        opt.step()
        opt.load_state_dict(opt.state_dict())


def wrapped_by_fabric() -> None:
    kind = type("_FabricOptimizer", (torch.optim.SGD,), {})
    net = network()
    spotnik.prepare(net, kind(net.parameters(), lr=0.1))


def detector() -> nn.Module:
    """As ultralytics' classes for poses, boxes and masks derive."""
    base = type("DetectionModel", (nn.Linear,), {"__module__": "ultralytics.nn.tasks"})
    return type("PoseModel", (base,), {})(3, 3)  # type: ignore[no-any-return]


def state_made_late() -> None:
    """As optimisers do that average parameters every few steps."""

    class Late(Homemade):
        def step(self, closure: Any = None) -> None:
            super().step()
            for p in self.param_groups[0]["params"]:
                if self.state[p]["count"] == 2:
                    self.state[p]["slow"] = p.detach().clone()

    net = network()
    opt = Late(net.parameters())
    spotnik.prepare(net, opt)
    for batch in spotnik.shard(DataLoader(data(), batch_size=16)):
        opt.zero_grad()
        loss_of(net, batch).backward()
        opt.step()


def state_in_a_list() -> None:
    class Lists(Homemade):
        def step(self, closure: Any = None) -> None:
            super().step()
            for p in self.param_groups[0]["params"]:
                self.state[p].setdefault("past", []).append(p.detach().clone())

    net = network()
    opt = Lists(net.parameters())
    spotnik.prepare(net, opt)
    for batch in spotnik.shard(DataLoader(data(), batch_size=16)):
        loss_of(net, batch).backward()
        opt.step()


def step_left_out() -> None:
    """Accumulation by the loop itself."""
    net, opt, loader = prepared(commit="step")
    for number, batch in enumerate(spotnik.shard(loader)):
        loss_of(net, batch).backward()
        if number % 2:
            opt.step()


def backward_without_step() -> None:
    net, _, loader = prepared()
    for batch in spotnik.shard(loader):
        loss_of(net, batch).backward()


def step_without_backward() -> None:
    net, opt, loader = prepared()
    for batch in spotnik.shard(loader):
        loss_of(net, batch)
        opt.step()


def step_before_anything() -> None:
    _, opt, _ = prepared()
    opt.step()


def step_twice() -> None:
    net, opt, loader = prepared()
    for batch in spotnik.shard(loader):
        loss_of(net, batch).backward()
        opt.step()
        opt.step()


def backward_twice() -> None:
    net, opt, loader = prepared()
    for batch in spotnik.shard(loader):
        loss_of(net, batch).backward()
        loss_of(net, batch).backward()
        opt.step()


def skipped_without_step() -> None:
    _, _, loader = prepared()
    for batch in spotnik.shard(loader):
        if len(batch):
            spotnik.skip()
            continue


def weighed_late() -> None:
    net, opt, loader = prepared()
    for batch in spotnik.shard(loader):
        loss_of(net, batch).backward()
        spotnik.weigh(len(batch[0]))
        opt.step()


def batch_skipped() -> None:
    net, _, loader = prepared()
    for batch in spotnik.shard(loader):
        loss_of(net, batch)


def backward_outside() -> None:
    net, _, loader = prepared()
    spotnik.shard(loader)
    loss_of(net, next(iter(loader))).backward()


def two_loaders() -> None:
    _, _, loader = prepared()
    spotnik.shard(loader)
    spotnik.shard(DataLoader(data(), batch_size=3))


def shard_unprepared() -> None:
    next(iter(spotnik.shard(DataLoader(data(), batch_size=16))))


class Stream(IterableDataset[int]):
    def __iter__(self) -> Any:
        return iter(range(3))


class Endless(Dataset[int]):
    def __getitem__(self, index: int) -> int:
        return index


class Wrapper:
    """As timm's prefetcher and Fabric's loader."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.loader = loader


#: as fastai's, which has the same name
Theirs = type("DataLoader", (), {"__module__": "fastai.data.load"})


def prepare(net: Any, *others: Any, **options: Any) -> Callable[[], None]:
    def program() -> None:
        spotnik.prepare(net(), *(other() for other in others), **options)

    return program


def shard(loader: Callable[[], Any]) -> Callable[[], None]:
    return lambda: spotnik.shard(loader()) and None


def sgd(*modules: nn.Module, **settings: Any) -> torch.optim.Optimizer:
    parameters = [p for module in modules for p in module.parameters()]
    return torch.optim.SGD(parameters, lr=0.1, **settings)


def with_own_optimizer(net: nn.Module, *extra: nn.Module, **settings: Any) -> Callable[[], None]:
    def program() -> None:
        spotnik.prepare(net, sgd(net, *extra, **settings))
        list(spotnik.shard(DataLoader(data(), batch_size=16)))

    return program


def sparse() -> None:
    net = nn.Sequential(nn.Embedding(4, 2, sparse=True))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    spotnik.prepare(net, opt, config=Config(peers=PEERS, key_file=KEY))
    net(torch.tensor([1])).sum().backward()


def sparse_alone() -> None:
    net = nn.Sequential(nn.Embedding(4, 2, sparse=True))
    spotnik.prepare(net, torch.optim.SGD(net.parameters(), lr=0.1))
    net(torch.tensor([1])).sum().backward()


def under_torchrun() -> None:
    os.environ.update(RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
    net = network()
    spotnik.prepare(net, sgd(net))
    net(data()[0][0].reshape(1, -1))


def in_a_group() -> None:
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("fake", store=store, rank=0, world_size=2)
    net = network()
    spotnik.prepare(net, sgd(net))


def sharded_by_fsdp() -> None:
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    net = nn.Sequential(nn.Linear(6, 2))
    torch.distributed.fsdp.fully_shard(net, mesh=torch.distributed.init_device_mesh("cpu", (1,)))
    spotnik.prepare(net, sgd(net), commit="step")


def zero() -> None:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    net = network()
    spotnik.prepare(net, ZeroRedundancyOptimizer(net.parameters(), torch.optim.SGD, lr=0.1))


def accelerated() -> None:
    import accelerate

    net = network()
    spotnik.prepare(net, accelerate.Accelerator(cpu=True).prepare(sgd(net)))


def half_buffer() -> None:
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(6, 2).double()
            self.register_buffer("seen", torch.zeros(100_000))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen += 1
            return self.layer(x)

    net = Table()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    spotnik.prepare(net, opt, config=Config(peers=PEERS, key_file=KEY))
    for batch in spotnik.shard(DataLoader(data(), batch_size=16)):
        loss_of(net, batch).backward()


PEERS = KEY = ""

CASES: list[tuple[Callable[[], None], type[SpotnikError], str]] = [
    (memory_replaced, StateError, r"memory of parameter 0.weight was replaced .* prepare\(\) when .* by copy_\(\)"),
    (layer_added, StateError, r"parameters were added .* call prepare\(\) when the model is complete"),
    (unfrozen, StateError, r"parameter 0.weight was unfrozen .*freeze it after that"),
    (optimizer_loaded, StateError, r"replaced after the first step .* load it before the first step"),
    (wrapped_by_fabric, ArgumentError, r"wrapped by Lightning's Fabric; call spotnik.prepare.* first"),
    (state_made_late, StateError, r"made more state in a later step than in its first"),
    (state_in_a_list, ArgumentError, r"Lists keeps a list as 'past' of a parameter"),
    (step_left_out, StateError, r"without optimizer.step\(\) on the last one.*accumulate=k"),
    (backward_without_step, StateError, r"not optimizer.step\(\).*accumulate=k"),
    (step_without_backward, StateError, r"step\(\) without backward\(\).*loss.backward\(\) first"),
    (step_before_anything, StateError, r"before the first; call it once after each backward"),
    (step_twice, StateError, r"twice for one backward\(\)"),
    (backward_twice, StateError, r"again after its gradient had been sent.*accumulate=k"),
    (batch_skipped, StateError, r"without backward\(\) on the last one; call loss.backward.*spotnik.skip\(\) in place"),
    (skipped_without_step, StateError, r"not optimizer.step\(\).*for each skip\(\)"),
    (weighed_late, StateError, r"weigh\(\) was called where no backward\(\) can follow"),
    (backward_outside, StateError, r"no step was begun: iterate over spotnik.shard\(loader\)"),
    (two_loaders, StateError, r"shard\(\) the training loader only"),
    (shard_unprepared, StateError, r"call model, optimizer = spotnik.prepare"),
    (sparse, ArgumentError, r'sparse=False, or say prepare\(..., sparse="dense"\)'),
    (sparse_alone, ArgumentError, r'sparse=False, or say prepare\(..., sparse="dense"\)'),
    (under_torchrun, StateError, r"one of 2 \(WORLD_SIZE\).*spotnik run -n 2"),
    (in_a_group, StateError, r"process group of 2 \(fake\).*RANK and WORLD_SIZE.*hide_torchrun"),
    (sharded_by_fsdp, ArgumentError, r"sharded model \(FSDP2.*leave these out"),
    (zero, ArgumentError, r"ZeroRedundancyOptimizer keeps each part.*use the optimizer that it wraps"),
    (accelerated, ArgumentError, r"wrapped by accelerate; call spotnik.prepare"),
    (half_buffer, ArgumentError, r"buffer seen .* is changed by forward\(\).*split it"),
    (with_own_optimizer(network(), nn.Linear(2, 2)), ArgumentError, r"not in the model; prepare all models together"),
    (with_own_optimizer(network(), momentum=0.9, dampening=0.1), ArgumentError, r"say dampening=0"),
    (prepare(network, lambda: 3), ArgumentError, r"the second is a torch optimizer"),
    (prepare(lambda: 3, lambda: sgd(network())), ArgumentError, r"must be a torch.nn.Module, not int"),
    (prepare(network, lambda: sgd(network()), batch="all"), ArgumentError, r"batch='all' is not known; say 'global'"),
    (prepare(network, lambda: sgd(network()), lr_rule="x"), ArgumentError, r"say 'none' or 'linear' or 'sqrt'"),
    (prepare(network, lambda: sgd(network()), lambda: object()), ArgumentError, r"has no state_dict\(\)"),
    (
        prepare(lambda: nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2, device="meta")]), lambda: sgd(network())),
        ArgumentError,
        r"several devices \(cpu, meta\); move the model to one, model.to\(device\)",
    ),
    (prepare(lambda: nn.SyncBatchNorm(3), lambda: sgd(network())), ArgumentError, r"use BatchNorm"),
    (prepare(detector, lambda: sgd(network())), ArgumentError, r"PoseModel, whose loss is divided by the targets"),
    (prepare(lambda: nn.LazyLinear(3), lambda: sgd(network())), ArgumentError, r"run a batch through the model first"),
    (shard(lambda: [1, 2]), ArgumentError, r"takes PyTorch's DataLoader, not list; use DataLoader"),
    (shard(Theirs), ArgumentError, r"takes PyTorch's DataLoader, not fastai's DataLoader; use a data set"),
    (shard(lambda: Wrapper(DataLoader(data()))), ArgumentError, r"not Wrapper; it wraps one \(loader\): give"),
    (shard(lambda: DataLoader(Stream())), ArgumentError, r"IterableDataset for neither. A stream in shards"),
    (shard(lambda: DataLoader(Endless(), sampler=range(3))), ArgumentError, r"Endless has no length; give the data"),
    (
        shard(lambda: DataLoader(data(), sampler=DistributedSampler(data(), 2, 0))),
        ArgumentError,
        r"DistributedSampler, which shards for a fixed number of workers; make it with shuffle=True",
    ),
    (
        shard(lambda: DataLoader(data(), sampler=RandomSampler(data(), replacement=True))),
        ArgumentError,
        r"with replacement.*use shuffle=True",
    ),
    (
        shard(lambda: DataLoader(data(), batch_sampler=[[0, 1], [2]])),  # type: ignore[arg-type]
        ArgumentError,
        r"batch sampler of its own.*deal them as samples.*spotnik.weigh\(n\)",
    ),
    (shard(lambda: DataLoader(data(), batch_size=None)), ArgumentError, r"batches already.*batch_size=1 and"),
    (shard(lambda: DataLoader(data(), batch_size=300, drop_last=True)), ArgumentError, r"use a smaller batch_size"),
    (lambda: spotnik.ElasticSampler(Stream(), 3) and None, ArgumentError, r"has no length"),  # type: ignore[arg-type]
    (lambda: spotnik.job() and None, StateError, r"call model, optimizer = spotnik.prepare"),
]


def attempt(tell: Tell, case: int, peers: str, key_file: str) -> None:
    global PEERS, KEY
    PEERS, KEY = peers, key_file
    program, kind, words = CASES[case]
    try:
        program()
    except SpotnikError as error:
        fits = isinstance(error, kind) and re.search(words, str(error)) is not None
        tell(raised=fits, got=f"{type(error).__name__}: {error}")
    else:
        tell(raised=False, got="nothing")


@pytest.mark.parametrize("case", range(len(CASES)), ids=lambda case: CASES[case][2][:40])
def test_misuse_is_told_with_the_fix(tmp_path: Path, case: int) -> None:
    if CASES[case][0] is accelerated:
        pytest.importorskip("accelerate", reason="accelerate is not installed")
    job = Cluster(tmp_path)
    peers, key = job.environment["SPOTNIK_PEERS"], job.environment["SPOTNIK_KEY_FILE"]
    (told,) = alone(attempt, tmp_path, case=case, peers=peers, key_file=key)
    assert told["raised"], told["got"]


# ---- members that differ ----


def differing(tell: Tell, width: int, steps: int) -> None:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(6, width), nn.Tanh(), nn.Linear(width, 2)).double()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    spotnik.prepare(net, opt, config=Config(steps_max=steps))
    try:
        sharded = spotnik.shard(DataLoader(data(), batch_size=16))
        while spotnik.job().status().step_committed < steps:
            for batch in sharded:
                loss_of(net, batch).backward()
                opt.step()
                tell(step=spotnik.job().status().step_committed)
    except MismatchError as error:
        tell(mismatch=str(error))
    except SpotnikError as error:
        tell(other=f"{type(error).__name__} {error}")


def test_another_model_is_refused_with_the_reason(tmp_path: Path) -> None:
    job = Cluster(tmp_path)
    try:
        first = job.start(differing, width=8, steps=100_000)
        second = None
        for member, line in job.events():
            if second is None and member is first and line.get("step") == 1:
                second = job.start(differing, width=9, steps=100_000)
            if member is second:
                break
        assert second is not None
        assert any("step" in line for line in first.lines)
        words = [line.get("mismatch", line.get("other", "")) for line in second.lines]
        print(words)
        assert any("same program with the same arguments" in text for text in words), words
        assert any("pass over a training whose result is saved" in text for text in words), words
    finally:
        job.close()


# ---- members that do not belong together ----


def joining(tell: Tell, **environment: str) -> None:
    os.environ.update(environment)
    net = network()
    spotnik.prepare(net, torch.optim.SGD(net.parameters(), lr=0.1))
    try:
        for batch in spotnik.shard(DataLoader(data(), batch_size=16)):
            tell(step=spotnik.job().status().step_committed + 1)
            loss_of(net, batch).backward()
            current().optimizers[0].step()
            tell(applied=True)
            signal.pause()
    except SpotnikError as error:
        tell(refused=type(error).__name__, text=str(error))


def refusal(job: Cluster, **environment: str) -> dict[str, Any]:
    member = job.start(joining, **environment)
    for told, line in job.events():
        if told is member and ("refused" in line or "ended" in line):
            return line
    raise AssertionError("it ended without a word")


def test_a_wrong_key_is_told_with_the_fix(tmp_path: Path) -> None:
    job = Cluster(tmp_path)
    try:
        job.start(joining)
        next(line for _, line in job.events() if "applied" in line)
        other = tmp_path / "other"
        other.touch(mode=0o600)
        other.write_text("ab" * 32 + "\n")
        said = refusal(job, SPOTNIK_KEY_FILE=str(other))
    finally:
        job.close()
    assert said["refused"] == "KeyFileError", said
    assert "same SPOTNIK_KEY_FILE" in said["text"]


def test_another_version_of_spotnik_is_told_with_the_fix(tmp_path: Path) -> None:
    """The other one is a socket that answers as a later wire version does: a refusal that all versions understand."""
    later = struct.pack("<8sHBBIH6s", b"SPOTNIK1", 999, 4, 1, 24, 1, b"")
    job = Cluster(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection:
                        connection.recv(176)
                        connection.sendall(later)

        threading.Thread(target=serve, daemon=True).start()
        with socket.create_server(("127.0.0.1", 0)) as free:
            here = f"127.0.0.1:{free.getsockname()[1]}"
        there = f"127.0.0.1:{server.getsockname()[1]}"
        try:
            said = refusal(job, SPOTNIK_PEERS=f"{here},{there}", SPOTNIK_BIND=here)
        finally:
            job.close()
            server.shutdown(socket.SHUT_RDWR)
    assert said["refused"] == "VersionError", said
    assert "one version of spotnik everywhere" in said["text"]
