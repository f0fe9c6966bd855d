# SPDX-License-Identifier: Apache-2.0
"""The state is copied for newcomers and checkpoints while the program computes the next step.

Claims: what they receive is the state of one boundary, however long the copy takes; a commit waits for it. A program
that changes parameters before optimizer.step() is found out, and copies then hold it up instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ledger
import programs
import pytest
import torch
from cluster import Cluster, Tell
from fake_device import FakeDevice
from test_exact import churn

from spotnik.torch import _replica
from spotnik.torch._reach import Reach

Make = Callable[..., Cluster]
COPY_S = 0.01  # for each call of the library


class Slow(Reach):
    def __init__(self, device: FakeDevice) -> None:
        super().__init__(device, block_bytes=1 << 14)

    def _begin(self) -> None:
        time.sleep(COPY_S)  # stands for a copy that takes long: the claim is what waits for it
        super()._begin()


def on_fake_device(tell: Tell, shakes: bool, **settings: Any) -> None:
    """As `elastic`, with all tensors on a device whose copies are slow, and a table that no step changes.

    `shakes`: forward() changes parameters.
    """
    fake = FakeDevice(seed=1, eager=True)
    _replica.accelerator_of = lambda _tensor: fake  # type: ignore[assignment]
    _replica.Reach = Slow  # type: ignore[misc]
    made = programs.network

    def made_anew(*arguments: Any) -> torch.nn.Module:
        def shake(module: torch.nn.Module, _input: Any) -> None:
            for parameter in module.parameters():
                parameter.data.mul_(0.99)

        net = made(*arguments)
        net.register_buffer("table", torch.arange(1 << 16 | 8))
        if shakes:
            net.register_forward_pre_hook(shake)
        return net

    programs.network = made_anew
    programs.elastic(tell, **settings)


@pytest.mark.parametrize("shakes", [False, True], ids=["steady", "shaken"])
def test_newcomers_receive_one_boundary(cluster: Make, shakes: bool) -> None:
    job = cluster(minimum=2)
    settings = {"clip": 0.05} if shakes else {}  # what a newcomer cannot repeat alone goes through its loop
    assert churn(job, 4, steps_between=5, program=on_fake_device, shakes=shakes, compute_ms=5, **settings) == 4
    assert not job.errors()
    assert len({line["digest"] for line in job.lines("done")}) == 1
    ledger.check_every_sample_once(ledger.contributions(job), programs.SAMPLES)


def saves(tell: Tell, folder: str, steps: int) -> None:
    """A job of one that writes a checkpoint after every third step, and tells the digest of each."""
    on_fake_device(tell, shakes=False, steps=steps, folder=folder, checkpoint=f"{folder}/saved")


def test_a_checkpoint_of_a_device_is_loaded(cluster: Make, tmp_path: Path) -> None:
    job = cluster()
    job.environment["SPOTNIK_CHECKPOINT_STEPS"] = "3"
    job.start(saves, folder=str(tmp_path), steps=10)
    job.wait()
    job.start(saves, folder=str(tmp_path), steps=14)
    job.wait()
    assert not job.errors()
    first, second = (
        {line["step"]: line["digest"] for line in member.lines if "step" in line} for member in job.members
    )
    assert min(second) > 1
    assert second.keys() & first.keys() == {step for step in first if step >= min(second)}
    assert all(second[step] == first[step] for step in second.keys() & first.keys())
    assert max(second) == 14
