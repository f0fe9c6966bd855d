# SPDX-License-Identifier: Apache-2.0
"""Point to point between members, outside of steps: for strategies in which members run apart.

Nothing here is agreed upon, repeated after a loss or replayed by a joiner; what arrives differs from member to member.
Arrays are NumPy's, or anything with a buffer that NumPy can look at. NumPy is imported by the first call. ::

    spotnik.publish("model", w, version=step)
    request = spotnik.pull("model", rank=3, out=other)
    ...  # compute
    if request.wait():
        w += other
        w *= 0.5
"""

from __future__ import annotations

import ctypes
import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional

from . import _native, errors
from .arrays import _dtype, _numpy, current
from .config import name_bytes, whole
from .errors import ArgumentError, ClosedError
from .job import Job

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, numpy.dtype[Any]]

__all__ = ["Arrival", "Request", "fetch", "publish", "pull", "push", "store_open"]

_LOOK_NS = 100_000_000  # between two looks at signals
_AGAIN = errors.AgainError.number


@dataclass(frozen=True)
class Arrival:
    """What a request has brought. False when nothing came: no member had it, or time was up."""

    version: int  #: of the snapshot, 1 and up; 0: nothing came
    rank: int  #: of the member that answered, in the view it was chosen from
    source: int  #: the upper half of its id: the first 16 digits of ``Member.member``
    tried: int  #: how many members were asked

    def __bool__(self) -> bool:
        return self.version > 0


class Request:
    """A request under way, made by :func:`pull`, :func:`exchange`, :func:`push` and :func:`fetch`.

    Leave its array alone until :meth:`wait` has returned an arrival, or :meth:`close` has returned. As a context
    manager it is closed at the end. It ends with its job.
    """

    def __init__(self, job: Job, handle: int, array: Array) -> None:
        self._job = job
        self._handle: Optional[int] = handle
        self._array: Optional[Array] = array  # kept alive: the library writes to it
        self._arrival: Optional[Arrival] = None
        self._library = _native.load()
        self._lock = threading.Lock()
        job.at_end(self)

    def wait(self, timeout: Optional[float] = None) -> Optional[Arrival]:
        """Wait until the request has ended, at most `timeout` seconds (0: only look; None: for ever).

        Returns what it has brought, or None when it has not ended yet. Any thread. Raises MismatchError when the other
        member's array has another size or type, ClosedError after :meth:`close` or the end of the job.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _LOOK_NS if end is None else max(0, min(_LOOK_NS, int((end - time.monotonic()) * 1e9)))
            arrival = self._look(left)
            if arrival is not None or (end is not None and time.monotonic() >= end):
                return arrival

    def close(self) -> None:
        """Free the request, giving it up if it has not ended; the array is the caller's again. Any thread, any time."""
        with self._lock:
            handle, self._handle, self._array = self._handle, None, None
            if handle is not None and self._job.joined:
                self._library.spotnik_request_free(handle)

    def __enter__(self) -> Request:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()

    def _look(self, timeout_ns: int) -> Optional[Arrival]:
        native = _native.NativeArrival(size=ctypes.sizeof(_native.NativeArrival))
        with self._lock:
            if self._arrival is not None:
                return self._arrival
            self._job.check_usable()
            if self._handle is None:
                raise ClosedError("this request was closed; make a new one")
            code = self._library.spotnik_request_wait(self._handle, timeout_ns, ctypes.byref(native))
            if code == _AGAIN:
                return None
            self._job.check(code)
            self._arrival = Arrival(native.version, native.rank, native.source, native.tried)
            return self._arrival


def publish(name: str, array: Any, version: int, job: Optional[Job] = None) -> None:
    """Let others pull a copy of `array` from now on, as the snapshot `name`, number `version` (1 and up, growing).

    Costs one copy and waits for no member. The same name always has the same number and type of elements. Raises
    ArgumentError, LimitError (more than 256 names), NoMemoryError.
    """
    job = job or current()
    source = _numpy().ascontiguousarray(_look_at(array))
    dtype = _dtype(source)
    version = whole("version", version, 64)
    job.call("spotnik_publish", name_bytes("name", name), source.ctypes.data, source.size, int(dtype), version)


