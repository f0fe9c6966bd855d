# SPDX-License-Identifier: Apache-2.0
"""As what gradients travel: prepare(wire=...).

Claims: blocks of q8 have the bits that the library makes; a shorter type sends so many bytes less; replicas have the
same bits under kills and joins with each type; a small model learns as with float32.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ledger
import pytest
import torch
from cluster import Cluster, Tell, alone
from programs import data, elastic, network, optimizer_for
from test_exact import churn
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import spotnik
from spotnik import Config, Dtype, Op
from spotnik.torch import _gradients, _wire
from spotnik.torch._session import current
from spotnik.torch._staging import Staging, _memory_of_job
from spotnik.training.residuals import rounded

Make = Callable[..., Cluster]


def test_blocks_say_what_is_in_them() -> None:
    values = torch.randn(1000) * torch.logspace(-30, 30, 1000)
    packed = _wire.pack(values)
    assert packed.shape == (4 * 256,)
    found = _wire.unpack(packed, 1000)
    for begin in range(0, 1000, 252):
        most = values[begin : begin + 252].abs().max()
        assert (found - values)[begin : begin + 252].abs().max() <= 0.51 * most / 127
        assert found[begin : begin + 252].abs().max() <= most
    values[300], values[600] = math.nan, -math.inf
    found = _wire.unpack(_wire.pack(values), 1000)
    assert found[252:756].isnan().all()
    assert found[:252].isfinite().all()
    assert not _wire.unpack(_wire.pack(torch.full((7,), 2.0**-126)), 7).any()


def test_numpy_rounds_as_blocks_do() -> None:
    values = torch.randn(1000) * torch.logspace(-38, 30, 1000)
    values[300] = math.inf
    want = _wire.unpack(_wire.pack(values), 1000)
    assert torch.equal(torch.from_numpy(rounded(values.numpy())).nan_to_num(7), want.nan_to_num(7))
    assert rounded(values[:0].numpy()).size == 0


def packs(tell: Tell) -> None:
    """The same numbers packed here, and by the library."""
    with spotnik.Job(Config()) as job:
        torch.manual_seed(3)
        values = torch.randn(100_003) * torch.rand(100_003).mul(20).exp()
        packed, own = _wire.pack(values), values.clone()
        job.step_begin()
        job.allreduce_start(0, packed.data_ptr(), packed.numel() // 256, Dtype.Q8, Op.MEAN, packed)
        job.allreduce_start(1, own.data_ptr(), own.numel(), Dtype.F32, Op.MEAN, own, Dtype.Q8)
        job.step_commit()
        tell(equal=torch.equal(_wire.unpack(packed, values.numel()), own), changed=not torch.equal(own, values))


def test_blocks_have_the_bits_of_the_library(tmp_path: Any) -> None:
    assert alone(packs, tmp_path) == [{"equal": True, "changed": True}]


# ---- in a job ----


class Letters(nn.Module):
    """The next letter from the eight before it."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.letters = nn.Embedding(16, 24)
        self.layers = nn.Sequential(nn.Linear(8 * 24, 96), nn.Tanh(), nn.Linear(96, 16))
        self.to(dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(self.letters(x).flatten(1))


def text() -> TensorDataset:
    """Letters that follow from the two before, three times out of four."""
    generator = torch.Generator().manual_seed(5)
    noise = torch.randint(0, 16, (2056,), generator=generator)
    letters = [1, 2]
    for number in noise.tolist():
        letters.append(number if number < 4 else (3 * letters[-1] + letters[-2] + 1) % 16)
    line = torch.tensor(letters)
    return TensorDataset(line.unfold(0, 8, 1)[:2048], line[8 : 8 + 2048])


def learn(tell: Tell, wire: str, steps: int, dtype: str = "float32") -> None:
    from spotnik import torch as own

    kind = getattr(torch, dtype)
    net = Letters(kind)
    opt = torch.optim.AdamW(net.parameters(), lr=0.003)
    net, opt = own.prepare(net, opt, wire=wire, seed=7, metrics=("loss",), config=Config(steps_max=steps))
    loader = own.shard(DataLoader(text(), batch_size=64, shuffle=True))
    losses: list[float] = []
    for _ in itertools.count():
        for x, y in loader:
            loss = nn.functional.cross_entropy(net(x).float(), y)
            own.tell("loss", loss)
            loss.backward()
            opt.step()
            opt.zero_grad()
            losses.append(own.told("loss"))
            if own.step() >= steps:
                gradients = sum(p.numel() for p in net.parameters())
                tell(losses=losses, sent=own.job().status().bytes_sent, digest=own.digest(), gradients=gradients)
                return


def learned(job: Cluster, **settings: Any) -> dict[str, Any]:
    """Two members, on hosts of their own as far as they know."""
    job.gather(2)
    for host in "ab":
        job.environment["SPOTNIK_HOST"] = host
        job.start(learn, **settings)
    job.wait()
    assert not job.errors()
    one, two = job.lines("losses")
    assert one["losses"] == two["losses"] and one["digest"] == two["digest"]
    return one


def test_a_model_learns_alike_and_sends_less(cluster: Make) -> None:
    full = learned(cluster(), wire="auto", steps=300)
    packed = learned(cluster(), wire="q8", steps=300)
    half = learned(cluster(), wire="auto", steps=40, dtype="bfloat16")
    for at in (10, 30, 100, 200, 300):
        print(at, *(f"{sum(one['losses'][at - 10 : at]) / 10:.4f}" for one in (full, packed)))
    ends = [sum(one["losses"][-50:]) / 50 for one in (full, packed)]
    assert ends[0] < 0.6 * full["losses"][0]
    assert abs(ends[1] / ends[0] - 1) < 0.01
    per_step = [one["sent"] / len(one["losses"]) / 4 / one["gradients"] for one in (full, packed, half)]
    print("bytes sent for each of a gradient's:", per_step)
    beside = per_step[0] - 1  # numbers that travel with the gradients
    assert abs(per_step[1] - beside - 0.26) < 0.01
    assert abs(per_step[2] - beside - 0.50) < 0.02


def late(tell: Tell, **settings: Any) -> None:
    """As `elastic`, through a device whose streams are late."""
    from fake_device import FakeDevice

    def stage(job: spotnik.Job, _buckets: Any, send: Any) -> Staging:
        return Staging(FakeDevice(seed=1, eager=True), lambda bucket: _memory_of_job(job, bucket), send)

    _gradients.stage_of = stage
    elastic(tell, **settings)


def loads(tell: Tell, checkpoint: str, dtype: str) -> None:
    """Tells what the newest checkpoint holds."""
    from spotnik import torch as own

    net = network("mlp", getattr(torch, dtype))
    own.prepare(net, optimizer_for(net, "adamw"), checkpoint=checkpoint)
    own.shard(DataLoader(data(getattr(torch, dtype)), batch_size=24, shuffle=True))
    step = current().begin()
    tell(loaded=step.number - 1, digest=own.job().digest)
    own.job().abandon()


@pytest.mark.parametrize(
    "program, wire, dtype",
    [
        (elastic, "q8", "float32"),
        (elastic, "bf16", "float32"),
        (elastic, "auto", "bfloat16"),
        (late, "f16", "float32"),
        (late, "q8", "float32"),
    ],
)
def test_replicas_stay_equal_under_kills_and_joins(
    cluster: Make, tmp_path: Path, program: Callable[..., None], wire: str, dtype: str
) -> None:
    """Checkpoints are written meanwhile, and the last one is what the members had."""
    job, kills = cluster(minimum=2), int(os.environ.get("SPOTNIK_TEST_KILLS", "2"))
    job.environment["SPOTNIK_CHECKPOINT_STEPS"] = "10"
    settings = {"wire": wire, "dtype": dtype, "checkpoint": str(tmp_path / "saved"), "scheduler": False}
    assert churn(job, kills, steps_between=5, program=program, compute_ms=15, **settings) == kills
    assert not job.errors()
    told = ledger.reports(job)
    last = max(told)
    assert last > 100
    assert len({line["digest"] for line in job.lines("done")}) == 1
    print(f"{kills} kills, {last} steps, digests of {len(job.lines('step'))} commits compared")
    later = alone(loads, tmp_path, tmp_path / "key", checkpoint=settings["checkpoint"], dtype=dtype)[0]
    assert later["loaded"] % 10 == 0 or later["loaded"] == last
    assert later["digest"] == told[later["loaded"]]["digest"]
