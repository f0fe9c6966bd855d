# SPDX-License-Identifier: Apache-2.0
"""Runs of the member programs here, alone or under `spotnik run`, and what they told."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Optional

import numpy as np

HERE = Path(__file__).parent
LIMIT_S = 900  # ends what hangs


@dataclasses.dataclass
class Face:
    """A way to use Spotnik: a program, its settings, the backend of Keras."""

    program: str
    backend: str
    settings: dict[str, Any]

    def command(self, **more: Any) -> list[str]:
        return [sys.executable, str(HERE / self.program), json.dumps({**self.settings, **more})]


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
        said = re.findall(r"(\d+) killed by us", self.output)
        return int(said[-1]) if said else 0

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
            elif line.startswith("spotnik: killing w"):
                waiting |= told - {f"[{line.split()[-1]}]"}
        return len(found)

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
    """Run `face`, as one process without `spotnik run` where `members` is empty."""
    environment = {**os.environ, "KERAS_BACKEND": face.backend, "TF_CPP_MIN_LOG_LEVEL": "3", **(variables or {})}
    if weights is not None:
        environment["WEIGHTS"] = str(weights)
    command = face.command(**more)
    if members:
        command = ["spotnik", "run", "-n", members, *options, "--", *command]
    done = subprocess.run(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return Run(done.returncode, done.stdout)


def run_with_kills(
    face: Face,
    seed: int,
    pace_s: float,
    members: str = "2:3",
    options: tuple[str, ...] = ("--respawn", "--kill-every", "2s"),
    **more: Any,
) -> Run:
    """Run `face`, whose steps take `pace_s` at least, while members are killed; longer until two were killed.

    A slow machine starts replacements slowly, and none is killed below the least number of members.
    """
    for factor in (1, 4, 16):
        variables = {"PACE": str(pace_s * factor)}
        done = run(face, members, (*options, "--seed", str(seed)), variables=variables, **more)
        if done.status != 0 or (done.kills >= 2 and done.survivors >= 1):
            break
    assert done.status == 0 and done.kills >= 2 and done.survivors >= 1, done.output[-3000:]
    return done


def distance(one: Path, other: Path) -> float:
    """The greatest difference of two weights, relative to the greatest weight of its array."""
    with np.load(one) as a, np.load(other) as b:
        assert a.files == b.files and a.files
        return max(float(np.abs(a[name] - b[name]).max() / max(1e-3, np.abs(b[name]).max())) for name in a.files)
