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
from disturb import disturb
from programs import data, network
from test_features import told
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import spotnik.torch
from spotnik import StateError
from spotnik.torch._leaves import Leaves

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


def loader(batch: int = 24) -> DataLoader[Any]:
    return DataLoader(TensorDataset(*(tensor[:192] for tensor in data(torch.float32).tensors)), batch_size=batch)


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
    spotnik.torch.prepare(net, opt)
    sharded = spotnik.torch.shard(loader())
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
    torch.save([p.detach() for p in net.parameters()], f"{path}.{spotnik.torch.rank()}")


def with_accelerate(tell: Tell, path: str, accumulate: int = 1) -> None:
    import accelerate

    import spotnik.accelerate as spotnik

    spotnik.hide_torchrun()
    net, opt, schedule = begin()
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=accumulate)
    wrapped, optimizer, batches, scheduler = spotnik.prepare(accelerator, net, opt, loader(24 // accumulate), schedule)
    main = set()
    for _ in range(EPOCHS):
        for x, y in batches:
            with accelerator.accumulate(wrapped):
                accelerator.backward(nn.functional.cross_entropy(wrapped(x), y))
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(wrapped.parameters(), 0.3)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            main.add(accelerator.is_main_process)
    tell(main=sorted(main))
    torch.save([p.detach() for p in net.parameters()], f"{path}.{spotnik.rank()}")


def with_accumulation(tell: Tell, path: str) -> None:
    with_accelerate(tell, path, accumulate=2)


def with_lightning(tell: Tell, path: str) -> None:
    import lightning

    spotnik.torch.hide_torchrun()

    class Task(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.opt, self.schedule = begin()

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> Any:
            return [self.opt], [{"scheduler": self.schedule, "interval": "step"}]

        def on_fit_start(self) -> None:
            spotnik.torch.prepare(self, self.opt)  # the module is on its device and has its optimizers

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
    trainer.fit(task, spotnik.torch.shard(loader()))
    torch.save([p.detach() for p in task.parameters()], f"{path}.{spotnik.torch.rank()}")


def with_fabric(tell: Tell, path: str) -> None:
    from lightning.fabric import Fabric

    spotnik.torch.hide_torchrun()
    net, opt, schedule = begin()
    net, opt = spotnik.torch.prepare(net, opt)
    sharded = spotnik.torch.shard(loader())
    fabric = Fabric(accelerator="cpu", devices=1)
    wrapped, optimizer = fabric.setup(net, opt)
    for _ in range(EPOCHS):
        for x, y in sharded:
            optimizer.zero_grad()
            fabric.backward(nn.functional.cross_entropy(wrapped(x), y))
            fabric.clip_gradients(wrapped, optimizer, max_norm=0.3)
            optimizer.step()
            schedule.step()
    torch.save([p.detach() for p in net.parameters()], f"{path}.{spotnik.torch.rank()}")


@pytest.mark.parametrize(
    ("program", "needs"),
    [
        (with_closure, "torch"),
        (with_fabric, "lightning"),
        (with_accelerate, "accelerate"),
        (with_accumulation, "accelerate"),
        (with_lightning, "lightning"),
    ],
    ids=["closure", "fabric", "accelerate", "accelerate accumulating", "lightning"],
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
    assert sorted(line["main"] for line in job.lines("main")) in ([], [[False], [True]])
    for rank in range(2):
        assert ledger.distance(f"{path}.{rank}", path) < 1e-5


class Average:
    """As diffusers' EMAModel: an object with a state of its own, which is no module."""

    def __init__(self, net: nn.Module) -> None:
        self.count = 0
        self.shadow = [p.detach().clone() for p in net.parameters()]

    def step(self, net: nn.Module) -> None:
        self.count += 1
        for mean, p in zip(self.shadow, net.parameters()):
            mean.lerp_(p.detach(), 0.1)

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count, "shadow": self.shadow}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count = state["count"]
        self.shadow = [mean.clone() for mean in state["shadow"]]


def with_churn(tell: Tell, stop: str) -> None:
    """A loop with accelerate and its mixed precision, until it is told to stop."""
    import accelerate

    import spotnik.accelerate

    net, opt, schedule = begin()
    accelerate.state.AcceleratorState._reset_state(True)  # test_misuse may have set it in the process we are a fork of
    accelerator = accelerate.Accelerator(cpu=True, mixed_precision="bf16")
    net.to(accelerator.device)
    types = set()
    net[0].register_forward_hook(lambda _module, _inputs, output: types.add(str(output.dtype)))
    given, registered = Average(net), Average(net)
    accelerator.register_for_checkpointing(registered)
    wrapped, optimizer, batches, scheduler, average = spotnik.accelerate.prepare(
        accelerator, net, opt, loader(), schedule, given, seed=7, on_step=told(tell)
    )
    for _ in spotnik.torch.epochs(2000):
        for x, y in batches:
            step = spotnik.torch.job().running
            assert step is not None
            share = [(part.start, part.stop) for part in step.ranges]
            tell(begin=step.number, epoch=step.data_epoch, share=share, consumed=spotnik.torch.samples())
            optimizer.zero_grad()
            accelerator.backward(nn.functional.cross_entropy(wrapped(x), y))
            accelerator.clip_grad_norm_(wrapped.parameters(), 0.3)
            optimizer.step()
            scheduler.step()
            average.step(net)
            registered.step(net)
            if Path(stop).exists() and step.number >= int(Path(stop).read_text()):
                final = torch.cat([p.detach().flatten() for p in net.parameters()])
                means = [(one.count, float(one.shadow[0].double().sum())) for one in (average, registered)]
                rate, total = scheduler.get_last_lr()[0], float(final.double().sum())
                tell(done=step.number, sum=total, lr=rate, means=means, types=sorted(types))
                return


def test_an_object_that_takes_over_copies_keeps_its_memory() -> None:
    """What is registered of it, a joiner receives: as an object of diffusers, which copies what it loads, goes on."""
    average = Average(network())
    memory = [mean.data_ptr() for mean in average.shadow]
    leaves = Leaves([], [average])
    leaves.write([7])
    assert average.count == 7
    assert [mean.data_ptr() for mean in average.shadow] == memory


def test_accelerate_with_kills_and_joins(cluster: Make, tmp_path: Path) -> None:
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    job, stop = cluster(), tmp_path / "stop"
    last = disturb(job, lambda: job.start(with_churn, stop=str(stop)), kills=3, stop=stop)
    ends = job.lines("done")
    assert len(ends) == 3 and ends[0] == ends[1] == ends[2]
    assert ends[0]["done"] == last
    assert [count for count, _ in ends[0]["means"]] == [last, last]  # joiners have what the others had
    ledger.check_every_sample_once(ledger.contributions(job), 192)
    assert ends[0]["types"] == ["torch.bfloat16"], "mixed precision was not on"
    steps, consumed = ledger.agreed(job), {line["begin"]: line["consumed"] for line in job.lines("begin")}
    for line in job.lines("begin"):  # samples() is the same on all
        before = line["begin"] - 1
        assert line["consumed"] == (consumed[before] + steps[before]["samples"] if before else 0)


def test_to_skip_batches_as_accelerate_does_is_refused() -> None:
    """Its examples resume so; the loader that it would make is of one process."""
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")
    import spotnik.accelerate

    *_, batches = spotnik.accelerate.prepare(accelerate.Accelerator(cpu=True), *begin(), loader())
    try:
        with pytest.raises(StateError, match=r'say prepare.*checkpoint="DIR"'):
            next(iter(accelerate.skip_first_batches(batches, 2)))
    finally:
        spotnik.torch.leave()


def test_an_accelerator_of_several_is_refused() -> None:
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    import spotnik.accelerate

    several: Any = type("Accelerator", (), {"num_processes": 2})()
    with pytest.raises(StateError, match="without --torchrun-env"):
        spotnik.accelerate.prepare(several, *begin())
