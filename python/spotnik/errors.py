# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, as exceptions. Each message says what happened and what to do next.

The classes follow the codes of libspotnik, grouped by the largest thing they end: the call, finding the job, the
step, our membership, the job.
"""

from __future__ import annotations

__all__ = [
    "ArgumentError",
    "ClosedError",
    "DoneError",
    "ExcludedError",
    "ForkError",
    "JobNameError",
    "KeyFileError",
    "LeavingError",
    "LibraryError",
    "LimitError",
    "MismatchError",
    "NoMemoryError",
    "ParkedError",
    "PeersError",
    "SpotnikError",
    "StateError",
    "SystemCallError",
    "VersionError",
]


class SpotnikError(RuntimeError):
    """Everything this package raises. ``code`` is the library's SPOTNIK_ERR_*, 0 where the package itself refused."""

    code: int = 0


class LibraryError(SpotnikError, ImportError):
    """libspotnik was not found, or is not of the version of this package."""


class ArgumentError(SpotnikError, ValueError):
    """An argument or a setting is out of range or of the wrong kind: nothing happened, correct it."""

    code = -1


class StateError(SpotnikError):
    """The call does not fit here (commit without begin, ...): nothing happened."""

    code = -2


class ClosedError(StateError):
    """The job was left or abandoned before: make a new one."""


class ForkError(StateError):
    """The job belongs to the parent process: a forked child must make its own, or do without."""


class NoMemoryError(SpotnikError, MemoryError):
    """Memory could not be had: nothing happened."""

    code = -3


class LimitError(SpotnikError):
    """More buckets, tensors or members than the limits allow."""

    code = -4


class PeersError(SpotnikError, ConnectionError):
    """No member of the job could be found or reached."""

    code = -100


class KeyFileError(SpotnikError):
    """The other side has another job key."""

    code = -101


class JobNameError(SpotnikError):
    """The other side belongs to another job."""

    code = -102


class VersionError(SpotnikError):
    """The other side speaks another wire version."""

    code = -103


class SystemCallError(SpotnikError, OSError):
    """A system call failed; the message names it."""

    code = -104


class MismatchError(SpotnikError):
    """Members run different programs: their buckets differ in number, size, type or operation."""

    code = -200


class LeavingError(SpotnikError):
    """A notice came: leave the job and exit with status 75."""

    code = -300


class ParkedError(SpotnikError):
    """Cut off from the majority for longer than the settings allow."""

    code = -301


class ExcludedError(SpotnikError):
    """The others went on without this member; beginning a step joins again."""

    code = -302


class DoneError(SpotnikError):
    """The regular end of the loop: the steps or the samples asked for are used up."""

    code = -400


_BY_CODE: dict[int, type[SpotnikError]] = {
    kind.code: kind
    for kind in (
        ArgumentError,
        StateError,
        NoMemoryError,
        LimitError,
        PeersError,
        KeyFileError,
        JobNameError,
        VersionError,
        SystemCallError,
        MismatchError,
        LeavingError,
        ParkedError,
        ExcludedError,
        DoneError,
    )
}


def from_code(code: int, meaning: str, detail: str) -> SpotnikError:
    """Make the exception for a code of the library from its texts: the detail first, then what to do."""
    kind = _BY_CODE.get(code, SpotnikError)
    text = f"{detail}; {meaning}" if detail and detail not in meaning else meaning
    error = kind(text)
    error.code = code
    return error
