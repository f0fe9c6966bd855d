# SPDX-License-Identifier: Apache-2.0
"""How replicas are kept together: a model under a strategy, or under a rule of the program's own.

    sync = spotnik.Sync(job, w, apply, strategy="sma")   # w: float32, apply(model, gradient) changes model
    for step in job:
        if sync.step(gradient(w, step)):
            ...                                          # committed, and w updated

The strategies are the library's (``include/spotnik/sync.h``); here pointers become vectors, NumPy arrays by default.
What is the same bits on every member at every commit is :attr:`Sync.agreed`: validate, save and compare that. In
"ssgd" and "lookahead" it is the model itself, in the others an average of the models of all members.
"""

from __future__ import annotations

import ctypes
import dataclasses
from typing import Any, Callable, Generic, Optional, Protocol, TypeVar

from . import _native
from .config import name_bytes
from .errors import ArgumentError, LibraryError
from .job import Job

__all__ = ["Numbers", "Rule", "Sync", "SyncReport", "Vectors"]

Vector = TypeVar("Vector")

_SYNCHRONOUS, _SAME_BITS, _EARLY = 1, 2, 4


@dataclasses.dataclass
class Vectors(Generic[Vector]):
    """The memory of a rule, to be changed in place; each vector has as many float32 as the model."""

    #: What gradients are computed at.
    model: Vector
    #: This member's own; becomes the mean where it is averaged. None before it is computed.
    gradient: Optional[Vector]
    #: Free for use: what travels.
    scratch: Vector
    #: The agreed model: to be computed from averages alone, alike on every member.
    centre: Vector
    #: A second model to keep, registered like the centre.
    slow: Vector
    #: The running step, and this member's place in its view.
    step: int
    rank: int
    size: int
    #: In finish: what was pulled or exchanged has come.
    arrived: bool


@dataclasses.dataclass(frozen=True)
class Numbers:
    """What a policy decides by: the same on every member. Times in seconds; 0 where not known yet."""

    #: The step committed last, and how many contributed to it.
    step: int
    members: int
    #: Members run apart now.
    asynchronous: bool
    #: Of a member in a synchronous step, relative to one alone.
    throughput: float
    #: Compute of a step: mean and most over the members, medians of a window of 8 steps.
    mean_compute_s: float
    max_compute_s: float
    #: Work of the job; steps in a job without a fixed batch. `samples_total` 0: unknown.
    samples_done: int
    samples_total: int
    #: 8 numbers for the policy to keep, 0 at first; joiners receive them. Keep nothing anywhere else.
    memory: Any


@dataclasses.dataclass(frozen=True)
class SyncReport:
    """What a policy has decided, for the log."""

    #: Members run apart.
    asynchronous: bool
    #: Changes since the job began, and the step of the last one (0: none).
    switches: int
    switched_step: int
    #: Why it was made, in words, and what was compared then.
    reason: str
    value: float
    limit: float
    #: As measured last (0: not yet): throughput of a member in a synchronous step, relative to one alone; the part of a
    #: step spent waiting for the slowest.
    throughput: float
    waiting: float


class Rule(Protocol):
    """A strategy of the program's own; an example is ``examples/sync_rule.py``.

    `begin` starts averages with :meth:`Sync.average` and leaves the model as it is; `finish` is called when they are
    complete, and updates it, with :meth:`Sync.apply`. Each once a step, whatever is lost meanwhile.
    """

    #: For the log; the same on all members.
    name: str
    #: All members average the same vectors in the same steps.
    synchronous: bool
    #: Models are equal after every finish; the library then keeps the centre equal to them.
    same_bits: bool
    #: `begin` does not look at the gradient: it runs before that is computed, and averages travel meanwhile.
    early: bool

    def begin(self, sync: Sync[Any], now: Vectors[Any]) -> None:
        """Start what travels."""

    def finish(self, sync: Sync[Any], now: Vectors[Any]) -> None:
        """Update the model."""


def _numpy_vector(pointer: int, count: int) -> Any:
    try:
        import numpy
    except ImportError:
        raise LibraryError("spotnik.Sync works on NumPy arrays; install numpy") from None
    memory: Any = (ctypes.c_float * count).from_address(pointer)
    return numpy.frombuffer(memory, dtype=numpy.float32)


def _numpy_address(vector: Any) -> int:
    if getattr(vector, "dtype", None) != "float32" or not vector.flags.c_contiguous:
        raise ArgumentError("models and gradients are contiguous arrays of float32")
    return int(vector.ctypes.data)


