# SPDX-License-Identifier: Apache-2.0
"""Members whose model is on a GPU, which they share: buckets, and what a newcomer gets, are staged in host memory."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cluster import Cluster, Member, Tell
from disturb import EPOCHS_MOST, agreed, disturb, takes_part
from programs import last_step
from test_exact import check_against_replay, churn
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import spotnik.torch as spotnik

os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # a check that leaves CUDA alone: members are forks of this process
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device is here")

Make = Callable[..., Cluster]
SAMPLES, BATCH = 240, 24


def images(spread: torch.dtype = torch.float32) -> TensorDataset:
    """Small ones whose class shows in one of the channels."""
    generator = torch.Generator().manual_seed(5)
    y = torch.randint(0, 3, (SAMPLES,), generator=generator)
    x = torch.randn(SAMPLES, 3, 8, 8, generator=generator)
    x[torch.arange(SAMPLES), y] += 0.7
    return TensorDataset(x.to(spread), y)


def convolutions() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 36, 3),
    )


class Embedded(nn.Module):
    """Its gradient of the table is sparse."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.out = nn.Embedding(51, 16, sparse=True), nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        bright = x.mean((2, 3)).mul(10).long().clamp(-8, 8) + 8
        return self.out(self.table(bright + torch.arange(0, 51, 17, device=x.device)).sum(1))


#: What people do on a GPU: of the model, of the optimiser, and of how prepare() is called.
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "autocast to half": {"autocast": torch.float16},
    "autocast to bfloat16": {"autocast": torch.bfloat16},
    "bfloat16 parameters": {"dtype": torch.bfloat16},
    "channels last": {"layout": torch.channels_last},
    "compiled": {"compile": {}},
    "compiled into a CUDA graph": {"compile": {"mode": "reduce-overhead"}},
    "fused": {"optimizer": {"fused": True}},
    "capturable": {"optimizer": {"capturable": True}},
    "sparse": {
        "model": Embedded,
        "prepare": {"sparse": "dense"},
        "kind": torch.optim.SGD,
        "optimizer": {"momentum": 0.9},
    },
    "clipped": {"clip": 0.1},
    "a commit a step": {"prepare": {"commit": "step"}},
    "S-MA": {"prepare": {"sync": "sma"}},
    "AD-PSGD": {"prepare": {"sync": "adpsgd"}, "same_bits": False},
}


def on_gpu(tell: Tell, way: str, stop: str) -> None:
    """Train until the file `stop` says so."""
    how = WAYS[way]
    kind = how.get("dtype", torch.float32)
    net = how.get("model", convolutions)().to("cuda", kind).to(memory_format=how.get("layout", torch.contiguous_format))
    opt = how.get("kind", torch.optim.AdamW)(net.parameters(), lr=0.005, **how.get("optimizer", {}))

    def committed(report: spotnik.StepReport) -> None:
        bits = spotnik.digest() if how.get("same_bits", True) else 0
        tell(step=report.number, digest=bits, members=report.members)

    net, opt = spotnik.prepare(net, opt, on_step=committed, seed=7, **how.get("prepare", {}))
    scaler = torch.amp.GradScaler("cuda", enabled=how.get("autocast") is torch.float16)
    if "compile" in how:
        net.compile(**how["compile"])
    loader = spotnik.shard(DataLoader(images(kind), batch_size=BATCH, shuffle=True, pin_memory=True))
    losses: list[torch.Tensor] = []
    for _ in itertools.count():
        for x, y in loader:
            with torch.autocast("cuda", dtype=how.get("autocast"), enabled="autocast" in how):
                x, y = x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)
                loss = nn.functional.cross_entropy(net(x).float(), y)
            scaler.scale(loss).backward()
            if "clip" in how:
                scaler.unscale_(opt)
                nn.utils.clip_grad_norm_(net.parameters(), how["clip"])
            scaler.step(opt)
            scaler.update()
            opt.zero_grad()
            losses.append(loss.detach())
            if spotnik.step() >= last_step(1 << 30, stop):
                break
        if spotnik.step() >= last_step(1 << 30, stop):
            break
    found = torch.stack(losses[-10:]).mean().item()
    tell(done=spotnik.step(), scale=scaler.get_scale(), loss=found, where=str(next(net.parameters()).device))


