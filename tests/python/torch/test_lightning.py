# SPDX-License-Identifier: Apache-2.0
"""Lightning with spotnik.lightning.Strategy: alone, with three, and with kills; each sample once, equal bits."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ledger
import pytest
import torch
from cluster import Cluster, Member, Tell, alone
from disturb import EPOCHS_MOST, KILLS, agreed, disturb, kill_the_one_that_shows, tell_to_stop
from programs import SAMPLES, data, network
from test_features import told
from torch import nn
from torch.utils.data import DataLoader, Subset

import spotnik.torch as spotnik
from spotnik import ArgumentError, Config, StateError

lightning = pytest.importorskip("lightning", reason="lightning is not installed")

from spotnik.lightning import Strategy  # noqa: E402

Make = Callable[..., Cluster]
EPOCHS, BATCH = 4, 20


class Task(lightning.LightningModule):  # type: ignore[misc, unused-ignore]
    """A module as people write it; it also tells of shares, evaluations and where Lightning stands."""

    def __init__(self, tell: Tell, stop: Path, reduces: bool = False) -> None:
        super().__init__()
        self.reduces = reduces  # numbers over all members, where epochs end
        self.net = network(dtype=torch.float32)
        self.tell = tell
        self.stop = stop  # holds the step to stop after, once the test has seen enough

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        assert self.global_step == spotnik.step()  # steps of pauses are the job's, not Lightning's
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch: Any, _: int) -> None:
        self.log("loss", nn.functional.cross_entropy(self.net(batch[0]), batch[1]))

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.999)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]

    def on_fit_start(self) -> None:
        self.tell(writes=self.trainer.is_global_zero, when="before")

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        step = spotnik.job().running
        assert step is not None
        share = [(part.start, part.stop) for part in step.ranges]
        self.tell(begin=step.number, epoch=step.data_epoch, share=share)

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        is_end = not self.reduces or self.global_step % steps_of(self.trainer.accumulate_grad_batches) == 0
        if is_end and self.stop.exists() and self.global_step >= int(self.stop.read_text()):
            self.trainer.should_stop = True

    def on_validation_end(self) -> None:
        if not self.trainer.sanity_checking:
            self.tell(evaluated=self.global_step, at=self.current_epoch)

    def on_validation_epoch_end(self) -> None:
        if self.reduces and not self.trainer.sanity_checking:
            least = spotnik.allreduce(self.global_step, "min")
            self.tell(reduced=self.global_step, least=least, mean=spotnik.allreduce(float(self.net[0].weight.sum())))

    def on_train_epoch_end(self) -> None:
        if self.reduces:
            self.tell(ended=self.global_step, here=spotnik.allreduce(1, "sum"))

    def on_save_checkpoint(self, checkpoint: Any) -> None:
        if self.trainer.is_global_zero:
            self.tell(saved=checkpoint["global_step"])


class Bar(lightning.pytorch.callbacks.TQDMProgressBar):  # type: ignore[misc, unused-ignore]
    """Tells where the bar of the training stands, on members that show it."""

    def __init__(self, tell: Tell) -> None:
        super().__init__()
        self.tell = tell

    def on_train_batch_end(self, trainer: Any, *others: Any) -> None:
        super().on_train_batch_end(trainer, *others)
        if not self.train_progress_bar.disable:
            self.tell(bar=trainer.global_step, n=self.train_progress_bar.n, of=self.train_progress_bar.total)


def train(
    tell: Tell,
    folder: str,
    accumulate: int = 1,
    epochs: int = EPOCHS,
    stop: str = "none",
    precision: Any = 32,
    bars: bool = False,
    **settings: Any,
) -> None:
    task = Task(tell, Path(stop), "pauses" in settings)
    trainer = lightning.Trainer(
        accelerator="cpu",
        strategy=Strategy(seed=7, on_step=told(tell), **settings),
        max_epochs=epochs,
        accumulate_grad_batches=accumulate,
        gradient_clip_val=0.3,
        precision=precision,
        default_root_dir=folder,
        logger=False,
        callbacks=[Bar(tell)] if bars else [],
        enable_progress_bar=bars,
        enable_model_summary=False,
    )
    loader = DataLoader(data(torch.float32), batch_size=BATCH, shuffle=True)
    trainer.fit(task, loader, DataLoader(Subset(data(torch.float32), range(40)), batch_size=20))
    final = torch.cat([p.detach().flatten() for p in task.parameters()])
    rate = trainer.optimizers[0].param_groups[0]["lr"]
    tell(writes=trainer.is_global_zero, when="after")
    tell(done=trainer.global_step, epochs=trainer.current_epoch, lr=rate, sum=float(final.double().sum()))


def steps_of(accumulate: int) -> int:
    return -(-SAMPLES // (BATCH * accumulate))


@pytest.mark.parametrize("accumulate", [1, 3])
def test_three_members_train_as_one(cluster: Make, tmp_path: Path, accumulate: int) -> None:
    job = cluster()
    job.gather(3)
    for number in range(3):
        job.start(train, folder=str(job.folder / f"out{number}"), accumulate=accumulate)
    job.wait()
    assert not job.errors()
    (tmp_path / "alone").mkdir()
    calm = alone(train, tmp_path / "alone", folder=str(tmp_path / "alone" / "out"), accumulate=accumulate)
    ends = job.lines("done")
    assert len(ends) == 3 and ends[0] == ends[1] == ends[2]
    assert ends[0]["done"] == calm[-1]["done"] == EPOCHS * steps_of(accumulate)
    assert ends[0]["epochs"] == EPOCHS
    assert ends[0]["lr"] == calm[-1]["lr"]
    assert ends[0]["sum"] == pytest.approx(calm[-1]["sum"], abs=1e-3)
    evaluated = [[line["evaluated"] for line in member.lines if "evaluated" in line] for member in job.members]
    assert evaluated == [[steps_of(accumulate) * epoch for epoch in range(1, EPOCHS + 1)]] * 3
    writes = [(line["when"], line["writes"]) for line in job.lines("writes")]
    assert not writes.count(("before", True)) and writes.count(("after", True)) == 1  # nobody knows its place at first
    assert all(line["writes"] for line in calm if "writes" in line)
    saved = [line["saved"] for line in job.lines("saved")]  # one member writes files
    assert saved == [steps_of(accumulate) * epoch for epoch in range(1, EPOCHS + 1)]
    assert len(list(job.folder.glob("out*/**/*.ckpt"))) == 1
    assert ledger.check_every_sample_once(ledger.contributions(job), SAMPLES) == EPOCHS - 1


def test_mixed_precision(cluster: Make, tmp_path: Path) -> None:
    """What one process computes with it, but for its rounding."""
    job = cluster()
    job.gather(2)
    for number in range(2):
        job.start(train, folder=str(job.folder / f"out{number}"), precision="bf16-mixed")
    job.wait()
    assert not job.errors()
    ends = []
    for name in ("bf16-mixed", "32"):
        (tmp_path / name).mkdir()
        ends.append(alone(train, tmp_path / name, folder=str(tmp_path / name / "out"), precision=name)[-1]["sum"])
    one, other = job.lines("done")
    assert one == other and one["done"] == EPOCHS * steps_of(1)
    assert one["sum"] == pytest.approx(ends[0], abs=0.05)
    assert ends[0] != ends[1], "it was not on"


@pytest.mark.parametrize("settings", [{"accumulate": 2}, {"batch": "per_member"}, {"sync": "sma"}, {"commit": "step"}])
def test_what_lightning_plans_otherwise_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=r"accumulate_grad_batches|raise the batch_size"):
        Strategy(**settings)


@pytest.mark.parametrize(
    ("trainer", "fit", "says"),
    [
        ({}, {"ckpt_path": "some.ckpt"}, r'say Strategy\(checkpoint="DIR"\) instead'),
        ({"limit_train_batches": 0.5}, {}, "leave limit_train_batches out"),
    ],
    ids=["ckpt_path", "limit"],
)
def test_what_the_job_decides_is_refused(
    trainer: dict[str, Any], fit: dict[str, Any], says: str, tmp_path: Path
) -> None:
    made = lightning.Trainer(
        accelerator="cpu", strategy=Strategy(), logger=False, enable_checkpointing=False, max_epochs=1, **trainer
    )
    with pytest.raises((ArgumentError, StateError), match=says):
        made.fit(Task(lambda **_: None, tmp_path / "none"), DataLoader(data(torch.float32), batch_size=BATCH), **fit)


@pytest.mark.parametrize(("slot", "place"), [(0, "cuda:0"), (1, "cuda:1"), (2, "cuda:0")])
def test_members_of_a_host_share_its_gpus(monkeypatch: pytest.MonkeyPatch, slot: int, place: str) -> None:
    """The accelerator is Lightning's, told of two GPUs."""
    from lightning.fabric.utilities import device_parser
    from lightning.pytorch.accelerators import cuda

    from spotnik.lightning import Strategy

    monkeypatch.setattr(cuda, "num_cuda_devices", lambda: 2)
    monkeypatch.setattr(device_parser, "_get_all_available_gpus", lambda **_: [0, 1])
    monkeypatch.setenv("SPOTNIK_SLOT", str(slot))
    strategy = Strategy()
    strategy.accelerator = cuda.CUDAAccelerator()
    assert str(strategy.root_device) == place


