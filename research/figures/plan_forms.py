#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How well can time be foretold from the four extremes of (batch, workers)? The form that Scavenger's formulas imply, and
the best that any smooth surface through the four corners could do. And how well could a form that is exactly right do, when
the epochs that runs need differ by chance as much as the published ones do? Used by plan_results.py."""
import math
import random
import statistics

CORNERS = ((384, 8), (384, 20), (1024, 8), (1024, 20))
BATCHES, WORKERS = (384, 512, 768, 1024), (8, 12, 16, 20)


def mape(predicted, observed):
    rest = [key for key in observed if key not in CORNERS]
    return 100 * sum(abs(predicted(*key) / observed[key] - 1) for key in rest) / len(rest)


def paper_mape(observed):
    """T = (1 + q B^-1/2)(a + b B + d K) / (B K): epochs linear in noise and noise in B^-1/2; a worker's share is B/16 in the
    published runs, so an epoch has iterations in proportion to 1 / (B K). Four unknowns; for a q the rest is a linear system,
    and q is what makes the fourth corner fit."""
    def rest(q):
        weight = {c: (1 + q / math.sqrt(c[0])) / (c[0] * c[1]) for c in CORNERS}
        level = {c: observed[c] / weight[c] for c in CORNERS}
        d = (level[384, 20] - level[384, 8]) / 12
        b = (level[1024, 8] - level[384, 8]) / 640
        a = level[384, 8] - 384 * b - 8 * d
        return a, b, d, (a + 1024 * b + 20 * d) * weight[1024, 20] - observed[1024, 20]

    low, high = -15.0, 400.0  # the miss of the fourth corner changes sign once in between
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if (rest(middle)[3] > 0) == (rest(low)[3] > 0) else (low, middle)
    a, b, d, _ = rest(low)
    return mape(lambda batch, workers: (1 + low / math.sqrt(batch)) * (a + b * batch + d * workers) / (batch * workers),
                observed)


def oracle_mape(observed):
    """ln T bilinear between the corners in u(B) and v(K), whose inner values are fitted to the rows that are tested."""
    log = {corner: math.log(observed[corner]) for corner in CORNERS}

    def miss(inner):
        u = dict(zip(BATCHES, (0, inner[0], inner[1], 1)))
        v = dict(zip(WORKERS, (0, inner[2], inner[3], 1)))

        def predicted(batch, workers):
            x, y = u[batch], v[workers]
            return math.exp((1 - x) * ((1 - y) * log[384, 8] + y * log[384, 20])
                            + x * ((1 - y) * log[1024, 8] + y * log[1024, 20]))
        return mape(predicted, observed)

    inner, step = [0.3, 0.7, 0.4, 0.8], 0.1
    while step > 1e-4:  # coordinate descent; the surface has one valley here
        moved = False
        for i in range(4):
            for change in (step, -step):
                tried = [*inner[:i], inner[i] + change, *inner[i + 1:]]
                if miss(tried) < miss(inner):
                    inner, moved = tried, True
        step = step if moved else step / 2
    return miss(inner)


def epochs_scatter(rows):
    """Deviation of ln epochs between runs of the same batch; rows: (batch, epochs). Worker counts are taken to not matter."""
    runs = {}
    for batch, epochs in rows:
        runs.setdefault(batch, []).append(math.log(epochs))
    squares = sum((x - statistics.fmean(same)) ** 2 for same in runs.values() for x in same)
    return math.sqrt(squares / (len(rows) - len(runs)))


def through_corners(observed, sharpness):
    """The form of model_noise.h: T(batch, workers) through the four corners, for positive times."""
    def parts(batch):
        ends = [(workers, (observed[batch, workers] * workers) ** sharpness) for workers in (8, 20)]
        growing = (ends[1][1] - ends[0][1]) / (20 ** sharpness - 8 ** sharpness)
        return [math.log(max(x, 1e-12)) / sharpness for x in (ends[0][1] - growing * 8 ** sharpness, growing)]

    high, low = parts(384), parts(1024)

    def predicted(batch, workers):
        share = (batch ** -0.5 - 1024 ** -0.5) / (384 ** -0.5 - 1024 ** -0.5)
        shared, growing = (math.exp(y + (x - y) * share) for x, y in zip(high, low))
        return (shared ** sharpness + (growing * workers) ** sharpness) ** (1 / sharpness) / workers
    return predicted


def exact_form_mapes(observed, scatter, sharpness=4.0, draws=4000):
    """MAPEs, sorted, of the right form when all sixteen times, the corners too, scatter by `scatter` (of ln T)."""
    truth, rng, mapes = through_corners(observed, sharpness), random.Random(1), []
    for _ in range(draws):
        seen = {key: truth(*key) * math.exp(rng.gauss(0, scatter)) for key in observed}
        mapes.append(mape(through_corners(seen, sharpness), seen))
    return sorted(mapes)
