# SPDX-License-Identifier: Apache-2.0
"""Callbacks of ``fit``: the same decisions on every member, one that prints and saves, and state that travels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Optional

import keras
import numpy as np

from .. import _packing
from ..errors import ArgumentError
from ._notes import tell_too_large

if TYPE_CHECKING:
    from ._driver import Driver

_PLAIN = (bool, int, float, str, type(None))
# Keras turns the sign of min_delta when it first needs monitor_op, on each member.
_FILES = ("filepath", "log_dir", "append", "append_header")  # each member's own
_NOT_STATE = ("params", "_model", "verbose", *_FILES, "min_delta", "monitor_op")
_BLOB_MAX = 16 << 20
_TELLING = (  # with verbose=1
    keras.callbacks.EarlyStopping,
    keras.callbacks.LearningRateScheduler,
    keras.callbacks.ModelCheckpoint,
    keras.callbacks.ReduceLROnPlateau,
)


class Callback(keras.callbacks.Callback):
    """Keeps ``fit`` in step with the job: agrees on the logs of an epoch before other callbacks see them.

    ``fit`` of a prepared model adds one where the program has not.
    """

    driver: Optional[Driver] = None
    is_others = False  #: was the epoch that has ended closed by the others alone?
    _stops = False  # does the program want to end the training?

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Note the epoch."""
        assert self.driver is not None
        self.driver.epoch = epoch
        self._stops = False

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Agree on the logs, in place."""
        assert self.driver is not None
        self.model.stop_training = self._stops
        if logs is not None:
            self.is_others = not self.driver.close_epoch(logs)

    def ended(self) -> None:
        """The epoch has had its last step: have ``fit`` leave its loop over batches."""
        self._stops = bool(self.model.stop_training)
        self.model.stop_training = True


class _Last(keras.callbacks.Callback):
    """Behind all others: ends an epoch when the job has."""

    def __init__(self, first: Callback) -> None:
        super().__init__()
        self._first = first

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        assert self._first.driver is not None
        if self._first.driver.epoch_is_over:
            self._first.ended()
        else:
            self._first._stops = bool(self.model.stop_training)


class _Silent:
    """A model that does not save."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def save(self, *_: Any, **__: Any) -> None:
        """Nothing: another member does."""

    save_weights = save


