# SPDX-License-Identifier: Apache-2.0
"""What a Keras program may be made of: kinds of data, ways to train, strategies, callbacks.

Claims: every kind of data gives the weights of one process with the whole batch, uneven batches too, and each sample
once an epoch while members come and go; they decide alike in callbacks, and one of them writes; each strategy trains,
and members agree on its model.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from runs import Face, Run, distance, run
from test_members import ROUNDING, SIZE

UNEVEN = {**SIZE, "samples": 1030}  # the last batch of an epoch has 30 samples, which three members share
BACKENDS = [name for name in ("jax", "tensorflow", "torch") if importlib.util.find_spec(name)]
HAS_TENSORFLOW = "tensorflow" in BACKENDS

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("keras"), reason="keras is not in this environment")
with_tensorflow = pytest.mark.skipif(not HAS_TENSORFLOW, reason="tensorflow is not in this environment")


def _well(done: Run) -> Run:
    assert done.status == 0, done.output[-3000:]
    done.check_digests()
    return done


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"data": "arrays"}, id="arrays"),
        pytest.param({"data": "pydataset"}, id="pydataset"),
        pytest.param({"data": "tf.data"}, id="tf.data", marks=with_tensorflow),
        pytest.param({"data": "counted"}, id="tf.data-counted", marks=with_tensorflow),
        pytest.param({"own_step": True}, id="train_step", marks=with_tensorflow),
    ],
)
def test_uneven_batches_of_all_kinds(more: dict[str, object], tmp_path: Path) -> None:
    face = Face("keras_member.py", BACKENDS[0], UNEVEN)
    plain, three = tmp_path / "plain.npz", tmp_path / "three.npz"
    assert run(face, weights=plain, plain=True).status == 0
    done = _well(run(face, "3", weights=three, **more))
    assert distance(three, plain) < ROUNDING
    if more.get("data") == "counted":
        assert done.end == 2 * 11 + 2, "two epochs of 11 batches, and their ends"


@pytest.mark.parametrize(
    "data",
    [
        "arrays",
        "pydataset",
        pytest.param("tf.data", marks=with_tensorflow),
        pytest.param("counted", marks=with_tensorflow),
    ],
)
def test_each_sample_once_an_epoch_with_kills(data: str) -> None:
    size = {"samples": 610, "batch": 20, "epochs": 3, "data": data}
    face = Face("once_member.py", BACKENDS[0], size)
    done = _well(run(face, "2:3", ("--respawn", "--kill-every", "2s", "--seed", "6"), variables={"PACE": "0.1"}))
    assert done.kills >= 2 and done.survivors >= 1, done.output[-3000:]
    ended = done.of("epoch")
    assert {line["epoch"] for line in ended} == {0, 1, 2}
    assert {(line["logs"]["least"], line["logs"]["most"]) for line in ended} == {(1.0, 1.0)}, ended


@pytest.mark.parametrize("backend", BACKENDS)
def test_statistics_and_dropout_with_kills(backend: str) -> None:
    face = Face("keras_member.py", backend, {**SIZE, "model": "normed"})
    done = _well(run(face, "2:3", ("--respawn", "--kill-every", "2s", "--seed", "8"), variables={"PACE": "0.3"}))
    assert done.kills >= 2 and done.survivors >= 1, done.output[-3000:]
    assert done.check_digests() >= 1
    first = next(line["loss"] for line in done.of("step"))
    assert all(line["history"]["loss"][-1] < first / 2 for line in done.of("history"))


def test_steps_per_epoch() -> None:
    face = Face("keras_member.py", BACKENDS[0], {**SIZE, "steps_per_epoch": 7, "epochs": 4})
    done = _well(run(face, "3"))
    assert done.end == 4 * (7 + 1), "four epochs of 7 steps, and their ends; the data's own has 20"
    assert {line["epoch"]: line["step"] for line in done.of("epoch")} == {0: 8, 1: 16, 2: 24, 3: 32}


@pytest.mark.parametrize("backend", BACKENDS)
def test_train_on_batch_with_kills(backend: str) -> None:
    face = Face("keras_member.py", backend, {**SIZE, "steps": 60})
    done = _well(run(face, "2:3", ("--respawn", "--kill-every", "2s", "--seed", "5"), variables={"PACE": "0.2"}))
    assert done.kills >= 2 and done.survivors >= 1, done.output[-3000:]
    first = next(line["loss"] for line in done.of("step"))
    assert max(line["final"] for line in done.of("final")) < first / 2


@pytest.mark.parametrize("strategy", ["sma", "easgd", "localsgd", "lookahead+ssgd"])
def test_strategies(strategy: str) -> None:
    face = Face("keras_member.py", BACKENDS[0], {**SIZE, "epochs": 4})
    alone = _well(run(face)).of("history")[-1]["history"]["val_loss"]
    done = _well(run(face, "3", ("--sync", strategy)))
    digests = {line["digest"] for line in done.of("end")}
    assert len(digests) == 1 and len(done.of("end")) == 3
    for line in done.of("history"):
        assert line["history"]["val_loss"][-1] < alone[0], "it trains worse than one epoch of one process"


def test_strategies_in_which_members_run_apart_are_refused() -> None:
    done = run(Face("keras_member.py", BACKENDS[0], SIZE), variables={"SPOTNIK_SYNC": "adpsgd"})
    assert done.status != 0 and "choose ssgd, sma" in done.output


@pytest.mark.parametrize("backend", BACKENDS)
def test_callbacks_decide_alike(backend: str, tmp_path: Path) -> None:
    face = Face("keras_member.py", backend, {**SIZE, "epochs": 30, "folder": str(tmp_path)})
    done = _well(run(face, "2:3", ("--respawn", "--kill-every", "3s", "--seed", "7"), variables={"PACE": "0.1"}))
    assert done.kills >= 1, done.output[-3000:]
    told = done.of("epochs")
    assert len({(line["epochs"][-1], line["rate"]) for line in told}) == 1, told
    assert 3 < told[0]["epochs"][-1] < 29, "EarlyStopping had nothing to decide"
    assert told[0]["rate"] < 3e-3, "ReduceLROnPlateau had nothing to decide"
    saved = sorted(path.name for path in tmp_path.glob("best-*.keras"))
    said = [line.split("best-")[1][:2] for line in done.output.splitlines() if "saving model to" in line]
    assert saved and {f"best-{number}.keras" for number in said} <= set(saved)
    rows = (tmp_path / "log.csv").read_text().splitlines()[1:]
    assert len({row.split(",")[0] for row in rows}) >= told[0]["epochs"][-1]
    if backend == "tensorflow":
        assert list((tmp_path / "board").rglob("events*"))


def test_a_log_goes_on_after_the_loss_of_all(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    face = Face("keras_member.py", BACKENDS[0], {**SIZE, "epochs": 4, "folder": str(tmp_path)})
    keep = {"SPOTNIK_CHECKPOINT": str(tmp_path / "checkpoints"), "SPOTNIK_CHECKPOINT_STEPS": "5"}
    assert run(face, "2", variables={**keep, "DIE_AT": "50"}).status != 0, "nobody was lost"
    before = (tmp_path / "log.csv").read_text()
    assert before.count("\n") == 3, "a head, and two epochs"
    _well(run(face, "2", variables=keep))
    after = (tmp_path / "log.csv").read_text()
    assert after.startswith(before), "the log begins anew"
    assert {row.split(",")[0] for row in after.splitlines()[1:]} == {"0", "1", "2", "3"}
