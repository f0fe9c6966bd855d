# SPDX-License-Identifier: Apache-2.0
"""The training programs of the tests: ordinary loops, told what to do by keywords. All start from the same data."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any, Optional

import torch
from cluster import Tell
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import spotnik.torch as spotnik
from spotnik import Config
from spotnik.torch._session import current

SAMPLES = 203


def data(dtype: torch.dtype = torch.float64) -> TensorDataset:
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(SAMPLES, 6, generator=generator, dtype=torch.float64).to(dtype)
    return TensorDataset(x, (x[:, 0] * x[:, 1] > 0).long())


def network(kind: str = "mlp", dtype: torch.dtype = torch.float64, seed: int = 1) -> nn.Module:
    torch.manual_seed(seed)
    if kind == "norm":
        return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 2)).to(dtype)
    if kind == "dropout":
        return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Dropout(0.3), nn.Linear(16, 2)).to(dtype)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2)).to(dtype)


def optimizer_for(model: nn.Module, kind: str) -> torch.optim.Optimizer:
    if kind == "sgd":
        return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    return torch.optim.AdamW(model.parameters(), lr=0.01)


class Homemade(torch.optim.Optimizer):
    """Not of torch.optim: state that is made in the first step, not as zeros, and a count for each group."""

    def __init__(self, parameters: Any, lr: float = 0.1, bad: bool = False) -> None:
        super().__init__(parameters, {"lr": lr, "bad": bad})

    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            group["steps"] = group["steps"] + 1 if "steps" in group else 1
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["mean"] = p.grad.clone() if group["bad"] else torch.ones_like(p)
                    state["count"] = 0
                state["count"] += 1
                state["mean"].mul_(0.9).add_(p.grad)
                p.data.add_(state["mean"], alpha=-group["lr"] / state["count"] / group["steps"])


class Stacked(torch.optim.Optimizer):
    """As nanochat's: groups of two kinds, without defaults; of matrices the first one has the state of its group."""

    def __init__(self, groups: Any) -> None:
        super().__init__(groups, {})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            own = group["params"]
            if group["kind"] == "matrices":
                stack, state = torch.stack([p.grad for p in own]), self.state[own[0]]
                if "mean" not in state:
                    state["mean"] = torch.zeros_like(stack)
                state["mean"].lerp_(stack, 1 - group["beta"])
                torch._foreach_sub_(own, list((state["mean"] * group["lr"]).unbind()))
                continue
            for p in own:
                state = self.state[p]
                if not state:
                    state["step"], state["square"] = 0, torch.zeros_like(p)
                state["step"] += 1
                state["square"].add_(p.grad.square())
                p.sub_(p.grad / (state["square"].sqrt() + 1e-3), alpha=group["rate"] / state["step"])


def stacked(parameters: list[torch.nn.Parameter]) -> Stacked:
    """One group for each shape of matrices, and one for the rest."""
    shapes = sorted({p.shape for p in parameters if p.dim() == 2})
    groups = [{"kind": "matrices", "params": [p for p in parameters if p.shape == one]} for one in shapes]
    rest = {"kind": "rest", "params": [p for p in parameters if p.dim() != 2], "rate": 0.1}
    return Stacked([*({**one, "lr": 0.1, "beta": 0.9} for one in groups), rest])


def last_step(steps: int, stop: str) -> int:
    return int(Path(stop).read_text()) if stop and Path(stop).exists() else steps


def elastic(
    tell: Tell,
    steps: int,
    folder: str,
    model: str = "mlp",
    optimizer: str = "adamw",
    clip: Optional[float] = None,
    scheduler: bool = True,
    batch: int = 24,
    shuffle: bool = True,
    seed: int = 1,
    workers: int = 0,
    dtype: str = "float64",
    compute_ms: float = 0,
    batch_mode: str = "global",
    stop: str = "",
    device: str = "cpu",
    **options: Any,
) -> None:
    """Train until `steps` are committed; tells every begun share and every committed step with a digest.

    The file `stop` may say meanwhile that they are fewer: a number that nobody has reached.
    """
    kind = getattr(torch, dtype)
    net = network(model, kind, seed).to(device)
    opt = optimizer_for(net, optimizer)

    def committed(report: spotnik.StepReport) -> None:
        tell(
            step=report.number,
            epoch=report.data_epoch,
            samples=report.samples,
            members=report.members,
            contributors=report.contributors,
            replay=report.replay,
            digest=spotnik.job().digest,
            member=spotnik.job().status().member,
            lr=opt.param_groups[0]["lr"],
        )

    settings = {"config": Config(steps_max=steps), "on_step": committed, "seed": 7, "batch": batch_mode, **options}
    net, opt = spotnik.prepare(net, opt, **settings)
    schedule = torch.optim.lr_scheduler.StepLR(opt, step_size=3, gamma=0.97) if scheduler else None
    sharded = spotnik.shard(DataLoader(data(kind), batch_size=batch, shuffle=shuffle, num_workers=workers))
    for _ in itertools.count():
        for x, y in sharded:
            step = current().running.last_step
            tell(
                begin=step.number,
                epoch=step.data_epoch,
                share=[(part.start, part.stop) for part in step.ranges],
                size=step.size,
            )
            time.sleep(compute_ms / 1000)  # the time a real backward pass takes
            loss = nn.functional.cross_entropy(net(x.to(device)), y.to(device)) / options.get("accumulate", 1)
            loss.backward()
            if current().running.step is not None:
                continue  # accumulating
            if clip is not None:
                nn.utils.clip_grad_norm_(net.parameters(), clip)
            opt.step()
            opt.zero_grad()
            if schedule is not None:
                schedule.step()
            if spotnik.step() >= last_step(steps, stop):
                break
        if spotnik.step() >= last_step(steps, stop):
            break
    torch.save([p.detach().cpu() for p in net.parameters()], Path(folder) / f"final.{spotnik.job().status().member}.pt")
    tell(done=spotnik.job().status().step_committed, digest=spotnik.job().digest, dropped=sharded.dropped)


def replayed(
    tell: Tell,
    batches: list[list[int]],
    path: str,
    model: str = "mlp",
    optimizer: str = "adamw",
    clip: Optional[float] = None,
    scheduler: bool = True,
    dtype: str = "float64",
) -> None:
    """Plain PyTorch on given batches: what the job must have computed."""
    kind = getattr(torch, dtype)
    net = network(model, kind)
    opt = optimizer_for(net, optimizer)
    schedule = torch.optim.lr_scheduler.StepLR(opt, step_size=3, gamma=0.97) if scheduler else None
    x, y = data(kind).tensors
    for batch in batches:
        opt.zero_grad()
        if not batch:  # a step that was committed without a gradient
            if schedule is not None:
                schedule.step()
            continue
        nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(net.parameters(), clip)
        opt.step()
        if schedule is not None:
            schedule.step()
    torch.save([p.detach() for p in net.parameters()], path)
    tell(done=len(batches))
