# SPDX-License-Identifier: Apache-2.0
"""Collectives on NumPy arrays, and arrays as the replica of a job. NumPy is imported by the first call.

A collective outside of a step is a step of its own that consumes no samples. All members make the same calls in the
same order; a member that joins repeats those since the state it copied, with the results of then. They survive losses
as every step does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from . import job as _jobs
from ._native import Dtype, Op
from .config import Config
from .errors import ArgumentError, ExcludedError, LibraryError, RootError, StateError
from .job import Change, Job, Step
from .training.buckets import Bucket

if TYPE_CHECKING:
    import numpy
    import numpy.typing

    Array = numpy.ndarray[Any, numpy.dtype[Any]]
    ArrayLike = numpy.typing.ArrayLike

__all__ = [
    "allgather",
    "allreduce",
    "barrier",
    "broadcast",
    "current",
    "init",
    "leave",
    "on_change",
    "register",
    "start",
]

TYPES = {  #: by the names that NumPy has for them
    "float32": Dtype.F32,
    "float64": Dtype.F64,
    "int32": Dtype.I32,
    "int64": Dtype.I64,
    "uint8": Dtype.U8,
    "float16": Dtype.F16,
    "bfloat16": Dtype.BF16,
    "int8": Dtype.I8,
    "int16": Dtype.I16,
    "uint16": Dtype.U16,
    "uint32": Dtype.U32,
    "uint64": Dtype.U64,
}
_WIRES = {"auto": None, "f32": Dtype.F32, "f16": Dtype.F16, "bf16": Dtype.BF16, "q8": Dtype.Q8}
_default: Optional[Job] = None


# ---- the job of this process ----


def init(config: Optional[Config] = None, **settings: Any) -> Job:
    """Join the job, or found it, and make it the one that the functions of this module use.

    `settings` are those of :class:`spotnik.Config`, instead of one. Called again while a member, it returns the same
    job. Raises ArgumentError for settings that do not exist or do not fit, and what :meth:`spotnik.Job.join` raises.
    """
    global _default
    if _default is not None and _default.joined:
        return _default
    if config is not None and settings:
        raise ArgumentError("give settings either as a Config or by name, not both")
    try:
        job = Job(config or Config(**settings))
    except TypeError as error:
        raise ArgumentError(f"{error}; see spotnik.Config for the settings") from None
    job.join()
    _default = job
    return job


def current() -> Job:
    """Return the job that was made by :func:`init`, or the only one of this process. StateError: there is none."""
    if _default is not None and _default.joined:
        return _default
    joined = [job for job in _jobs.all_jobs() if job.joined]
    if len(joined) == 1:
        return joined[0]
    if _default is not None:
        _default.check_usable()
    raise StateError(
        "this process is in more than one job; pass job=..." if joined else "no job yet; call spotnik.init() first"
    )


def leave(job: Optional[Job] = None) -> None:
    """Leave the job with goodbye. Does nothing when it was left before."""
    if job is None and _default is not None and not _default.joined:
        return
    (job or current()).leave()


def on_change(callback: Callable[[Change], object], job: Optional[Job] = None) -> None:
    """Call `callback` with a :class:`spotnik.Change` at the first step in every new view, on the thread of the step."""
    (job or current()).on_change(callback)


# ---- arrays of the replica and of a step ----


def register(name: str, array: Array, job: Optional[Job] = None) -> None:
    """Make `array` part of the replica: a joiner receives it, a checkpoint holds it.

    Before the first step; the same names, shapes and types on every member. Change it in place, and only between a
    commit and the next begin. Raises ArgumentError when it is not contiguous or cannot be written.
    """
    _check_memory(f"register({name!r})", array)
    (job or current()).state_add(name, array.ctypes.data, array.size, _dtype(array), array)


def start(
    array: Array,
    op: Union[str, Op] = "mean",
    bucket: Optional[int] = None,
    job: Optional[Job] = None,
    wire: str = "auto",
) -> None:
    """Start to all-reduce `array` in place in the running step; ``job.step_commit()`` waits for the result.

    `op` is "mean" (weighted by samples), "sum", "min", "max" or "product". Without `bucket`, arrays are numbered as
    they come: start them in the same order on every member.

    With `wire` an array of float32 travels as "f16" or "bf16" (half the bytes) or as "q8" (a quarter: 8 bits, and a
    scale for every 252 numbers), the same on every member, and is rounded on its way, to the same bits everywhere.
    "auto" and "f32": as it is.
    Beyond 65504 a number is infinite as "f16"; one rounding to "q8" moves a number by 1/249 of the greatest near it.
    Raises ArgumentError for another type of array, or another word.
    """
    job = job or current()
    if job.running is None:
        raise StateError("no step is running; call job.step_begin() first, or use allreduce(), which is its own step")
    _check_memory("start()", array)
    number = job.buckets_started if bucket is None else bucket
    job.allreduce_start(number, array.ctypes.data, array.size, _dtype(array), _op(op), array, _wire(array, wire))


# ---- collectives: each a step of its own ----


def allreduce(
    array: ArrayLike, op: Union[str, Op] = "mean", out: Optional[Array] = None, job: Optional[Job] = None
) -> Array:
    """Return the mean ("sum", "min", "max", "product") of `array` over the members, the same bits on each.

    `array` has the same shape and type on every member; numbers will do. The result is written to `out` where given,
    which may be `array` itself. Booleans take "min" (all) and "max" (any). Raises MismatchError when the members' calls
    differ, ExcludedError when the others went on without this member, and what :meth:`spotnik.Job.step_begin` raises.
    """
    np = _numpy()
    source = np.asarray(array)
    kind = _op(op)
    work: Array = np.array(source, order="C", copy=True)
    if source.dtype == np.bool_:
        if kind not in (Op.MIN, Op.MAX):
            raise ArgumentError('booleans take op="min" (all) or "max" (any); convert them to numbers to count them')
        work = work.view(np.uint8)
    if out is not None:
        _check_out(out, source)
    job = job or current()
    arguments = (Bucket.COLLECTIVE, work.ctypes.data, work.size, _dtype(work), kind)
    collect(job, lambda _step: job.allreduce_start(*arguments, work))
    result: Array = work.view(source.dtype)
    if out is None:
        return result
    out[...] = result
    return out


def broadcast(array: ArrayLike, root: int = 0, out: Optional[Array] = None, job: Optional[Job] = None) -> Array:
    """Return `array` as the member of rank `root` has it; the others' must have the same shape and type.

    `out` as in :func:`allreduce`. When the root is lost meanwhile, the member that then has its rank takes its place.
    Raises ArgumentError when there is no such rank.
    """
    np = _numpy()
    source = np.asarray(array)
    _dtype_or_bool(source)
    if out is not None:
        _check_out(out, source)
    job = job or current()
    work: Array = np.frombuffer(bytearray(source.tobytes()), dtype=source.dtype).reshape(source.shape)
    while not _broadcast_once(job, work, root):
        pass  # the root was lost: another member has its rank now
    if out is None:
        return work
    out[...] = work
    return out


def allgather(array: ArrayLike, job: Optional[Job] = None) -> Array:
    """Return the arrays of all members, stacked in order of rank: shape (members, *array.shape).

    The same shape and type on every member. Members lost meanwhile are missing from the result, which is the same on
    every member. It moves ``members_max`` times the size of `array`: give a small one for large arrays.
    """
    np = _numpy()
    source = np.asarray(array)
    _dtype_or_bool(source)
    job = job or current()
    mine, slots = np.frombuffer(source.tobytes(), dtype=np.uint8), job.members_max
    work: Array = np.zeros((slots, source.nbytes), dtype=np.uint8)

    def begin(_step: Step) -> None:
        arguments = (Bucket.BYTES, mine.ctypes.data, mine.size, Dtype.U8, work.ctypes.data, slots)
        job.collective_start("spotnik_allgather", (mine, work), *arguments)

    collect(job, begin)
    present = work[: job.contributor_count]
    result: Array = np.frombuffer(present.tobytes(), dtype=source.dtype).reshape((len(present), *source.shape))
    return result.copy()


def barrier(job: Optional[Job] = None) -> None:
    """Wait until every member has come here."""
    collect(job or current(), lambda _step: None)  # any step is one


# ---- inside ----


def collect(job: Job, start_all: Callable[[Step], None]) -> Step:
    """Take a step without samples; what is started in it may depend on the step. For other modules of this package."""
    if job.running is not None:
        raise StateError(
            f"step {job.running.number} is running, and a collective is a step of its own; use spotnik.start() inside "
            "a step, or make the call after step_commit()"
        )
    step = job.step_begin()
    job.samples_decline()
    start_all(step)
    if not job.step_commit():
        raise ExcludedError(
            "the others went on without this member (it was stopped or cut off), and with results it does not have; "
            "end the process and start it again as a new member"
        )
    return step


def _broadcast_once(job: Job, work: Array, root: int) -> bool:
    """Overwrite `work` by that of `root`. False: the root was lost, and nothing is overwritten."""

    def exists(step: Step) -> bool:
        return root >= 0 and (root < step.shares or not step.shares)  # a replay does not know

    def begin(step: Step) -> None:
        if exists(step):
            arguments = (Bucket.BYTES, work.ctypes.data, work.nbytes, Dtype.U8, root)
            job.collective_start("spotnik_broadcast", work, *arguments)

    try:
        step = collect(job, begin)
    except RootError:
        return False
    if not exists(step):
        raise ArgumentError(f"root {root}: the job has members of rank 0 to {step.shares - 1}")
    return True


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        raise LibraryError("collectives on arrays need NumPy: pip install numpy") from None
    return numpy


def _op(op: Union[str, Op]) -> Op:
    if isinstance(op, Op):
        return op
    try:
        return Op[op.upper()]
    except (KeyError, AttributeError):
        raise ArgumentError(f'op must be "sum", "mean", "min", "max" or "product", not {op!r}') from None


def _wire(array: Array, wire: str) -> Optional[Dtype]:
    check_wire(wire)
    dtype = _WIRES[wire]
    return None if dtype == _dtype(array) else dtype


def check_wire(wire: str) -> None:
    """Raise ArgumentError unless `wire` is a word for it."""
    if wire not in _WIRES:
        raise ArgumentError(f'wire must be "auto", "f32", "f16", "bf16" or "q8", not {wire!r}')


def _dtype(array: Array) -> Dtype:
    known = TYPES.get(array.dtype.name)
    if known is None or not array.dtype.isnative:
        raise ArgumentError(f"arrays of {array.dtype} cannot travel; convert to one of {', '.join(TYPES)}")
    return known


def _dtype_or_bool(array: Array) -> None:
    """Bytes travel as they are: any type without pointers will do."""
    if array.dtype.hasobject:
        raise ArgumentError(f"arrays of {array.dtype} cannot travel; convert to numbers or fixed-length bytes")


def _check_memory(what: str, array: Array) -> None:
    np = _numpy()
    if not isinstance(array, np.ndarray):
        raise ArgumentError(f"{what} needs a NumPy array, not {type(array).__name__}: its memory is shared, not copied")
    if not (array.flags.c_contiguous and array.flags.writeable):
        raise ArgumentError(f"{what} needs a contiguous array that can be written; use numpy.ascontiguousarray()")


def _check_out(out: Array, source: Array) -> None:
    if not isinstance(out, _numpy().ndarray) or out.shape != source.shape or out.dtype != source.dtype:
        raise ArgumentError(f"out must be an array of shape {source.shape} and type {source.dtype}, as the input is")
    if not out.flags.writeable:
        raise ArgumentError("out cannot be written")
