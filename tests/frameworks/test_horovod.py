# SPDX-License-Identifier: Apache-2.0
"""Programs in Horovod's words: as its examples, with the import changed.

Claims: three members of a plain program agree; it survives kills without replacements; a newcomer to it is told what to
do. Under elastic.run members come and go, in PyTorch, TensorFlow 2 and Keras, and agree at the end. What means
something else is said once.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from runs import Face, Run, run, run_with_kills

SIZE = {"samples": 1500, "batch": 25, "epochs": 3}
PLAIN = {
    "torch": Face("horovod_torch.py", "torch", SIZE),
    "tensorflow": Face("horovod_tensorflow.py", "tensorflow", {**SIZE, "steps": 120}),
    "keras-tensorflow": Face("horovod_keras.py", "tensorflow", SIZE),
    "keras-torch": Face("horovod_keras.py", "torch", SIZE),
}
MORE = {"elastic": True, "epochs": 8, "commit": 4}
ELASTIC = {name: Face(one.program, one.backend, {**one.settings, **MORE}) for name, one in PLAIN.items()}
ELASTIC["keras-tensorflow-warm"] = Face("horovod_keras.py", "tensorflow", {**SIZE, **MORE, "warm": True})
ELASTIC["torch-anew"] = Face("horovod_torch.py", "torch", {**SIZE, **MORE, "anew": True, "commit": 1})


def _chosen(faces: dict[str, Face], name: str) -> Face:
    if not importlib.util.find_spec(faces[name].backend):
        pytest.skip(f"{faces[name].backend} is not in this environment")
    return faces[name]


def _ends(done: Run, members: int) -> list[dict[str, object]]:
    assert done.status == 0, done.output[-3000:]
    ends = done.of("end")
    assert len(ends) >= members, done.output[-3000:]
    assert len({line["digest"] for line in ends}) == 1, ends
    assert len({line["final"] for line in ends}) == 1, ends
    assert ends[0]["final"] < 1.0, ends  # of 2.3: it has learned
    return ends


@pytest.mark.parametrize("name", PLAIN)
def test_plain_programs(name: str) -> None:
    done = run(_chosen(PLAIN, name), "3")
    ends = _ends(done, 3)
    assert {line.get("rows", 6) for line in ends} == {6} and {line.get("root", 0) for line in ends} == {0}
    assert sorted(line["local"] for line in ends) == [0, 1, 2]  # type: ignore[type-var]
    assert done.output.count("rank() and size() are those of the start") == 3, "each member says it once"
    if name.startswith("keras"):
        assert {round(line["rate"], 6) for line in ends} == {0.003}, "the warm-up has ended at the rate asked for"
        assert len({tuple(line["logs"].items()) for line in done.of("ended") if line["ended"] == 2}) == 1


@pytest.mark.parametrize("name", ["torch", "tensorflow"])
def test_plain_programs_survive_kills(name: str) -> None:
    face = _chosen(PLAIN, name)
    done = run(face, "3", ("--kill-every", "2s", "--seed", "1"), variables={"PACE": "0.1"})
    assert done.kills >= 1 and done.survivors >= 1, done.output[-3000:]
    assert {line["size"] for line in _ends(done, 1) if "size" in line} <= {1, 2}


def test_a_newcomer_to_a_plain_program_is_told(tmp_path: Path) -> None:
    words, paced = "put its loop under elastic.run", {"PACE": "0.2", "ENOUGH": str(tmp_path / "enough")}
    face = _chosen(PLAIN, "torch")
    done = run(face, "3", ("--respawn", "--kill-every", "1s", "--seed", "1"), variables=paced, until=words, epochs=6)
    assert done.kills >= 1 and words in done.output, done.output[-3000:]


def test_a_notice_within_a_graph() -> None:
    done = run(_chosen(ELASTIC, "tensorflow"), "1:2", steps=40, notice=True)
    assert len(done.of("end")) == 1 and "1 left" in done.output and "0 failed" in done.output, done.output[-3000:]
    assert "Graph execution error" not in done.output


@pytest.mark.parametrize("name", ELASTIC)
def test_elastic_programs(name: str) -> None:
    face = _chosen(ELASTIC, name)
    for seed in (4, 5):
        done = run_with_kills(face, seed, 0.1)
        if len(done.of("end")) >= 2:
            break  # kills go on to the end, and on a slow machine its last step may be one member's
    ends = _ends(done, 1)
    entered = done.of("entered")
    assert {line["size"] for line in entered} >= {2, 3}, "nobody noticed that members came and went"
    assert len({line["end"] for line in ends}) == 1
    assert name != "torch-anew" or "MismatchError" not in done.output, "members stood at other calls"


def test_what_means_something_else_is_said_once() -> None:
    _chosen(PLAIN, "tensorflow")
    done = run(Face("horovod_says.py", "tensorflow", {}))
    assert done.status == 0, done.output[-3000:]
    for words in ("sparse gradients (tf.IndexedSlices) are made dense", "backward_passes_per_step changes nothing"):
        assert done.output.count(words) == 1, done.output[-3000:]
    assert done.output.count("process_set has no counterpart") == 2
    assert "64 calls were this member's own, and elastic.run has not come" in done.output
    assert "start it with: spotnik run -n 3" in done.output
