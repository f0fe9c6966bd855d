# SPDX-License-Identifier: Apache-2.0
"""A Hugging Face Trainer with spotnik.hf.Callback: alone, with three, and with kills; each sample once, equal bits."""

from __future__ import annotations

import functools
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
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, SequentialSampler

import spotnik.torch as spotnik
from spotnik import ArgumentError, Config, StateError

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("accelerate", reason="accelerate is not installed")

from transformers import Trainer, TrainingArguments  # noqa: E402  (once here, not in every member)

from spotnik.hf import Callback  # noqa: E402

Make = Callable[..., Cluster]
EPOCHS, BATCH = 4, 20


class Classifier(nn.Module):
    """Takes and returns what Trainer expects."""

    def __init__(self) -> None:
        super().__init__()
        self.net = network(dtype=torch.float32)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.net(x)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def samples() -> list[dict[str, Any]]:
    return [{"x": x, "labels": y} for x, y in zip(*(t for t in data(torch.float32).tensors))]


class Watch(transformers.TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Tells of shares, evaluations and files."""

    def __init__(self, tell: Tell, stop: Path, reduces: bool = False) -> None:
        self.tell = tell
        self.reduces = reduces  # a number over all members, where epochs end
        self.stop = stop  # holds the step to stop after, once the test has seen enough

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        step = spotnik.job().running
        assert step is not None
        assert self.reduces or state.global_step == step.number - 1  # steps of pauses are the job's, not the Trainer's
        share = [(part.start, part.stop) for part in step.ranges]
        self.tell(begin=step.number, epoch=step.data_epoch, share=share)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        is_end = not self.reduces or state.global_step % steps_of(args.gradient_accumulation_steps) == 0
        if is_end and self.stop.exists() and state.global_step >= int(self.stop.read_text()):
            control.should_training_stop = True

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.reduces:
            self.tell(ended=state.global_step, here=spotnik.allreduce(1, "sum"))

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any, **_: Any) -> None:
        self.tell(evaluated=state.global_step, loss=metrics["eval_loss"])
        if self.reduces:
            mean, least = spotnik.allreduce(metrics["eval_loss"]), spotnik.allreduce(state.global_step, "min")
            self.tell(reduced=state.global_step, mean=mean, least=least)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.tell(saved=state.global_step)


def train(
    tell: Tell,
    folder: str,
    accumulate: int = 1,
    epochs: int = EPOCHS,
    stop: str = "none",
    bf16: bool = False,
    bars: bool = False,
    **settings: Any,
) -> None:
    transformers.logging.set_verbosity_error()
    arguments = TrainingArguments(
        output_dir=folder,
        use_cpu=True,
        num_train_epochs=epochs,
        per_device_train_batch_size=BATCH,
        gradient_accumulation_steps=accumulate,
        learning_rate=0.01,
        bf16=bf16,
        max_grad_norm=0.3,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        report_to="none",
        disable_tqdm=not bars,
        logging_strategy="steps" if bars else "no",
        logging_steps=1,
        dataloader_pin_memory=False,
    )
    if bars:
        transformers.trainer_callback.tqdm = functools.partial(Bar, tell)
        transformers.trainer.get_reporting_integration_callbacks = lambda _: [Reporter(tell)]
    model = Classifier()
    callbacks = [Callback(seed=7, on_step=told(tell), **settings), Watch(tell, Path(stop), "pauses" in settings)]
    trainer = Trainer(model, arguments, train_dataset=samples(), eval_dataset=samples()[:40], callbacks=callbacks)
    trainer.train()
    final = torch.cat([p.detach().flatten() for p in model.parameters()])
    torch.save([final], f"{folder}.{spotnik.StepReport.__name__}.{len(list(Path(folder).parent.glob('*.pt')))}.pt")
    tell(done=trainer.state.global_step, lr=trainer.lr_scheduler.get_last_lr()[0], sum=float(final.double().sum()))


def steps_of(accumulate: int) -> int:
    return -(-SAMPLES // (BATCH * accumulate))


@pytest.mark.parametrize("accumulate", [pytest.param(1, marks=pytest.mark.quick), 3])
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
    assert ends[0]["lr"] == calm[-1]["lr"]
    assert ends[0]["sum"] == pytest.approx(calm[-1]["sum"], abs=1e-3)
    evaluated = [[line["evaluated"] for line in member.lines if "evaluated" in line] for member in job.members]
    assert evaluated == [[steps_of(accumulate) * epoch for epoch in range(1, EPOCHS + 1)]] * 3
    assert len(job.lines("saved")) == EPOCHS  # one member writes files
    assert ledger.check_every_sample_once(ledger.contributions(job), SAMPLES) == EPOCHS - 1


def test_mixed_precision(cluster: Make, tmp_path: Path) -> None:
    """What one process computes with it, but for its rounding."""
    job = cluster()
    job.gather(2)
    for number in range(2):
        job.start(train, folder=str(job.folder / f"out{number}"), bf16=True)
    job.wait()
    assert not job.errors()
    ends = []
    for bf16 in (True, False):
        (tmp_path / str(bf16)).mkdir()
        ends.append(alone(train, tmp_path / str(bf16), folder=str(tmp_path / str(bf16) / "out"), bf16=bf16)[-1]["sum"])
    one, other = job.lines("done")
    assert one == other and one["done"] == EPOCHS * steps_of(1)
    assert one["sum"] == pytest.approx(ends[0], abs=0.05)
    assert ends[0] != ends[1], "it was not on"


@pytest.mark.parametrize("settings", [{"accumulate": 2}, {"batch": "per_member"}, {"sync": "sma"}, {"commit": "step"}])
def test_what_a_trainer_plans_otherwise_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=r"gradient_accumulation_steps|per_device_train_batch_size"):
        Callback(**settings)


class Pairs(BatchSampler):
    """As samplers of sentence-transformers that look for batches without duplicates."""

    def __iter__(self) -> Any:
        yield from ([i, i + 1] for i in range(0, SAMPLES - 1, 2))


class Repeats(SequentialSampler):
    """As TRL's: each prompt stands several times in a row, for completions that are compared with each other."""

    def __iter__(self) -> Any:
        yield from (i for i in range(SAMPLES) for _ in range(2))

    def __len__(self) -> int:
        return 2 * SAMPLES


def own_loader(kind: str, data: Any) -> Any:
    if kind == "pairs":
        return DataLoader(data, batch_sampler=Pairs(range(SAMPLES), 2, drop_last=False))
    if kind == "blocks":
        return DataLoader(data, batch_size=16)
    if kind == "repeats":
        return DataLoader(data, batch_size=8, sampler=Repeats(data))
    return DataLoader(Stream(), batch_size=8)


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(samples())


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("pairs", "has a Pairs, which chooses whole batches"),
        ("blocks", f"deals 16 of {SAMPLES} samples at a time, and not 8 of {SAMPLES}: .*TRL's GRPO"),
        ("repeats", f"deals 8 of {2 * SAMPLES} samples at a time, and not 8 of {SAMPLES}"),
        ("stream", r"give train_dataset=spotnik.torch.Records\(stream, count\)"),
    ],
)
def test_a_loader_whose_batches_cannot_be_divided_is_refused(tmp_path: Path, kind: str, words: str) -> None:
    class Chooses(Trainer):  # type: ignore[misc, unused-ignore]
        def get_train_dataloader(self) -> Any:
            return own_loader(kind, self.train_dataset)

    arguments = TrainingArguments(output_dir=str(tmp_path), use_cpu=True, max_steps=1, report_to="none")
    trainer = Chooses(Classifier(), arguments, train_dataset=samples(), callbacks=[Callback()])
    try:
        with pytest.raises(ArgumentError, match=words):
            trainer.train()
    finally:
        spotnik.leave()


