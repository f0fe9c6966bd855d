#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does every strategy learn as well as S-SGD, undisturbed and with workers revoked?

    PYTHONPATH=python SPOTNIK_LIBRARY=build/src/libspotnik.so bench/strategies.py --build build --text FILE --images FOLDER --out docs/results/strategies

For each strategy a small character model and a small image model (NumPy, Adam, cosine schedule) are trained for the same number
of steps by three workers under `spotnik run`; with --kill-every and --respawn in the disturbed runs. What is compared is the validation loss of what the
members agree on at the end. Writes OUT.json, OUT.md and OUT.svg. --text: any text; --images: a folder with IDX files (MNIST).
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import spotnik

STRATEGIES = [
    "ssgd", "sma", "easgd", "localsgd", "lookahead", "lookahead+sma", "adpsgd", "adpsgd-symmetric", "asp",
]  # fmt: skip
CONTEXT = 16


# ---- a worker ----


def characters(path: str) -> Any:
    """((contexts, next), ...) for training and validation: the last tenth of the text is kept aside."""
    codes = np.frombuffer(Path(path).read_bytes()[:400_000], dtype=np.uint8)
    windows = np.lib.stride_tricks.sliding_window_view(codes, CONTEXT + 1)
    kept = len(windows) // 10
    some = windows[-kept:][:: max(1, kept // 4000)]
    return (windows[:-kept, :-1], windows[:-kept, -1]), (some[:, :-1], some[:, -1])


def images(folder: str) -> Any:
    """The same of pictures and their classes."""

    def idx(pattern: str) -> Any:
        path = next(iter(sorted(Path(folder).rglob(pattern))))
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        sizes = [int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(data[3])]
        return np.frombuffer(data, dtype=np.uint8, offset=4 + 4 * len(sizes)).reshape(sizes)

    x, y = idx("*images*idx3*"), idx("*labels*idx1*")
    x = x.reshape(len(x), -1).astype(np.float32) / 255
    kept = len(x) // 10
    return (x[:-kept], y[:-kept]), (x[-kept:], y[-kept:])


class Network:
    """[embedding of bytes,] a hidden layer of tanh, softmax; all parameters and gradients in one vector each."""

    def __init__(self, inputs: int, hidden: int, classes: int, embedded: int = 0) -> None:
        self.embedded = embedded
        shapes = [(inputs, hidden), (hidden,), (hidden, classes), (classes,)] + [(256, embedded)] * bool(embedded)
        count = sum(math.prod(shape) for shape in shapes)
        generator = np.random.default_rng(1)
        self.w, self.g = np.zeros(count, dtype=np.float32), np.zeros(count, dtype=np.float32)
        self.shapes, at = shapes, 0
        for shape in shapes:
            part = self.w[at : at + math.prod(shape)]
            if len(shape) > 1:
                part[:] = generator.standard_normal(part.size) / math.sqrt(shape[0] if shape[0] != 256 else 4)
            at += part.size

    def parts(self, vector: Any) -> list[Any]:
        """The arrays in a vector."""
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])
        return [part.reshape(shape) for part, shape in zip(np.split(vector, ends[:-1]), self.shapes)]

    def loss(self, w: Any, x: Any, y: Any, gradient: bool = False) -> float:
        """Mean loss at `w`; its gradient is then in self.g."""
        w1, b1, w2, b2, *table = self.parts(w)
        flat = table[0][x].reshape(len(x), -1) if self.embedded else x
        h = np.tanh(flat @ w1 + b1)
        logits = h @ w2 + b2
        logits -= logits.max(axis=1, keepdims=True)
        p = np.exp(logits)
        p /= p.sum(axis=1, keepdims=True)
        loss = float(-np.log(p[np.arange(len(y)), y] + 1e-30).mean())
        if gradient:
            g1, gb1, g2, gb2, *gtable = self.parts(self.g)
            p[np.arange(len(y)), y] -= 1
            p /= len(y)
            g2[:], gb2[:] = h.T @ p, p.sum(axis=0)
            dh = (p @ w2.T) * (1 - h * h)
            g1[:], gb1[:] = flat.T @ dh, dh.sum(axis=0)
            if self.embedded:
                gtable[0][:] = 0
                np.add.at(gtable[0], x.reshape(-1), (dh @ w1.T).reshape(-1, self.embedded))
        return loss


