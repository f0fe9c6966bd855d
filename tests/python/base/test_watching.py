# SPDX-License-Identifier: Apache-2.0
"""The library's messages in Python's logging, and numbers that the program tells."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import time
from pathlib import Path

import pytest

import spotnik
from spotnik import watching


def watchers() -> int:
    """Threads of this process that watch a job."""
    names = []
    for path in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # a thread that has ended meanwhile
            names.append(path.read_text())
    return names.count("spotnik-watch\n")


def until_watched() -> bool:
    """A thread has its name soon after it was started."""
    until = time.monotonic() + 30
    while not watchers() and time.monotonic() < until:
        time.sleep(0.01)
    return watchers() == 1


def test_messages_become_records(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="spotnik"), spotnik.Job() as job:
        step = job.step_begin()
        records = [record for record in caplog.records if record.name == "spotnik"]
        assert step.number == 1
        assert [record.spotnik_id for record in records] == ["S100"]  # type: ignore[attr-defined]
        assert records[0].levelno == logging.INFO
        assert records[0].getMessage().startswith("S100 a member of job spotnik started")


def test_without_a_handler_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching.logger, "propagate", False)  # pytest's own handlers
    assert not watching.wants_messages()
    with spotnik.Job() as job:
        job.step_begin()
        job.step_commit()
        assert watchers() == 0
        monkeypatch.setattr(watching.logger, "propagate", True)
        job.step_begin()
        assert until_watched(), "this test can fail"
        job.step_commit()


@pytest.mark.parametrize("asked", [False, True])
def test_warnings_are_seen_once_with_and_without_logging(
    asked: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept: list[logging.LogRecord] = []
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", kept.append)
    monkeypatch.setattr(watching.logger, "propagate", False)  # pytest's own handlers
    if asked:
        watching.logger.addHandler(handler)
    logging.getLogger("spotnik.torch").info("not this")
    logging.getLogger("spotnik.torch").warning("the loss has %s", "a sum")
    watching.logger.removeHandler(handler)
    assert capsys.readouterr().err == ("" if asked else "spotnik: the loss has a sum\n")
    assert len(kept) == int(asked)


def test_observe() -> None:
    with spotnik.Job() as job:
        job.observe("loss", 0.5)
        with pytest.raises(spotnik.ArgumentError):
            job.observe("not a name", 1)
        for number in range(15):
            job.observe(f"n{number}", number)
        with pytest.raises(spotnik.LimitError):
            job.observe("one_more", 1)


def test_what_is_told_is_in_the_event_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPOTNIK_EVENTS", str(tmp_path / "events"))
    with spotnik.Job() as job:
        job.step_begin()
        job.step_commit()
    (path,) = (tmp_path / "events").iterdir()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["started", "ended"]
    assert lines[-1]["steps"] == 1
    assert lines[-1]["text"] == "left in good order"


def test_a_log_that_nobody_asked_for_may_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "events").write_text("in the way")
    config = spotnik.Config(checkpoint_dir=str(tmp_path))
    with caplog.at_level(logging.INFO, logger="spotnik"), spotnik.Job(config) as job:
        job.step_begin()
        assert [record.spotnik_id for record in caplog.records] == ["S100", "S170"]  # type: ignore[attr-defined]
        job.step_commit()
    monkeypatch.setenv("SPOTNIK_EVENTS", str(tmp_path / "events"))
    with pytest.raises(spotnik.SystemCallError, match="event log"):
        spotnik.Job().join()


def test_every_message_has_its_section() -> None:
    """docs/reference/messages.md explains each id of the library's table, and no other."""
    root = Path(os.environ["SPOTNIK_ROOT"])
    table = re.findall(r'\{ "(S\d+)", "(\w+)", SPOTNIK_(\w+) \}', (root / "src/metrics/messages.c").read_text())
    sections = re.findall(r"^## (S\d+) (\w+), (\w+)$", (root / "docs/reference/messages.md").read_text(), flags=re.M)
    assert len(table) > 10
    assert sections == [(identity, name, level.lower()) for identity, name, level in table]
