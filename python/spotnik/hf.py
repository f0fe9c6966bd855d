# SPDX-License-Identifier: Apache-2.0
"""Hugging Face: a Trainer that survives the loss of machines.

    from spotnik.hf import Callback
    trainer = Trainer(..., callbacks=[Callback()])
    trainer.train()

Under ``spotnik run`` the members train together: ``per_device_train_batch_size`` samples in a mini-batch over all of
them, so that steps, epochs and schedule are those of one process. A member that joins late has the global step, the
epoch and the schedule of the others. Without ``spotnik run`` the script is a job of one.
"""

from __future__ import annotations

import copy
import gc
import inspect
import math
import os
import sys
from collections.abc import Iterator
from typing import Any, Optional

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler

from .errors import ArgumentError, LibraryError, StateError
from .torch import prepare
from .torch._feed import Feed
from .torch._loader import shard
from .torch._log import log
from .torch._places import ALONE, place_here
from .torch._session import Session, current

try:
    from transformers import (  # type: ignore[import-not-found, unused-ignore]
        EarlyStoppingCallback,
        ProgressCallback,
        Trainer,
        TrainerCallback,
    )
except ImportError as error:
    raise LibraryError("spotnik.hf needs transformers: pip install transformers") from error

__all__ = ["Callback"]