class Adam:
    """Adam whose learning rate falls to zero over `steps`, or momentum, as registered state."""

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
        rate = self.rate * 0.5 * (1 + math.cos(math.pi * min(1.0, self.now / self.steps)))
        first, second = 1 - 0.9 ** self.t[0], 1 - 0.99 ** self.t[0]
        w -= np.float32(rate / first) * self.m / (np.sqrt(self.v / np.float32(second)) + np.float32(1e-8))


def work(options: argparse.Namespace) -> None:
    """Train in the job that `spotnik run` has set up, and write what was learnt."""
    text = options.work == "characters"
    (x, y), validation = characters(options.text) if text else images(options.images)
    network = Network(16 * CONTEXT, 128, 256, 16) if text else Network(x.shape[1], 64, 10)
    job = spotnik.init(samples=len(x), batch=96, steps_max=options.steps)
    optimiser = Adam(len(network.w), options.steps, 0.004 if text else 0.002)
    sync = spotnik.Sync(job, network.w, optimiser.apply, strategy=options.sync)
    order, epoch = np.arange(len(x)), -1
    for step in job:
        if step.data_epoch != epoch:
            epoch = step.data_epoch
            order = np.random.default_rng(epoch).permutation(len(x))
        share = order[[index for part in step.ranges for index in part]]
        optimiser.now = step.number
        network.g[:] = 0
        if len(share):
            network.loss(network.w, x[share], y[share], gradient=True)
        time.sleep(options.pause / 1000)
        sync.step(network.g)
    told = {"loss": network.loss(sync.agreed, *validation), "digest": f"{sync.digest:016x}"}
    told["losses"] = job.status().losses
    with open(options.result, "a") as file:
        file.write(json.dumps(told) + "\n")
    spotnik.leave()


# ---- all runs ----


