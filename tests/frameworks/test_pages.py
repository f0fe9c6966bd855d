# SPDX-License-Identifier: Apache-2.0
"""The recipes of the pages are programs: each is cut out of its page, given data, and run by members that agree.

Claims: every piece of Python in the pages for Keras, TensorFlow and JAX, and the program in place of
one of Horovod's for Keras, runs as it stands there; two members end with the same weights, which have learned; the
page's own command runs it.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import re
import subprocess
from pathlib import Path

import pytest
from runs import LIMIT_S, Run

ROOT = Path(__file__).resolve().parents[2]
COMMAND = "spotnik run -n 4 --respawn -- python train.py"  # of guide/keras.md

NUMBERS = """
import functools, json, zlib
import numpy as np
chance = np.random.default_rng(1)
x = chance.normal(size=(480, 8)).astype("float32")
y = (x @ chance.normal(size=(8, 1))).astype("float32")
images, labels = x, y  # in a recipe, x and y become those of the last batch
def tell(weights, error, before=np.mean(y * y)):
    digest = zlib.crc32(b"".join(np.asarray(one).tobytes() for one in weights))
    print(json.dumps({"end": 1, "digest": digest, "error": float(error), "before": float(before)}), flush=True)
"""
KERAS = """
import keras, spotnik.keras
keras.utils.set_random_seed(1)
model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(1, kernel_initializer="zeros")])
model.build((None, 8))
next_batch = lambda: (x[:40], y[:40])
class Batches(keras.utils.PyDataset):
    __len__ = lambda self: 12
    __getitem__ = lambda self, n: (x[n * 40 : n * 40 + 40], y[n * 40 : n * 40 + 40])
batches = Batches()
"""
KERAS_END = """
tell([one.numpy() for one in model.trainable_variables], np.mean((model.predict(images, verbose=0) - labels) ** 2))
"""
TAPE = """
score = keras.losses.MeanSquaredError()
optimizer = keras.optimizers.Adam(1e-2)
import tensorflow as tf
data = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(20)
"""
JAX = """
import jax, jax.numpy as jnp, optax
params = {"w": jnp.zeros((8, 1)), "b": jnp.zeros(1)}
predict = lambda params, x: x @ params["w"] + params["b"]
loss = lambda params, x, y: jnp.mean((predict(params, x) - y) ** 2)
"""
JAX_END = """
tell(jax.tree.leaves(replica.value["params"]), loss(replica.value["params"], images, labels))
"""
DRAWN = """
import spotnik.jax
steps = 12
tx = spotnik.jax.distributed(optax.adamw(1e-2))
def draw(key, count):
    rows = np.asarray(jax.random.randint(key, (count,), 0, len(images)))
    return images[rows], labels[rows]
def train(state, x, y):
    updates, opt = tx.update(jax.grad(loss)(state["params"], x, y), state["opt"], state["params"])
    return {"params": optax.apply_updates(state["params"], updates), "opt": opt}
"""
EQUINOX = """
import jax, jax.numpy as jnp, optax, spotnik.jax
import equinox as eqx
model = eqx.nn.MLP(8, 1, 16, 1, key=jax.random.key(1))
loss = lambda model, x, y: jnp.mean((jax.vmap(model)(x) - y) ** 2)
"""
EQUINOX_END = """
score = lambda model: loss(model, images, labels)
tell(jax.tree.leaves(replica.value), score(eqx.combine(replica.value[0], static)), score(model))
"""
NNX = """
import jax, jax.numpy as jnp, optax, spotnik.jax
from flax import nnx
class Net(nnx.Module):
    def __init__(self, rngs):
        self.first, self.last = nnx.Linear(8, 32, rngs=rngs), nnx.Linear(32, 1, rngs=rngs)
        self.norm, self.drop = nnx.BatchNorm(32, rngs=rngs), nnx.Dropout(0.1)
    def __call__(self, x, rngs):
        return self.last(self.drop(nnx.relu(self.norm(self.first(x))), rngs=rngs))