def test_kills_and_joins_change_nothing_but_the_members(cluster: Make, tmp_path: Path) -> None:
    job, numbers, stop = cluster(), itertools.count(), tmp_path / "stop"

    def start() -> Member:
        return job.start(train, folder=str(job.folder / f"out{next(numbers)}"), epochs=EPOCHS_MOST, stop=str(stop))

    last = disturb(job, start, kills=KILLS, stop=stop)
    ends = job.lines("done")
    assert len(ends) == 3
    assert ends[0] == ends[1] == ends[2]
    assert ends[0]["done"] == last
    ledger.check_every_sample_once(ledger.contributions(job), SAMPLES)
    evaluated = [line for line in job.lines("evaluated") if line["evaluated"] != ends[0]["done"]]
    assert evaluated and all(line["evaluated"] == (line["at"] + 1) * steps_of(1) for line in evaluated)


def test_one_member_shows_progress_and_another_when_it_is_lost(cluster: Make, tmp_path: Path) -> None:
    job, stop = cluster(), tmp_path / "stop"
    lost = kill_the_one_that_shows(job, train, stop)
    bars = [[line for line in member.lines if "bar" in line] for member in job.members]
    assert sum(map(bool, bars)) == 2, "one shows, then another"
    (after,) = (lines for lines, member in zip(bars, job.members) if lines and member is not lost)
    assert [line["bar"] for line in after] == [*range(after[0]["bar"], int(stop.read_text()) + 1)]
    assert after[0]["bar"] >= 3, "it goes on where the first was"
    assert all((line["n"], line["of"]) == ((line["bar"] - 1) % steps_of(1) + 1, steps_of(1)) for line in after)


