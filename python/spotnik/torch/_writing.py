# SPDX-License-Identifier: Apache-2.0
"""Logs of the program that stay one when the member that writes them is lost: SummaryWriter, CSVWriter.

Every member makes the calls, the senior one (rank 0) writes. The others keep their last records. The next senior member
writes those that its predecessor did not, and goes on. The steps are the job's. Where there is a log, the program's
loop sees every step, so that none is missing: in one without samples for this member it gets a few of weight zero.
"""

from __future__ import annotations

import atexit
import collections
import csv
import os
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Optional, Protocol, Union

import torch

from ._session import current, find

HELD = 1000  #: records that a member keeps while another one writes
LONGEST_WAIT_S = 2.0  #: at the end, for the clock to pass a predecessor's; one that is further off sorts wrongly
_FLUSH_RECORDS, _FLUSH_S = HELD // 2, 1.0  # so that what is lost with a senior member is among the records kept

Value = Union[float, torch.Tensor]


class Record(NamedTuple):
    """One number of one step."""

    step: int
    name: str
    value: Value
    date: float


class Log(Protocol):
    """What the senior member writes to. It is made when a member becomes senior."""

    def write(self, record: Record) -> None:
        """Add a record."""

    def flush(self) -> None:
        """Let nothing be lost that was written."""

    def close(self) -> None:
        """Flush, and let go."""


class _Writer:
    """Records pass through; those of a member that is not senior are kept for a while.

    `make` makes the log of a member that becomes senior, of the records held and the step. `newest` is the second in
    which the newest log of a predecessor was begun, where a later one has to follow.
    """

    def __init__(self, make: Callable[[list[Record], int], Log], newest: Callable[[], int] = lambda: -1) -> None:
        self._make, self._newest = make, newest
        self._log: Optional[Any] = None
        self._held: collections.deque[Record] = collections.deque(maxlen=HELD)
        self._unflushed, self._flushed_at = 0, time.monotonic()
        self._after: Optional[int] = None  # the second of the clock that has to pass before the log may be opened
        self._waits = False
        atexit.register(_close, weakref.ref(self))  # programs forget to
        session = find()
        if session is not None:
            session.every_step_shown = True

    def add_scalar(self, tag: str, scalar_value: Value, global_step: Optional[int] = None) -> None:
        """Write one number at a step: the job's, if none is given. A tensor of one element will do.

        Call it on every member. A value that all members know, as of :func:`told`, makes a log without seams.
        """
        session = current()
        session.every_step_shown = True  # also where prepare() came after this writer
        step = session.steps_done if global_step is None else global_step
        value = scalar_value.detach().clone() if isinstance(scalar_value, torch.Tensor) else scalar_value
        record = Record(int(step), tag, value, time.time())
        if not self._is_senior():
            self._rest()
            self._held.append(record)
        elif self._may_write():
            self._opened(record.step).write(record)
            self._flush_at_times()
        else:
            self._held.append(record)

    def flush(self) -> None:
        """Write out what is held back."""
        if self._log is not None:
            self._log.flush()
            self._unflushed, self._flushed_at = 0, time.monotonic()

    def close(self) -> None:
        """Write out what is held back, and let go. It opens again when something is added."""
        if self._waits:
            assert self._after is not None
            # A name with a later second is what is wanted, so the clock has to show one.
            time.sleep(min(max(0.0, self._after + 1 - time.time()), LONGEST_WAIT_S))
            self._opened(self._held[-1].step)
        self._rest()

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def _may_write(self) -> bool:
        """The senior member keeps its records too, until its log follows its predecessor's."""
        if self._log is None and self._after is None:
            self._after = self._newest()
        may = self._log is not None or self._after is None or time.time() >= self._after + 1
        self._waits = not may and len(self._held) < HELD - 1
        return not self._waits

    def _opened(self, step: int) -> Log:
        log: Log = self._log or self._make(list(self._held), step)
        self._log, self._waits, self._after = log, False, None
        self._held.clear()
        return log

    @staticmethod
    def _is_senior() -> bool:
        """Is this member first in the last step?"""
        return current().rank == 0

    def _rest(self) -> None:
        self._waits, self._after = False, None
        if self._log is not None:
            self._log.close()
            self._log = None

    def _flush_at_times(self) -> None:
        self._unflushed += 1
        if self._unflushed >= _FLUSH_RECORDS or time.monotonic() >= self._flushed_at + _FLUSH_S:
            self.flush()