model = Net(nnx.Rngs(1))
loss = lambda predicted, y: jnp.mean((predicted - y) ** 2)
"""
NNX_END = """
model = nnx.merge(graph, replica.value["params"], replica.value["statistics"], copy=True)
leaves = jax.tree.leaves([replica.value[name] for name in ("params", "statistics", "opt")])
moved = float(np.abs(np.asarray(model.norm.mean[...])).max())
assert moved > 0, "the statistics are those of the beginning"
score = lambda model: loss(model(images, nnx.Rngs(dropout=0)), labels)
tell([*leaves, *map(jax.random.key_data, [replica.value["key"]])], score(model), score(Net(nnx.Rngs(1))))
"""


@dataclasses.dataclass
class Recipe:
    page: str
    number: int  # of the piece in its page
    modules: tuple[str, ...]
    before: str
    after: str

    @property
    def text(self) -> str:
        return pieces(self.page)[self.number]


RECIPES = {
    "keras": Recipe("keras.md", 0, ("keras",), KERAS, KERAS_END),
    "keras-checkpoint": Recipe("keras.md", 1, ("keras",), KERAS, KERAS_END),
    "keras-several": Recipe("keras.md", 2, ("keras",), KERAS, KERAS_END),
    "keras-train_on_batch": Recipe("keras.md", 3, ("keras",), KERAS, KERAS_END),
    "tensorflow": Recipe("tensorflow.md", 0, ("tensorflow", "keras"), KERAS + TAPE, KERAS_END),
    "jax": Recipe("jax.md", 0, ("jax", "optax"), JAX, JAX_END),
    "jax-nnx": Recipe("jax.md", 1, ("jax", "flax"), NNX, NNX_END),
    "jax-drawn": Recipe("jax.md", 2, ("jax", "optax"), JAX + DRAWN, JAX_END),
    "jax-equinox": Recipe("jax.md", 3, ("jax", "equinox"), EQUINOX, EQUINOX_END),
    "from-horovod": Recipe("coming-from.md", 3, ("keras",), KERAS, KERAS_END),
}


def pieces(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs/guide" / page).read_text(), re.DOTALL)


def backend() -> str:
    return next(name for name in ("jax", "tensorflow", "torch") if importlib.util.find_spec(name))


def go(command: str, folder: Path, recipe: Recipe) -> Run:
    if not all(map(importlib.util.find_spec, recipe.modules)):
        pytest.skip(f"{recipe.modules[0]} is not in this environment")
    (folder / "train.py").write_text(NUMBERS + recipe.before + recipe.text + recipe.after)
    name = "tensorflow" if "tensorflow" in recipe.modules else backend()
    environment = {**os.environ, "KERAS_BACKEND": name, "TF_CPP_MIN_LOG_LEVEL": "3"}
    (folder / "checkpoints").mkdir()
    done = subprocess.run(
        command.split(),
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return Run(done.returncode, done.stdout)


def agreed(done: Run, members: int) -> None:
    assert done.status == 0, done.output[-3000:]
    ends = done.of("end")
    assert len(ends) == members and len({line["digest"] for line in ends}) == 1, ends
    for line in ends:
        assert line["error"] < line["before"], "it has learned nothing"


@pytest.mark.parametrize("name", RECIPES)
def test_recipes(name: str, tmp_path: Path) -> None:
    agreed(go("spotnik run -n 2 -- python train.py", tmp_path, RECIPES[name]), 2)


def test_the_command_of_the_page(tmp_path: Path) -> None:
    assert COMMAND in (ROOT / "docs/guide/keras.md").read_text()
    agreed(go(COMMAND, tmp_path, RECIPES["keras"]), 4)


def test_every_piece_of_the_pages_is_run() -> None:
    run = {(one.page, one.number) for one in RECIPES.values() if one.page != "coming-from.md"}
    assert run == {(page, number) for page, _ in run for number in range(len(pieces(page)))}
