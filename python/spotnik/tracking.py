# SPDX-License-Identifier: Apache-2.0
"""The job's own numbers in TensorBoard, Weights & Biases, MLflow or OpenTelemetry, one run over all lives of the job.

::

    python -m spotnik.tracking CHECKPOINTS --tensorboard runs/job --follow
    python -m spotnik.tracking CHECKPOINTS --wandb PROJECT --follow
    python -m spotnik.tracking CHECKPOINTS --mlflow EXPERIMENT --follow
    python -m spotnik.tracking CHECKPOINTS --otlp http://collector:4318 --follow

reads the event log, which members write beside the checkpoints, and passes it on: steps a second, members, goodput,
what the program observes, and the time of each recovery. It is no member and disturbs none. Where it left off, and
which run it was, is kept (for TensorBoard in its folder, else beside the event log), so it may be ended and started
again, as the job may. A log in a bucket is named by its URL, and copied to the user's cache folder, each part once.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable, Optional

from ._sinks import MLflow, OpenTelemetry, Sink, TensorBoard, WandB

__all__ = ["Log", "MLflow", "OpenTelemetry", "Sink", "TensorBoard", "WandB", "pass_on"]

_KEPT = "spotnik-tracking.json"
_VIEWS = ("lost", "joined", "left")


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
        self.run: str = state.get("run", "")  # of the sink

    def events(self) -> list[dict[str, Any]]:
        """Return what was written since the last call, by date."""
        found = [event for path in sorted(self.folder.glob("*.jsonl")) for event in self._lines(path)]
        return sorted(filter(self._is_new, found), key=lambda event: float(event["t"]))

    def keep(self) -> None:
        """Remember how far this reader is. Call it once the events are safe elsewhere."""
        if self._kept is not None:
            fresh = self._kept.with_suffix(".new")
            fresh.write_text(json.dumps({"read": self._read, "views": sorted(self._views), "run": self.run}))
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
    sink.event(event)
    for name, value in numbers.items():
        sink.scalar(name, value, step, date)
    return len(numbers)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m spotnik.tracking", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", metavar="FOLDER|URL", help="of the checkpoints, or of the event log")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--tensorboard", type=Path, metavar="FOLDER", help="where TensorBoard looks")
    where.add_argument("--wandb", metavar="PROJECT", help="a project of Weights & Biases")
    where.add_argument("--mlflow", metavar="EXPERIMENT", help="an experiment of MLflow")
    where.add_argument("--otlp", metavar="URL", help="an OpenTelemetry collector, by OTLP/HTTP")
    parser.add_argument("--name", default="", help="of the run [the job's folder]")
    parser.add_argument("--header", action="append", default=[], metavar="NAME=VALUE", help="sent with --otlp")
    parser.add_argument("--follow", action="store_true", help="go on as the job does, until interrupted")
    parser.add_argument("--every", type=float, default=10, metavar="SECONDS", help="between two looks [10]")
    wanted = parser.parse_args()
    wanted.name = wanted.name or Path(wanted.folder).resolve().name
    wanted.url = wanted.folder if "://" in wanted.folder else ""
    wanted.folder = _copy_at(wanted.url) if wanted.url else Path(wanted.folder)
    if not wanted.folder.is_dir():
        parser.error(f"there is no folder {wanted.folder}")
    return wanted


def _copy_at(url: str) -> Path:
    """Return the folder for the parts of a log in a bucket, which never change."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "spotnik" / urllib.parse.quote(url, safe="")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _copy(url: str, folder: Path) -> None:
    """Copy the parts that are new. The command has the stores, and their ways to log in."""
    command = [sys.executable, "-m", "spotnik", "report", "--save", str(folder), url]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise OSError(done.stderr.strip())


def _kept_at(wanted: argparse.Namespace, log: Path) -> Path:
    if wanted.tensorboard:
        wanted.tensorboard.mkdir(parents=True, exist_ok=True)
        return Path(wanted.tensorboard) / _KEPT
    kind = "wandb" if wanted.wandb else "mlflow" if wanted.mlflow else "otlp"
    return log / f"tracking-{kind}.json"


def _sink_of(wanted: argparse.Namespace) -> Callable[[str], Sink]:
    """Make the sink that is wanted, for the run of this name; "" for a new one."""
    if wanted.tensorboard:
        return lambda _run: TensorBoard(wanted.tensorboard)
    if wanted.wandb:
        return lambda run: WandB(wanted.wandb, run, wanted.name)
    if wanted.mlflow:
        return lambda run: MLflow(wanted.mlflow, run, wanted.name)
    headers = dict(header.split("=", 1) for header in wanted.header)
    return lambda _run: OpenTelemetry(wanted.otlp, wanted.name, headers)


def _look(folder: Path, kept: Path, make: Callable[[str], Sink]) -> str:
    """Pass on what is new. What could not be passed on is read again the next time."""
    log = Log(folder, kept)
    events = log.events()
    sink = make(log.run) if events else None
    count = sum(pass_on(event, sink) for event in events) if sink else 0
    if sink:
        sink.close()
        log.run = sink.run
        log.keep()
    return f"{len(events)} events, {count} numbers"


def main() -> None:
    """Read the log and pass it on; with --follow for ever."""
    wanted = _parse()
    kept, make = _kept_at(wanted, Log(wanted.folder).folder), _sink_of(wanted)
    while True:
        try:
            if wanted.url:
                _copy(wanted.url, wanted.folder)
            print(_look(wanted.folder, kept, make), flush=True)
        except OSError as error:  # the collector is away: it comes back, or the user reads this
            print(f"not passed on: {error}", flush=True)
            if not wanted.follow:
                raise SystemExit(1) from None
        if not wanted.follow:
            return
        time.sleep(wanted.every)


if __name__ == "__main__":
    main()