def test_a_checkpoint_of_the_trainer_is_refused() -> None:
    state = transformers.TrainerState(global_step=3)
    with pytest.raises(StateError, match=r'say Callback\(checkpoint="DIR"\) instead'):
        Callback().on_train_begin(None, state, None)


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


class Bar:
    """In place of tqdm's: tells how far the bar of the training is."""

    def __init__(self, tell: Tell, total: int, leave: bool = True, **_: Any) -> None:
        self.tell, self.shown = tell if leave else (lambda **_: None), 0  # that of an evaluation does not stay
        self.tell(bar=0)

    def update(self, more: int) -> None:
        self.shown += more
        self.tell(bar=self.shown)

    def write(self, _: str) -> None:
        pass

    def close(self) -> None:
        self.tell(bar=-1)


class Reporter(transformers.TrainerCallback):  # type: ignore[misc, unused-ignore]
    """As that of W&B: one that was not the first process when it was set up has no run."""

    __module__ = "transformers.integrations.test"
    _initialized = False
    run: Any = None

    def __init__(self, tell: Tell) -> None:
        self.tell = tell

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        assert model is not None
        if not self._initialized:
            self._initialized = True
            if state.is_world_process_zero:
                self.run = []
                self.tell(runs=state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if state.is_world_process_zero:
            self.run.append(state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.is_world_process_zero:
            self.tell(run=self.run)


def test_one_member_shows_progress_and_another_when_it_is_lost(cluster: Make, tmp_path: Path) -> None:
    job, stop = cluster(), tmp_path / "stop"
    lost = kill_the_one_that_shows(job, train, stop)
    bars = [[line["bar"] for line in member.lines if "bar" in line] for member in job.members]
    assert sum(map(bool, bars)) == 2, "one shows, then another"
    (after,) = (bar for bar, member in zip(bars, job.members) if bar and member is not lost)
    last = int(stop.read_text())
    assert after[0] == 0 and after[1] > 1, "it goes on where the first was"
    assert after[2:] == [*range(after[1] + 1, last + 1), -1]
    assert len(job.lines("runs")) == 2, "one reports, then another"
    (line,) = job.lines("run")
    assert sorted(set(line["run"])) == [*range(line["run"][0], last + 1)]


def test_numbers_over_all_members_survive_kills(cluster: Make, tmp_path: Path, long_run: bool) -> None:
    if not long_run:
        pytest.skip("half a minute; test_lightning.py makes the same claim in every run, SPOTNIK_LONG=1 this one, too")
    job, numbers, stop = cluster(), itertools.count(), tmp_path / "stop"

    def start() -> Member:
        folder = str(job.folder / f"out{next(numbers)}")
        return job.start(train, folder=folder, epochs=EPOCHS_MOST, stop=str(stop), pauses="epoch")

    last = disturb(job, start, kills=2, stop=stop)
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


def test_one_that_begins_in_the_midst_of_an_epoch_ends_it(tmp_path: Path) -> None:
    """The last update of an epoch has two mini-batches of three, and its Trainer reads three."""
    kept = {"checkpoint": str(tmp_path / "kept"), "config": Config(checkpoint_steps=1), "accumulate": 3}
    (tmp_path / "stop").write_text(str(steps_of(3) + 1))
    before = alone(train, tmp_path, folder=str(tmp_path / "a"), stop=str(tmp_path / "stop"), **kept)
    after = alone(train, tmp_path, folder=str(tmp_path / "b"), **kept)
    assert [one[-1]["done"] for one in (before, after)] == [steps_of(3) + 1, EPOCHS * steps_of(3)]


# ---- losses that are divided by items ----


class Tagger(nn.Module):
    """Divides its loss by the items of a step, if the Trainer tells it their number; some rows have none, some six."""

    def __init__(self, takes: bool) -> None:
        super().__init__()
        self.accepts_loss_kwargs = takes
        self.net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 12))
        for p in self.net.parameters():
            torch.nn.init.normal_(p, std=0.3, generator=torch.Generator().manual_seed(p.numel()))

    def forward(self, x: torch.Tensor, labels: torch.Tensor, num_items_in_batch: Any = None) -> dict[str, torch.Tensor]:
        logits = self.net(x).view(-1, 6, 2)
        each = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none", ignore_index=-100)
        loss = each.sum() / num_items_in_batch if num_items_in_batch is not None else each.mean()
        return {"loss": loss, "logits": logits}