def run(options: argparse.Namespace, kind: str, strategy: str, disturbed: bool) -> dict[str, Any]:
    """One job of three workers; returns the validation loss of what they agreed on."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result"
        command = [f"{options.build}/cli/spotnik", "run", "-q", "-n", "2:3"]
        if disturbed:
            command += ["--respawn", "--kill-every", options.kill_every, "--seed", "1"]
        command += ["--", sys.executable, __file__, "--work", kind, "--sync", strategy, "--result", str(result)]
        command += ["--text", options.text, "--images", options.images, "--steps", str(options.steps)]
        command += ["--pause", str(options.pause)]
        root = Path(__file__).resolve().parent.parent
        environment = {**os.environ, "PYTHONPATH": str(root / "python"), "OMP_NUM_THREADS": "1"}
        environment["SPOTNIK_LIBRARY"] = f"{options.build}/src/libspotnik.so"
        began = time.monotonic()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=options.limit)
        took = time.monotonic() - began
        lines = [json.loads(line) for line in result.read_text().splitlines()] if result.exists() else []
    if not lines:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode} and no result:\n{done.stderr[-2000:]}")
    return {
        "model": kind,
        "strategy": strategy,
        "disturbed": disturbed,
        "loss": lines[0]["loss"],
        "agree": len({line["digest"] for line in lines}) == 1,
        "losses": max(line["losses"] for line in lines),
        "seconds": round(took, 1),
    }


def table(rows: list[dict[str, Any]], options: argparse.Namespace) -> str:
    """What came out, as Markdown."""
    base = {row["model"]: row["loss"] for row in rows if row["strategy"] == "ssgd" and not row["disturbed"]}
    text = [
        "# Strategies: the same validation loss as S-SGD?",
        "",
        f"Made by `bench/strategies.py`: three workers on one machine, {options.steps} steps of 96 samples, cosine schedule, no",
        "setting tuned for a strategy. Loss is that of the model the members agree on. *Disturbed*: `spotnik run",
        f"--kill-every {options.kill_every} --respawn`. Tolerance: {options.tolerance:.0%} of undisturbed S-SGD's loss.",
        "",
        "| model | strategy | undisturbed | disturbed | members lost | worst against S-SGD | within tolerance | all agree |",
        "|---|---|---:|---:|---:|---:|---|---|",
    ]
    for kind in base:
        for strategy in STRATEGIES:
            pair = [row for row in rows if row["model"] == kind and row["strategy"] == strategy]
            calm = next((row for row in pair if not row["disturbed"]), None)
            rough = next((row for row in pair if row["disturbed"]), None)
            if calm is None or rough is None:
                continue
            worst = max(calm["loss"], rough["loss"]) / base[kind] - 1
            words = [kind, strategy, f"{calm['loss']:.3f}", f"{rough['loss']:.3f}", str(rough["losses"]), f"{worst:+.1%}"]
            words += ["yes" if worst <= options.tolerance else "**no**"]
            words += ["yes" if calm["agree"] and rough["agree"] else "**no**"]
            text.append("| " + " | ".join(words) + " |")
    return "\n".join(text) + "\n"


def chart(rows: list[dict[str, Any]]) -> str:
    """Bars: loss relative to undisturbed S-SGD, a pair for each strategy, a row for each model."""
    base = {row["model"]: row["loss"] for row in rows if row["strategy"] == "ssgd" and not row["disturbed"]}
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" width="900" height="420" font-family="sans-serif" font-size="12">']
    parts.append('<rect width="900" height="420" fill="white"/>')
    for line, kind in enumerate(base):
        floor = 180 + 200 * line
        parts.append(f'<text x="10" y="{floor - 150}" font-weight="bold">{kind}: validation loss / S-SGD undisturbed</text>')
        parts.append(f'<line x1="60" x2="890" y1="{floor - 100}" y2="{floor - 100}" stroke="#999" stroke-dasharray="4"/>')
        parts.append(f'<text x="30" y="{floor - 96}">1.0</text>')
        for row in (row for row in rows if row["model"] == kind):
            at = 70 + 91 * STRATEGIES.index(row["strategy"]) + 38 * row["disturbed"]
            height = min(140.0, 100 * row["loss"] / base[kind])
            colour = "#d95f02" if row["disturbed"] else "#1b9e77"
            parts.append(f'<rect x="{at}" y="{floor - height:.1f}" width="36" height="{height:.1f}" fill="{colour}"/>')
            parts.append(f'<text x="{at}" y="{floor - height - 3:.1f}" font-size="10">{row["loss"]:.3f}</text>')
            if not row["disturbed"]:
                parts.append(f'<text x="{at}" y="{floor + 14}" font-size="11">{row["strategy"]}</text>')
    parts.append('<rect x="560" y="22" width="10" height="10" fill="#1b9e77"/><text x="575" y="31">undisturbed</text>')
    parts.append('<rect x="660" y="22" width="10" height="10" fill="#d95f02"/><text x="675" y="31">workers killed</text>')
    return "\n".join([*parts, "</svg>", ""])


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--text", default="")
    parser.add_argument("--images", default="")
    parser.add_argument("--out", type=Path, default=Path("docs/results/strategies"))
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--pause", type=float, default=4, help="milliseconds of sleep in a step: a run lasts long enough to kill")
    parser.add_argument("--kill-every", default="5s")
    parser.add_argument("--tolerance", type=float, default=0.2)
    parser.add_argument("--limit", type=float, default=180, help="seconds after which a run is given up")
    parser.add_argument("--only", nargs="*", default=STRATEGIES)
    parser.add_argument("--work", help="for a worker: which model")
    parser.add_argument("--sync")
    parser.add_argument("--result")
    options = parser.parse_args()
    options.build = str(Path(options.build).resolve())
    return options


def main() -> None:
    """Run everything that is not in OUT.json yet."""
    options = parse()
    if options.work:
        work(options)
        return
    store = options.out.with_suffix(".json")
    rows: list[dict[str, Any]] = json.loads(store.read_text()) if store.exists() else []
    kinds = [kind for kind, given in (("characters", options.text), ("images", options.images)) if given]
    for strategy in options.only:
        for kind in kinds:
            for disturbed in (False, True):
                key = (kind, strategy, disturbed)
                if any((row["model"], row["strategy"], row["disturbed"]) == key for row in rows):
                    continue
                rows.append(run(options, kind, strategy, disturbed))
                print(json.dumps(rows[-1]), flush=True)
                store.write_text(json.dumps(rows, indent=1) + "\n")
                options.out.with_suffix(".md").write_text(table(rows, options))
                options.out.with_suffix(".svg").write_text(chart(rows))


if __name__ == "__main__":
    main()
