# SPDX-License-Identifier: Apache-2.0
"""Each face with each small program: alone, with three members, with kills every 2 s, after the loss of all.

Claims: digests are equal; weights are those of one process with the whole batch, within what rounding does to a
training of that many steps; kills change the loss by no more than noise; after a total loss the job goes on, to the
weights of one process. With SPOTNIK_CELLS each test writes down what it saw, for docs/results/frameworks.md.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
from pathlib import Path
from typing import Any

import cells
import pytest
from runs import Face, Run, distance, run, run_with_kills

ROUNDING = 2e-2  # Adam divides by the root of squares: a last bit grows to this in 40 steps, and to no more
PACED_S = 12  # of a training that members are killed in
NOISE = 0.2  # of a loss, relative: two runs with other members sum in another order

SIZE = {"samples": 2000, "batch": 100, "epochs": 2, "model": "mlp"}
PROGRAMS = {name: {**SIZE, "samples": 1000, "batch": 50, "model": name} for name in cells.PROGRAMS}
HOSTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "keras-jax": ("keras_member.py", "jax", {}),
    "keras-tensorflow": ("keras_member.py", "tensorflow", {}),
    "keras-torch": ("keras_member.py", "torch", {}),
    "tape-eager": ("tape_member.py", "tensorflow", {}),
    "tape-graph": ("tape_member.py", "tensorflow", {"graph": True}),
    "jax": ("jax_member.py", "jax", {}),
    "jax-inside": ("jax_member.py", "jax", {"inside": True}),
}
CELLS = list(itertools.product(cells.FACES, cells.PROGRAMS))


class Subject:
    """A program of a face, and the runs that its cases are compared with, which are made once."""

    def __init__(self, host: str, program: str, folder: Path) -> None:
        file, backend, more = HOSTS[host]
        self.host, self.program, self.folder = host, program, folder
        self.face = Face(file, backend, {**PROGRAMS[program], **more})
        self._alone: Run | None = None

    @property
    def one_process(self) -> Path:
        """The weights that one process without Spotnik comes to, with the whole batch."""
        path = self.folder / "plain.npz"
        if not path.exists():
            assert run(self.face, weights=path, plain=True).status == 0
        return path

    @property
    def alone(self) -> Run:
        """A job of one member."""
        if self._alone is None:
            self._alone = _well(run(self.face, weights=self.folder / "alone.npz"))
        return self._alone

    def near(self, final: float) -> str:
        """The final loss, which is that of the job of one within noise."""
        undisturbed = _final(self.alone)
        assert abs(final - undisturbed) <= NOISE * max(undisturbed, 0.1), (final, undisturbed)
        return f"loss {final:.3f} ({undisturbed:.3f})"


def _has(host: str) -> bool:
    file, backend, _ = HOSTS[host]
    return all(importlib.util.find_spec(name) for name in (backend, "optax" if "jax" in file else "keras"))


@pytest.fixture(scope="module", params=CELLS, ids="-".join)
def subject(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    host, program = request.param
    if not _has(host):
        pytest.skip(f"{HOSTS[host][1]} is not in this environment")
    return Subject(host, program, tmp_path_factory.mktemp("subject"))


def _well(done: Run) -> Run:
    assert done.status == 0, done.output[-3000:]
    return done


def _final(done: Run) -> float:
    finals = [line["final"] for line in done.of("final")] or [
        line["history"]["val_loss"][-1] for line in done.of("history")
    ]
    return float(finals[-1])


def _as_one_process(weights: Path, subject: Subject) -> str:
    apart = distance(weights, subject.one_process)
    assert apart < ROUNDING
    return f"{apart:.0e}"


def test_alone_as_one_process(subject: Subject) -> None:
    with cells.cell(subject, "alone") as seen:
        assert subject.alone.end >= 40
        seen.append(_as_one_process(subject.folder / "alone.npz", subject))


def test_three_as_one_process_with_the_whole_batch(subject: Subject) -> None:
    with cells.cell(subject, "three members") as seen:
        weights = subject.folder / "three.npz"
        done = _well(run(subject.face, "3", weights=weights))
        compared = done.check_digests()
        assert compared >= 2
        seen += [_as_one_process(weights, subject), f"{compared} digests"]


def test_with_kills(subject: Subject) -> None:
    with cells.cell(subject, "kills") as seen:
        settings = subject.face.settings
        steps = settings["samples"] * settings["epochs"] // settings["batch"]
        done = run_with_kills(subject.face, 3, PACED_S / steps)
        compared = done.check_digests()
        # The loss of one that had the last samples of an epoch takes another step to make up for them.
        assert subject.alone.end <= done.end <= subject.alone.end + settings["epochs"]
        seen += [f"{done.kills} kills", f"{compared} digests", subject.near(_final(done))]


def test_after_the_loss_of_all(subject: Subject) -> None:
    with cells.cell(subject, "total loss") as seen:
        folder, weights = subject.folder / "checkpoints", subject.folder / "lost.npz"
        folder.mkdir()
        keep = {"SPOTNIK_CHECKPOINT": str(folder), "SPOTNIK_CHECKPOINT_STEPS": "5", "DIE_AT": "33"}
        assert run(subject.face, "2", variables=keep).status != 0, "nobody was lost"
        assert any(folder.rglob("manifest.json"))
        del keep["DIE_AT"]
        done = _well(run(subject.face, "2", variables=keep, weights=weights))
        first = min(line["step"] for line in done.of("step"))
        assert 5 < first <= 34, "it began anew, or not where the checkpoint was"
        assert done.end == subject.alone.end
        compared = done.check_digests()
        assert compared >= 1
        seen += [f"from step {first}", f"{compared} digests", _as_one_process(weights, subject)]
        subject.near(_final(done))


@pytest.mark.parametrize("wire", ["bf16", "q8"])
@pytest.mark.parametrize("host", [one for one in HOSTS if _has(one)])
def test_shorter_gradients_with_kills(host: str, wire: str, tmp_path: Path) -> None:
    """Digests are equal, and the loss is that of a job of one, whose gradients travel nowhere."""
    subject = Subject(host, "mlp", tmp_path)
    subject.face.settings["wire"] = wire
    done = run_with_kills(subject.face, 3, PACED_S / 40)
    assert done.check_digests() >= 2
    subject.near(_final(done))


@pytest.mark.skipif(not _has("tape-graph"), reason="tensorflow is not in this environment")
@pytest.mark.parametrize("graph", [False, True])
def test_statistics_and_dropout_under_a_tape(graph: bool) -> None:
    face = Face("tape_member.py", "tensorflow", {**PROGRAMS["mlp"], "model": "normed", "graph": graph})
    done = _well(run(face, "3"))
    assert done.check_digests() >= 2
    drawn = [str(line["seeds"]) for line in done.of("seeds")]
    assert len(drawn) >= 2 * 40 and len(set(drawn)) == len(drawn), "two members, or two steps, drop the same"
    assert _final(done) < 1.5, "of 2.3: its statistics are of no use"


def test_spotnik_needs_none_of_them() -> None:
    code = "import sys, spotnik; assert not {'keras', 'tensorflow', 'jax', 'torch'} & set(sys.modules)"
    assert os.system(f'python3 -c "{code}"') == 0