def tags(tell: Tell, folder: str, takes: bool, wrapped: bool) -> None:
    """Three samples in a step, each a mini-batch: of two members each has one or two that only fill it."""
    transformers.logging.set_verbosity_error()
    arguments = TrainingArguments(
        output_dir=folder,
        use_cpu=True,
        max_steps=8,
        per_device_train_batch_size=1,
        gradient_accumulation_steps=3,
        learning_rate=0.1,
        lr_scheduler_type="constant",
        optim="sgd",
        max_grad_norm=0,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        logging_strategy="no",
        dataloader_pin_memory=False,
        remove_unused_columns=False,
    )
    x, y = data(torch.float32).tensors
    rows = [
        {"x": x[i], "labels": torch.where(torch.arange(6) < i * 5 % 7, y[i].expand(6), -100)} for i in range(SAMPLES)
    ]
    model: nn.Module = Tagger(takes)
    trainer = Trainer(Adapted(model) if wrapped else model, arguments, train_dataset=rows, callbacks=[Callback(seed=7)])
    trainer.model_accepts_loss_kwargs = takes  # peft's models are unwrapped for this question
    trainer.train()
    tell(done=trainer.state.global_step, weights=torch.cat([p.detach().flatten() for p in model.parameters()]).tolist())


class Adapted(nn.Module):
    """As peft's models: takes any arguments, and hands them on."""

    peft_config: Any = None

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *given: Any, **named: Any) -> Any:
        return self.model(*given, **named)


