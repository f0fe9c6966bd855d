# SPDX-License-Identifier: Apache-2.0
"""A checkpoint that was cut short or changed, at whatever byte, is never loaded; and what others make of a good one."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from cluster import Tell, alone
from programs import SAMPLES, data, network
from torch import nn
from torch.utils.data import DataLoader

import spotnik.torch as spotnik
from spotnik import CheckpointError, Config, Job
from spotnik.torch._replica import Replica
from spotnik.training.control import Control
from spotnik.training.membership import Membership

OLDER, NEWER = 6, 12


def life(steps: int, directory: Path) -> tuple[int, int]:
    """Go on in the directory until `steps` are committed. Returns the step it began after, and the digest there."""
    net = network()
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    spotnik.prepare(net, opt, config=Config(steps_max=steps), checkpoint=str(directory), seed=7)
    try:
        loader = spotnik.shard(DataLoader(data(), batch_size=24, shuffle=True))
        spotnik.job()
        spotnik._session.current().begin()
        begun = spotnik.job().status().step_committed, spotnik.job().digest
        while spotnik.job().status().step_committed < steps:
            for x, y in loader:
                opt.zero_grad()
                nn.functional.cross_entropy(net(x), y).backward()
                opt.step()
        torch.save(dict(net.named_parameters()), f"{directory}.pt")
        return begun
    finally:
        spotnik.leave()


def two_checkpoints(tell: Tell, directory: str) -> None:
    """At the ends of two lives: the last step is checkpointed before a job is left."""
    tell(begun=[life(steps, Path(directory)) for steps in (OLDER, NEWER)])


def damages(size: int, count: int) -> list[tuple[str, int]]:
    """Where to cut, and which byte to change: the first and last ones, and `count` between."""
    chance = random.Random(size)
    at = sorted({*range(min(9, size)), *range(max(0, size - 9), size), *chance.sample(range(size), min(count, size))})
    return [(how, offset) for offset in at for how in ("cut", "change")]


def damage(path: Path, how: str, offset: int) -> None:
    whole = path.read_bytes()
    changed = bytes([whole[offset] ^ 0x20]) + whole[offset + 1 :] if how == "change" else b""
    path.write_bytes(whole[:offset] + changed)


def resumed(tell: Tell, directory: str, scratch: str, count: int) -> None:
    """Damage the newer one in every way, one after the other, and tell after which step a job then begins."""
    good, bad = Path(directory), Path(scratch)
    (newer,) = good.glob(f"step-*{NEWER}-*")
    own = replica()
    for path in sorted(newer.iterdir()):
        begun = []
        cases = damages(path.stat().st_size, count)
        for how, offset in cases:
            shutil.copytree(good, bad)
            damage(bad / newer.name / path.name, how, offset)
            begun.append(begins_after(bad, own))
            shutil.rmtree(bad)
        tell(file=path.name, cases=len(cases), begun=sorted(set(begun)))


def replica() -> Replica:
    net = network()
    return Replica(net, [torch.optim.Adam(net.parameters(), lr=0.01)], [])


def begins_after(directory: Path, own: Replica) -> int:
    """What prepare() and the first begin do, without their hooks."""
    control = Control()

    def register(job: Job) -> None:
        own.register(job, membership)
        control.register(job)

    membership = Membership(register)
    membership.join(Config(checkpoint_dir=str(directory), samples=SAMPLES, batch=24))
    try:
        return membership.begin().number - 1
    finally:
        membership.abandon()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    made = tmp_path_factory.mktemp("checkpoints")
    (told,) = alone(two_checkpoints, tmp_path_factory.mktemp("job"), directory=str(made))
    return made, told["begun"]


def test_what_is_cut_or_changed_at_any_byte_is_never_loaded(
    directory: tuple[Path, list[Any]], tmp_path: Path, long_run: bool
) -> None:
    good, begun = directory
    assert [step for step, _ in begun] == [0, OLDER]
    lines = alone(
        resumed, tmp_path, directory=str(good), scratch=str(tmp_path / "bad"), count=1000 if long_run else 40
    )
    assert any("manifest" in line["file"] for line in lines) and any("part" in line["file"] for line in lines)
    for line in lines:
        assert line["begun"] == [OLDER], line
    print(f"{sum(line['cases'] for line in lines)} damages in {len(lines)} files")


def both_damaged(tell: Tell, directory: str) -> None:
    for manifest in Path(directory).glob("step-*/manifest.json"):
        damage(manifest, "cut", manifest.stat().st_size // 2)
    try:
        tell(begun=begins_after(Path(directory), replica()))
    except CheckpointError as error:
        tell(refused=str(error))


def test_a_job_is_not_begun_anew_over_damaged_checkpoints(directory: tuple[Path, list[Any]], tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    shutil.copytree(directory[0], bad)
    (told,) = alone(both_damaged, tmp_path, directory=str(bad))
    assert "refused" in told, told
    assert "restore one" in told["refused"] or "move" in told["refused"], told


def test_other_programs_read_it(directory: tuple[Path, list[Any]]) -> None:
    safetensors = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
    (newer,) = directory[0].glob(f"step-*{NEWER}-*")
    tensors: dict[str, list[torch.Tensor]] = {}
    for path in sorted(newer.glob("part-*.safetensors")):
        for name, piece in safetensors.load_file(path).items():
            tensors.setdefault(name, []).append(piece)
    found = {name: torch.cat(pieces) for name, pieces in tensors.items()}
    for name, wanted in torch.load(f"{directory[0]}.pt", weights_only=True).items():
        (read,) = [tensor for key, tensor in found.items() if key.endswith(f"parameter {name}")]
        assert torch.equal(read, wanted.detach().flatten()), name