class Moves(Strategy):
    """The first one of the view at first, not in some steps, and then again: as one that was excluded may be."""

    @property
    def is_global_zero(self) -> bool:
        step = self._feed.session.running.last_step if self._feed is not None else None
        return step is None or not 3 <= step.number <= 6


class Rich(lightning.pytorch.callbacks.RichProgressBar):  # type: ignore[misc, unused-ignore]
    def __init__(self, tell: Tell) -> None:
        super().__init__()
        self.tell = tell

    def on_train_batch_end(self, trainer: Any, *others: Any) -> None:
        super().on_train_batch_end(trainer, *others)
        if self.progress is not None and self.progress.live.is_started:
            self.tell(bar=trainer.global_step, n=self.train_progress_bar.completed)


def moves(tell: Tell, kind: type) -> None:
    trainer = lightning.Trainer(
        accelerator="cpu",
        strategy=Moves(),
        max_epochs=2,
        callbacks=[kind(tell)],
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
    )
    trainer.fit(Task(tell, Path("none")), DataLoader(data(torch.float32), batch_size=BATCH))


@pytest.mark.parametrize("kind", [Bar, Rich])
def test_a_bar_goes_and_comes_again(tmp_path: Path, kind: type) -> None:
    if kind is Rich:
        pytest.importorskip("rich", reason="rich is not installed")
    lines = [line for line in alone(moves, tmp_path, kind=kind) if "bar" in line]
    steps = [1, 2, *range(7, 2 * steps_of(1) + 1)]
    assert [(line["bar"], line["n"]) for line in lines] == [(at, (at - 1) % steps_of(1) + 1) for at in steps]


