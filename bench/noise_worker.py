#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One member of bench/batching.py's noise runs: gradients of a softmax regression on handwritten digits, at fixed parameters.

The parameters are those after some steps of gradient descent on all digits, computed by every member alike; then mini-batches are
drawn and averaged, and nothing is applied, so that what is estimated does not move. The first member prints the estimates, and the exact
values they are estimates of, as one line of JSON.

Usage: spotnik run -n 3 -- python3 bench/noise_worker.py FOLDER BATCH STEPS     FOLDER: gzipped images and labels in the IDX format
"""

import gzip
import json
import pathlib
import sys

import numpy as np

import spotnik

SAMPLES = 9216  # a multiple of every batch: no step has fewer samples than others


def idx(path, skip):
    return np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8)[skip:]


def load(folder):
    images, labels = (next(folder.glob(f"*{kind}*")) for kind in ("images", "labels"))
    y = idx(labels, 8)
    return idx(images, 16).reshape(len(y), -1).astype(np.float32) / 255, y


def gradient(weights, x, y):
    """Mean over the samples."""
    score = x @ weights
    p = np.exp(score - score.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(y)), y] -= 1
    return x.T @ p / len(y), p


def main():
    folder, batch, steps = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    x, y = (part[:SAMPLES] for part in load(folder))
    weights = np.zeros((x.shape[1], 10), np.float32)
    for _ in range(30):
        weights -= 0.5 * gradient(weights, x, y)[0]
    true, p = gradient(weights, x, y)
    norm2 = float((true.astype(np.float64) ** 2).sum())
    each = float(((x.astype(np.float64) ** 2).sum(axis=1) * (p.astype(np.float64) ** 2).sum(axis=1)).mean())
    order = np.random.default_rng(1).permutation(len(y))
    out = np.zeros_like(weights)
    deviation, scale = [], []
    with spotnik.init(samples=len(y), batch=batch, steps_max=steps, noise="scale") as job:
        spotnik.register("weights", weights)
        for step in job:
            rows = order[[i for part in step.ranges for i in part]]
            out[:] = gradient(weights, x[rows], y[rows])[0] if len(rows) else 0
            spotnik.start(out)
            if not job.step_commit():
                continue
            deviation.append(float(((out - true).astype(np.float64) ** 2).sum()) / norm2)
            status, rank = job.batch_status, step.rank
            if status.noise_steps:
                scale.append(status.noise_scale)
    if rank == 0:
        said = {"noise_scale": float(np.median(scale)), "steps": status.noise_steps}
        print(json.dumps({**said, "exact": (each - norm2) / norm2, "deviation": float(np.mean(deviation)) ** 0.5}), flush=True)


if __name__ == "__main__":
    main()
