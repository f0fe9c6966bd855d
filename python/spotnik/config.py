# SPDX-License-Identifier: Apache-2.0
"""The settings of a job: what the program says goes before the environment, and that before the defaults.

Decides how Python values become those of the C struct; which combinations make sense is the library's to say.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Optional, Union

from . import _native
from .errors import ArgumentError

__all__ = ["Config"]

_NS = 1_000_000_000


@dataclasses.dataclass
class Config:
    """Settings of a job. What is None is taken from the environment, then from the library's default.

    Every member must give the same ``samples``, ``batch`` (or ``batch_per_member``) and ``steps_max``.
    """

    #: Name of the job (SPOTNIK_JOB): members of other jobs are refused. Default "spotnik".
    job_name: Optional[str] = None
    #: File with the 256-bit job key in hex, mode 0600 (SPOTNIK_KEY_FILE). Not needed by a job of one.
    key_file: Union[str, os.PathLike[str], None] = None
    #: "host:port,...", "file:DIR", "s3://bucket/name", "gs://bucket/name" or "az://container/name" (SPOTNIK_PEERS).
    #: None and no such variable: a job of one.
    peers: Optional[str] = None
    #: "address[:port]" to listen on (SPOTNIK_BIND). Default 127.0.0.1, any port.
    bind: Optional[str] = None
    #: Steps wait for this number of members in the view (SPOTNIK_MIN). Default 1.
    members_min: Optional[int] = None
    #: Joiners wait while the view has this number of members (SPOTNIK_MAX). Default 256.
    members_max: Optional[int] = None
    #: Samples in one epoch of data; 0: no ledger, steps have no samples.
    samples: Optional[int] = None
    #: Samples a step consumes, over all members together. This or ``batch_per_member``, where there are samples.
    batch: Optional[int] = None
    #: Samples each member consumes in a step: the step grows and shrinks with the job.
    batch_per_member: Optional[int] = None
    #: The job is done after this number of committed steps; 0: never.
    steps_max: Optional[int] = None
    #: Least silence, in seconds, that counts as loss (SPOTNIK_SILENCE_MS). Default 0.25.
    silence_floor_s: Optional[float] = None
    #: "wait" or "stop" (SPOTNIK_ON_MINORITY): what a member does that is cut off from the majority. "stop": after
    #: minority_wait_s it writes its state to the checkpoint folder, and calls raise ParkedError.
    on_minority: Optional[str] = None
    #: Patience of "stop", in seconds. Default 60.
    minority_wait_s: Optional[float] = None
    #: Directory that all members share, or a bucket as in peers, for checkpoints (SPOTNIK_CHECKPOINT). None and no such
    #: variable: none.
    checkpoint_dir: Union[str, os.PathLike[str], None] = None
    #: Steps between two checkpoints (SPOTNIK_CHECKPOINT_STEPS); 0, the default: by time.
    checkpoint_steps: Optional[int] = None
    #: Seconds between two checkpoints, where ``checkpoint_steps`` is 0 (SPOTNIK_CHECKPOINT_S). Default 600.
    checkpoint_interval_s: Optional[float] = None
    #: How many complete checkpoints to keep. Default 3.
    checkpoint_keep: Optional[int] = None
    #: "even", or "dynamic" (SPOTNIK_BATCHING): shares follow the members' speed. The same on every member.
    batching: Optional[str] = None
    #: Samples a member takes at most, what its memory holds. 0, the default: no bound.
    batch_most: Optional[int] = None
    #: "off" or "scale" (SPOTNIK_NOISE): measure how noisy gradients are. The same on every member.
    noise: Optional[str] = None


_TEXTS = ("job_name", "key_file", "peers", "bind", "checkpoint_dir")
_NUMBERS = {
    "members_min": 32,
    "members_max": 32,
    "checkpoint_keep": 32,
    "samples": 64,
    "batch": 64,
    "batch_per_member": 64,
    "steps_max": 64,
    "checkpoint_steps": 64,
    "batch_most": 64,
}
_WORDS = {"batching": ("even", "dynamic"), "noise": ("off", "scale")}
_TIMES = ("silence_floor", "minority_wait", "checkpoint_interval")


def is_alone(config: Optional[Config] = None) -> bool:
    """Is a job of these settings one of this process alone?"""
    return (config is None or config.peers is None) and "SPOTNIK_PEERS" not in os.environ


def whole(field: str, value: int, bits: int) -> int:
    """Return `value` as an int from 0 to 2**bits - 1, or raise ArgumentError with the name of the field."""
    try:
        number = int(value)
    except (TypeError, ValueError):
        raise ArgumentError(f"{field} must be a whole number, not {value!r}") from None
    if number != value or not 0 <= number < 1 << bits:
        raise ArgumentError(f"{field} must be a whole number from 0 to 2**{bits}-1, not {value!r}")
    return number


def name_bytes(field: str, value: str) -> bytes:
    """Return `value` as C takes it, or raise ArgumentError: C would read a zero character as the end of the name."""
    if not isinstance(value, str):
        raise ArgumentError(f"{field} must be a string, not {type(value).__name__}")
    if "\0" in value:
        raise ArgumentError(f"{field} must not contain a zero character: {value!r}")
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise ArgumentError(f"{field} must be text that UTF-8 can hold, not {value!r}") from None


def _text(field: str, value: Union[str, os.PathLike[str]]) -> bytes:
    try:
        text = os.fsencode(value)
    except TypeError:
        raise ArgumentError(f"{field} must be a string, not {type(value).__name__}") from None
    if b"\0" in text:
        raise ArgumentError(f"{field} must not contain a zero character")
    return text


def _nanoseconds(field: str, seconds: float) -> int:
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < 1 << 33:
        raise ArgumentError(f"{field} must be a number of seconds, 0 or more, not {seconds!r}")
    return round(seconds * _NS)


def _minority(value: str) -> int:
    try:
        return int(_native.Minority[value.upper()])
    except (KeyError, AttributeError):
        raise ArgumentError(f'on_minority must be "wait" or "stop", not {value!r}') from None


def fill(native: _native.NativeConfig, config: Config) -> None:
    """Write what `config` says over what `native` holds, which keeps the strings alive."""
    for field in _TEXTS:
        if getattr(config, field) is not None:
            setattr(native, field, _text(field, getattr(config, field)))
    for field, bits in _NUMBERS.items():
        if getattr(config, field) is not None:
            setattr(native, field, whole(field, getattr(config, field), bits))
    for field in _TIMES:
        seconds = getattr(config, field + "_s")
        if seconds is not None:
            setattr(native, field + "_ns", _nanoseconds(field + "_s", seconds))
    for field, words in _WORDS.items():
        word = getattr(config, field)
        if word is not None and word not in words:
            raise ArgumentError(f'{field} must be "{words[0]}" or "{words[1]}", not {word!r}')
        if word is not None:
            setattr(native, field, words.index(word))
    if config.on_minority is not None:
        native.on_minority = _minority(config.on_minority)
