# SPDX-License-Identifier: Apache-2.0
"""Policies on real runs: each changes the strategy when the cluster changes, as often as it should, and says why.

Claims, of every run: whatever step members commit, they ran the same strategy in it and agree on the same bits; after
the way back to S-SGD the models themselves are the same bits; the log and `spotnik status` name the reason. The cluster
is made: stragglers by the pace of a stand-in for compute, slow links by connections that the kernel paces (paced.c)
between two runs that take themselves for two hosts.
"""

from __future__ import annotations

import os
from collections import defaultdict
from typing import Any

import pytest
from runs import Job

STRAGGLING_S, MENDED_S, JOINING_S = 0.16, 0.04, 0.6
WAITING = "the part of a step spent waiting for stragglers is above the limit"
EVEN = "the part of a step spent waiting for stragglers is below the limit again"
SLOW = "throughput per member, relative to one alone, fell below the limit"
FAST = "throughput per member, relative to one alone, is above the limit again"
CALM_STEPS = 60  # two times what a policy needs to change its mind


def check_agreement(job: Job) -> None:
    """One strategy, one agreed model and, in steps that leave models equal, one model for every step."""
    told: dict[int, dict[str, set[Any]]] = defaultdict(lambda: defaultdict(set))
    last = {line["pid"]: line["step"] for line in job.lines}
    for line in job.lines:
        if line["pid"] in job.killed and line["step"] == last[line["pid"]]:
            continue  # a commit that it made alone may be made again without it (0001, stable steps)
        for what in ("ran", "agreed", "model"):
            if line[what] is not None:
                told[line["step"]][what].add(line[what])
    for step, said in told.items():
        assert all(len(values) == 1 for values in said.values()), f"step {step}: {dict(said)}"
    runs = [told[step]["ran"] for step in sorted(told)]
    changes = sum(a != b for a, b in zip(runs, runs[1:]))
    assert changes == len(job.switches), "the log tells of all changes"


def check_switches(job: Job, *expected: tuple[str, str]) -> None:
    """Modes and reasons in the log, and the last of them in the status."""
    assert [(mode, reason) for _, mode, reason in job.switches] == list(expected)
    status = next(line for line in job.status().splitlines() if line.startswith("strategy"))
    step, mode, reason = job.switches[-1]
    assert status.startswith(f"strategy {'adpsgd' if mode == 'asynchronous' else 'ssgd'} by auto"), status
    assert f"{len(expected)} switches; since step {step}, because {reason}" in status, status


@pytest.mark.parametrize("killed", [False, True], ids=["calm", "killed"])
def test_waiting(job: Job, killed: bool) -> None:
    """A straggler: members run apart. It recovers: together. It straggles again and is revoked: apart, and together.

    With kills: another worker is revoked, and replaced, right after each switch.
    """
    run = job.run("-n", "3:4", *(["--respawn"] if killed else []), "--sync", "auto:waiting")
    straggler, victim = (3, 0)
    expected = []

    def changed(mode: str, reason: str) -> None:
        expected.append((mode, reason))
        job.until_switches(len(expected))
        if killed:
            run.replace(victim)
        check_switches(job, *expected)

    job.until_size(4)
    job.until_steps(CALM_STEPS)
    job.pace(straggler, STRAGGLING_S)
    changed("asynchronous", WAITING)
    job.pace(straggler, MENDED_S)
    changed("synchronous", EVEN)
    job.until_steps(CALM_STEPS)
    job.pace(straggler, STRAGGLING_S)
    changed("asynchronous", WAITING)
    if killed:
        job.pace(straggler, MENDED_S)  # its replacement is no straggler
        run.replace(straggler)
    else:
        run.revoke(straggler)
    changed("synchronous", EVEN)
    job.until_steps(CALM_STEPS)
    check_switches(job, *expected)
    assert run.end() == 75
    check_agreement(job)


@pytest.mark.parametrize("killed", [False, True], ids=["calm", "killed"])
def test_schedule(job: Job, killed: bool) -> None:
    """Synchronous for the first half of the work, then apart; all at the same step, whoever is lost."""
    options = ["--respawn"] if killed else []
    run = job.run("-n", "2:3", *options, "--sync", "auto:schedule=0.5", steps=300)

    def pace(seconds: float) -> None:
        for slot in range(3):
            job.pace(slot, seconds)

    def replace(victim: int) -> None:
        """Its replacement takes part before the steps have run out, however long it takes to start."""
        pace(JOINING_S)
        run.replace(victim)
        pace(MENDED_S)

    job.until_size(3)
    if killed:
        replace(1)
    job.until_switches(1)
    check_switches(job, ("asynchronous", "the synchronous part of the work is done"))
    if killed:
        replace(2)
    assert run.rest() == 0
    assert len(job.switches) == 1
    at = job.switches[0][0]  # half is done with step 150, and agreed on in the next
    assert at in ((152, 153) if killed else (152,)), "the share of one that is lost in mid-step is done later"
    assert {line["ran"] for line in job.lines if line["step"] < at} == {"ssgd"}
    assert {line["ran"] for line in job.lines if line["step"] >= at} == {"adpsgd"}
    check_agreement(job)


@pytest.mark.parametrize("killed", [False, True], ids=["calm", "killed"])
def test_throughput(job: Job, killed: bool) -> None:
    """A second host comes, behind a slow link: members run apart. The host is revoked: together, with equal models.

    With kills: a worker of the first host is revoked, and replaced, in the steps after each switch.
    """
    # one model in five computes
    slow = {"LD_PRELOAD": os.environ["SPOTNIK_PACED"], "PACED_BYTES": "4000000", "SPOTNIK_LANES": "1"}
    settings = {"count": 200_000, "average_period": 8}
    options = ["--sync", "auto:throughput", *(["--respawn"] if killed else [])]
    expected = []

    def changed(mode: str, reason: str) -> None:
        expected.append((mode, reason))
        job.until_switches(len(expected))
        if killed:
            pace(JOINING_S if mode == "synchronous" else MENDED_S)
            first.replace(1)
        pace(MENDED_S)
        check_switches(job, *expected)

    def pace(seconds: float) -> None:
        """A joiner behind that link keeps up with the members' results where a step takes JOINING_S."""
        for slot in range(2):
            job.pace(slot, seconds)

    first = job.run("-n", "2", *options, environment={**slow, "SPOTNIK_HOST": "first"}, **settings)
    job.until_size(2)
    job.until_steps(CALM_STEPS)
    pace(JOINING_S)
    second = job.run("-n", "2", *options, environment={**slow, "SPOTNIK_HOST": "second"}, **settings)
    job.until_size(4)
    pace(MENDED_S)
    changed("asynchronous", SLOW)
    job.until_steps(CALM_STEPS)
    check_switches(job, *expected)
    second.vanish()
    changed("synchronous", FAST)
    job.until_steps(CALM_STEPS)
    check_switches(job, *expected)
    assert first.end() == 75
    check_agreement(job)
    together = [line["model"] for line in job.lines if line["step"] > job.switches[-1][0]]
    assert len(together) >= CALM_STEPS and None not in together
