# SPDX-License-Identifier: Apache-2.0
"""A started process: its lines, its end, signals. A test waits for lines, never for time; a limit only ends a test that
hangs, and says what the process has said."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

LIMIT_S = 120.0
OF_THE_BUILD = ("SPOTNIK_ROOT", "SPOTNIK_LIBRARY", "SPOTNIK_PYTHON", "SPOTNIK_CPU")
Found = TypeVar("Found")


def fail(what: str) -> NoReturn:
    sys.exit(f"FAILED: {what}")


def skip(why: str) -> NoReturn:
    print(f"SKIPPED: {why}")
    sys.exit(77)


def wait_for(what: str, ask: Callable[[], Found], limit_s: float = LIMIT_S, said: Callable[[], str] = str) -> Found:
    """Ask until the answer is true; the pause only spares the processor. `said` adds to the text of a failure."""
    end = time.monotonic() + limit_s
    while not (found := ask()):
        if time.monotonic() > end:
            fail(f"waited {limit_s} s for {what}: {said()}")
        time.sleep(0.02)
    return found


def environment(**more: str) -> dict[str, str]:
    """That of the test, without what it says to Spotnik; beside it, what the test wants said."""
    theirs = [name for name in os.environ if name.startswith("SPOTNIK_") and name not in OF_THE_BUILD]
    return {**{name: value for name, value in os.environ.items() if name not in theirs}, **more}


class Process:
    """A command whose lines are waited for. Standard error comes among them, unless `stderr` says otherwise."""

    def __init__(self, *words: Any, limit_s: float = LIMIT_S, stderr: Any = subprocess.STDOUT, **more: Any) -> None:
        self.limit_s, self.kept, self.at, self.over = limit_s, [], 0, False  # type: ignore[var-annotated]
        self.heard = threading.Condition(threading.RLock())
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": stderr}
        self.first = more.get("start_new_session", False)
        self.words = [str(word) for word in words]
        self.process = subprocess.Popen(self.words, text=True, **{**streams, **more})
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self.heard:
                self.kept.append(line.strip())
                self.on_line(self.kept[-1])
                self.heard.notify_all()
        with self.heard:
            self.over = True
            self.heard.notify_all()

    def on_line(self, line: str) -> None:
        """For heirs: each line, as it comes."""

    def wait_for(self, what: str, ask: Callable[[], Found]) -> Found:
        """Ask after each line until the answer is true."""
        with self.heard:
            found = self.heard.wait_for(lambda: ask() or self.over, self.limit_s) and ask()
            if not found:
                ended = f"ended with {self.process.wait()}" if self.over else f"waited {self.limit_s} s"
                fail(f"{' '.join(self.words)}: {ended}, without {what}; {self.said()}")
            return found

    def said(self) -> str:
        """For the text of a failure."""
        return "the last lines: " + " | ".join(self.kept[-8:])

    def until(self, pattern: str, times: int = 1) -> str:
        """Read on to the line that has the pattern, for the `times`th time from here on."""

        def ask() -> list[str]:
            while len(hits) < times and self.at < len(self.kept):
                self.at += 1
                hits.extend(line for line in self.kept[self.at - 1 : self.at] if re.search(pattern, line))
            return hits if len(hits) == times else []

        hits: list[str] = []
        return self.wait_for(f"/{pattern}/", ask)[-1]

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def send(self, number: int) -> None:
        """To this process alone, not to what it started."""
        self.process.send_signal(number)

    def rest(self) -> int:
        """Exit status, when it has ended and all its lines are heard."""
        self.reader.join(self.limit_s)
        if self.reader.is_alive():
            fail(f"{' '.join(self.words)} does not end; {self.said()}")
        return self.process.wait(self.limit_s)

    def end(self, number: int = signal.SIGTERM) -> int:
        self.send(number)
        return self.rest()

    def kill(self) -> None:
        """And what it started, where it is first of a session."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL) if self.first else self.process.kill()
        self.process.wait()
        self.reader.join()
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                stream and stream.close()