class Sync(Generic[Vector]):
    """A model under a strategy. Make it after :meth:`Job.join` and before the first step, one for a job.

    Steps are begun as ever (:meth:`Job.step_begin`, or iterating over the job) and finished with :meth:`step` in place
    of :meth:`Job.step_commit`. The model is not to be registered: joiners receive what is agreed.

    Args:
        job: joined.
        model: float32, contiguous; changed in place by steps.
        apply: one step of the optimiser: changes its first argument by the second. The first is not always `model`.
        strategy: "ssgd", "sma", "easgd", "localsgd", "lookahead", "lookahead+NAME", ..., or a policy that chooses
            between two, "auto[:throughput|:fastest|:waiting|:schedule=PART][:A/B]"; default: SPOTNIK_SYNC, or "ssgd".
        rule: a strategy of the program's own instead.
        policy: in place of that of "auto": called once a window of 8 steps; True: run apart. A function of its
            argument alone: members that ever differ stop with MismatchError one step later.
        alpha: how strongly the model is pulled to the average (sma 0.1, easgd 0.9).
        period: steps between two averages (easgd 4, localsgd 8).
        average_period: asynchronous strategies: steps between two averages of all models (64).

    Raises ArgumentError for unknown strategies, StateError after the first step.
    """

    def __init__(
        self,
        job: Job,
        model: Vector,
        apply: Callable[[Vector, Vector], object],
        *,
        strategy: Optional[str] = None,
        rule: Optional[Rule] = None,
        policy: Optional[Callable[[Numbers], bool]] = None,
        alpha: float = 0,
        period: int = 0,
        average_period: int = 0,
        vector: Callable[[int, int], Vector] = _numpy_vector,
        address: Callable[[Vector], int] = _numpy_address,
        count: Optional[int] = None,
    ) -> None:
        self.job = job
        self._address = address
        self._make = vector
        self._made: dict[int, Vector] = {}
        self._states: list[Vector] = []
        self._count = len(model) if count is None else count  # type: ignore[arg-type]
        self._error: Optional[BaseException] = None
        self._user = apply
        self._owner = (model, _native.SyncApply(self._applied))
        self._gradient: Optional[Vector] = None
        self._library = _native.load()
        config = _native.NativeSyncConfig()
        self._library.spotnik_sync_config_init_sized(config, ctypes.sizeof(config))
        name = "ssgd" if rule is not None else "auto" if policy is not None and strategy is None else strategy
        if name is not None:
            config.strategy = name_bytes("strategy", name)
        config.alpha, config.period = alpha, period
        config.average_period = average_period or config.average_period
        self._handle = job.sync_open(config, address(model), self._count, self._owner[1], self)
        if rule is not None:
            self._rule(rule)
        if policy is not None:
            self._policy = _native.SyncPolicy(lambda _context, numbers: self._asked(policy, numbers[0]))
            self.job.check(self._library.spotnik_sync_policy_set(self._handle, self._policy, None))

    def _rule(self, rule: Rule) -> None:
        promises = _SYNCHRONOUS * rule.synchronous + _SAME_BITS * rule.same_bits + _EARLY * rule.early

        def call(what: Callable[[Sync[Vector], Vectors[Vector]], None]) -> Any:
            return _native.SyncRule(lambda _context, _sync, view: self._guarded(lambda: what(self, self._now(view[0]))))

        self._rules = (call(rule.begin), call(rule.finish), name_bytes("the name of a rule", rule.name))
        begin, finish, name = self._rules
        self.job.check(self._library.spotnik_sync_rule_set(self._handle, name, promises, begin, finish, None))

    def state_add(self, name: str, vector: Vector, count: Optional[int] = None) -> None:
        """Register float32 memory of the optimiser, before the first step, under a name of its own.

        Joiners receive it, and it is averaged with the models when the job goes over from a strategy in which members
        run apart to one in which their models are equal. At most 16; raises StateError, LimitError when too late or
        too many.
        """
        count = len(vector) if count is None else count  # type: ignore[arg-type]
        pointer = self._address(vector)
        self._states.append(vector)  # alive as long as the library knows it
        self.job.check(
            self._library.spotnik_sync_state_add(
                self._handle, name_bytes("name", name), pointer, count, int(_native.Dtype.F32)
            )
        )

    # ---- steps ----

    def step(self, gradient: Vector) -> bool:
        """Finish the running step with this member's gradient: exchange, commit, update the model.

        `gradient` is the mean over the share's samples, and is overwritten; with an empty share it is not looked at.
        Returns False when the others went on without this member: begin the next step, which joins again. Raises
        MismatchError, ParkedError, StateError, RootError, and what `apply` raised.
        """
        pointer = self._address(gradient)
        self._gradient = gradient  # alive until the commit
        try:
            return self.job.step_finish(lambda: self._library.spotnik_sync_step(self._handle, pointer))
        finally:
            self._raise()

    def tell(self, index: int, value: float) -> None:
        """Add `value` to number `index` (0 to 3) of the step, over its contributors; asynchronous: of the next."""
        self.job.check(self._library.spotnik_sync_tell(self._handle, index, value))

    def told(self, index: int) -> float:
        """The sum, after the step."""
        return float(self._library.spotnik_sync_told(self._handle, index))

    # ---- in rules ----

    def average(self, vector: Vector) -> None:
        """In begin: `vector` becomes its mean over all members, weighted by samples, until finish; 4 in a step."""
        self._library.spotnik_sync_average(self._handle, self._address(vector))

    def apply(self, model: Vector, gradient: Vector) -> None:
        """In begin or finish: one step of the optimiser."""
        self._library.spotnik_sync_apply(self._handle, self._address(model), self._address(gradient))

    # ---- looking ----

    @property
    def name(self) -> str:
        """The strategy that runs now."""
        return str(self._library.spotnik_sync_name(self._handle).decode())

    @property
    def same_bits(self) -> bool:
        """Are models kept equal by the strategy that runs now?"""
        return bool(self._library.spotnik_sync_is_same_bits(self._handle))

    def is_local(self, step: int) -> bool:
        """Does step `step` send no vector, and only apply the gradient to the model? It may be a joiner's repeat."""
        return bool(self._library.spotnik_sync_is_local(self._handle, step))

    @property
    def agreed(self) -> Vector:
        """The agreed model after the last committed step; to be read only, and copied to be kept."""
        return self._vector(int(self._library.spotnik_sync_agreed(self._handle)))

    @property
    def digest(self) -> int:
        """XXH3-64 of the agreed model: equal on all members after a step."""
        return int(self._library.spotnik_sync_digest(self._handle))

    @property
    def report(self) -> SyncReport:
        """What the policy has decided so far."""
        report = _native.NativeSyncReport()
        report.size = ctypes.sizeof(report)
        self.job.check(self._library.spotnik_sync_report_get(self._handle, report))
        return SyncReport(
            bool(report.asynchronous),
            report.switches,
            report.switched_step,
            report.reason.decode(),
            report.value,
            report.limit,
            report.throughput,
            report.waiting,
        )

    # ---- inside ----

    def _asked(self, policy: Callable[[Numbers], bool], numbers: _native.NativeSyncNumbers) -> int:
        said = [bool(numbers.asynchronous)]

        def ask() -> None:
            said[0] = bool(
                policy(
                    Numbers(
                        numbers.step,
                        numbers.members,
                        said[0],
                        numbers.throughput,
                        numbers.mean_compute_s,
                        numbers.max_compute_s,
                        numbers.samples_done,
                        numbers.samples_total,
                        numbers.memory,
                    )
                )
            )

        self._guarded(ask)
        return int(said[0])

    def _vector(self, pointer: int) -> Vector:
        if pointer not in self._made:
            self._made[pointer] = self._make(pointer, self._count)
        return self._made[pointer]

    def _applied(self, _context: object, model: int, gradient: int, _count: int) -> None:
        own = self._gradient if self._gradient is not None and self._address(self._gradient) == gradient else None
        vector = own if own is not None else self._make(gradient, self._count)
        self._guarded(lambda: self._user(self._vector(model), vector))

    def _guarded(self, call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as error:  # C cannot pass it on
            self._error = self._error or error

    def _raise(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _now(self, view: _native.NativeSyncView) -> Vectors[Vector]:
        def at(field: str) -> Optional[Vector]:
            pointer = ctypes.cast(getattr(view, field), ctypes.c_void_p).value
            if pointer is None:
                return None
            return self._make(pointer, self._count) if field == "gradient" else self._vector(pointer)

        model, scratch, centre, slow = (at(name) for name in ("model", "scratch", "centre", "slow"))
        assert model is not None and scratch is not None and centre is not None and slow is not None
        return Vectors(
            model, at("gradient"), scratch, centre, slow, view.step, view.rank, view.size, bool(view.arrived)
        )