class Callback(TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Trains together with the other members of the job. `settings` are those of :func:`spotnik.torch.prepare`.

    Give ``checkpoint="DIR"`` to survive the loss of all members, in place of ``resume_from_checkpoint``: a Trainer
    started again goes on at the very sample. Files are written, and progress is shown, by one member only (`senior`).
    """

    def __init__(self, **settings: Any) -> None:
        if "accumulate" in settings or settings.get("commit", "backward") != "backward":
            raise ArgumentError("accumulation is the Trainer's: say TrainingArguments(gradient_accumulation_steps=k)")
        if settings.get("batch", "global") != "global" or settings.get("sync", "ssgd") not in (None, "ssgd"):
            raise ArgumentError(
                'a Trainer plans its steps for one process, so Callback() takes batch="global" and sync="ssgd" only; '
                "for more samples in a step raise per_device_train_batch_size"
            )
        self._settings = settings
        self._loader: Any = None
        self._kind: Any = None
        self._feed: Optional[_Feed] = None
        self._bars: list[Any] = []
        self._reporters: list[Any] = []  # that are not set up here
        self._given: dict[str, Any] = {}
        #: Is this the member that writes files? Another one when it is lost.
        self.senior = True

    def on_init_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stand before the Trainer's reporters: they ask which process is the first one when the training begins."""
        trainer = _trainer()
        if place_here() is not None:
            _adapt(trainer)
        handler = trainer.callback_handler
        mine = handler.callbacks.index(self) + 1
        before = [one for one in handler.callbacks[:mine] if _is_reporter(one)]
        others = [one for one in handler.callbacks[:mine] if one not in before]
        handler.callbacks = [*others, *before, *handler.callbacks[mine:]]

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Join the job, or found it."""
        if state.global_step:
            raise StateError(
                "resume_from_checkpoint is the Trainer's, and knows neither the job nor which samples it has consumed; "
                'say Callback(checkpoint="DIR") instead, and start the same program again'
            )
        optimizer, self._loader = given["optimizer"], given["train_dataloader"]
        optimizer = getattr(optimizer, "optimizer", optimizer)  # accelerate's, around the one that trains
        accumulate, trainer = int(args.gradient_accumulation_steps), _trainer()
        objects = (given["lr_scheduler"], _Stopping(state, self))
        model = trainer.model_wrapped if isinstance(trainer.model_wrapped, DistributedDataParallel) else given["model"]
        prepare(model, optimizer, *objects, accumulate=accumulate, **self._settings)
        batch = int(getattr(trainer, "_train_batch_size", args.train_batch_size))
        self._feed = _Feed(current(), self._loader, batch, args, state, _Items(trainer))
        self._kind = type(self._loader)
        self._loader.spotnik_feed = self._feed
        _become(self._loader, type("SharedLoader", (self._kind,), {"__iter__": _iterate}))
        self._feed.join()
        self._look(args, state, control)
        callbacks, self._given = trainer.callback_handler.callbacks, given
        self._bars = [one for one in callbacks if isinstance(one, ProgressCallback)]
        self._reporters = [] if self.senior else [one for one in callbacks if _is_reporter(one)]

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """A step begins."""
        self._look(args, state, control)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """A step has been applied."""
        self._look(args, state, control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """An epoch has ended."""
        self._look(args, state, control)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """The Trainer sums up its training, and loads its best model next: that is no state of the job."""
        if "train_runtime" in (logs or {}):
            self._leave(args, state)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Leave the job: the model is an ordinary one again."""
        self._leave(args, state)

    def _leave(self, args: Any, state: Any) -> None:
        if self._feed is None:
            return
        _become(self._loader, self._kind)
        self._feed.session.close()
        self._feed = None
        self._given = {}
        if args.load_best_model_at_end and state.best_global_step not in (None, 0, state.global_step):
            state.best_model_checkpoint = _best(args, state)

    def _look(self, args: Any, state: Any, control: Any) -> None:
        if self._feed is None:
            return
        rank = self._feed.session.rank
        self.senior = rank == 0
        if args.distributed_state is not None:  # what `args.should_save` and `is_world_process_zero()` ask
            args.distributed_state.process_index = args.distributed_state.local_process_index = rank
        state.is_world_process_zero = state.is_local_process_zero = self.senior
        size = (place_here() or ALONE).size  # all processes of a group save: each has a part
        control.should_save = control.should_save and 0 <= rank < size
        self._show(args, state, control)

    def _show(self, args: Any, state: Any, control: Any) -> None:
        """One member shows progress and reports: what is made at the beginning, and in the first process only."""
        if self.senior:
            for one in self._reporters:
                one._initialized = False
                one.on_train_begin(args, state, control, **self._given)
            self._reporters = []
        for one in self._bars:
            if self.senior and one.training_bar is None:
                one.on_train_begin(args, state, control)
            elif not self.senior and one.training_bar is not None:
                one.training_bar.close()
                one.training_bar = None


def _adapt(trainer: Trainer) -> None:
    """In a group the Trainer plans as in one process, and accelerate shards the model over the group."""
    from .accelerate import adapt, check

    check(trainer.accelerator)
    adapt(trainer.accelerator)
    args: Any = trainer.args
    args.average_tokens_across_devices = False  # the processes of a group weigh by what they count
    args.distributed_state = copy.copy(args.distributed_state)  # its rank is to be that in the job
    made: Any = trainer.get_train_dataloader

    def whole() -> Any:
        accelerator: Any = trainer.accelerator
        accelerator.prepare = lambda loader: loader  # the job deals its samples
        try:
            return made()
        finally:
            del accelerator.prepare

    trainer.get_train_dataloader = whole  # type: ignore[method-assign, unused-ignore]


def _is_reporter(callback: Any) -> bool:
    """Is it of those that `report_to` names, or made from one?"""
    return any(kind.__module__.startswith("transformers.integrations") for kind in type(callback).__mro__)


def _best(args: Any, state: Any) -> Optional[str]:
    """The best model, which another member may have saved; before the last step began, so it is complete."""
    folder = os.path.join(args.output_dir, f"checkpoint-{state.best_global_step}")
    if os.path.isdir(folder):
        return folder
    log.warning(
        "load_best_model_at_end: the best model is that of step %d, and %s is not here: this member keeps the last "
        "one. One member saves for all, so output_dir must be a folder that all of them share",
        state.best_global_step,
        folder,
    )
    return None


class _Stopping:
    """What early stopping has seen and counted, as part of the replica: all members stop after the same step."""

    def __init__(self, state: Any, callback: Callback) -> None:
        self._state = state
        lists = [one for one in gc.get_referrers(callback) if isinstance(one, list)]  # the Trainer tells of none
        found = {id(one): one for held in lists for one in held if isinstance(one, EarlyStoppingCallback)}
        self._callbacks = list(found.values())

    def state_dict(self) -> dict[str, Any]:
        best, step = self._state.best_metric, self._state.best_global_step
        return {
            "best": math.nan if best is None else float(best),
            "step": -1 if step is None else int(step),
            "counts": [int(one.early_stopping_patience_counter) for one in self._callbacks],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._state.best_metric = None if math.isnan(state["best"]) else state["best"]
        self._state.best_global_step = None if state["step"] < 0 else state["step"]
        for one, count in zip(self._callbacks, state["counts"]):
            one.early_stopping_patience_counter = count


def _become(loader: Any, kind: type) -> None:
    """Change the class of an object whose own `__class__` is a property, as that of accelerate's loaders is."""
    object.__dict__["__class__"].__set__(loader, kind)


def _iterate(loader: Any) -> Iterator[Any]:
    """The iteration of a Trainer's own loader while it trains."""
    feed: _Feed = loader.spotnik_feed
    return feed.epoch()


def _trainer() -> Trainer:
    """The Trainer that calls: it tells its callbacks of everything but itself."""
    frame: Any = sys._getframe(1)
    while frame is not None and not isinstance(frame.f_locals.get("self"), Trainer):
        frame = frame.f_back
    if frame is None:
        raise StateError("spotnik.hf.Callback was called by no Trainer; give it to Trainer(callbacks=[Callback()])")
    trainer: Trainer = frame.f_locals["self"]
    return trainer


class _Items:
    """What the loss of a step is divided by: the Trainer, or the model for it, may count items (tokens, say)."""

    def __init__(self, trainer: Trainer) -> None:
        self._by_function = getattr(trainer, "compute_loss_func", None) is not None
        model: Any = trainer.model
        base = model.get_base_model() if hasattr(model, "peft_config") and hasattr(model, "get_base_model") else model
        takes = getattr(trainer, "model_accepts_loss_kwargs", None)
        self._by_model = bool(takes) if takes is not None else _takes_keywords(base)
        self._said = getattr(trainer, "loss_is_scaled_for_ga", None)
        self._shifts = bool(getattr(trainer, "_loss_shifts_labels", False))

    def count(self, batch: Any) -> Optional[int]:
        """Count those in a mini-batch. None: the loss is not divided by them; mini-batches weigh by samples."""
        counted = self._count(batch) if self._by_model or self._by_function else None
        summed = self._by_function or (self._by_model and counted is not None)
        if not (self._said if self._said is not None else summed):
            return None
        return counted

    def _count(self, batch: Any) -> Optional[int]:
        try:
            labels = batch["shift_labels"] if "shift_labels" in batch else batch["labels"]
            if self._shifts and "shift_labels" not in batch:
                labels = labels[..., 1:]
            return int(labels.ne(-100).sum())
        except (KeyError, TypeError, AttributeError):
            return None


def _takes_keywords(model: torch.nn.Module) -> bool:
    parameters = inspect.signature(model.forward).parameters.values()
    return any(one.kind == inspect.Parameter.VAR_KEYWORD for one in parameters)


def _plain(loader: Any, batch: int) -> DataLoader[Any]:
    """The Trainer's loader as PyTorch would make it: without accelerate, which reads one batch ahead."""
    if isinstance(loader.dataset, IterableDataset):
        raise ArgumentError(
            "the Trainer was given an IterableDataset, which has no length, and the job deals samples by their number; "
            "give train_dataset=spotnik.torch.Records(stream, count), which deals records by their place"
        )
    sampler = getattr(loader.batch_sampler, "sampler", None)
    if sampler is None or type(loader.batch_sampler).__iter__ is not BatchSampler.__iter__:
        raise ArgumentError(
            f"the Trainer's loader has a {type(loader.batch_sampler).__name__}, which chooses whole batches, so its "
            "samples cannot be shared among members; choose a plain order (shuffled, sequential or by length; with "
            'sentence-transformers batch_sampler="batch_sampler" and one data set)'
        )
    if loader.batch_sampler.batch_size != batch or len(sampler) > len(loader.dataset):
        raise ArgumentError(
            f"the Trainer's loader deals {loader.batch_sampler.batch_size} of {len(sampler)} samples at a time, and "
            f"not {batch} of {len(loader.dataset)}: samples that belong together, as the completions of a prompt do in "
            "TRL's GRPO and RLOO, would be divided among members. Train such a Trainer with one process, or in a loop "
            "of your own by spotnik.torch.prepare()"
        )
    order: dict[str, Any] = {"shuffle": isinstance(sampler, RandomSampler)}
    if not isinstance(sampler, (RandomSampler, SequentialSampler)):
        order = {"sampler": sampler}
    workers = {"prefetch_factor": loader.prefetch_factor} if loader.num_workers else {}
    return DataLoader(
        loader.dataset,
        batch_size=batch,
        collate_fn=loader.collate_fn,
        drop_last=loader.batch_sampler.drop_last,
        num_workers=loader.num_workers,
        pin_memory=loader.pin_memory,
        **order,
        **workers,
    )


class _Feed(Feed):
    """What a Trainer asks for. It counts updates in an epoch itself."""

    def __init__(self, session: Session, loader: Any, batch: int, args: Any, state: Any, items: _Items) -> None:
        accumulate = int(args.gradient_accumulation_steps)
        shared = shard(_plain(loader, batch))
        updates = max(1, -(-len(loader) // accumulate))
        super().__init__(session, shared, updates, accumulate, int(state.max_steps))
        self.state = state
        self._items = items
        self._counts: list[Optional[int]] = []  # of the mini-batches of this step
        self._rest = len(loader) % accumulate or accumulate  # mini-batches of the last update

    def weigh(self, batch: Any, number: int) -> None:
        """Where losses are divided by items, mini-batches and members weigh by them: as in one process.

        The Trainer reads all mini-batches of a step before it computes. It divides by the items of all, also of those
        that only fill the step, which count for nothing.
        """
        self._counts = [*self._counts[:number], self._items.count(batch)]
        numbers = [count for count in self._counts if count is not None]
        if len(numbers) == self.session.gradients.accumulate:
            self.session.gradients.weights.divide(sum(numbers), numbers)

    def at(self, steps: int) -> None:
        """The Trainer's numbers."""
        self.state.global_step = steps
        self.state.epoch = steps / self.updates

    def is_over(self, steps: int) -> bool:
        """Has it taken all its steps?"""
        return bool(steps >= self.state.max_steps)

    def count(self, update: int) -> int:
        """Mini-batches of an update. A Trainer that came in the midst of an epoch is not at its last when that ends."""
        return self._rest if update == self.updates - 1 else self.accumulate
