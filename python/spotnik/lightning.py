# SPDX-License-Identifier: Apache-2.0
"""Lightning: a Trainer that survives the loss of machines.

    import spotnik.lightning
    trainer = lightning.Trainer(strategy=spotnik.lightning.Strategy(), max_epochs=10)
    trainer.fit(module, loader)

Under ``spotnik run`` the members train together: the loader's batch_size is that of all of them, so that steps, epochs
and schedules are those of one process. A member that joins late has the global step, the epoch and the schedule of the
others. Without ``spotnik run`` the script is a job of one.

In a group (``spotnik run --group``) say ``strategy=spotnik.lightning.ModelParallelStrategy()``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Optional

import torch

from .config import is_alone
from .errors import ArgumentError, LibraryError, StateError
from .torch import hide_torchrun, prepare
from .torch._feed import Feed
from .torch._loader import Shard, shard
from .torch._places import ALONE, place_here
from .torch._session import Session, current

try:
    from lightning.pytorch.callbacks import ModelSummary, RichProgressBar, Timer, TQDMProgressBar
    from lightning.pytorch.loggers.utilities import _log_hyperparams
    from lightning.pytorch.strategies import ModelParallelStrategy as LightningModelParallelStrategy
    from lightning.pytorch.strategies import SingleDeviceStrategy
    from lightning.pytorch.trainer.states import TrainerFn
    from lightning.pytorch.utilities.rank_zero import rank_zero_only  # type: ignore[attr-defined, unused-ignore]
except ImportError as error:
    raise LibraryError("spotnik.lightning needs lightning: pip install lightning") from error

__all__ = ["ModelParallelStrategy", "Strategy"]

_OVER = "max_time"  # the metric that says it
_zero: Any = rank_zero_only  # whose attribute `rank` says who writes logs and warnings


class _Joined:
    """What a strategy of Lightning's does in a job. `settings` are those of :func:`spotnik.torch.prepare`."""

    lightning_module: Any
    optimizers: Any

    def _begin(self, settings: dict[str, Any]) -> None:
        if "accumulate" in settings or settings.get("commit", "backward") != "backward":
            raise ArgumentError("accumulation is Lightning's: say Trainer(accumulate_grad_batches=k)")
        if settings.get("batch", "global") != "global" or settings.get("sync", "ssgd") not in (None, "ssgd"):
            raise ArgumentError(
                'Lightning plans its steps for one process, so Strategy() takes batch="global" and sync="ssgd" only; '
                "for more samples in a step raise the batch_size of the loader"
            )
        self._settings = settings
        self._feed: Optional[_Feed] = None
        self._session: Optional[Session] = None
        self._timers: list[_Time] = []
        self._slot = int(os.environ.get("SPOTNIK_SLOT", "0") or 0)
        self._shows = self.is_global_zero  # what Lightning asks before there is a job
        self._look()

    @property
    def is_global_zero(self) -> bool:
        """Is this the member that writes files? Another one when it is lost; none before the job is joined."""
        if self._session is None:
            return is_alone(self._settings.get("config"))
        return self._session.rank == 0

    # ---- fit ----

    def setup(self, trainer: Any) -> None:
        """Make the optimisers, and their steps those of the job."""
        super().setup(trainer)  # type: ignore[misc]
        if trainer.state.fn != TrainerFn.FITTING:
            return
        if trainer.limit_train_batches != 1.0 and not trainer.fast_dev_run:
            raise ArgumentError("the job counts epochs of all data; leave limit_train_batches out, or give less data")
        accumulate = int(trainer.accumulate_grad_batches)
        settings = dict(self._settings)
        self._timers = [_Time(one) for one in trainer.callbacks if isinstance(one, Timer) and one._duration is not None]
        if self._timers:
            settings["metrics"] = (*settings.get("metrics", ()), _OVER)
        stopping = [_Stopping(one) for one in trainer.early_stopping_callbacks]
        if stopping and place_here() is not None:
            raise ArgumentError(
                "EarlyStopping needs a number that all members agree on, which groups do not have yet: end by "
                "max_epochs or max_time, or start each process as a member of its own, without --group"
            )
        if stopping:
            settings.setdefault("pauses", "epoch")
        prepare(self.lightning_module, list(self.optimizers), *stopping, accumulate=accumulate, **settings)
        current().every_step_shown |= bool(self._timers)

    def load_checkpoint(self, *args: Any, **kwargs: Any) -> Any:
        """Refused in fit(); to evaluate, as ever."""
        if self.lightning_module is not None and self.lightning_module.trainer.state.fn == TrainerFn.FITTING:
            raise StateError(
                "ckpt_path is Lightning's, and knows neither the job nor which samples it has consumed; say "
                'Strategy(checkpoint="DIR") instead, and start the same program again'
            )
        return super().load_checkpoint(*args, **kwargs)  # type: ignore[misc]

    @property
    def _trains(self) -> bool:
        trainer = self.lightning_module.trainer
        return bool(trainer.state.fn == TrainerFn.FITTING and trainer.training)

    def process_dataloader(self, dataloader: Any) -> Any:
        """Share the training data; each member evaluates by itself, on all there is."""
        if not self._trains:
            return dataloader
        if self._feed is not None:
            raise ArgumentError(
                "a job consumes one data set, and Lightning has made a training loader before: give fit() one, which "
                "is not reloaded (reload_dataloaders_every_n_epochs=0). Several become one by "
                "torch.utils.data.ConcatDataset or StackDataset; validation loaders are as you like"
            )
        shared = dataloader if isinstance(dataloader, Shard) else shard(dataloader)
        self._session = current()
        self._feed = _Feed(self._session, shared, self.lightning_module.trainer)
        return _Batches(self._feed, len(shared))

    def on_train_start(self) -> None:
        """Join the job, or found it."""
        if self._feed is None:
            raise ArgumentError("fit() was given no training loader")
        self._feed.join()
        self._look()
        if self.is_global_zero and not self._shows:
            self._tell_late()
        self._show(in_epoch=False)

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """A step begins, perhaps."""
        for one in self._timers:
            one.tell()
        self._look()
        self._show(in_epoch=True)

    def on_train_end(self) -> None:
        """Leave the job: the module is an ordinary one again."""
        if self._feed is not None:
            self._look()
            self._feed.session.close()

    def teardown(self) -> None:
        """The end, also after an exception."""
        if self._feed is not None:
            self._feed.session.close()
            self._feed = None
        super().teardown()  # type: ignore[misc]

    def _look(self) -> None:
        """One member writes, whichever is first in the view."""
        _zero.rank = 0 if self.is_global_zero else max(1, self._slot)

    def _tell_late(self) -> None:
        """What Lightning has the first process tell before there is a job."""
        module = self.lightning_module
        assert module is not None
        _log_hyperparams(module.trainer)
        for one in module.trainer.callbacks:  # type: ignore[attr-defined, unused-ignore]
            if isinstance(one, ModelSummary):
                one.on_fit_start(module.trainer, module)

    def _show(self, in_epoch: bool) -> None:
        """The member that writes shows progress. Only Lightning's own bars can be moved."""
        module, is_zero = self.lightning_module, self.is_global_zero
        assert module is not None
        bar = module.trainer.progress_bar_callback
        if is_zero == self._shows or not isinstance(bar, (RichProgressBar, TQDMProgressBar)):
            return
        self._shows = is_zero
        if not is_zero:
            bar.on_train_end(module.trainer, module)
            bar.teardown(module.trainer, module, "fit")
            bar.disable()
            return
        bar.enable()
        bar.on_train_start(module.trainer, module)
        if in_epoch:
            bar.on_train_epoch_start(module.trainer, module)


