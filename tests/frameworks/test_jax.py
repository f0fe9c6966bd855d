# SPDX-License-Identifier: Apache-2.0
"""The words of spotnik.jax.

Claims: a donated tree is averaged in its own memory; a tree is one step, however many leaves it has; keys differ from
member to member and from step to step, and the replica does not; what cannot work says what to do.
"""

from __future__ import annotations

import importlib.util

import pytest
from runs import Face, run

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
    for line in done.of("largest"):
        assert line["largest"] == line["size"] - 1 and line["same"], line
        assert line["total"] == [2.0 * line["size"], line["size"]], line
    numbers = sorted({line["number"] for line in steps})
    assert {after - before for before, after in zip(numbers, numbers[1:])} == {3}, "a tree took several steps"
    folded = [tuple(line["folded"]) for line in steps]
    assert len(set(folded)) == len(folded), "two members, or two steps, draw the same numbers"
    assert len(done.of("end")) == 3 and done.check_digests() == 2


WORDS = {
    "eager": "have no derivative",
    "jitted": "have no derivative",
    "inside": "have no derivative",
    "forgotten": "were donated; assign replica.value",
    "shared": "memory of its own",
    "traced": "outside of jit",
    "numpy": "JAX arrays",
    "bool": 'op="min"',
}


def test_mistakes_are_told() -> None:
    done = run(FACE, mistakes=True)
    assert done.status == 0, done.output[-3000:]
    told = {line["refused"]: line["words"] for line in done.of("refused")}
    assert told.keys() == WORDS.keys(), done.output[-3000:]
    assert not {name: told[name] for name, words in WORDS.items() if words not in told[name]}