def test_numbers_over_all_members_survive_kills(cluster: Make, tmp_path: Path) -> None:
    job, numbers, stop = cluster(), itertools.count(), tmp_path / "stop"

    def start() -> Member:
        folder = str(job.folder / f"out{next(numbers)}")
        return job.start(train, folder=folder, epochs=EPOCHS_MOST, stop=str(stop), pauses="epoch")

    last = disturb(job, start, kills=1, stop=stop)
    ends = job.lines("done")
    assert len(ends) == 3 and ends[0] == ends[1] == ends[2]
    assert ends[0]["done"] == -(-last // steps_of(1)) * steps_of(1)
    assert agreed(job, "ended")[ends[0]["done"]]["here"] == 3
    assert all(line["least"] == step for step, line in agreed(job, "reduced").items())


def test_three_members_go_on_at_the_very_sample(cluster: Make, tmp_path: Path) -> None:
    """Three stop in the midst of an epoch; three others then train as one that never stopped."""
    kept = {"checkpoint": str(tmp_path / "kept"), "config": Config(checkpoint_steps=1)}
    stop, cut = tmp_path / "stop", 2 * steps_of(1) + 3
    stop.write_text(str(cut))
    before, after = cluster(), cluster()
    for job, settings in ((before, {"stop": str(stop)}), (after, {})):
        job.gather(3)
        for number in range(3):
            job.start(train, folder=str(job.folder / f"out{number}"), **settings, **kept)
        job.wait()
        assert not job.errors()
    (tmp_path / "alone").mkdir()
    *calm, last = alone(train, tmp_path / "alone", folder=str(tmp_path / "alone" / "out"))
    assert [line["done"] for line in before.lines("done")] == [cut] * 3
    ends = after.lines("done")
    assert len(ends) == 3 and ends[0] == ends[1] == ends[2]
    assert (ends[0]["done"], ends[0]["lr"]) == (last["done"], last["lr"])
    assert ends[0]["sum"] == pytest.approx(last["sum"], abs=1e-3)
    steps = ledger.contributions(before, until=cut) + ledger.contributions(after, since=cut + 1)
    assert [ledger.places(shares) for _, shares in steps] == [
        ledger.places([line["share"]]) for line in calm if line.get("share")
    ]


# ---- early stopping ----

PATIENCE = 3


class Meets(lightning.Callback):  # type: ignore[misc, unused-ignore]
    """A late member tells in which step it takes its part; patience ends some validations after that one.

    It writes that before it gives its share of the step, so others find it in every validation after the step.
    """

    def __init__(self, tell: Tell, part: Path, is_late: bool, stopping: Any) -> None:
        self.tell, self.part, self.is_late, self.stopping = tell, part, is_late, stopping
        self.validations = 0

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        step = spotnik.job().running
        if self.is_late and not step.replay and not self.part.exists():
            tell_to_stop(self.part, spotnik.step() + 1)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if trainer.sanity_checking:
            return
        self.validations += 1
        self.tell(validated=trainer.global_step)
        if self.part.exists() and trainer.global_step >= int(self.part.read_text()):
            self.stopping.patience = int(self.part.read_text()) // steps_of(1) + PATIENCE


class Flat(Task):
    """Its score never gets better after the first validation."""

    def validation_step(self, batch: Any, _: int) -> None:
        self.log("score", 1.0)


def stops_early(tell: Tell, folder: str, part: str, late: bool) -> None:
    stopping = lightning.pytorch.callbacks.EarlyStopping("score", mode="max", patience=EPOCHS_MOST)
    meets = Meets(tell, Path(part), late, stopping)
    trainer = lightning.Trainer(
        accelerator="cpu",
        strategy=Strategy(seed=7),
        max_epochs=EPOCHS_MOST,
        callbacks=[meets, stopping],
        default_root_dir=folder,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    loader = DataLoader(data(torch.float32), batch_size=BATCH, shuffle=True)
    trainer.fit(Flat(tell, Path("none")), loader, DataLoader(Subset(data(torch.float32), range(4)), batch_size=4))
    tell(done=trainer.global_step, validations=meets.validations)


def test_all_stop_early_after_the_same_step(cluster: Make, tmp_path: Path) -> None:
    """One that joins has the best score and the count of the others."""
    job, part = cluster(), tmp_path / "part"
    job.gather(2)

    def start(number: int, late: bool) -> None:
        job.start(stops_early, folder=str(job.folder / f"out{number}"), part=str(part), late=late)

    for number in range(2):
        start(number, late=False)
    for _, line in job.events():
        if "validated" in line and len(job.members) == 2:
            start(2, late=True)
    assert not job.errors()
    patience = int(part.read_text()) // steps_of(1) + PATIENCE
    assert [end["done"] for end in job.lines("done")] == [(1 + patience) * steps_of(1)] * 3
    assert job.members[-1].lines[-1]["validations"] < 1 + patience, "it was not late"


class Slow(lightning.pytorch.callbacks.Timer):  # type: ignore[misc, unused-ignore]
    """Its time is over from a step on."""

    def __init__(self, until: int) -> None:
        super().__init__(duration={"hours": 1})
        self.until, self.steps = until, 0

    def on_train_batch_start(self, *_: Any) -> None:
        self.steps += 1

    def time_elapsed(self, *_: Any) -> float:
        return 4000.0 if self.steps >= self.until else 0.0


def runs_out_of_time(tell: Tell, folder: str, until: int) -> None:
    trainer = lightning.Trainer(
        accelerator="cpu",
        strategy=Strategy(seed=7),
        max_epochs=EPOCHS,
        callbacks=[Slow(until)],
        default_root_dir=folder,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Task(tell, Path("none")), DataLoader(data(torch.float32), batch_size=BATCH))
    tell(done=trainer.global_step)


def test_all_stop_when_the_time_of_one_is_over(cluster: Make) -> None:
    job = cluster()
    job.gather(3)
    for number in range(3):
        job.start(runs_out_of_time, folder=str(job.folder / f"out{number}"), until=(9, 5, 30)[number])
    job.wait()
    assert not job.errors() and [member.status for member in job.members] == [0] * 3
    assert [line["done"] for line in job.lines("done")] == [5] * 3


class OwnLoss(Task):
    """Its loss is that of its own samples, or what the test says of each member."""

    def __init__(self, tell: Tell, losses: list[float]) -> None:
        super().__init__(tell, Path("none"))
        self.losses = losses

    def on_train_epoch_end(self) -> None:
        self.log("own", self.losses[self.current_epoch])


def stops_by_its_own(tell: Tell, folder: str, losses: list[float]) -> None:
    trainer = lightning.Trainer(
        accelerator="cpu",
        strategy=Strategy(seed=7),
        max_epochs=len(losses),
        callbacks=[lightning.pytorch.callbacks.EarlyStopping("own", patience=1)],
        default_root_dir=folder,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(OwnLoss(tell, losses), DataLoader(data(torch.float32), batch_size=BATCH))
    tell(done=trainer.global_step)


def test_early_stopping_by_a_loss_of_its_own_samples_is_by_the_mean_of_all(cluster: Make) -> None:
    """By its own numbers the first would stop after two epochs, and the other would go on; by the mean, after three."""
    job = cluster()
    job.gather(2)
    for number, losses in enumerate(([3.0, 4.0, 5.0, 6.0, 7.0], [9.0, 7.0, 6.5, 5.0, 4.0])):
        job.start(stops_by_its_own, folder=str(job.folder / f"out{number}"), losses=losses)
    job.wait()
    assert not job.errors() and [member.status for member in job.members] == [0] * 2
    assert [line["done"] for line in job.lines("done")] == [3 * steps_of(1)] * 2
