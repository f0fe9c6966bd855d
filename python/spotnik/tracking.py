# SPDX-License-Identifier: Apache-2.0
"""The job's own numbers in TensorBoard, as one run over all lives of the job.

::

    python -m spotnik.tracking CHECKPOINTS --tensorboard runs/job --follow

reads the event log, which members write beside the checkpoints, and writes it as TensorBoard has it: steps a second,
members, goodput, what the program observes, and a mark with the time of each recovery. It is no member and disturbs
none; where it left off is kept in the folder of TensorBoard, so it may be ended and started again, as the job may.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional, Protocol

__all__ = ["Log", "Sink", "TensorBoard", "pass_on"]

_KEPT = "spotnik-tracking.json"
_VIEWS = ("lost", "joined", "left")


class Sink(Protocol):
    """Where numbers go."""

    def scalar(self, name: str, value: float, step: int, date: float) -> None:
        """Take one number of a step."""

    def close(self) -> None:
        """Write out what is held back."""


class Log:
    """The event log of a job, read once, also by several readers one after the other.

    Half a line at the end of a file is left for the next look; a change of the view, which several members tell of,
    counts once.
    """

    def __init__(self, folder: Path, kept: Optional[Path] = None) -> None:
        inner = folder / "events"
        self.folder = inner if inner.is_dir() else folder
        self._kept = kept
        state = json.loads(kept.read_text()) if kept is not None and kept.exists() else {}
        self._read: dict[str, int] = state.get("read", {})  # bytes of each file
        self._views: set[str] = set(state.get("views", []))

    def events(self) -> list[dict[str, Any]]:
        """Return what was written since the last call, by date."""
        found = [event for path in sorted(self.folder.glob("*.jsonl")) for event in self._lines(path)]
        return sorted(filter(self._is_new, found), key=lambda event: float(event["t"]))

    def keep(self) -> None:
        """Remember how far this reader is. Call it once the events are safe elsewhere."""
        if self._kept is not None:
            fresh = self._kept.with_suffix(".new")
            fresh.write_text(json.dumps({"read": self._read, "views": sorted(self._views)}))
            fresh.replace(self._kept)

    def _lines(self, path: Path) -> Iterator[dict[str, Any]]:
        with open(path, "rb") as file:
            file.seek(self._read.get(path.name, 0))
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read[path.name] = self._read.get(path.name, 0) + len(whole)
        for line in whole.splitlines():
            try:
                yield json.loads(line)
            except ValueError:  # cut off by a full disk, say
                continue

    def _is_new(self, event: dict[str, Any]) -> bool:
        if event.get("event") not in _VIEWS:
            return True
        key = f"{event['event']} {event.get('epoch')}"
        known = key in self._views
        self._views.add(key)
        return not known


class TensorBoard:
    """Scalars under ``spotnik/``; needs PyTorch and tensorboard."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise SystemExit("spotnik.tracking: TensorBoard is missing: pip install torch tensorboard") from None
        self._writer = SummaryWriter(str(folder))

    def scalar(self, name: str, value: float, step: int, date: float) -> None:
        """Write one number."""
        self._writer.add_scalar(f"spotnik/{name}", value, step, walltime=date)

    def close(self) -> None:
        """Write out what is held back."""
        self._writer.close()


def pass_on(event: dict[str, Any], sink: Sink) -> int:
    """Give the numbers of an event to a sink. Returns how many there were."""
    step, date = int(event.get("step", 0)), float(event["t"])
    numbers: dict[str, float] = {}
    if event["event"] == "sample":
        numbers = {name: float(event[name]) for name in ("steps_per_s", "goodput", "lost_s") if name in event}
        numbers.update({f"observed/{name}": float(value) for name, value in event.get("observed", {}).items()})
    if event["event"] == "lost" and event.get("total_ms"):
        numbers["recovery_ms"] = float(event["total_ms"])
    if event["event"] in _VIEWS or numbers:
        numbers["members"] = float(event.get("size", 0))
    for name, value in numbers.items():
        sink.scalar(name, value, step, date)
    return len(numbers)


def main() -> None:
    """Read the log and pass it on; with --follow for ever."""
    parser = argparse.ArgumentParser(prog="python -m spotnik.tracking", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="of the checkpoints, or of the event log")
    parser.add_argument("--tensorboard", type=Path, required=True, metavar="FOLDER", help="where TensorBoard looks")
    parser.add_argument("--follow", action="store_true", help="go on as the job does, until interrupted")
    parser.add_argument("--every", type=float, default=10, metavar="SECONDS", help="between two looks [10]")
    wanted = parser.parse_args()
    if not wanted.folder.is_dir():
        parser.error(f"there is no folder {wanted.folder}")
    wanted.tensorboard.mkdir(parents=True, exist_ok=True)
    log = Log(wanted.folder, wanted.tensorboard / _KEPT)
    while True:
        events = log.events()
        sink = TensorBoard(wanted.tensorboard)
        count = sum(pass_on(event, sink) for event in events)
        sink.close()
        log.keep()
        print(f"{len(events)} events, {count} numbers", flush=True)
        if not wanted.follow:
            return
        time.sleep(wanted.every)


if __name__ == "__main__":
    main()
