# SPDX-License-Identifier: Apache-2.0
"""The words of spotnik.jax.

Claims: a donated tree is averaged in its own memory; a tree is one step, however many leaves it has; keys differ from
member to member and from step to step, and the replica does not; the whole state of a Flax NNX network is a replica,
which survives kills and the loss of all; what cannot work says what to do.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from runs import Face, Run, distance, run, run_with_kills
from test_members import ROUNDING

FACE = Face("jax_words.py", "jax", {})
pytestmark = pytest.mark.skipif(not importlib.util.find_spec("optax"), reason="jax is not in this environment")


def test_words_of_three_members() -> None:
    done = run(FACE, "3")
    assert done.status == 0, done.output[-3000:]
    steps = done.of("mean")
    assert max(line["size"] for line in steps) == 3
    for line in steps:
        mean = (line["size"] - 1) / 2
        assert line["mean"] == {"large": mean, "small": mean, "half": mean}, line
        assert line["kept"] == 3, "the result lies elsewhere"
    assert all(line["whole"] == [line["size"] - 1, True] for line in done.of("whole"))
    for line in done.of("largest"):
        assert line["largest"] == line["size"] - 1 and line["same"], line
        assert line["total"] == [2.0 * line["size"], line["size"]], line
    numbers = sorted({line["number"] for line in steps})
    assert {after - before for before, after in zip(numbers, numbers[1:])} == {3}, "a tree took several steps"
    folded = [tuple(line["folded"]) for line in steps]
    assert len(set(folded)) == len(folded), "two members, or two steps, draw the same numbers"
    assert len(done.of("end")) == 3 and done.check_digests() == 2


NNX = Face("nnx_member.py", "jax", {"samples": 1000, "batch": 50, "epochs": 3})


def _learned(done: Run) -> None:
    assert done.status == 0, done.output[-3000:]
    assert done.check_digests() >= 1
    assert max(line["final"] for line in done.of("final")) < 1.0, "of 2.3"
    for line in done.of("end"):
        assert line["moved"] != 64, "the statistics are those of the beginning: means of 0, variances of 1"
        assert line["key"] != [0, 0], "the key is that of the beginning"


def test_flax_nnx_with_kills() -> None:
    done = run_with_kills(NNX, 2, 0.2)
    _learned(done)


def test_flax_nnx_after_the_loss_of_all(tmp_path: Path) -> None:
    keep = {"SPOTNIK_CHECKPOINT": str(tmp_path), "SPOTNIK_CHECKPOINT_STEPS": "5"}
    assert run(NNX, "2", variables={**keep, "DIE_AT": "33"}).status != 0, "nobody was lost"
    done = run(NNX, "2", variables=keep)
    _learned(done)
    assert 5 < min(line["step"] for line in done.of("step")) <= 34, "it began anew, or not where the checkpoint was"


@pytest.mark.parametrize("averages_losses", [False, True])
def test_state_of_other_shapes_with_kills(averages_losses: bool, tmp_path: Path) -> None:
    face = Face("state_member.py", "jax", {"samples": 1000, "batch": 50, "epochs": 2})
    assert run(face, weights=tmp_path / "plain.npz", plain=True).status == 0
    done = run_with_kills(face, 2, 0.3, averages_losses=averages_losses, weights=tmp_path / "killed.npz")
    assert done.status == 0, done.output[-3000:]
    # Kills go on to the end: on a slow machine one member may be left there. Digests of steps are compared as well.
    assert len({line["digest"] for line in done.of("end")}) == 1 and done.check_digests() >= 1, done.of("end")
    assert "Mismatch" not in done.output, "a newcomer stood at another call"


def test_a_transformation_that_takes_the_loss(tmp_path: Path) -> None:
    face = Face("jax_member.py", "jax", {"samples": 1000, "batch": 50, "epochs": 2, "model": "mlp", "inside": True})
    plain = run(face, weights=tmp_path / "plain.npz", plain=True, plateau=True)
    done = run(face, "3", weights=tmp_path / "three.npz", plateau=True)
    assert done.status == 0, done.output[-3000:]
    assert done.check_digests() >= 2
    assert distance(tmp_path / "three.npz", tmp_path / "plain.npz") < ROUNDING
    [scale] = {line["scale"] for line in plain.of("scale")}
    assert {line["scale"] for line in done.of("scale")} == {scale} and scale < 1.0, "it had nothing to decide"


MISTAKES = {
    "eager": "have no derivative",
    "jitted": "have no derivative",
    "inside": "have no derivative",
    "forgotten": "were donated; assign replica.value",
    "shared": "memory of its own",
    "traced": "outside of jit",
    "numpy": "JAX arrays",
    "bool": 'op="min"',
    "leaf": "eqx.partition",
    "vmap": "cannot stand under vmap",
    "search": "without a search along the line",
}
TURNS = {
    "stale": "assign replica.value",
    "stale-sum": "assign replica.value",
    "twice": "one tx.update",
    "late": "assigned after another average",
    "scan": "lax.scan are iterations of their own",
}
MICRO = {"micro": "optax.MultiSteps"}


@pytest.mark.parametrize(("what", "words"), [("mistakes", MISTAKES), ("turns", TURNS), ("micro", MICRO)])
def test_mistakes_are_told(what: str, words: dict[str, str]) -> None:
    done = run(FACE, what=what)
    assert done.status == 0, done.output[-3000:]
    told = {line["refused"]: line["words"] for line in done.of("refused")}
    assert told.keys() == words.keys(), done.output[-3000:]
    assert not {name: told[name] for name in words if words[name] not in told[name]}
