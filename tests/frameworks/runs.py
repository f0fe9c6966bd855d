# SPDX-License-Identifier: Apache-2.0
"""Runs of the member programs here, alone or under `spotnik run`, and what they told."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any, Optional

import forks
import numpy as np

HERE = Path(__file__).parent
LIMIT_S = 900  # ends what hangs
KILLING = "spotnik: killing w"  # as `spotnik run` says it


@dataclasses.dataclass
class Face:
    """A way to use Spotnik: a program, its settings, the backend of Keras."""

    program: str
    backend: str
    settings: dict[str, Any]

    def command(self, **more: Any) -> list[str]:
        program = HERE / self.program
        return [*forks.python(program, self.backend), str(program), json.dumps({**self.settings, **more})]


class Run:
    """What a run told: JSON lines, each behind the tag of its worker."""

    def __init__(self, status: int, output: str) -> None:
        self.status, self.output = status, output
        cut = [line[line.index("{") :] for line in output.splitlines() if "{" in line]
        self.lines: list[dict[str, Any]] = []
        for line in cut:
            try:
                self.lines.append(json.loads(line))
            except json.JSONDecodeError:
                continue  # not ours, or cut short by a kill

    def of(self, key: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if key in line]

    @property
    def end(self) -> int:
        return max(line["end"] for line in self.of("end"))

    @property
    def kills(self) -> int:
        """How many members `spotnik run` says it has killed."""
        return self.output.count(KILLING)

    @property
    def survivors(self) -> int:
        """Members that told steps both before another one was killed and after it."""
        told: set[str] = set()
        waiting: set[str] = set()
        found: set[str] = set()
        for line in self.output.splitlines():
            tag = line.split(" ", 1)[0]
            if tag.startswith("[w") and '"step"' in line:
                told.add(tag)
                found |= {tag} & waiting
            elif line.startswith(KILLING):
                waiting |= told - {f"[{line.split()[-1]}]"}
        return len(found)

    @property
    def is_enough(self) -> bool:
        """Were two members killed, and did another one go on?"""
        return self.kills >= 2 and self.survivors >= 1

    def check_digests(self) -> int:
        """Digests told after the same step, or at the end, are equal; returns how many were compared."""
        told: dict[Any, set[int]] = {}
        compared = 0
        for line in self.of("digest"):
            place = ("epoch", line["epoch"]) if "epoch" in line else ("step", line.get("step", line.get("end")))
            compared += place in told
            told.setdefault(place, set()).add(line["digest"])
        apart = {place: digests for place, digests in told.items() if len(digests) > 1}
        assert not apart, apart
        return compared


def run(
    face: Face,
    members: str = "",
    options: tuple[str, ...] = (),
    weights: Optional[Path] = None,
    variables: Optional[dict[str, str]] = None,
    **more: Any,
) -> Run:
    """Run `face`, as one process without `spotnik run` where `members` is empty.

    A file that the variable ENOUGH names is made when two members were killed, and another one has gone on.
    """
    environment = {**os.environ, "KERAS_BACKEND": face.backend, "TF_CPP_MIN_LOG_LEVEL": "3", **(variables or {})}
    if weights is not None:
        environment["WEIGHTS"] = str(weights)
    command = face.command(**more)
    if members:
        command = ["spotnik", "run", "-n", members, *options, "--", *command]
    running = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    end = threading.Timer(LIMIT_S, running.kill)
    end.start()
    lines: list[str] = []
    killed = 0
    assert running.stdout is not None
    for line in running.stdout:
        lines.append(line)
        killed += line.startswith(KILLING)
        if "ENOUGH" not in environment:
            continue
        if killed >= 2 and '"step"' in line and Run(0, "".join(lines)).is_enough:
            Path(environment.pop("ENOUGH")).touch()
    end.cancel()
    return Run(running.wait(), "".join(lines))


def run_with_kills(
    face: Face,
    seed: int,
    pace_s: float,
    options: tuple[str, ...] = ("--respawn", "--kill-every", "2s"),
    **more: Any,
) -> Run:
    """Run `face`, whose steps take `pace_s` at least until two members were killed, while members are killed.

    A slow machine starts replacements slowly, and none is killed below the least number of members.
    """
    for factor in (1, 8):
        with tempfile.TemporaryDirectory() as folder:
            variables = {"PACE": str(pace_s * factor), "ENOUGH": f"{folder}/enough"}
            done = run(face, "2:3", (*options, "--seed", str(seed)), variables=variables, **more)
        if done.status != 0 or done.is_enough:
            break
    assert done.status == 0 and done.is_enough, done.output[-3000:]
    return done


def distance(one: Path, other: Path) -> float:
    """The greatest difference of two weights, relative to the greatest weight of its array."""
    with np.load(one) as a, np.load(other) as b:
        assert a.files == b.files and a.files
        return max(float(np.abs(a[name] - b[name]).max() / max(1e-3, np.abs(b[name]).max())) for name in a.files)
