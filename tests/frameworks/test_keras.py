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
from runs import Face, Run, distance, run, run_with_kills
from test_members import NOISE, ROUNDING, SIZE

UNEVEN = {**SIZE, "samples": 1030}  # the last batch of an epoch has 30 samples, which three members share
BACKENDS = [name for name in ("jax", "tensorflow", "torch") if importlib.util.find_spec(name)]
HAS_TENSORFLOW = "tensorflow" in BACKENDS

pytestmark = pytest.mark.skipif(not importlib.util.find_spec("keras"), reason="keras is not in this environment")
with_tensorflow = pytest.mark.skipif(not HAS_TENSORFLOW, reason="tensorflow is not in this environment")
with_torch = pytest.mark.skipif("torch" not in BACKENDS, reason="torch is not in this environment")


def _well(done: Run) -> Run:
    assert done.status == 0, done.output[-3000:]
    done.check_digests()
    return done


def _same_history(done: Run, plain: Run) -> None:
    """Every member tells the numbers of one process: of metrics, of a train step, of validation; and its updates."""
    [expected] = plain.of("history")
    told = done.of("history")
    assert len(told) == 3
    for line in told:
        assert line["history"].keys() == expected["history"].keys()
        for name, row in expected["history"].items():
            assert line["history"][name] == pytest.approx(row, rel=1e-2, abs=1e-2), name
    schedule = [{name: line[name] for name in ("rate", "updates")} for line in done.of("updates")]
    assert schedule == [{name: plain.of("updates")[0][name] for name in ("rate", "updates")}] * 3


def _saved(done: Run) -> list[str]:
    """The files that ModelCheckpoint says it has saved."""
    said = [line for line in done.output.splitlines() if "finished saving model to" in line]
    return [f"best-{line.split('best-')[1][:2]}.keras" for line in said]


DATA = [
    pytest.param(BACKENDS[0], {"data": "pydataset"}, id="pydataset"),
    pytest.param("tensorflow", {"data": "tf.data"}, id="tf.data", marks=with_tensorflow),
    pytest.param("tensorflow", {"data": "repeated"}, id="tf.data-repeated", marks=with_tensorflow),
    pytest.param("tensorflow", {"data": "counted"}, id="tf.data-counted", marks=with_tensorflow),
    pytest.param("torch", {"data": "loader"}, id="loader", marks=with_torch),
    pytest.param(BACKENDS[0], {"data": "weighted"}, id="weighted"),
    *(pytest.param(name, {"data": "arrays"}, id=f"arrays-{name}") for name in BACKENDS),
]


@pytest.mark.parametrize(("backend", "more"), DATA)
def test_uneven_batches_of_all_kinds(backend: str, more: dict[str, object], tmp_path: Path) -> None:
    face = Face("keras_member.py", backend, UNEVEN)
    weights, three = tmp_path / "plain.npz", tmp_path / "three.npz"
    plain = run(face, weights=weights, plain=True, **more)
    done = _well(run(face, "3", weights=three, **more))
    assert distance(three, weights) < ROUNDING
    assert done.end == 2 * 11 + 2, "two epochs of 11 batches, and their ends"
    _same_history(done, plain)


def test_a_split_for_validation(tmp_path: Path) -> None:
    face = Face("keras_member.py", BACKENDS[0], {**UNEVEN, "split": 0.2})
    weights, three = tmp_path / "plain.npz", tmp_path / "three.npz"
    plain = run(face, weights=weights, plain=True)
    done = _well(run(face, "3", weights=three))
    assert distance(three, weights) < ROUNDING
    assert done.end == 2 * 9 + 2, "two epochs of 824 samples, and their ends"
    _same_history(done, plain)


