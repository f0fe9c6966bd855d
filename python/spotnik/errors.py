# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, as exceptions. Each message says what happened and what to do next.

The classes follow the codes of libspotnik, grouped by the largest thing they end: the call, finding the job, the
step, our membership, the job.
"""

from __future__ import annotations

import re
import sys
from types import TracebackType
from typing import Optional

#: Exit status of a member that was asked to leave with work left: "start me again".
EXIT_INTERRUPTED = 75

__all__ = [
    "EXIT_INTERRUPTED",
    "ArgumentError",
    "CheckpointError",
    "ClosedError",
    "DivergedError",
    "DoneError",
    "ExcludedError",
    "ForkError",
    "JobNameError",
    "KeyFileError",
    "LeavingError",
    "LibraryError",
    "LimitError",
    "LineageError",
    "MismatchError",
    "NoMemoryError",
    "ParkedError",
    "PeersError",
    "RootError",
    "SpotnikError",
    "StateError",
    "SystemCallError",
    "VersionError",
]


class SpotnikError(RuntimeError):
    """Everything this package raises. ``number`` is the library's SPOTNIK_ERR_*, 0 where it has none."""

    number: int = 0


class LibraryError(SpotnikError, ImportError):
    """libspotnik was not found, or is not of the version of this package."""


class ArgumentError(SpotnikError, ValueError):
    """An argument or a setting is out of range or of the wrong kind: nothing happened, correct it."""

    number = -1


class StateError(SpotnikError):
    """The call does not fit here (commit without begin, ...): nothing happened."""

    number = -2


class ClosedError(StateError):
    """The job was left or abandoned before: make a new one."""


class ForkError(StateError):
    """The job belongs to the parent process: a forked child must make its own, or do without."""


class NoMemoryError(SpotnikError, MemoryError):
    """Memory could not be had: nothing happened."""

    number = -3


class LimitError(SpotnikError):
    """More buckets, tensors or members than the limits allow."""

    number = -4


class AgainError(SpotnikError):
    """Not ready yet. Does not leave this package: calls go on waiting."""

    number = -5


class PeersError(SpotnikError, ConnectionError):
    """No member of the job could be found or reached."""

    number = -100


class KeyFileError(SpotnikError):
    """The other side has another job key."""

    number = -101


class JobNameError(SpotnikError):
    """The other side belongs to another job."""

    number = -102


class VersionError(SpotnikError):
    """The other side speaks another wire version."""

    number = -103


class SystemCallError(SpotnikError, OSError):
    """A system call failed; the message names it."""

    number = -104


class CheckpointError(SpotnikError):
    """The checkpoints in ``checkpoint_dir`` cannot be used: another job's, another model's, or all damaged."""

    number = -105


class MismatchError(SpotnikError):
    """Members run different programs: their buckets differ in number, size, type or operation."""

    number = -200


class RootError(SpotnikError):
    """The step is committed, but the root of a broadcast was lost in it: its array is as it was; broadcast again."""

    number = -201


class DivergedError(SpotnikError):
    """This member's results are not those of its ring neighbours: end the process and start it again."""

    number = -202


class LeavingError(SpotnikError, SystemExit):
    """A notice came: leave the job and exit with status 75. Uncaught, it ends the program with that status."""

    number = -300


class _StatusError(SpotnikError):
    """Uncaught, it ends the program with its exit status: a service manager goes by that."""

    exit_status: int

    def __init__(self, *words: object) -> None:
        super().__init__(*words)
        _end_with_its_status()


class ParkedError(_StatusError):
    """Cut off from the majority for longer than the settings allow: start the program again, it joins the others.

    With ``on_minority="stop"`` and a checkpoint folder the message names the checkpoint that holds this member's
    state. A program that does not catch it ends with the status 75.
    """

    number = -301
    exit_status = EXIT_INTERRUPTED


class ExcludedError(SpotnikError):
    """The others went on without this member; beginning a step joins again."""

    number = -302


class LineageError(_StatusError):
    """Another founding has this job's name, or its place: this member must not go on.

    A program that does not catch it ends with the status 76, so that it is not started again; one that does should end
    so, too: ``sys.exit(error.exit_status)``. Under ``spotnik run`` the command ends with 76 by itself.
    """

    number = -303
    exit_status = 76


class DoneError(SpotnikError):
    """The regular end of the loop: the steps or the samples asked for are used up."""

    number = -400


def _end_with_its_status() -> None:
    """Python ends with 1 after any exception that was not caught. The hook prints it as the one before did."""
    before = sys.excepthook
    if getattr(before, "_is_spotnik", False):
        return

    def hook(kind: type[BaseException], error: BaseException, trace: Optional[TracebackType]) -> None:
        before(kind, error, trace)
        if isinstance(error, _StatusError):
            raise SystemExit(error.exit_status)

    hook._is_spotnik = True  # type: ignore[attr-defined]
    sys.excepthook = hook


_BY_CODE: dict[int, type[SpotnikError]] = {
    kind.number: kind
    for kind in (
        ArgumentError,
        StateError,
        NoMemoryError,
        LimitError,
        AgainError,
        PeersError,
        KeyFileError,
        JobNameError,
        VersionError,
        SystemCallError,
        CheckpointError,
        MismatchError,
        RootError,
        DivergedError,
        LeavingError,
        ParkedError,
        ExcludedError,
        LineageError,
        DoneError,
    )
}


def from_code(code: int, meaning: str, detail: str) -> SpotnikError:
    """Make the exception for a code of the library from its texts: the detail, if there is one, then what to do."""
    kind = _BY_CODE.get(code, SpotnikError)
    _, _, advice = meaning.partition("; ")
    if not detail:
        text = meaning
    elif kind in (SystemCallError, CheckpointError) or not advice or advice in detail:
        text = detail
    else:
        text = f"{detail}; {advice}"
    error = kind(re.sub(r"\bspotnik_(\w+\(\))", r"\1", text))  # as the calls are named here
    error.number = code
    if isinstance(error, LeavingError):
        error.code = EXIT_INTERRUPTED
    return error
