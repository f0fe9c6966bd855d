# SPDX-License-Identifier: Apache-2.0
"""Closures, and the recipes for Accelerate and Lightning, against the plain loop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ledger
import pytest
import torch
from cluster import Cluster, Tell, alone
from programs import data, network
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import spotnik.torch as spotnik

Make = Callable[..., Cluster]
EPOCHS = 3
#: As `spotnik run` sets them: a library that believed them would wait for a second process for ever.
TORCHRUN = {
    "RANK": "0",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "1",
    "TORCHELASTIC_RUN_ID": "x",
}


def loader() -> DataLoader[Any]:
    return DataLoader(TensorDataset(*(tensor[:192] for tensor in data(torch.float32).tensors)), batch_size=24)


def begin() -> tuple[nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    net = network(dtype=torch.float32)
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    return net, opt, torch.optim.lr_scheduler.ExponentialLR(opt, 0.99)


def plain(tell: Tell, path: str) -> None:
    net, opt, schedule = begin()
    for _ in range(EPOCHS):
        for x, y in loader():
            opt.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.3)
            opt.step()
            schedule.step()
    torch.save([p.detach() for p in net.parameters()], path)


def with_closure(tell: Tell, path: str) -> None:
    net, opt, schedule = begin()
    spotnik.prepare(net, opt)
    sharded = spotnik.shard(loader())
    for _ in range(EPOCHS):
        for x, y in sharded:

            def closure() -> torch.Tensor:
                opt.zero_grad()
                loss = nn.functional.cross_entropy(net(x), y)  # noqa: B023
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 0.3)
                return loss

            opt.step(closure)
            schedule.step()
    torch.save([p.detach() for p in net.parameters()], f"{path}.{spotnik.rank()}")


def with_accelerate(tell: Tell, path: str) -> None:
    import accelerate

    spotnik.hide_torchrun()
    net, opt, schedule = begin()
    net, opt = spotnik.prepare(net, opt)
    sharded = spotnik.shard(loader())
    accelerator = accelerate.Accelerator(cpu=True)
    wrapped, optimizer, scheduler = accelerator.prepare(net, opt, schedule)
    for _ in range(EPOCHS):
        for x, y in sharded:
            optimizer.zero_grad()
            accelerator.backward(nn.functional.cross_entropy(wrapped(x), y))
            accelerator.clip_grad_norm_(wrapped.parameters(), 0.3)
            optimizer.step()
            scheduler.step()
    torch.save([p.detach() for p in net.parameters()], f"{path}.{spotnik.rank()}")


def with_lightning(tell: Tell, path: str) -> None:
    import lightning

    spotnik.hide_torchrun()

    class Task(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.opt, self.schedule = begin()

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> Any:
            return [self.opt], [{"scheduler": self.schedule, "interval": "step"}]

        def on_fit_start(self) -> None:
            spotnik.prepare(self, self.opt)  # the module is on its device and has its optimizers

    task = Task()
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=EPOCHS,
        gradient_clip_val=0.3,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(task, spotnik.shard(loader()))
    torch.save([p.detach() for p in task.parameters()], f"{path}.{spotnik.rank()}")


@pytest.mark.parametrize(
    ("program", "needs"),
    [(with_closure, "torch"), (with_accelerate, "accelerate"), (with_lightning, "lightning")],
    ids=["closure", "accelerate", "lightning"],
)
def test_recipe_equals_the_plain_loop(cluster: Make, tmp_path: Path, program: Any, needs: str) -> None:
    if needs != "torch":
        pytest.importorskip(needs, reason=f"{needs} is not installed")
    job = cluster(minimum=2)
    job.environment.update(TORCHRUN)
    path = str(tmp_path / "final.pt")
    for _ in range(2):
        job.start(program, path=path)
    job.wait()
    assert not job.errors()
    alone(plain, tmp_path, path=path)
    for rank in range(2):
        assert ledger.distance(f"{path}.{rank}", path) < 1e-5