def test_what_members_cannot_share_is_refused() -> None:
    done = run(Face("refused_member.py", BACKENDS[0], {}))
    words = {"generator": "a generator cannot begin where the others are", "endless": "an endless PyDataset"}
    words |= {"unprepared": "or call spotnik.keras.prepare(model)", "elsewhere": "keras.optimizers.MultiOptimizer"}
    words |= {"longer": "a job consumes one data set", "listed": "np.array(list)"}
    words |= {"shared": "without shard()", "second": "keras.optimizers.MultiOptimizer"}
    if HAS_TENSORFLOW:
        words |= {"repeated": "take repeat() out", "shuffled": "let the pipeline shuffle, with a seed"}
        words |= {"unseeded": "has no seed", "anew": "reshuffle_each_iteration=False"}
        words |= {"cached": "say .cache() behind it"}
        assert "every member reads all of it" in done.output, "counted data are not called so"
    assert "keeps 18 MiB of weights, and more than 16 do not travel" in done.output, done.output[-3000:]
    assert done.output.count("sums over a member's share") == 1, done.output[-3000:]
    told = {line["refused"]: line["words"] for line in done.of("refused")}
    assert told.keys() == words.keys(), done.output[-3000:]
    assert not {name: told[name] for name in words if words[name] not in told[name]}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_train_step_of_its_own(backend: str, tmp_path: Path) -> None:
    # The last batch has one sample, so two members tell numbers of a step that they did not compute.
    face = Face("keras_member.py", backend, {**SIZE, "samples": 501, "own_step": True})
    weights, three = tmp_path / "plain.npz", tmp_path / "three.npz"
    plain = run(face, weights=weights, plain=True)
    done = _well(run(face, "3", weights=three))
    assert distance(three, weights) < ROUNDING
    _same_history(done, plain)


CODERS = [pytest.param(name, False, id=name) for name in BACKENDS]


@pytest.mark.parametrize(("backend", "coder"), [*CODERS, pytest.param("tensorflow", True, marks=with_tensorflow)])
def test_inputs_without_targets(backend: str, coder: bool, tmp_path: Path) -> None:
    face = Face("inputs_member.py", backend, {"coder": coder})
    weights, three = tmp_path / "plain.npz", tmp_path / "three.npz"
    [plain] = run(face, weights=weights, plain=True).of("kinds")
    done = _well(run(face, "3", weights=three))
    assert [line["kinds"] for line in done.of("kinds")] == [plain["kinds"]] * 3, "a train step gets another structure"
    assert distance(three, weights) < ROUNDING


