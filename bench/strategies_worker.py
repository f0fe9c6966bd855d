# SPDX-License-Identifier: Apache-2.0
"""A worker of bench/strategies.py: trains a small model under a strategy, and notes what it holds after every commit.

Decides what is trained: data and how they are cut, models, optimiser. Writes into --folder, under its process number, a
file of pairs (step, digest of the agreed model), one for each commit, (0, time) where it begins or was cut off, and at
the end its loss.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np

import spotnik

CONTEXT = 8
TUNING, VALIDATION = 0.2, 0.2  # of the data: the last fifth is for validation, the one before it for choosing the rate


class Characters:
    """Contexts of 8 characters and the next one. The text is cut where it stands, so no context is in two parts."""

    embedded, hidden, penalty = 8, 64, 0.0

    def __init__(self, path: str) -> None:
        text = np.frombuffer(Path(path).read_bytes(), dtype=np.uint8)
        letters, codes = np.unique(text, return_inverse=True)
        windows = np.lib.stride_tricks.sliding_window_view(codes.astype(np.uint8), CONTEXT + 1)
        ends = [int(len(windows) * (1 - part)) for part in (VALIDATION + TUNING, VALIDATION)]
        self.train = windows[: ends[0] - CONTEXT]
        self.kept = {"tuning": windows[ends[0] : ends[1] - CONTEXT][::13], "validation": windows[ends[1] :][::13]}
        self.classes = len(letters)
        self.inputs = self.embedded * CONTEXT

    def batch(self, share: Any, step: int) -> Any:
        """The samples of a share."""
        return self.train[share, :-1], self.train[share, -1]

    def aside(self, part: str) -> Any:
        """What was kept for tuning or validation."""
        return self.kept[part][:, :-1], self.kept[part][:, -1]


class Images:
    """Pictures, at half their resolution, and their classes; in training each is moved by up to two pixels first."""

    embedded, hidden, penalty = 0, 64, 0.003
    inputs, classes = 14 * 14, 10

    def __init__(self, folder: str) -> None:
        x, y = self.read(folder, "*images*idx3*"), self.read(folder, "*labels*idx1*")
        mixed = np.random.default_rng(0).permutation(len(x))  # the first half of the file is the harder one
        x, y = x[mixed], y[mixed]
        ends = [int(len(x) * (1 - part)) for part in (VALIDATION + TUNING, VALIDATION)]
        padded = np.pad(x, ((0, 0), (2, 2), (2, 2))).astype(np.float32) / 255
        self.moved = np.lib.stride_tricks.sliding_window_view(padded, (28, 28), axis=(1, 2))
        self.train, self.y = y[: ends[0]], y
        self.kept = {"tuning": slice(ends[0], ends[1]), "validation": slice(ends[1], len(x))}

    def read(self, folder: str, pattern: str) -> Any:
        """An IDX file."""
        path = next(iter(sorted(Path(folder).rglob(pattern))))
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        sizes = [int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(data[3])]
        return np.frombuffer(data, dtype=np.uint8, offset=4 + 4 * len(sizes)).reshape(sizes)

    def batch(self, share: Any, step: int) -> Any:
        """The samples of a share, moved by what depends on the step and the share alone."""
        by = np.random.default_rng((step, int(share[0]))).integers(0, 5, (2, len(share)))
        return self.halved(self.moved[share, by[0], by[1]]), self.y[share]

    def aside(self, part: str) -> Any:
        """What was kept for tuning or validation, where it stands."""
        kept = self.kept[part]
        return self.halved(self.moved[kept, 2, 2]), self.y[kept]

    def halved(self, x: Any) -> Any:
        """Means of 2 x 2 pixels, in a row."""
        return x.reshape(len(x), 14, 2, 14, 2).mean(axis=(2, 4)).reshape(len(x), -1)


class Network:
    """[embedding of characters,] a hidden layer of tanh, softmax; parameters and gradients in one vector each."""

    def __init__(self, data: Any, seed: int) -> None:
        self.embedded, self.penalty = data.embedded, np.float32(data.penalty)
        self.shapes = [(data.inputs, data.hidden), (data.hidden,), (data.hidden, data.classes), (data.classes,)]
        self.shapes += [(data.classes, data.embedded)] * bool(data.embedded)
        count = sum(math.prod(shape) for shape in self.shapes)
        generator = np.random.default_rng(seed)
        self.w, self.g = np.zeros(count, dtype=np.float32), np.zeros(count, dtype=np.float32)
        for index, part in enumerate(self.parts(self.w)):
            if part.ndim > 1:
                part[:] = generator.standard_normal(part.shape) / math.sqrt(part.shape[0] if index < 4 else 4)

    def parts(self, vector: Any) -> list[Any]:
        """The arrays in a vector."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])
        return [part.reshape(shape) for part, shape in zip(np.split(vector, ends[:-1]), self.shapes)]

    def forward(self, w: Any, x: Any) -> tuple[Any, Any, Any]:
        """Inputs, hidden layer and probabilities at `w`."""
        w1, b1, w2, b2, *table = self.parts(w)
        flat = table[0][x].reshape(len(x), -1) if self.embedded else x
        h = np.tanh(flat @ w1 + b1)
        logits = h @ w2 + b2
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        return flat, h, p / p.sum(axis=1, keepdims=True)

    def loss(self, w: Any, x: Any, y: Any) -> float:
        """Mean loss at `w`, in nats."""
        _, _, p = self.forward(w, x)
        return float(-np.log(p[np.arange(len(y)), y].astype(np.float64) + 1e-30).mean())

    def gradient(self, w: Any, x: Any, y: Any) -> None:
        """Of the mean loss at `w`, and of half the penalty times its square, into self.g."""
        w1, _, w2, _, *_ = self.parts(w)
        g1, gb1, g2, gb2, *gtable = self.parts(self.g)
        flat, h, p = self.forward(w, x)
        p[np.arange(len(y)), y] -= 1
        p /= len(y)
        g2[:], gb2[:] = h.T @ p, p.sum(axis=0)
        dh = (p @ w2.T) * (1 - h * h)
        g1[:], gb1[:] = flat.T @ dh, dh.sum(axis=0)
        if self.embedded:
            gtable[0][:] = 0
            np.add.at(gtable[0], x.reshape(-1), (dh @ w1.T).reshape(-1, self.embedded))
        if self.penalty:
            self.g += self.penalty * w