def pull(
    name: str,
    rank: int,
    out: Any,
    version_min: int = 0,
    timeout: Optional[float] = None,
    job: Optional[Job] = None,
) -> Request:
    """Start to copy the newest snapshot `name` of the member of rank `rank` into `out`; the next one's, if that is us.

    `version_min` 0 takes what there is now; otherwise the request waits until that version is published. It turns to
    the next member at once when the one it asks dies, leaves or falls silent, and ends without an arrival after
    `timeout` seconds, or when no member has it; `out` is undefined then. Raises ArgumentError, LimitError (more than 64
    requests).
    """
    job = job or current()
    target = _writable(out)
    handle = ctypes.c_void_p()
    job.call(
        "spotnik_pull", name_bytes("name", name), whole("rank", rank, 32), whole("version_min", version_min, 64),
        target.ctypes.data, target.size, int(_dtype(target)), _ns(timeout), ctypes.byref(handle),
    )  # fmt: skip
    assert handle.value is not None
    return Request(job, handle.value, target)


# ---- a store that all members hold together ----


def store_open(name: str, initial: Any, copies: int = 2, job: Optional[Job] = None) -> None:
    """Open the store `name`, which begins as `initial`, float32: the same on every member that opens it.

    Its parts lie on `copies` members each (1 to 8) and move by themselves when members come or go. Open it at any time:
    members that have not do hold their part, and one that opens it later takes over what the others have. Raises
    ArgumentError (also: it is open already, or open elsewhere with another size or number of copies), NoMemoryError.
    """
    job = job or current()
    source = _numpy().ascontiguousarray(_look_at(initial))
    _check_single(source)
    job.call("spotnik_store_open", name_bytes("name", name), _floats(source), source.size, whole("copies", copies, 32))


def push(name: str, update: Any, timeout: Optional[float] = None, job: Optional[Job] = None) -> Request:
    """Start to add `update`, float32, to the store `name`: exactly once, whatever member dies.

    When there is an arrival, all copies have it. Without one, after `timeout` seconds or :meth:`Request.close`, it may
    count in part. One push at a time. Raises ArgumentError, StateError (not open, or the last one has not ended).
    """
    job = job or current()
    source = _numpy().ascontiguousarray(_look_at(update))
    _check_single(source)
    return _store_request("spotnik_push", name, source, timeout, job)


def fetch(name: str, out: Any, timeout: Optional[float] = None, job: Optional[Job] = None) -> Request:
    """Start to copy the store `name` into `out`, float32: with all of our pushes that have arrived.

    Parts of it may be of different instants. Raises ArgumentError, StateError (not open).
    """
    return _store_request("spotnik_fetch", name, _single(out), timeout, job or current())


def _store_request(function: str, name: str, array: Array, timeout: Optional[float], job: Job) -> Request:
    handle = ctypes.c_void_p()
    job.call(function, name_bytes("name", name), _floats(array), array.size, _ns(timeout), ctypes.byref(handle))
    assert handle.value is not None
    return Request(job, handle.value, array)


# ---- inside ----


def _ns(timeout: Optional[float]) -> int:
    """0 is "for ever" in C."""
    if timeout is None:
        return 0
    if not timeout >= 0:
        raise ArgumentError(f"a timeout is a number of seconds, 0 or more, or None for ever; not {timeout!r}")
    return max(1, min(int(timeout * 1e9), 2**63))


def _look_at(array: Any) -> Array:
    np = _numpy()
    looked: Array = array if isinstance(array, np.ndarray) else np.asarray(memoryview(array))
    return looked


def _writable(array: Any) -> Array:
    looked = _look_at(array)
    if not (looked.flags.c_contiguous and looked.flags.writeable):
        raise ArgumentError("a contiguous array that can be written is needed; see numpy.ascontiguousarray()")
    return looked


def _check_single(array: Array) -> None:
    if array.dtype.name != "float32" or not array.dtype.isnative:
        raise ArgumentError(f"averages and stores are of float32, not {array.dtype}; convert with astype()")


def _single(array: Any) -> Array:
    looked = _writable(array)
    _check_single(looked)
    return looked


def _floats(array: Array) -> Any:
    return ctypes.cast(array.ctypes.data, ctypes.POINTER(ctypes.c_float))