class Strategy(_Joined, SingleDeviceStrategy):  # type: ignore[misc, unused-ignore]
    """Trains together with the other members of the job. `settings` are those of :func:`spotnik.torch.prepare`.

    Give ``checkpoint="DIR"`` to survive the loss of all members, in place of ``fit(ckpt_path=...)``. To Lightning each
    member is a process by itself. Files are written, and progress is shown, by one of them (`is_global_zero`).
    """

    strategy_name = "spotnik"

    def __init__(self, device: Optional[torch.device] = None, **settings: Any) -> None:
        if place_here() is not None:
            raise StateError(
                "spotnik.lightning.Strategy is for members of one process, and this one is in a group: say "
                "strategy=spotnik.lightning.ModelParallelStrategy() and fully_shard() the layers in configure_model()"
            )
        hide_torchrun()
        super().__init__(device=device or "cpu")
        self._device = device
        self._begin(settings)

    @property
    def root_device(self) -> torch.device:
        """The device of this member: that given, else the one of its place on the host."""
        if self._device is None:
            accelerator: Any = self.accelerator
            devices = accelerator.get_parallel_devices(accelerator.parse_devices(accelerator.auto_device_count()))
            self._device = devices[self._slot % len(devices)]
        return self._device


class ModelParallelStrategy(_Joined, LightningModelParallelStrategy):  # type: ignore[misc, unused-ignore]
    """As :class:`Strategy`, where the processes of a group hold the model among them.

    The module's ``configure_model()`` cuts it by ``fully_shard()``, ``parallelize_module()`` or both, on
    ``self.device_mesh``, as with Lightning's strategy of this name. Say ``Trainer(devices=N)`` for groups of N.
    Validation loaders are dealt among the processes of each group, as Lightning does.
    """

    strategy_name = "spotnik_model_parallel"

    def __init__(self, data_parallel_size: Any = "auto", tensor_parallel_size: Any = "auto", **settings: Any) -> None:
        own = {key: settings.pop(key) for key in ("save_distributed_checkpoint", "timeout") if key in settings}
        super().__init__(data_parallel_size, tensor_parallel_size, **own)
        self._begin(settings)

    @property
    def distributed_sampler_kwargs(self) -> dict[str, Any]:
        """The job deals the training data."""
        return {"num_replicas": 1, "rank": 0} if self._trains else super().distributed_sampler_kwargs

    def save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        """One group saves: each of its processes its part."""
        if self._session is None or 0 <= self._session.rank < (place_here() or ALONE).size:
            super().save_checkpoint(*args, **kwargs)


