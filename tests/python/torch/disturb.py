# SPDX-License-Identifier: Apache-2.0
"""Jobs whose members are killed: some and replaced until the job stops, or all at once."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cluster import LIMIT_S, Cluster, Member

from spotnik import EXIT_INTERRUPTED

#: kills of a test that asks for no number of its own; more, to soak: SPOTNIK_TEST_KILLS=200
KILLS = int(os.environ.get("SPOTNIK_TEST_KILLS", "3"))
#: epochs of such a test: more than it needs. On a busy machine hundreds pass until a newcomer takes its part.
EPOCHS_MOST = 1000 * max(2, KILLS)


def takes_part(member: Member) -> bool:
    """Its last step was one of the job's: who still repeats what was before it came has no part in the job yet."""
    steps = [line for line in member.lines if "step" in line]
    return bool(steps) and not steps[-1].get("replay")


def survivors(job: Cluster, killed: list[Member]) -> list[Member]:
    """Those who take part; not `killed`, whose words may still come. The last of them has the only state."""
    return [member for member in job.members if member.running and member not in killed and takes_part(member)]


def agreed(job: Cluster, key: str) -> dict[int, dict[str, Any]]:
    """What members told with `key`, by its value: the same on all. A commit that one made alone may be made again."""
    told: dict[int, dict[str, Any]] = {}
    for member in job.members:
        lines = [line for line in member.lines if key in line]
        finished = any("done" in line for line in member.lines)
        for line in lines if finished else lines[:-1]:
            assert told.setdefault(line[key], line) == line
    return told


def tell_to_stop(stop: Path, step: int) -> None:
    """Have the file say after which step the members are to end; whole, or it is not there."""
    new = stop.with_suffix(".new")
    new.write_text(str(step))
    new.rename(stop)


def disturb(job: Cluster, start: Callable[[], Member], kills: int, stop: Path) -> int:
    """Kill one every few steps and start a new one, which takes its part before the next; returns the last step.

    The file `stop` is to hold that step, once nobody is killed any more; members tell of their steps.
    """
    chance, due = random.Random(3), 8
    killed: list[Member] = []
    for _ in range(3):
        start()
    for _, line in job.events(LIMIT_S * max(1, kills / 3)):
        if line.get("ended") == EXIT_INTERRUPTED:  # a busy machine stopped it for seconds, and it asks for a restart
            start()
        active = survivors(job, killed)
        # The death of a last one, whose newcomers have no part yet, would be a total loss.
        if line.get("step", 0) < due or line.get("members", 3) < 3 or len(active) < 3:
            continue
        if kills:
            killed.append(chance.choice(active))
            job.kill(killed[-1])
            start()
            kills, due = kills - 1, line["step"] + 8
        elif not stop.exists():
            tell_to_stop(stop, line["step"] + 100)  # which none of them has reached
    assert not job.errors(), job.errors()
    assert kills == 0
    return int(stop.read_text())


def total_loss(
    make: Callable[..., Cluster], folder: Path, start: Callable[[Cluster], Any], since: int, checkpoints: int = 1
) -> tuple[Cluster, Cluster, int]:
    """Kill two members together, after step `since` and when `folder` has checkpoints; `start` starts one.

    Returns their job, a job without members that goes on from there, and the last step that was told.
    """
    before, after, killed = make(minimum=2), make(minimum=2), 0
    folder.mkdir()
    for job in (before, after):
        job.environment.update(SPOTNIK_CHECKPOINT=str(folder), SPOTNIK_CHECKPOINT_STEPS="7")
    for _ in range(2):
        start(before)
    for _, line in before.events():
        if line.get("step", 0) >= since and not killed and len(list(folder.rglob("manifest.json"))) >= checkpoints:
            killed = line["step"]
            for member in before.members:
                before.kill(member)
    assert killed, "they ended before"
    assert not before.errors(), before.errors()
    return before, after, killed


def kill_the_one_that_shows(job: Cluster, train: Callable[..., None], stop: Path) -> Member:
    """Of three members, the one that has told of three steps of its bar; the others end a hundred steps later."""
    job.gather(3)
    for number in range(3):
        job.start(train, folder=str(job.folder / f"out{number}"), epochs=EPOCHS_MOST, stop=str(stop), bars=True)
    lost = None
    for member, line in job.events():
        if lost is None and line.get("bar", 0) >= 3:
            lost = member
            job.kill(lost)
        elif lost is not None and not stop.exists() and line.get("members") == 2:
            tell_to_stop(stop, line["step"] + 100)
    assert lost is not None, "no member shows"
    assert not job.errors()
    return lost
