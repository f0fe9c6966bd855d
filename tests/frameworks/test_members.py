# SPDX-License-Identifier: Apache-2.0
"""Each face alone, with three members, with kills every 2 s, and after the loss of all.

Claims: digests are equal; weights are those of one process with the whole batch, within what rounding does to a
training of that many steps; kills change the loss by no more than noise; after a total loss the job goes on.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
from runs import Face, distance, run

ROUNDING = 2e-2  # Adam divides by the root of squares: a last bit grows to this in 40 steps, and to no more
NOISE = 0.2  # of a loss, relative: two runs with other members sum in another order

SIZE = {"samples": 2000, "batch": 100, "epochs": 2, "model": "mlp"}
FACES = {
    "keras-jax": Face("keras_member.py", "jax", SIZE),
    "keras-tensorflow": Face("keras_member.py", "tensorflow", SIZE),
    "keras-torch": Face("keras_member.py", "torch", SIZE),
    "tape-eager": Face("tape_member.py", "tensorflow", SIZE),
    "tape-graph": Face("tape_member.py", "tensorflow", {**SIZE, "graph": True}),
    "jax": Face("jax_member.py", "jax", SIZE),
    "jax-inside": Face("jax_member.py", "jax", {**SIZE, "inside": True}),
    "jax-transformer": Face("jax_member.py", "jax", {**SIZE, "samples": 1000, "batch": 50, "model": "transformer"}),
}


def _has(face: Face) -> bool:
    return all(importlib.util.find_spec(name) for name in (face.backend, "optax" if "jax" in face.program else "keras"))


@pytest.fixture(params=list(FACES))
def face(request: pytest.FixtureRequest) -> Face:
    found = FACES[request.param]
    if not _has(found):
        pytest.skip(f"{found.backend} is not in this environment")
    return found


def _final(done: object) -> float:
    finals = [line["final"] for line in done.of("final")] or [
        line["history"]["val_loss"][-1] for line in done.of("history")
    ]
    return finals[-1]


def test_as_one_process_with_the_whole_batch(face: Face, tmp_path: Path) -> None:
    plain, alone, three = (tmp_path / f"{name}.npz" for name in ("plain", "alone", "three"))
    assert run(face, weights=plain, plain=True).status == 0
    done = run(face, weights=alone)
    assert done.status == 0, done.output[-3000:]
    assert distance(alone, plain) < ROUNDING
    done = run(face, "3", weights=three)
    assert done.status == 0, done.output[-3000:]
    assert done.check_digests() >= 2
    assert distance(three, plain) < ROUNDING


def test_with_kills(face: Face, tmp_path: Path) -> None:
    undisturbed = run(face, epochs=30)
    done = run(face, "2:3", ("--respawn", "--kill-every", "2s", "--seed", "3"), epochs=30)
    assert done.status == 0, done.output[-3000:]
    done.check_digests()
    assert abs(_final(done) - _final(undisturbed)) <= NOISE * max(_final(undisturbed), 0.1)


def test_after_the_loss_of_all(face: Face, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    keep = {"SPOTNIK_CHECKPOINT": str(folder), "SPOTNIK_CHECKPOINT_STEPS": "5", "DIE_AT": "33"}
    first = run(face, "2", variables=keep)
    assert first.status != 0, "nobody was lost"
    assert any(folder.rglob("manifest.json"))
    del keep["DIE_AT"]
    second = run(face, "2", variables=keep)
    assert second.status == 0, second.output[-3000:]
    steps = [line["step"] for line in second.of("step")]
    assert 5 < min(steps) <= 34, "it began anew, or not where the checkpoint was"
    undisturbed = run(face)
    assert second.end == undisturbed.end
    assert abs(_final(second) - _final(undisturbed)) <= NOISE * max(_final(undisturbed), 0.1)


def test_spotnik_needs_none_of_them() -> None:
    code = "import sys, spotnik; assert not {'keras', 'tensorflow', 'jax', 'torch'} & set(sys.modules)"
    assert os.system(f'python3 -c "{code}"') == 0
