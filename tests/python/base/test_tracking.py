# SPDX-License-Identifier: Apache-2.0
"""The event log as others want it: each event once, whoever reads it again; and TensorBoard's own reader."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spotnik import tracking


def line(t: float, event: str, **more: Any) -> str:
    return json.dumps({"t": t, "event": event, "step": int(t), "size": 3, **more}) + "\n"


class Kept:
    def __init__(self) -> None:
        self.numbers: list[tuple[str, float, int]] = []

    def scalar(self, name: str, value: float, step: int, date: float) -> None:
        self.numbers.append((name, value, step))

    def close(self) -> None:
        pass


def test_each_event_once_over_restarts(tmp_path: Path) -> None:
    events, kept = tmp_path / "events", tmp_path / "kept.json"
    events.mkdir()
    half = '{"t": 5, "ev'
    (events / "a.jsonl").write_text(line(1, "lost", epoch=4) + line(3, "sample", steps_per_s=9) + half)
    (events / "b.jsonl").write_text(line(2, "lost", epoch=4, total_ms=8.5))
    log = tracking.Log(tmp_path, kept)
    assert [event["t"] for event in log.events()] == [1, 3], "a view counts once, by date"
    log.keep()
    with open(events / "a.jsonl", "a", encoding="ascii") as file:
        file.write('ent": "sample", "step": 5, "size": 2}\n')
    (events / "c.jsonl").write_text(line(4, "lost", epoch=4, total_ms=1) + line(6, "lost", epoch=5, total_ms=2))
    again = tracking.Log(tmp_path, kept)
    assert [event["t"] for event in again.events()] == [5, 6]
    assert again.events() == []


def test_numbers_of_events() -> None:
    sink = Kept()
    tracking.pass_on(json.loads(line(8, "sample", steps_per_s=2.5, goodput=0.9, observed={"loss": 0.25})), sink)
    tracking.pass_on(json.loads(line(9, "lost", total_ms=4.5)), sink)
    assert tracking.pass_on(json.loads(line(9, "started")), sink) == 0
    assert sink.numbers == [
        ("steps_per_s", 2.5, 8),
        ("goodput", 0.9, 8),
        ("observed/loss", 0.25, 8),
        ("members", 3.0, 8),
        ("recovery_ms", 4.5, 9),
        ("members", 3.0, 9),
    ]


def test_tensorboard_reads_one_run(tmp_path: Path) -> None:
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    pytest.importorskip("torch")
    runs = tmp_path / "runs"
    for number in (10, 20):  # a second life, and a second reader
        sample = line(number, "sample", steps_per_s=number, observed={"loss": 1 / number})
        (tmp_path / f"{number}.jsonl").write_text(sample)
        done = subprocess.run(
            [sys.executable, "-m", "spotnik.tracking", str(tmp_path), "--tensorboard", str(runs)],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == "1 events, 3 numbers\n"
    board = accumulators.EventAccumulator(str(runs))
    board.Reload()
    assert [(scalar.step, scalar.value) for scalar in board.Scalars("spotnik/steps_per_s")] == [(10, 10.0), (20, 20.0)]
    assert board.Scalars("spotnik/observed/loss")[1].wall_time == 20