USUAL = {
    "accumulate": {"gradient_accumulation_steps": 2, "use_ema": True, "ema_overwrite_frequency": 6},
    "float16": {},  # compile puts a LossScaleOptimizer around the optimizer
    "several": {},
    "frozen": {},  # a layer
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", USUAL)
def test_usual_optimizers(name: str, backend: str, tmp_path: Path) -> None:
    given = {**SIZE, "samples": 530, "batch": 50, "of_optimizer": USUAL[name]}
    if name == "accumulate":
        given |= {"class_weight": True}
        given |= {"of_compile": {"jit_compile": True}} if backend != "torch" else {}
    if name == "float16":  # Adam makes whole steps of what float16 rounds
        given |= {"policy": "mixed_float16", "scale": 64.0, "optimizer": "sgd", "unclipped": True}
    given |= {name: True} if name in ("several", "frozen") else {}
    face = Face("keras_member.py", backend, given)
    weights, three = tmp_path / "plain.npz", tmp_path / "three.npz"
    plain = run(face, weights=weights, plain=True)
    assert plain.status == 0, plain.output[-3000:]
    done = _well(run(face, "3", weights=three))
    assert done.check_digests() >= 2
    assert distance(three, weights) < ROUNDING
    _same_history(done, plain)
    [kept] = plain.of("frozen")
    assert done.of("frozen") == [kept] * 3 and bool(kept["frozen"]) == (name == "frozen"), "a frozen weight has changed"


@pytest.mark.parametrize("name", ["accumulate", "float16"])
def test_usual_optimizers_with_kills(name: str) -> None:
    more = {"of_optimizer": USUAL[name], "policy": "mixed_float16" if name == "float16" else "float32"}
    face = Face("keras_member.py", BACKENDS[0], {**SIZE, **more})
    [undisturbed] = _well(run(face)).of("history")
    done = _well(run_with_kills(face, 9, 0.3))
    assert done.check_digests() >= 1
    for line in done.of("history"):
        expected = pytest.approx(undisturbed["history"]["val_loss"][-1], rel=NOISE, abs=NOISE * 0.1)  # as Subject.near
        assert line["history"]["val_loss"][-1] == expected


AGAIN = {"samples": 500, "batch": 50, "more": 3}


@pytest.mark.parametrize("backend", BACKENDS)
def test_layers_that_thaw_and_further_fits(backend: str, tmp_path: Path) -> None:
    face = Face("again_member.py", backend, AGAIN)
    weights, one = tmp_path / "plain.npz", tmp_path / "one.npz"
    assert run(face, weights=weights, plain=True).status == 0
    done = _well(run(face, weights=one))
    assert done.end == 5 * (10 + 1) and done.of("final")[0]["epochs"] == [2, 1, 1, 1]
    assert distance(one, weights) < ROUNDING
    undisturbed = done.of("final")[0]["final"]
    done = _well(run_with_kills(face, 11, 0.25))
    assert done.check_digests() >= 4 and 5 * (10 + 1) <= done.end <= 5 * (10 + 2)
    assert max(line["final"] for line in done.of("final")) == pytest.approx(undisturbed, rel=NOISE)


def test_fits_that_go_on_after_the_loss_of_all(tmp_path: Path) -> None:
    face = Face("again_member.py", BACKENDS[0], AGAIN)
    keep = {"SPOTNIK_CHECKPOINT": str(tmp_path), "SPOTNIK_CHECKPOINT_STEPS": "5"}
    assert run(face, "2", variables={**keep, "DIE_AT": "38"}).status != 0, "nobody was lost"
    done = _well(run(face, "2", variables=keep))
    assert 22 < min(line["step"] for line in done.of("step")) <= 39, "it began anew, or not where the checkpoint was"
    assert {tuple(line["epochs"]) for line in done.of("final")} <= {(0, 0, 1, 1), (0, 1, 1, 1)}
    assert done.end == 5 * (10 + 1) and done.check_digests() >= 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_callback_that_changes_the_rate_before_the_first_step(backend: str, tmp_path: Path) -> None:
    face = Face("keras_member.py", backend, {**SIZE, "samples": 500, "batch": 50, "scheduler": True})
    weights, three = tmp_path / "plain.npz", tmp_path / "three.npz"
    plain = run(face, weights=weights, plain=True)
    done = _well(run(face, "3", weights=three))
    assert done.check_digests() >= 2
    assert distance(three, weights) < ROUNDING
    _same_history(done, plain)
    done = _well(run_with_kills(face, 12, 0.5))
    assert done.check_digests() >= 1
    assert {line["rate"] for line in done.of("updates")} == {plain.of("updates")[0]["rate"]}


def test_several_optimizers_of_a_train_step_are_refused() -> None:
    done = run(Face("keras_member.py", BACKENDS[0], {**SIZE, "own_step": True, "steals": True}))
    assert done.status != 0 and "keras.optimizers.MultiOptimizer" in done.output, done.output[-3000:]


@with_tensorflow
def test_a_train_step_that_moves_weights_and_counts(tmp_path: Path) -> None:
    face, weights, three = Face("beside_member.py", "tensorflow", {}), tmp_path / "plain.npz", tmp_path / "three.npz"
    [plain] = run(face, weights=weights, plain=True).of("end")
    done = _well(run(face, "3", weights=three))
    assert [line["beside"] for line in done.of("end")] == [plain["beside"]] * 3, done.output[-3000:]
    assert plain["beside"] == [45, 45.0], "three epochs of 15 steps"
    assert distance(three, weights) < 1e-4, "nothing of it divides by small numbers"


@with_tensorflow
def test_an_average_of_weights_that_are_trained_is_refused() -> None:
    done = run(Face("beside_member.py", "tensorflow", {"average": True}))
    assert done.status != 0 and "trainable = False" in done.output, done.output[-3000:]


@pytest.mark.parametrize("backend", [name for name in BACKENDS if name != "jax"])
def test_state_beside_keras_variables_with_kills(backend: str) -> None:
    done = _well(run_with_kills(Face("beside_member.py", backend, {}), 7, 0.3))
    told: dict[int, list[object]] = {}
    for line in done.of("epoch"):
        told.setdefault(line["epoch"], []).append(line["beside"])
    assert max(map(len, told.values())) >= 2, "nobody to compare with"
    assert all(one == same[0] for same in told.values() for one in same), told
    counts = {line["beside"][0 if backend == "tensorflow" else 2] for line in done.of("end")}
    assert counts == {max(counts)} and max(counts) >= 45, counts


@with_tensorflow
@pytest.mark.parametrize(
    ("more", "one_process", "same"),
    [
        pytest.param({"optimizer": "sgd", "unclipped": True}, {}, True, id="sgd"),
        pytest.param({}, {"optimizer": "dense"}, True, id="adam"),
        # Keras squares and clips each entry of a sparse gradient by itself; if this changes, so do the pages.
        pytest.param({}, {}, False, id="adam-sparse"),
    ],
)
def test_embeddings(more: dict[str, object], one_process: dict[str, object], same: bool, tmp_path: Path) -> None:
    face = Face("keras_member.py", "tensorflow", {**SIZE, "samples": 300, "model": "embedded", **more})
    plain, three = tmp_path / "plain.npz", tmp_path / "three.npz"
    assert run(face, weights=plain, plain=True, **one_process).status == 0
    _well(run(face, "3", weights=three))
    assert (distance(three, plain) < ROUNDING) == same


@pytest.mark.parametrize("backend", BACKENDS)
def test_members_draw_other_numbers(backend: str) -> None:
    done = _well(run(Face("seeds_member.py", backend, {}), "2"))
    drawn = [tuple(line["drawn"]) for line in done.of("drawn")]
    assert len(drawn) >= 2 * 6, "the layer was not seen to draw"
    assert len(set(drawn)) == len(drawn), "two members, or two steps, draw the same numbers"
    assert len(done.of("end")) == 2 and done.check_digests() >= 1, "the state of the generator differs"


ONCE = [one for one in DATA if one.id not in ("weighted", "tf.data-repeated")]
CACHED = pytest.param("tensorflow", {"data": "cached"}, id="tf.data-cached", marks=with_tensorflow)


@pytest.mark.parametrize(("backend", "more"), [*ONCE, CACHED])
def test_each_sample_once_an_epoch_with_kills(backend: str, more: dict[str, object]) -> None:
    face = Face("once_member.py", backend, {"samples": 610, "batch": 20, "epochs": 3, **more})
    done = _well(run_with_kills(face, 6, 0.1))
    ended = done.of("epoch")
    assert {line["epoch"] for line in ended} == {0, 1, 2}
    assert {(line["logs"]["least"], line["logs"]["most"]) for line in ended} == {(1.0, 1.0)}, ended


@pytest.mark.parametrize("backend", BACKENDS)
def test_statistics_and_dropout_with_kills(backend: str) -> None:
    face = Face("keras_member.py", backend, {**SIZE, "model": "normed"})
    done = _well(run_with_kills(face, 8, 0.3))
    assert done.check_digests() >= 1
    first = next(line["loss"] for line in done.of("step"))
    assert all(line["history"]["loss"][-1] < first / 2 for line in done.of("history"))


def test_steps_per_epoch_and_one_member_that_prints_and_saves(tmp_path: Path) -> None:
    more = {"steps_per_epoch": 7, "epochs": 4, "folder": str(tmp_path), "verbose": 2}
    done = _well(run(Face("keras_member.py", BACKENDS[0], {**SIZE, **more}), "3"))
    assert done.end == 4 * (7 + 1), "four epochs of 7 steps, and their ends; the data's own has 20"
    assert {line["epoch"]: line["step"] for line in done.of("epoch")} == {0: 8, 1: 16, 2: 24, 3: 32}
    assert [done.output.count(f"Epoch {number}/4") for number in (1, 2, 3, 4)] == [1] * 4, "more than one shows it"
    said = _saved(done)
    assert said, "none says that it saves"
    assert len(set(said)) == len(said), "more than one says that it saves"
    assert [row.split(",")[0] for row in (tmp_path / "log.csv").read_text().splitlines()[1:]] == ["0", "1", "2", "3"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_train_on_batch_with_kills(backend: str) -> None:
    face = Face("keras_member.py", backend, {**SIZE, "steps": 60})
    done = _well(run_with_kills(face, 5, 0.2))
    told = [(line["step"], line["loss"]) for line in done.of("loss")]
    assert len(set(told)) == len(dict(told)), "members told other losses of the same step"
    assert max(line["final"] for line in done.of("final")) < told[0][1] / 2


@with_torch
def test_a_batch_that_the_others_went_on_without_is_trained_anew(tmp_path: Path) -> None:
    done = _well(run(Face("stopped_member.py", "torch", {"folder": str(tmp_path)}), "3"))
    told = done.of("stopped")
    without = max(line["step"] for line in told if line["size"] == 2)
    after = [line["step"] for line in told if line["stopped"] and line["size"] == 3 and line["step"] > without]
    assert len(after) == 3, "it was not left out, or did not come back"


@with_torch
def test_a_member_that_returns_in_a_later_epoch(tmp_path: Path) -> None:
    done = _well(run(Face("stopped_member.py", "torch", {"folder": str(tmp_path), "fit": True}), "3"))
    ended = done.of("epoch")
    its = {line["epoch"] for line in ended if line["stopped"]}
    passed = {line["epoch"] for line in ended} - its
    assert len(passed) >= 2 and max(its) > max(passed), "it was not left out, or did not come back"
    logs = {(line["epoch"], tuple(sorted(line["logs"].items()))) for line in ended}
    assert len(logs) == len({epoch for epoch, _ in logs}), "callbacks saw other logs of the same epoch"
    losses = {(line["step"], line["loss"]) for line in done.of("loss")}
    assert len(losses) == len({step for step, _ in losses}), "callbacks saw other losses of the same step"


@pytest.mark.parametrize("strategy", ["sma", "easgd", "localsgd", "lookahead+ssgd"])
def test_strategies(strategy: str) -> None:
    face = Face("keras_member.py", BACKENDS[0], {**SIZE, "epochs": 4})
    alone = _well(run(face)).of("history")[-1]["history"]["val_loss"]
    done = _well(run(face, "3", ("--sync", strategy)))
    digests = {line["digest"] for line in done.of("end")}
    assert len(digests) == 1 and len(done.of("end")) == 3
    for line in done.of("history"):
        assert line["history"]["val_loss"][-1] < alone[0], "it trains worse than one epoch of one process"


@pytest.mark.parametrize("strategy", ["sma", "easgd", "localsgd", "lookahead+ssgd"])
def test_strategies_with_kills_and_uneven_batches(strategy: str) -> None:
    face = Face("keras_member.py", BACKENDS[0], {**UNEVEN, "epochs": 4})
    options = ("--sync", strategy, "--respawn", "--kill-every", "2s")
    done = _well(run_with_kills(face, 9, 0.2, options=options))
    first = next(line["loss"] for line in done.of("step"))
    last = [line["logs"]["val_loss"] for line in done.of("epoch") if line["epoch"] == 3]
    assert last and max(last) < first / 2


@pytest.mark.parametrize("strategy", ["sma", "localsgd"])
def test_strategies_after_the_loss_of_all(strategy: str, tmp_path: Path) -> None:
    face = Face("keras_member.py", BACKENDS[0], {**SIZE, "epochs": 3})
    keep = {"SPOTNIK_CHECKPOINT": str(tmp_path), "SPOTNIK_CHECKPOINT_STEPS": "5", "SPOTNIK_SYNC": strategy}
    assert run(face, "2", variables={**keep, "DIE_AT": "33"}).status != 0, "nobody was lost"
    done = _well(run(face, "2", variables=keep))
    assert 5 < min(line["step"] for line in done.of("step")) <= 34, "it began anew, or not where the checkpoint was"
    assert done.end == 3 * 20 + 3
    losses = [line["history"]["val_loss"][-1] for line in done.of("history")]
    assert max(losses) < 1.0, "of 2.3: it has not learned"


def test_a_member_that_finds_all_epochs_trained_has_the_weights(tmp_path: Path) -> None:
    face = Face("keras_member.py", BACKENDS[0], {**SIZE, "samples": 200})
    keep = {"SPOTNIK_CHECKPOINT": str(tmp_path / "checkpoints"), "SPOTNIK_CHECKPOINT_STEPS": "1"}
    (tmp_path / "checkpoints").mkdir()
    first, second = tmp_path / "first.npz", tmp_path / "second.npz"
    _well(run(face, weights=first, variables=keep))
    again = _well(run(face, weights=second, variables=keep))
    assert not again.of("loss"), "it took steps"
    assert distance(second, first) == 0


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
    saved = {path.name for path in tmp_path.glob("best-*.keras")}
    assert saved and set(_saved(done)) <= saved
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
