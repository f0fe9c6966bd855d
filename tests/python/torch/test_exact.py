# SPDX-License-Identifier: Apache-2.0
"""What the job computes is what PyTorch computes on the union of the batches, with and without churn."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ledger
import pytest
from cluster import Cluster, Member, alone
from disturb import survivors, tell_to_stop
from programs import SAMPLES, elastic, replayed

Make = Callable[..., Cluster]

#: Sums of members are added in another order than the sum over one batch: a few ulps of float64 a step.
ROUNDING = 1e-10
STEPS_MOST = 100_000  #: of a job that is told when to stop


def finals(cluster: Cluster) -> list[str]:
    return sorted(str(path) for path in cluster.folder.glob("final.*.pt"))


def check_against_replay(cluster: Cluster, tmp_path: Path, shuffle: bool = True, **settings: Any) -> int:
    """Every replica ends where an undisturbed single process ends on the same contributions. Returns epochs of data."""
    assert not cluster.errors()
    steps = ledger.contributions(cluster)
    epochs = ledger.check_every_sample_once(steps, SAMPLES)
    path = tmp_path / "replayed.pt"
    batches = ledger.batches(steps, SAMPLES, seed=7, shuffle=shuffle)
    alone(replayed, cluster.folder, batches=batches, path=str(path), **settings)
    assert finals(cluster)
    for final in finals(cluster):
        assert ledger.distance(final, str(path)) < ROUNDING
    return epochs


@pytest.mark.parametrize("optimizer", [pytest.param("adamw", marks=pytest.mark.quick), "sgd"])
def test_four_members_equal_one_process_on_the_union_batch(cluster: Make, tmp_path: Path, optimizer: str) -> None:
    job = cluster(minimum=4)
    for _ in range(4):
        job.start(elastic, steps=200, folder=str(job.folder), optimizer=optimizer)
    job.wait()
    assert check_against_replay(job, tmp_path, optimizer=optimizer) >= 20
    assert len(finals(job)) == 4
    assert {line["members"] for line in job.lines("step")} == {4}


@pytest.mark.quick
def test_a_job_of_one_computes_the_same_bits_as_plain_pytorch(tmp_path: Path) -> None:
    lines = alone(elastic, tmp_path, steps=60, folder=str(tmp_path))
    steps = [(line["epoch"], [tuple(map(tuple, line["share"]))]) for line in lines if "begin" in line]
    path = tmp_path / "replayed.pt"
    alone(replayed, tmp_path, batches=ledger.batches(steps, SAMPLES, seed=7), path=str(path))
    assert ledger.distance(str(next(tmp_path.glob("final.*.pt"))), str(path)) == 0


def churn(
    job: Cluster, kills: int, steps_between: int, program: Callable[..., None] = elastic, **settings: Any
) -> int:
    """Kill a random member and start another, `kills` times, every few steps; then they end. Returns how many it were.

    However slow newcomers are on a busy machine, the steps do not run out before.
    """
    chance = random.Random(3)
    killed: list[Member] = []
    due, stop = steps_between, job.folder / "stop"
    settings.update(steps=STEPS_MOST, stop=str(stop), folder=str(job.folder))
    for _ in range(4):
        job.start(program, **settings)
    for _, line in job.events():
        if "done" in line:
            job.dismiss_latecomers()
        active = survivors(job, killed)
        if line.get("step", 0) < due or len(active) < 3 or stop.exists():
            continue
        if len(killed) == kills:
            tell_to_stop(stop, line["step"] + 100)
            continue
        killed.append(chance.choice(active))
        job.kill(killed[-1])
        job.start(program, **settings)
        due = line["step"] + steps_between
    return len(killed)


@pytest.mark.parametrize(
    "clip", [pytest.param(None, marks=pytest.mark.quick), 0.05], ids=["inside", "through the loop"]
)
def test_kills_and_joins_change_nothing(cluster: Make, tmp_path: Path, long_run: bool, clip: float) -> None:
    kills = 60 if long_run else 10
    job = cluster(minimum=2)
    assert churn(job, kills, steps_between=5, clip=clip, compute_ms=15) == kills
    assert check_against_replay(job, tmp_path, clip=clip) >= 5
    replays = [line for line in job.lines("step") if line["replay"]]
    print(f"{kills} kills, {len(job.members)} members, {len(replays)} steps repeated by joiners")


@pytest.mark.parametrize("kills", [0, 4])
def test_uneven_shares_compute_the_gradient_of_the_union(cluster: Make, tmp_path: Path, kills: int) -> None:
    """Dynamic batching with shares that move after every step, of members of unlike speed; also under kills."""
    job = cluster(minimum=2 if kills else 3)
    job.environment.update(SPOTNIK_BATCHING="dynamic", SPOTNIK_NOISE="scale")
    if kills:
        assert churn(job, kills, steps_between=12, compute_ms=15) == kills
    else:
        for compute_ms in (4, 8, 16):
            job.start(elastic, steps=120, folder=str(job.folder), compute_ms=compute_ms)
        job.wait()
    check_against_replay(job, tmp_path)
    sizes = [sum(b - a for a, b in line["share"]) for line in job.lines("begin") if line["begin"] > 10]
    assert max(sizes) > min(size for size in sizes if size)  # else nothing was uneven
