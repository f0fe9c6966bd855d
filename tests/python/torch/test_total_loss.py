# SPDX-License-Identifier: Apache-2.0
"""All members lost at once: the job goes on from its newest checkpoint, at the exact sample."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import ledger
import pytest
from cluster import LIMIT_S, Cluster, alone
from disturb import total_loss
from programs import SAMPLES, elastic, replayed
from test_exact import ROUNDING

Make = Callable[..., Cluster]


@pytest.mark.quick
def test_a_job_that_lost_every_member_resumes(cluster: Make, tmp_path: Path) -> None:
    settings = {"steps": 200, "compute_ms": 5}

    def start(job: Cluster) -> None:
        job.start(elastic, folder=str(job.folder), **settings)

    before, after, killed = total_loss(cluster, tmp_path / "checkpoints", start, since=45)
    for _ in range(2):
        start(after)
    after.wait()
    assert not after.errors()

    second = ledger.agreed(after)
    first = min(second)
    assert 1 < first <= killed + 1
    assert (first - 1) % 7 == 0
    # The steps up to the checkpoint as the first members took them, the rest as the others did.
    steps = ledger.contributions(before, until=first - 1) + ledger.contributions(after, since=first)
    assert len(steps) == settings["steps"]
    ledger.check_every_sample_once(steps, SAMPLES)
    path = tmp_path / "replayed.pt"
    alone(replayed, tmp_path, batches=ledger.batches(steps, SAMPLES, seed=7), path=str(path))
    for final in after.folder.glob("final.*.pt"):
        assert ledger.distance(str(final), str(path)) < ROUNDING


def test_a_job_that_resumes_waits_for_all_as_a_new_one_does(cluster: Make, tmp_path: Path) -> None:
    """Two of three are there: neither begins. The second has the state, of a later step than none, from the first."""
    directory = tmp_path / "checkpoints"
    directory.mkdir()
    before, after = cluster(), cluster()
    for job in (before, after):
        job.environment.update(SPOTNIK_CHECKPOINT=str(directory), SPOTNIK_CHECKPOINT_STEPS="1")
    before.start(elastic, folder=str(before.folder), steps=3)
    before.wait()
    after.gather(3)
    for _ in range(2):
        after.start(elastic, folder=str(after.folder), steps=6)
    until = time.monotonic() + LIMIT_S
    while [stands[1:] for stands in after.stands()] != [(2, 3)] * 2:
        assert all(step <= 3 for step, *_ in after.stands()), "two of three have begun"
        assert time.monotonic() < until, after.stands()
        time.sleep(0.01)
    after.start(elastic, folder=str(after.folder), steps=6)
    after.wait()
    assert not before.errors() and not after.errors()
    taken = [(line["step"], line["members"]) for line in after.lines("step")]
    assert sorted(taken) == sorted([(step, 3) for step in (4, 5, 6)] * 3)