@pytest.mark.parametrize("clip", [None, 0.05], ids=["inside", "through the loop"])
def test_kills_and_joins_change_nothing(cluster: Make, tmp_path: Path, clip: float) -> None:
    """The replay is plain PyTorch on the CPU."""
    job = cluster(minimum=2)
    assert churn(job, 4, steps_between=5, clip=clip, compute_ms=15, device="cuda") == 4
    assert check_against_replay(job, tmp_path, clip=clip) >= 5


@pytest.mark.parametrize("way", WAYS)
def test_what_people_do_on_a_gpu(cluster: Make, way: str) -> None:
    """Three members, one of which is killed and replaced."""
    job = cluster(minimum=2)
    stop = job.folder / "stop"
    end = disturb(job, lambda: job.start(on_gpu, way=way, stop=str(stop)), 1, stop)
    steps = agreed(job, "step") if WAYS[way].get("same_bits", True) else {}
    done = job.lines("done")
    assert len(done) >= 2 and all(line["done"] >= end and line["where"] == "cuda:0" for line in done), done
    assert not steps or max(steps) >= end
    assert len({line["scale"] for line in done}) == 1
    assert all(line["loss"] < 0.9 for line in done), done  # a guess has 1.1
    assert sum(takes_part(member) for member in job.members) >= 3


def with_trainer(tell: Tell, **settings: Any) -> None:
    """The Trainer of test_hf.py, left to find its device."""
    import test_hf

    arguments = test_hf.TrainingArguments

    def on_gpu(use_cpu: bool, **others: Any) -> Any:
        found = arguments(**others)
        tell(device=found.device.type)
        return found

    test_hf.TrainingArguments = on_gpu  # type: ignore[misc,assignment]  # the name that its programs use
    test_hf.train(tell, **settings)


def with_lightning(tell: Tell, **settings: Any) -> None:
    """The Trainer of test_lightning.py, on a GPU."""
    import lightning
    import test_lightning

    trainer = lightning.Trainer

    def on_gpu(accelerator: str, **others: Any) -> Any:
        found = trainer(accelerator="gpu", **others)
        tell(device=found.strategy.root_device.type)
        return found

    lightning.Trainer = on_gpu  # type: ignore[misc]
    test_lightning.train(tell, **settings)


def with_accelerate(tell: Tell, folder: str, epochs: int, stop: str) -> None:
    """The loop of test_recipes.py, on the device that accelerate finds; its average of the model is there, too."""
    import accelerate
    import test_recipes

    accelerator = accelerate.Accelerator

    def on_gpu(cpu: bool) -> Any:
        found = accelerator()
        tell(device=found.device.type)
        return found

    accelerate.Accelerator = on_gpu  # type: ignore[misc]
    test_recipes.with_churn(tell, stop)


@pytest.mark.parametrize("program", [with_trainer, with_lightning, with_accelerate])
def test_trainers_on_a_gpu_survive_a_kill(cluster: Make, program: Callable[..., None]) -> None:
    for module in ("transformers", "accelerate", "lightning"):
        pytest.importorskip(module)
    job, numbers = cluster(), itertools.count()
    stop = job.folder / "stop"

    def start() -> Member:
        return job.start(program, folder=str(job.folder / f"out{next(numbers)}"), epochs=EPOCHS_MOST, stop=str(stop))

    last = disturb(job, start, 1, stop)
    ends = job.lines("done")
    assert len(ends) == 3 and ends[0] == ends[1] == ends[2]
    assert ends[0]["done"] == last
    devices = [line["device"] for member in job.members for line in member.lines if "device" in line]
    assert set(devices) == {"cuda"}, [member.lines[:3] for member in job.members]
