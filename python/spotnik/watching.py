# SPDX-License-Identifier: Apache-2.0
"""The library's messages as records of Python's ``logging``: logger "spotnik", a record each message.

Records carry ``spotnik_id``, ``spotnik_event`` and ``spotnik_step``; docs/reference/messages.md explains each id.
This collects nothing, and runs no thread, until the program has set up a handler (``logging.basicConfig()``, say).
Until then warnings of the package itself go to stderr: a training that they are about must not go on silently.
"""

from __future__ import annotations

import ctypes
import logging
import sys
from typing import Optional

from . import _native

__all__ = ["logger", "tell_log", "wants_messages"]

logger = logging.getLogger("spotnik")


class _Unasked(logging.NullHandler):
    """Where warnings go that the program has no handler for."""

    def handle(self, record: logging.LogRecord) -> bool:
        if record.levelno >= logging.WARNING and not wants_messages():
            print(f"spotnik: {record.getMessage()}", file=sys.stderr, flush=True)
        return True


logger.addHandler(_Unasked())


def wants_messages() -> bool:
    """Is there a handler that a message of the library could reach?"""
    at: Optional[logging.Logger] = logger
    while at is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in at.handlers):
            return logger.isEnabledFor(logging.WARNING)
        at = at.parent if at.propagate else None
    return False


def tell_log(library: ctypes.CDLL, handle: int) -> None:
    """Hand all messages that have come since the last call to the logger. On the thread of the job."""
    if not wants_messages():
        return
    native = _native.roomy(_native.NativeLogEntry)
    native.size = ctypes.sizeof(_native.NativeLogEntry)
    while library.spotnik_log_next(handle, native) == 1:
        held_back = f" ({native.held_back} more of these were held back)" if native.held_back else ""
        logger.log(
            native.level,
            "%s %s%s",
            native.id.decode(),
            native.text.decode(errors="replace"),
            held_back,
            extra={
                "spotnik_id": native.id.decode(),
                "spotnik_event": native.name.decode(),
                "spotnik_step": native.step,
            },
        )
        native.size = ctypes.sizeof(_native.NativeLogEntry)