class _Time:
    """A limit of time (Trainer(max_time=...)): all members stop after the step in which one of them was at its end."""

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        timer._check_time_remaining = self._check  # type: ignore[method-assign, unused-ignore]

    def tell(self) -> None:
        current().metrics.tell(_OVER, bool(self._timer.time_elapsed() >= (self._timer._duration or 0)))

    def _check(self, trainer: Any) -> None:
        trainer.should_stop = trainer.should_stop or current().metrics.told(_OVER) > 0


class _Stopping:
    """What early stopping sees and counts, as part of the replica: all members stop after the same step.

    A number that each member has of its own samples, as that of a training loss, becomes the mean over the members.
    """

    def __init__(self, callback: Any) -> None:
        self._callback = callback
        self._decide = callback._evaluate_stopping_criteria
        callback._evaluate_stopping_criteria = self._agree

    def _agree(self, value: torch.Tensor) -> Any:
        session = current()
        if session.pauses.is_next and session.running.step is None:
            value = torch.as_tensor(session.allreduce(value, "mean"))
        return self._decide(value)

    def state_dict(self) -> dict[str, Any]:
        return {"best": float(self._callback.best_score), "count": int(self._callback.wait_count)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._callback.best_score = torch.tensor(state["best"])
        self._callback.wait_count = state["count"]


class _Batches:
    """What Lightning takes for its loader."""

    def __init__(self, feed: _Feed, length: int) -> None:
        self._feed = feed
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Any]:
        return self._feed.epoch()


class _Feed(Feed):
    """What a Trainer of Lightning asks for; keeps its counters where the job is."""

    def __init__(self, session: Session, shared: Shard[Any], trainer: Any) -> None:
        accumulate = int(trainer.accumulate_grad_batches)
        super().__init__(session, shared, len(shared) // accumulate, accumulate, int(trainer.max_steps))
        self._trainer = trainer

    def join(self) -> None:
        """Begin the first step; Lightning has not begun the epoch."""
        super().join()
        self._stand_in(self.session.steps_done // self.updates, begun=0)

    def enter(self, epoch: int) -> None:
        """Lightning has begun an epoch: this one."""
        if self._trainer.current_epoch != epoch:
            self._stand_in(epoch, begun=1)

    def _stand_in(self, epoch: int, begun: int) -> None:
        progress = self._trainer.fit_loop.epoch_progress
        for counter in (progress.current, progress.total):
            _set(counter, epoch)
            counter.ready = counter.started = epoch + begun

    def at(self, steps: int) -> None:
        """Batches and steps, where they are not what Lightning has counted: this member has joined, or come back."""
        loop = self._trainer.fit_loop.epoch_loop
        if steps != loop.global_step:
            _set(loop.automatic_optimization.optim_progress.optimizer.step.total, steps)
            _set(loop.manual_optimization.optim_step_progress.total, steps)
            loop._batches_that_stepped = steps
        batches = steps % self.updates * self.accumulate
        fetcher = self._trainer.fit_loop._data_fetcher
        if fetcher is not None and loop.batch_progress.current.ready != batches:
            fetcher.fetched = batches
            _set(loop.batch_progress.current, batches)


def _set(progress: Any, count: int) -> None:
    """All that a counter of Lightning's counts."""
    for name in ("ready", "started", "processed", "completed"):
        if hasattr(progress, name):
            setattr(progress, name, count)