class Adam:
    """Adam (0.9, 0.99), momenta registered; the rate rises over the first 2 % of `steps` and falls to 0 as a cosine."""

    def __init__(self, count: int, steps: int, rate: float) -> None:
        self.m, self.v = np.zeros(count, dtype=np.float32), np.zeros(count, dtype=np.float32)
        self.t = np.zeros(1)
        self.steps, self.rate, self.now = steps, rate, 1
        for name in ("m", "v", "t"):
            spotnik.register(name, getattr(self, name))

    def apply(self, w: Any, g: Any) -> None:
        """One step at the job's step `now`."""
        self.t += 1
        self.m += np.float32(0.1) * (g - self.m)
        self.v += np.float32(0.01) * (g * g - self.v)
        done = min(1.0, self.now / self.steps)
        rate = self.rate * 0.5 * (1 + math.cos(math.pi * done)) * min(1.0, done / 0.02)
        first, second = 1 - 0.9 ** self.t[0], 1 - 0.99 ** self.t[0]
        w -= np.float32(rate / first) * self.m / (np.sqrt(self.v / np.float32(second)) + np.float32(1e-8))


def note(notes: int, step: int, what: int) -> None:
    """Into the file, at once and whole: we may be killed at any instant."""
    os.write(notes, struct.pack("=QQ", step, what))


def train(options: argparse.Namespace) -> None:
    """Train in the job that `spotnik run` has set up."""
    data: Any = Characters(options.text) if options.model == "characters" else Images(options.images)
    network = Network(data, options.seed)
    job = spotnik.init(samples=len(data.train), batch=options.batch, steps_max=options.steps)
    optimiser = Adam(len(network.w), options.steps, options.rate)
    sync = spotnik.Sync(job, network.w, optimiser.apply, strategy=options.sync)
    notes = os.open(f"{options.folder}/{os.getpid()}.digests", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    note(notes, 0, int(time.time() * 1000))
    order, epoch = np.arange(len(data.train)), -1
    for step in job:
        if step.data_epoch != epoch:
            epoch = step.data_epoch
            order = np.random.default_rng((options.seed, epoch)).permutation(len(data.train))
        share = order[[index for part in step.ranges for index in part]]
        optimiser.now = step.number
        network.g[:] = 0
        if len(share):
            network.gradient(network.w, *data.batch(share, step.number))
        time.sleep(options.pause / 1000)
        committed = sync.step(network.g)
        note(notes, *((step.number, sync.digest) if committed else (0, int(time.time() * 1000))))
    told = {"loss": network.loss(sync.agreed, *data.aside(options.part)), "steps": options.steps}
    Path(f"{options.folder}/{os.getpid()}.json").write_text(json.dumps(told))
    spotnik.leave()


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description="a worker of bench/strategies.py")
    parser.add_argument("--model", choices=["characters", "images"], required=True)
    parser.add_argument("--part", choices=["tuning", "validation"], required=True)
    parser.add_argument("--sync", required=True)
    for name in ("text", "images", "folder"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("steps", "batch", "seed"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("rate", "pause"):
        parser.add_argument(f"--{name}", type=float, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    train(parse())