def chain(driver: Driver, given: Any, verbose: Any, epochs: int) -> Any:
    """The callbacks of a ``fit``."""
    own = list(given) if isinstance(given, (list, tuple)) else [given] if given is not None else []
    if any(isinstance(one, keras.callbacks.BackupAndRestore) for one in own):
        raise ArgumentError("in place of BackupAndRestore say prepare(model, checkpoint=DIR): it keeps the job, too")
    first = next((one for one in own if isinstance(one, Callback)), None) or Callback()
    others = [one for one in own if one is not first]
    first.driver = driver
    driver.callbacks = others
    if any(getattr(one, "restore_best_weights", False) for one in others):
        tell_too_large(driver.model, _BLOB_MAX)
    steps = driver.steps_per_epoch or -(-driver.settings.samples // driver.settings.batch)
    made = keras.callbacks.CallbackList(
        [first, *others, _Last(first)],
        add_history=True,
        add_progbar=verbose != 0,
        model=driver.model,
        verbose=verbose,
        epochs=epochs,
        steps=steps,
    )
    driver.first = first
    for one in made.callbacks:
        if vars(one).get("_spotnik") is driver:
            continue  # a fit before this one had it
        vars(one)["_spotnik"] = driver
        _guard(driver, one)
        if not isinstance(one, (Callback, _Last)):
            _keep_to_the_job(driver, one)
    return made


def _keep_to_the_job(driver: Driver, callback: Any) -> None:
    """Have `callback` called for steps and epochs that the job took with this member.

    A member that the others went on without comes to their epoch by the loops of ``fit``, without training.
    """
    _call_when(callback, "on_epoch_begin", lambda: not driver.is_behind)
    _call_when(callback, "on_train_batch_end", lambda: driver.took_step)
    _call_when(callback, "on_epoch_end", lambda: driver.first is None or not driver.first.is_others)


def _call_when(callback: Any, name: str, is_due: Callable[[], bool]) -> None:
    hook = getattr(callback, name)

    def call(*arguments: Any, **named: Any) -> None:
        if is_due():
            hook(*arguments, **named)

    setattr(callback, name, call)


def _guard(driver: Driver, callback: Any) -> None:
    kinds = keras.callbacks
    if isinstance(callback, kinds.ProgbarLogger):
        _hooks(driver, callback, quiet=True)
    elif isinstance(callback, (kinds.TensorBoard, kinds.CSVLogger, kinds.RemoteMonitor)):
        _hooks(driver, callback, quiet=False)
    elif isinstance(callback, kinds.ModelCheckpoint):
        save = callback._save_model

        def saved(*arguments: Any, **named: Any) -> None:
            model = callback._model
            if driver.replica.rank != 0:
                callback._model = _Silent(model)
            try:
                save(*arguments, **named)
            finally:
                callback._model = model

        callback._save_model = saved
    if isinstance(callback, _TELLING):
        _hush(driver, callback)


def _hush(driver: Driver, callback: Any) -> None:
    """Have `callback` act on every member, and tell what it does on that of rank 0 alone."""

    def hushed(hook: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> None:
            loud = callback.verbose
            callback.verbose = loud if driver.replica.rank == 0 else 0
            try:
                hook(*arguments, **named)
            finally:
                callback.verbose = loud

        return call

    for name, hook in _hooks_of(callback):
        setattr(callback, name, hushed(hook))


def _hooks_of(callback: Any) -> list[tuple[str, Any]]:
    return [(name, getattr(callback, name)) for name in dir(callback) if name.startswith("on_")]


def _hooks(driver: Driver, callback: Any, quiet: bool) -> None:
    """Have the hooks of `callback` called on the member of rank 0 alone; it may become another one."""
    loud, begun = callback.__dict__.get("verbose"), [False]

    def guarded(hook: Any, name: str) -> Any:
        def call(*arguments: Any, **named: Any) -> None:
            if quiet:  # it counts along
                callback.verbose = (loud if loud is not None else 1) if driver.replica.rank == 0 else 0
                if getattr(callback, "progbar", None) is not None:
                    callback.progbar.verbose = callback.verbose
                hook(*arguments, **named)
            elif driver.replica.rank == 0:
                begins = name == "on_train_begin"
                if not begun[0] and hasattr(callback, "append") and (driver.replica.late or not begins):
                    callback.append = True  # another member wrote before
                if not begun[0] and not begins:
                    begin()
                begun[0] = True
                hook(*arguments, **named)

        return call

    begin = callback.on_train_begin
    for name, hook in _hooks_of(callback):
        setattr(callback, name, guarded(hook, name))


# ---- their state ----


def _numbers(callback: Any) -> dict[str, Any]:
    found = {}
    for name, value in vars(callback).items():
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, _PLAIN) and name not in _NOT_STATE:
            found[name] = value
    return found


def _arrays(callback: Any) -> dict[str, list[Any]]:
    lists = {name: value for name, value in vars(callback).items() if isinstance(value, list) and value}
    return {name: value for name, value in lists.items() if all(map(_is_plain_array, value))}


def _is_plain_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) and not value.dtype.hasobject and value.dtype.names is None


def pack(callbacks: Sequence[Any]) -> bytes:
    """The plain attributes of callbacks, and lists of arrays (weights kept), as bytes."""
    told = [_numbers(one) for one in callbacks]
    lists = [(at, name, value) for at, one in enumerate(callbacks) for name, value in _arrays(one).items()]
    if sum(one.nbytes for _, _, values in lists for one in values) > _BLOB_MAX:
        lists = []  # weights that a callback keeps are too large to travel
    kinds = [[at, name, [[one.dtype.name, one.shape] for one in values]] for at, name, values in lists]
    return bytes(_packing.pack([told, kinds], [one.tobytes() for _, _, values in lists for one in values]))


def unpack(callbacks: Sequence[Any], data: bytes) -> None:
    """Take over what :func:`pack` has packed, where the callbacks are of the same number."""
    if not data:
        return
    (told, kinds), buffers = _packing.unpack(data)
    if len(told) != len(callbacks):
        return
    for callback, attributes in zip(callbacks, told):
        vars(callback).update({name: value for name, value in attributes.items() if name not in _NOT_STATE})
    come = iter(buffers)
    for at, name, shapes in kinds:
        arrays = [np.frombuffer(next(come), np.dtype(kind)).reshape(shape).copy() for kind, shape in shapes]
        setattr(callbacks[at], name, arrays)