def _close(writer: weakref.ref[_Writer]) -> None:
    here = writer()
    if here is not None:
        here.close()


class SummaryWriter(_Writer):
    """TensorBoard's, in a job: one run, even after losses. Needs tensorboard.

    Members share the folder `log_dir`. The next senior member's file hides what the last one's has from the first step
    on that it writes itself. Other than numbers are written by :attr:`tensorboard`, on the senior member, and not kept
    by others.
    """

    def __init__(self, log_dir: Union[str, Path], **settings: Any) -> None:
        folder = str(log_dir)
        super().__init__(lambda held, step: _Events(folder, held, step, settings), lambda: _newest_of(Path(folder)))

    @property
    def tensorboard(self) -> Any:
        """PyTorch's SummaryWriter on the senior member, once it has written a number; else None."""
        return None if self._log is None else self._log.writer


class CSVWriter(_Writer):
    """A table of ``step,name,value,date`` in one file, even after losses. Members share the file."""

    def __init__(self, path: Union[str, Path]) -> None:
        super().__init__(lambda held, step: _Table(Path(path), held, step))


def _newest_of(folder: Path) -> int:
    """TensorBoard reads files in the order of their names, which begin with the second they were made in."""
    stamps = [path.name.split(".")[3] for path in folder.glob("events.out.tfevents.*.*")]
    return max((int(stamp) for stamp in stamps if stamp.isdigit()), default=-1)


class _Events:
    """A file of TensorBoard's among those of the run."""

    def __init__(self, folder: str, held: list[Record], step: int, settings: dict[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter as Inner

        first = min([step, *(record.step for record in held)])
        self.writer: Any = Inner(folder, purge_step=first, **settings)
        for record in held:
            self.write(record)

    def write(self, record: Record) -> None:
        self.writer.add_scalar(record.name, float(record.value), record.step, walltime=record.date)

    def flush(self) -> None:
        self.writer.flush()

    def close(self) -> None:
        self.writer.close()


class _Table:
    """The file of a new senior member: a fresh one in place of the old, to which its predecessor may still write.

    The predecessor may have died with its newest step, which the others then made again without it: what they have of
    that step counts.
    """

    def __init__(self, path: Path, held: list[Record], step: int) -> None:
        written = _rows(path)
        newest = max((int(row[0]) for row in written), default=0)
        ours = {(newest, record.name) for record in held if record.step == newest}
        rows = [row for row in written if int(row[0]) < step and (int(row[0]), row[1]) not in ours]
        known = {(int(row[0]), row[1]) for row in rows}
        fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(fresh, "w", newline="", buffering=1)  # noqa: SIM115 -- closed by close()
        self._csv = csv.writer(self._file)
        self._csv.writerow(["step", "name", "value", "date"])
        missing = [_row(record) for record in held if record.step < step and (record.step, record.name) not in known]
        both: list[list[str]] = sorted([*rows, *missing], key=lambda row: int(row[0]))
        self._csv.writerows(both)
        self.flush()
        fresh.replace(path)

    def write(self, record: Record) -> None:
        self._csv.writerow(_row(record))

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def _row(record: Record) -> list[str]:
    return [str(record.step), record.name, repr(float(record.value)), f"{record.date:.3f}"]


def _rows(path: Path) -> list[list[str]]:
    """The whole rows of a file whose writer may have died in the middle of one."""
    if not path.exists():
        return []
    lines = path.read_text().splitlines(keepends=True)[1:]
    return [row for row in csv.reader(line for line in lines if line.endswith("\n")) if len(row) == 4]
