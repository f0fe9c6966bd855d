# SPDX-License-Identifier: Apache-2.0
"""A prepared model: each call of its train function is a step of the job (docs/design/0015-python.md)."""

from __future__ import annotations

import inspect
import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Optional

import keras
import numpy as np

from ..errors import ArgumentError, StateError
from ..job import Job, Step
from ..training.data import Arrays, length, map_arrays
from ..training.memory import size_of
from ..training.replica import Replica, Settings
from ..training.replica_check import DATA, OTHER_DATA, ReplicaCheck, is_due
from ..watching import logger
from . import _callbacks
from ._data import Shard
from ._exchange import Exchange, frozen
from ._logs import Said, numbers_of, of_no_metric
from ._notes import tell_sums
from ._optimizer import distributed, keeping, own_variables
from ._strategy import Strategy, chosen
from ._values import KINDS, METRICS, OPTIMIZER, TRAINED, Values

_SLOTS = 3  # variables that an optimiser has for a weight, at most
_ROOM_MAX = 256 << 20
_UNCHECKED = 2  # steps; an average of the weights may begin as a copy of them, which the first one leaves as it is
# of the greatest weight: w + e - e is not w
_ROUNDING = {"bfloat16": 2.0**-7, "float16": 2.0**-9, "float32": 2.0**-21, "float64": 2.0**-50}
_CHANGED = (
    "the train step changed {} otherwise than by apply() of model.optimizer, so members would part. An average of "
    "weights belongs in layers with trainable = False. A model with several optimizers gives them to "
    "keras.optimizers.MultiOptimizer, or trains in a loop of its own with spotnik.tensorflow or spotnik.jax"
)
_ANOTHER = (
    "a model is prepared already. For another training call spotnik.keras.leave() first. Two models that train in "
    "turn, as those of a GAN, go into one keras.Model with a train_step and a keras.optimizers.MultiOptimizer, or into "
    "a loop with spotnik.tensorflow or spotnik.jax"
)
_AGAIN = (
    "this program begins another training. A member that comes now begins with the first one, and fails, unless the "
    'program passes over a training whose result is saved ("Several trainings" in docs/guide/keras.md)'
)
_current: Optional[Driver] = None