@pytest.mark.parametrize(("takes", "wrapped"), [(True, False), (False, True)], ids=["items", "means"])
def test_mini_batches_that_only_fill_a_step_weigh_nothing(
    cluster: Make, tmp_path: Path, takes: bool, wrapped: bool
) -> None:
    job = cluster()
    job.gather(2)
    for number in range(2):
        job.start(tags, folder=str(job.folder / f"out{number}"), takes=takes, wrapped=wrapped)
    job.wait()
    assert not job.errors()
    (tmp_path / "alone").mkdir()
    calm = alone(tags, tmp_path / "alone", folder=str(tmp_path / "alone" / "out"), takes=takes, wrapped=wrapped)
    for end in job.lines("done"):
        assert end["weights"] == pytest.approx(calm[-1]["weights"], abs=1e-5)


# ---- the best model ----


class Sums(transformers.TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Tells the sum of all parameters after each epoch."""

    def __init__(self, tell: Tell) -> None:
        self.tell = tell

    def on_epoch_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        self.tell(after=state.global_step, sum=total(model))

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.tell(saves=args.should_save)


def total(model: nn.Module) -> float:
    return float(torch.cat([p.detach().flatten() for p in model.parameters()]).double().sum())


def keeps_best(tell: Tell, folder: str, kept: str, loads: bool = True, strategy: str = "epoch") -> None:
    """No evaluation is better than the first."""
    transformers.logging.set_verbosity_error()
    arguments = TrainingArguments(
        output_dir=folder,
        use_cpu=True,
        num_train_epochs=3,
        per_device_train_batch_size=BATCH,
        eval_strategy="epoch",
        save_strategy=strategy,
        load_best_model_at_end=loads,
        metric_for_best_model="less",
        greater_is_better=True,
        report_to="none",
        disable_tqdm=True,
        logging_strategy="no",
        dataloader_pin_memory=False,
    )
    less, model = itertools.count(0, -1), Classifier()
    trainer = Trainer(
        model,
        arguments,
        train_dataset=samples(),
        eval_dataset=samples()[:4],
        callbacks=[Callback(seed=7, checkpoint=kept), Sums(tell)],
        compute_metrics=lambda _: {"less": next(less)},
    )
    trainer.train()
    tell(done=trainer.state.global_step, sum=total(model), zero=trainer.is_world_process_zero())


@pytest.mark.parametrize("strategy", ["epoch", "best"])
def test_all_end_with_the_best_model_and_the_job_with_the_last(cluster: Make, tmp_path: Path, strategy: str) -> None:
    job, settings = cluster(), {"folder": str(tmp_path / "out"), "kept": str(tmp_path / "kept"), "strategy": strategy}
    job.gather(2)
    for _ in range(2):
        job.start(keeps_best, **settings)
    job.wait()
    assert not job.errors()
    first, *_, last = (line["sum"] for line in job.members[0].lines if "after" in line)
    assert first != last
    assert [line["sum"] for line in job.lines("done")] == [first] * 2
    assert sorted(line["zero"] for line in job.lines("done")) == [False, True]
    assert [line["saves"] for line in job.lines("saves")].count(True) == (3 if strategy == "epoch" else 1)
    # a finished job repeats nothing
    again = alone(keeps_best, tmp_path / "out", tmp_path / "key", loads=False, **settings)
    assert again[-1]["sum"] == last


# ---- early stopping ----

PATIENCE = 3


class Meets(transformers.TrainerCallback):  # type: ignore[misc, unused-ignore]
    """A late member tells in which step it takes its part; patience ends some evaluations after that one.

    It writes that before it gives its share of the step, so others find it in every evaluation after the step.
    """

    def __init__(self, tell: Tell, part: Path, is_late: bool, stopping: Any) -> None:
        self.tell, self.part, self.is_late, self.stopping = tell, part, is_late, stopping
        self.evaluations = 0

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        step = spotnik.job().running
        assert step is not None
        if self.is_late and not step.replay and not self.part.exists():
            tell_to_stop(self.part, step.number)

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.evaluations += 1
        self.tell(evaluated=state.global_step)
        if self.part.exists() and state.global_step >= int(self.part.read_text()):
            self.stopping.early_stopping_patience = int(self.part.read_text()) // steps_of(1) + PATIENCE

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.tell(evaluations=self.evaluations)


def stops_early(tell: Tell, folder: str, part: str, late: bool) -> None:
    """The metric never gets better after the first evaluation."""
    transformers.logging.set_verbosity_error()
    arguments = TrainingArguments(
        output_dir=folder,
        use_cpu=True,
        num_train_epochs=EPOCHS_MOST,
        per_device_train_batch_size=BATCH,
        eval_strategy="epoch",
        save_strategy="no",
        metric_for_best_model="same",
        greater_is_better=True,
        report_to="none",
        disable_tqdm=True,
        logging_strategy="no",
        dataloader_pin_memory=False,
    )
    stopping = transformers.EarlyStoppingCallback(early_stopping_patience=EPOCHS_MOST)
    trainer = Trainer(
        Classifier(),
        arguments,
        train_dataset=samples(),
        eval_dataset=samples()[:4],
        callbacks=[Meets(tell, Path(part), late, stopping), stopping, Callback(seed=7)],
        compute_metrics=lambda _: {"same": 1.0},
    )
    trainer.train()
    tell(done=trainer.state.global_step)


def test_all_stop_early_after_the_same_step(cluster: Make, tmp_path: Path) -> None:
    """One that joins has the best metric and the count of the others."""
    job, part = cluster(), tmp_path / "part"
    job.gather(2)

    def start(number: int, late: bool) -> None:
        job.start(stops_early, folder=str(job.folder / f"out{number}"), part=str(part), late=late)

    for number in range(2):
        start(number, late=False)
    for _, line in job.events():
        if "evaluated" in line and len(job.members) == 2:
            start(2, late=True)
    assert not job.errors()
    patience = int(part.read_text()) // steps_of(1) + PATIENCE
    assert [end["done"] for end in job.lines("done")] == [(1 + patience) * steps_of(1)] * 3
    *_, late = job.members
    (line,) = (line for line in late.lines if "evaluations" in line)
    assert line["evaluations"] < 1 + patience, "it was not late"
