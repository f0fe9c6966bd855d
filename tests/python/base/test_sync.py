# SPDX-License-Identifier: Apache-2.0
"""A model under a strategy: what is agreed is the same bits on all members at every commit, whoever is killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

import pytest
from workers import LIMIT_S, Cluster, Worker, command

STRATEGIES = ["ssgd", "sma", "easgd", "localsgd", "lookahead", "lookahead+sma", "adpsgd", "asp", "nearer"]
SAMPLES, BATCH = 64, 16  # as in the program


def rest_of(worker: Worker) -> list[Any]:
    lines = []
    while True:
        lines.append(worker.hear())
        if isinstance(lines[-1], dict):
            return lines


def epochs_of(samples: list[int]) -> list[int]:
    """By epoch of the data: how many samples its steps used together. A step never mixes two epochs."""
    totals = [0]
    for count in samples:
        totals[-1] += count
        if totals[-1] >= SAMPLES:
            totals.append(0)
    return totals[:-1]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_agreed_is_agreed(cluster: Cluster, strategy: str) -> None:
    """One of three is lost in the middle of a step and another joins: what the lost one had is made up for, once."""
    apart = strategy in ("adpsgd", "asp")  # members that run apart tell a step later
    first = [cluster.start("under", strategy=strategy, killed=slot == 2) for slot in range(3)]
    assert first[2].ended()[0] == -signal.SIGKILL
    latecomer = cluster.start("under", strategy=strategy)
    digests: dict[int, int] = {}
    used: dict[int, int] = {}
    ends = []
    for worker in (first[0], first[1], latecomer):
        *steps, end = rest_of(worker)
        ends.append(end)
        for number, digest, samples in steps:
            assert digests.setdefault(number, digest) == digest, f"step {number} of {strategy}"
            assert apart or used.setdefault(number, samples) == samples, f"step {number} of {strategy}"
    assert sorted(digests) == list(range(min(digests), 601))
    if not apart:
        lost_in = min(number for number in used if used[number] < BATCH)
        assert used[lost_in] + used[lost_in + 1] == 2 * BATCH, "the last of its epoch: made up on top of its batch"
        assert set(epochs_of([used[number] for number in sorted(used)])) == {SAMPLES}
    assert {end["digest"] for end in ends} == {digests[600]}
    assert {end["name"] for end in ends} == {strategy}
    assert {end["same"] for end in ends} == {strategy in ("ssgd", "lookahead")}
    assert ends[0]["error"] < 0.2, "it started at 5"


def test_misuse_says_what_to_do() -> None:
    done = subprocess.run(command("misuse"), capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert "float32" in done.stdout
    assert "ssgd, sma, easgd" in done.stdout
    assert "division by zero" in done.stdout
    assert sys.executable  # the program ran to its end: check=True


def test_a_policy_of_the_program() -> None:
    done = subprocess.run(command("policy"), capture_output=True, text=True, timeout=LIMIT_S, check=True)
    told, wrong = (json.loads(line) for line in done.stdout.splitlines())
    names, switches, reason, asynchronous = told
    assert names[:8] == ["ssgd"] * 8 and set(names) == {"ssgd", "localsgd"}
    changes = sum(a != b for a, b in zip(names, names[1:]))
    assert switches == changes == 7
    assert asynchronous == (names[-1] == "localsgd")
    assert "policy of the program" in reason
    assert wrong == ["division by zero", 8]
