# SPDX-License-Identifier: Apache-2.0
"""A model under a strategy: what is agreed is the same bits on all members at every commit, whoever is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from workers import LIMIT_S, Cluster, Worker, command

STRATEGIES = ["ssgd", "sma", "easgd", "localsgd", "lookahead", "lookahead+sma", "adpsgd", "asp", "nearer"]


def rest_of(worker: Worker) -> list[Any]:
    lines = []
    while True:
        lines.append(worker.hear())
        if isinstance(lines[-1], dict):
            return lines


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_agreed_is_agreed(cluster: Cluster, strategy: str) -> None:
    first = [cluster.start("under", strategy=strategy) for _ in range(3)]
    heard: dict[Worker, list[Any]] = {worker: [worker.hear()] for worker in first}
    while heard[first[2]][-1][0] < 30:
        heard[first[2]].append(first[2].hear())
    first[2].kill()
    latecomer = cluster.start("under", strategy=strategy)
    digests: dict[int, int] = {}
    ends = []
    for worker in (first[0], first[1], latecomer):
        *steps, end = heard.get(worker, []) + rest_of(worker)
        ends.append(end)
        for number, digest, samples in steps:
            assert digests.setdefault(number, digest) == digest, f"step {number} of {strategy}"
            least = 0 if strategy in ("adpsgd", "asp") else 1  # members that run apart tell a step later
            assert least <= samples <= 16
    assert sorted(digests) == list(range(min(digests), 601))
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
