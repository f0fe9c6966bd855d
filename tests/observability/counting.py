# SPDX-License-Identifier: Apache-2.0
"""Claims, of what bench/goodput.py reckons from planted ledgers: a node counts from the instant that it is ready; steps that a restart goes back over do not count, also those that it
does not make again with as many workers; a way that never goes back loses none; samples that were trained twice or left out are
told; and a node that is taken away goes whole, with what has a session of its own and what has lost its parent.

    counting.py
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from lib import wait_for

sys.path.insert(0, str(Path(os.environ["SPOTNIK_ROOT"]) / "bench"))
import goodput  # noqa: E402
import goodput_cluster  # noqa: E402

BATCH = 10
OPTIONS = argparse.Namespace(loss=1.0, batch=BATCH)


def steps(first: int, last: int, size: int, cursor: int, at: float, life: int = 0) -> list[goodput.Line]:
    """A second each."""
    return [{"t": at + step - first, "step": step, "size": size, "begin": cursor + ((step - first) * size + rank) * BATCH, "count": BATCH,
             "loss": 2.0, "life": life} for step in range(first, last + 1) for rank in range(size)]


def reckon(lines: list[goodput.Line], done: list[tuple[float, str, str]], live: int, seconds: float, **ready: float) -> dict[str, float]:
    run = {"live": live, "done": done, "ready": {"a": 90.0, "b": 90.0, **ready}, "seconds": seconds, "begun": 100.0, "lines": lines}
    return goodput.reckon(run, {1: 10.0, 2: 20.0}, OPTIONS)


def test_going_back() -> None:
    """Two workers for 8 steps; one is lost; the other goes back to step 4 and makes steps 5 to 7 again, alone."""
    before, after = steps(1, 8, 2, 0, 100, life=7), steps(5, 7, 1, 4 * 2 * BATCH, 109, life=9)
    found = reckon(before + after, [(8.0, "remove", "b")], 2, 12.0)
    assert found["useful"] == (4 * 2 + 3) * BATCH, found
    assert found["could"] == 8 * 20 + 4 * 10, found
    assert found["steps_lost"] == 4 and found["samples_lost"] == 4 * 2 * BATCH, found
    assert found["samples_again"] == found["samples_skipped"] == 0, found


def test_going_on() -> None:
    """The same loss without a restart: nothing is thrown away."""
    found = reckon(steps(1, 8, 2, 0, 100) + steps(9, 12, 1, 8 * 2 * BATCH, 108), [(8.0, "remove", "b")], 2, 12.0)
    assert found["goodput"] == 1 and found["steps_lost"] == 0 and found["lost_s_per_change"] == 0, found


def test_starting() -> None:
    """A node comes at 2 and is ready at 5; another goes before it is ready, and a third is never ready."""
    done = [(2.0, "add", "c"), (3.0, "add", "d"), (4.0, "remove", "d"), (6.0, "add", "e")]
    found = reckon(steps(1, 5, 1, 0, 100) + steps(6, 10, 2, 5 * BATCH, 105), done, 1, 10.0, c=105.0, d=107.0)
    assert found["could"] == 5 * 10 + 5 * 20 and found["goodput"] == 1, found
    assert found["start_s"] == 3.5, found


def test_whole_steps() -> None:
    """Steps of a second. One of two goes in the middle of the third; a newcomer that is ready in the middle of the sixth takes part in the
    seventh; the run ends in the middle of a step."""
    run = {"live": 2, "done": [(2.5, "remove", "b"), (4.0, "add", "c")], "ready": {"a": 90.0, "b": 90.0, "c": 105.5}, "seconds": 8.5, "begun": 100.0}
    rates = {1: 10.0, 2: 20.0}
    assert goodput.whole_steps(run, rates, BATCH, 0) == (2 + 2 + 1 + 1 + 1 + 1 + 2 + 2) * BATCH
    assert goodput.whole_steps(run, rates, BATCH, 0.75) == (2 + 2 + 2 + 1 + 1 + 1 + 1 + 2 + 2) * BATCH
    # one that copies the state during the seventh has a share of the eighth, and one that copies for two steps of none
    assert goodput.whole_steps(run, rates, BATCH, 0, 1) == (2 + 2 + 1 + 1 + 1 + 1 + 1 + 2) * BATCH
    assert goodput.whole_steps(run, rates, BATCH, 0, 2) == (2 + 2 + 1 + 1 + 1 + 1 + 1 + 1) * BATCH
    # the one with a share goes in the step in which the newcomer comes
    alone = {**run, "live": 1, "done": [(2.0, "add", "c"), (2.8, "remove", "a")], "ready": {"a": 90.0, "c": 102.5}}
    assert goodput.whole_steps(alone, rates, BATCH, 0, 1) == (1 + 1 + 0 + 1 + 1 + 1 + 1 + 1) * BATCH
    could = 2.5 * 20 + 3 * 10 + 3 * 20
    assert 0.85 < goodput.best(run, rates, BATCH) < 1 and goodput.could_do(run, rates) == could
    calm = {**run, "done": [], "seconds": 1000.0}
    assert abs(goodput.best(calm, rates, BATCH) - 1) < 0.001


def test_coverage() -> None:
    """One share came twice, and one not at all."""
    lines = [{"begin": begin, "count": 10} for begin in (0, 10, 10, 30)]
    assert goodput.coverage(lines) == (10, 10)


def test_a_node_goes_whole() -> None:
    mark = f"goodput-test-{os.getpid()}"
    flee = "import os, subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True); {}"
    script = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {flee.format('')!r}], start_new_session=True).wait(); " \
             f"exec({flee.format('time.sleep(600)')!r})"
    node = subprocess.Popen([sys.executable, "-c", script], env={**os.environ, goodput_cluster.MARK: mark}, start_new_session=True)
    wait_for("a child with a session of its own, and one without a parent", lambda: len(goodput_cluster.marked(mark)) == 3 and not stray(node.pid, mark))
    goodput_cluster.kill_all(node, mark)
    wait_for("nobody of the node", lambda: not goodput_cluster.marked(mark))


def stray(pid: int, mark: str) -> bool:
    """The parent of the one without a parent is there still: of three, two have to descend from the node."""
    return len(goodput_cluster.descendants(pid) & goodput_cluster.marked(mark)) != 1


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
        print(f"{name}: ok")