class Driver:
    """The life of a prepared model."""

    def __init__(self, model: Any, settings: Settings, sync: Optional[str] = None) -> None:
        if model.optimizer is None:
            raise ArgumentError("the model has no optimizer yet; call model.compile() before prepare()")
        self._adopt(model.optimizer)
        self.model = model
        self.settings = settings
        self.values = Values(model)
        self.replica = Replica(self.values.read_all, settings)
        self.replica.room = self._room
        self.strategy: Optional[Strategy] = None
        name = chosen(sync)
        if name is not None:
            self.values.kinds = tuple(kind for kind in KINDS if kind != TRAINED)
            self.replica.after_join.append(lambda job: self._choose(job, name))
        self.shard: Optional[Shard] = None
        self.epoch = 0  #: that `fit` is in
        self._fits, self._initial = 0, 0  # calls of fit, and the first epoch of this one as the program counts
        self.steps_per_epoch = 0
        self.callbacks: list[Any] = []  #: whose state travels
        self.first: Optional[_callbacks.Callback] = None  #: of those of this fit
        self._exchange: Optional[Exchange] = None
        self._names: list[str] = []  # of the numbers that the train step returns, once it has run here
        self._own: frozenset[str] = frozenset()  # those of them that are no metric's
        self._unchecked = _UNCHECKED  # steps whose weights are still to be looked at
        self._moved = False  # does the train step move weights, and move them back?
        self._committed = False  # was the last step one with this member?
        self.took_step = False  #: did the last call of the train function in `fit` take one?
        self._is_reset = False  # does train_on_batch() of this Keras begin with metrics at zero?
        self._inner: Optional[Callable[..., Any]] = None
        self._make, self._fit = model.make_train_function, model.fit
        self._train_on_batch, self._reset_metrics = model.train_on_batch, model.reset_metrics
        model.make_train_function, model.fit, model.train_on_batch = self._made, self.fit, self._trained_on_batch
        model.reset_metrics = self._reset
        model.train_function = None
        self.replica.before_copy.append(lambda job: job.blob_set("keras.callbacks", _callbacks.pack(self.callbacks)))

    # ---- in place of the model's methods ----

    def _made(self, force: bool = False) -> Any:
        model = self.model
        if model.train_function is None or force:
            if getattr(model, "steps_per_execution", 1) != 1:
                raise ArgumentError("steps_per_execution must be 1: members may come and go between any two steps")
            self._adopt(model.optimizer)
            tell_sums(model)
            model.train_function = None
            self._make(force)
            self._inner = model.train_function
            self.values.forget()
            self._exchange = None
            self._names = []
            self._unchecked, self._moved = _UNCHECKED, False
            model.train_function = self._call_jax if keras.backend.backend() == "jax" else self._call
        return model.train_function

    def fit(self, x: Any = None, *arguments: Any, **named: Any) -> Any:
        """``model.fit`` on sharded data: begins in the epoch the job is in."""
        if not isinstance(x, Shard):
            raise ArgumentError(
                "fit() of a prepared model takes spotnik.keras.shard(data): x, y and batch_size go there"
            )
        given = inspect.signature(self._fit).bind(x, *arguments, **named).arguments
        given.pop("x")
        split = given.pop("validation_split", None)
        if split and given.get("validation_data") is None:
            x, given["validation_data"] = x.split(split)
        if isinstance(given.get("validation_data"), Shard):
            raise ArgumentError("validation data are each member's own, and whole: give them to fit() without shard()")
        x.class_weight = given.pop("class_weight", None)
        for name in ("y", "batch_size", "sample_weight"):
            if given.pop(name, None) is not None:
                raise ArgumentError(f"fit({name}=...) cannot be split among members; give it to spotnik.keras.shard()")
        given.pop("shuffle", None)
        self._bind(x, given.pop("steps_per_epoch", None))
        epochs, self._initial = given.pop("epochs", 1), given.pop("initial_epoch", 0)
        self._enter()
        given["initial_epoch"] = min(epochs, self._initial + self._closed) if self._is_in_this_fit else epochs
        if given["initial_epoch"] >= epochs > self._initial:
            logger.warning("the job has trained the %d epochs of this fit() already: nothing is left to do", epochs)
        chain = _callbacks.chain(self, given.pop("callbacks", None), given.get("verbose", "auto"), epochs)
        if self.replica.fresh and self._is_at_the_beginning:
            # The state is that before the others' callbacks began, as a LearningRateScheduler does: so do these.
            self._take_over()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="`shuffle=True` was passed")
            history = self._fit((one for one in itertools.repeat(x.template)), epochs=epochs, callbacks=chain, **given)
        if self.replica.fresh and self._is_in_this_fit:  # the others had ended before this member took a step
            self._write_over()  # one is begun, so no more is taken
        self.replica.hold()
        return history

    def _trained_on_batch(self, *arguments: Any, **named: Any) -> Any:
        if self.shard is not None:
            raise StateError("this model's data are sharded by fit(); train_on_batch() goes with data of its own")
        if not self.model.optimizer.built:
            given = inspect.signature(self._train_on_batch).bind(*arguments, **named).arguments
            parts = [given.get(name) for name in ("x", "y", "sample_weight")]
            self.model._symbolic_build(data_batch=tuple(parts[: 3 if parts[2] is not None else 2]))
        self._is_reset = False
        return self._train_on_batch(*arguments, **named)

    def _reset(self) -> None:
        self._reset_metrics()
        self._is_reset = True

    def _bind(self, shard: Shard, steps_per_epoch: Optional[int]) -> None:
        source, settings = shard.source, self.settings
        is_same = self.shard is not None and (settings.samples, settings.batch) == (source.samples, source.batch)
        if self.replica.job is not None and not is_same:
            raise StateError(
                "a job consumes one data set, and another was given before; train on this one in a program of its own, "
                "or give fit() the same samples and batch_size again"
            )
        self.shard, self.steps_per_epoch = shard, steps_per_epoch or 0
        settings.samples, settings.batch = source.samples, source.batch
        settings.seed = shard.seed if settings.seed is None else settings.seed
        self._adopt(self.model.optimizer)
        self._build(shard.template)

    def _build(self, template: Any) -> None:
        """Have all variables made. A model without call() is a train step around others: there is nothing to trace."""
        model = self.model
        if type(model).call is not keras.Model.call:
            model._symbolic_build(data_batch=template)
            return
        unbuilt = [one.name for one in model._flatten_layers(include_self=False) if not one.built]
        if unbuilt:
            raise ArgumentError(f"{model.name} has no call(), and {unbuilt[0]} no variables yet; build it before fit()")
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)

    def _adopt(self, optimizer: Any) -> None:
        distributed(optimizer)._spotnik_prepared = True

    def _enter(self) -> None:
        """Begin the next fit of the program, or come to the one that the others are in."""
        control, replica = self.replica.control, self.replica
        self._fits += 1
        self.epoch = self._initial
        self._lay_out()
        if control.fit == self._fits - 1 and replica.step is None:
            control.fit, control.closed_before = self._fits, control.closed
            control.taken = control.over = 0
        replica.begin()
        if control.fit < self._fits:
            raise StateError("the others are in an earlier fit(), whose end did not reach them; start this member anew")

    def _lay_out(self) -> None:
        """The program may have compiled the model anew, with other layers frozen."""
        replica = self.replica
        if replica.job is None:
            return
        is_other = self.strategy is not None and not replica.memory.fits(self.values.read_all())
        if is_other or not replica.lay_out():
            raise StateError(
                "compile() has given the model more variables than the job has room for: it makes room for layers that "
                "were frozen in the first fit(), up to 256 MiB, and not under a strategy. Save the model, and train it "
                "on in a program of its own"
            )

    def _room(self) -> int:
        """Bytes for what an optimiser of later has for weights that are frozen now."""
        room = _SLOTS * size_of([np.asarray(one.numpy()) for one in frozen(self.model)])
        return room if TRAINED in self.values.kinds and room <= _ROOM_MAX else 0

    @property
    def _closed(self) -> int:
        """How many epochs of the fit that the job is in are closed."""
        return self.replica.control.closed - self.replica.control.closed_before

    @property
    def _is_in_this_fit(self) -> bool:
        return self.replica.control.fit == self._fits

    @property
    def _is_at_the_beginning(self) -> bool:
        """Is the job at the first step of this fit? It is begun before any callback is called."""
        control = self.replica.control
        return self._is_in_this_fit and not self._closed and not control.taken and not control.over

    # ---- steps ----

    def _call_jax(self, state: Any, iterator: Any) -> Any:
        self.values.state = [list(part) for part in state]
        try:
            return self._call(iterator), tuple(self.values.state)
        finally:
            self.values.state = None

    def _call(self, iterator: Any) -> dict[str, Any]:
        if self.shard is None:
            return self._own_batch(iterator)
        self.took_step = False
        step = self._next()
        while step is not None:
            share = self.shard.take(self.replica.seed, step.data_epoch, step.ranges) if step.ranges else None
            logs = self._step(step, share)
            if self._committed:
                self.took_step = True
                return logs
            step = self._next()  # the others went on without this member
        return self.values.results()

    def _next(self) -> Optional[Step]:
        """Begin the next step of the epoch that `fit` is in. None: the epoch is over, or the others are further."""
        control = self.replica.control
        if self.is_behind:
            return None
        step = None if control.over and not self.replica.fresh else self.replica.begin()
        if self.is_behind:
            return None  # others' state is taken over in their epoch: its begin resets metrics
        if self.replica.fresh:
            self._take_over()
        return None if control.over else step

    def _own_batch(self, iterator: Any) -> dict[str, Any]:
        """train_on_batch(): repeat the steps that others took before this member came, then take one of its own.

        One that the others went on without is none: the batch is computed anew with their state.
        """
        batch, at_first = next(iter(iterator)), self.values.read(METRICS)
        while True:
            step = self.replica.begin()
            if self.replica.fresh:
                self._take_over()
            if self._is_reset:  # what was taken over has the step before in it, which others have put aside by now
                self.values.write(METRICS, at_first)
            if step.replay or step.share >= step.shares:
                self._step(step, None)
                continue
            assert self.replica.job is not None
            self.replica.job.weight_set(length(batch))
            logs = self._step(step, batch)
            if self._committed:
                return logs

    def _write_over(self) -> None:
        self.values.write_all(self.replica.values)
        if self.strategy is not None:
            self.strategy.take_over()

    def _take_over(self) -> None:
        self._write_over()
        assert self.replica.job is not None
        _callbacks.unpack(self.callbacks, self.replica.job.blob_get("keras.callbacks"))
        self.replica.taken()

    def _step(self, step: Step, batch: Any) -> dict[str, Any]:
        exchange = self._exchange = self._exchange or self._make_exchange()
        exchange.before()
        logs = None if batch is None else self._compute(exchange, batch)
        exchange.fill(None if logs is None else [logs.get(name, 0.0) for name in self._names])
        exchange.start(self.replica)
        epoch, comparison = self.replica.epoch, self._compare()
        self._committed = self.replica.commit(self._finish if self.strategy is not None else None)
        if self._committed:
            self._check(comparison)
            said = exchange.receive()
            self._account(epoch)
            logs = dict(zip(self._names, said))
        return self._told(logs or {})

    def _make_exchange(self) -> Exchange:
        wire = self.model.optimizer._spotnik_wire
        if self.strategy is not None and wire != "auto":
            raise ArgumentError(
                f"wire={wire!r} is about gradients that travel; with the strategy of sync= none do: leave it out"
            )
        return Exchange(self.values, self.strategy is None, wire)

    def _compare(self) -> ReplicaCheck:
        """Now and then, start to compare with the others: the mark of the data, and what the update alone changes."""
        replica = self.replica
        values: list[Any] = []
        if is_due(replica.control.taken):
            if self.shard is not None:
                self.shard.source.advance(replica.seed, replica.epoch)
            values = [np.array(0 if self.shard is None else self.shard.source.mark)]
            if self.strategy is None:
                values += [*self.values.read(OPTIMIZER), *self.values.read(TRAINED)]
        comparison = ReplicaCheck(values)
        assert replica.job is not None
        comparison.start(replica.job)
        return comparison

    def _check(self, comparison: ReplicaCheck) -> None:
        kept = own_variables(self.model.optimizer)  # the rate first: weights follow from it
        parted = comparison.differing(lambda: [DATA, *(one.path for one in (*kept, *self.model.trainable_variables))])
        others = [one for one in parted if one != DATA]
        if others:
            raise StateError(
                f"{others[0]} differs among members: the program changed it by what is not the same on all of them. "
                "Callbacks run on each member: let them decide by the epoch and the logs, not by rank or chance"
            )
        if not parted:
            return
        assert self.shard is not None
        if isinstance(self.shard.source, Arrays):
            raise StateError(OTHER_DATA)
        more = "Labels that are drawn at random differ, too: that is no mistake"
        warnings.warn(f"{OTHER_DATA}. {more}", RuntimeWarning, stacklevel=2)

    def _told(self, logs: dict[str, float]) -> dict[str, Any]:
        """What the train step of one process would return: results of metrics over all members, and its own numbers."""
        results = self.values.results()
        if not self._names:
            return results
        flat = numbers_of(results)  # a metric of several results has them in a dict
        return {name: logs.get(name, 0.0) if name in self._own else flat[name] for name in self._names}

    def _choose(self, job: Job, name: str) -> None:
        self.strategy = Strategy(job, self.values, name)

    def _finish(self) -> bool:
        assert self.strategy is not None
        return self.strategy.step(self.values.kept())

    def _compute(self, exchange: Exchange, batch: Any) -> dict[str, float]:
        """The first half of a train step; returns its numbers."""
        assert self._inner is not None
        first = not self._names
        trained = self.values.read(TRAINED) if self._unchecked or self._moved else []
        exchange.stir(self.replica)
        with keeping(self.model.optimizer):
            if self.values.state is None:
                is_torch = keras.backend.backend() == "torch"
                if is_torch or self.model.run_eagerly:  # the train step is Python, and gets tensors
                    batch = map_arrays(_as_tensor, batch)
                logs = self._inner([batch] if is_torch else iter([batch]))
            else:
                logs, state = self._inner(tuple(self.values.state), iter([batch]))
                self.values.state = [list(part) for part in state]
        numbers = numbers_of(dict(logs))
        if trained:
            self._put_back(trained)
        if first:
            self._names = sorted(numbers)
            self._own = of_no_metric(numbers, numbers_of(self.values.results()))
        return numbers

    def _put_back(self, before: Sequence[Any]) -> None:
        """Weights that the train step has moved and moved back are what they were, but for rounding: undo that.

        Only the update of model.optimizer follows the average.
        """
        if self._unchecked:
            self._unchecked -= 1
            names = [one.path for one in self.values.variables(TRAINED)]
            after, applied = self.values.read(TRAINED), self.values.applied()
            changed = [n for n, old in enumerate(before) if not np.array_equal(old, after[n], equal_nan=True)]
            most = max(float(np.abs(one).max(initial=0.0)) for one in before)
            wrong = [names[n] for n in changed if not (applied[n] and _is_rounding(before[n], after[n], most))]
            if wrong:
                raise StateError(_CHANGED.format(wrong[0]))
            self._moved = self._moved or bool(changed)
        if self._moved:
            self.values.write(TRAINED, before)

    def _account(self, epoch_before: int) -> None:
        control = self.replica.control
        control.taken += 1
        full = control.taken >= self.steps_per_epoch if self.steps_per_epoch else self.replica.epoch > epoch_before
        control.over = int(self.shard is not None and full)

    # ---- ends of epochs ----

    @property
    def digest(self) -> int:
        """Equal on all members after each step: of the whole replica, or of what a strategy has members agree on."""
        return self.replica.digest if self.strategy is None else self.strategy.sync.digest

    @property
    def epoch_is_over(self) -> bool:
        """Has the epoch that `fit` is in had its last step?"""
        return bool(self.replica.control.over) or self.is_behind

    @property
    def is_behind(self) -> bool:
        """Have the others ended the epoch that `fit` is in?"""
        if self._is_in_this_fit:
            return self.epoch - self._initial < self._closed
        return self.replica.control.fit > self._fits

    def close_epoch(self, logs: dict[str, Any]) -> bool:
        """Agree on the `logs` of an epoch, in place, in a step without samples. False: the others did so alone."""
        control, replica = self.replica.control, self.replica
        while control.over and not self.is_behind:
            replica.begin(strategy=False)
            if self.is_behind or not control.over:
                break  # the others went on without this member, and are further
            knows = bool(self._names) and not replica.fresh
            if replica.fresh:
                self._take_over()
            assert replica.job is not None
            replica.decline()
            said = Said(logs if knows else {})
            said.start(replica.job)
            if replica.commit():
                said.agree(logs)
                control.closed += 1
                control.taken = control.over = 0
                return True
        return not self.is_behind


def _is_rounding(before: Any, after: Any, most: float) -> bool:
    """Is the difference that of a move and back? `most`: the greatest weight of all; a move may exceed this one's."""
    apart = np.abs(after.astype(np.float64) - before).max()
    return bool(apart <= _ROUNDING.get(before.dtype.name, 0) * most)


def _as_tensor(one: Any) -> Any:
    is_array = isinstance(one, np.ndarray) and one.dtype.kind in "fiub"
    return keras.ops.convert_to_tensor(one) if is_array else one


def prepare(model: Any, settings: Settings, sync: Optional[str] = None) -> Driver:
    """Make `model` take its steps with the others."""
    global _current
    if _current is not None and _current.replica.job is not None:
        raise StateError(_ANOTHER)
    if _current is not None and _current.replica.last_step is not None:
        logger.warning(_AGAIN)
    _current = Driver(model, settings, sync)
    return _current


def current() -> Driver:
    """The prepared model's."""
    if _current is None:
        raise StateError("no model is prepared; call spotnik.keras.prepare(model) after compile() first")
    return _current


def find() -> Optional[Driver]:
    """The prepared model's, if there is one."""
    return _current
