# SPDX-License-Identifier: Apache-2.0
"""From what members told: who contributed which samples to which step, and is that exact?"""

from __future__ import annotations

import collections
import itertools
from typing import Any

import torch
from cluster import Cluster

from spotnik.torch._sampler import Order, Piece
from spotnik.training.shares import share_hash

Share = tuple[tuple[int, int], ...]


def agreed(cluster: Cluster) -> dict[int, dict[str, Any]]:
    """One report per step; fails unless all members that told of a step told the same.

    The last step of a member that was lost may have been committed by it alone, before the others, who did not have the
    result, committed it without it: its word counts only where it is the only one.
    """
    by_step: dict[int, dict[str, Any]] = {}
    last_words: list[dict[str, Any]] = []
    for member in cluster.members:
        lines = [line for line in member.lines if "step" in line]
        lives = itertools.groupby(lines, key=lambda line: line["member"])  # excluded, it comes back as another
        told = [list(life) for _, life in lives]
        finished = any("done" in line for line in member.lines)
        for number, life in enumerate(told):
            if not (finished and number == len(told) - 1):
                last_words.append(life.pop())
            for line in life:
                first = by_step.setdefault(line["step"], line)
                for key in ("samples", "members", "contributors", "digest"):
                    assert line[key] == first[key], f"replicas differ after step {line['step']}: {line} {first}"
    for line in last_words:
        by_step.setdefault(line["step"], line)
    return by_step


def reports(cluster: Cluster) -> dict[int, dict[str, Any]]:
    """The same, of every step from the first to the last."""
    by_step = agreed(cluster)
    assert sorted(by_step) == list(range(1, max(by_step) + 1))
    return by_step


def contributions(cluster: Cluster, since: int = 1, until: int = 1 << 40) -> list[tuple[int, list[Share]]]:
    """For each step from `since` to `until` its epoch of data and the shares whose gradients are in it.

    A member that was lost in a step may or may not be in it: the sum of hashes that travelled with the step tells.
    """
    begun: dict[int, set[Share]] = collections.defaultdict(set)
    epochs: dict[int, int] = {}
    for line in cluster.lines("begin"):
        share = tuple((a, b) for a, b in line["share"])
        if share:
            begun[line["begin"]].add(share)
            epochs[line["begin"]] = line["epoch"]
    told = agreed(cluster)
    numbers = [number for number in sorted(told) if number <= until]
    assert numbers == list(range(since, max(numbers) + 1))
    result = []
    for number in numbers:
        wanted = told[number]
        found = [
            list(chosen)
            for chosen in itertools.combinations(sorted(begun[number]), wanted["members"])
            if sum(share_hash(number, share) for share in chosen) == wanted["contributors"]
        ]
        assert len(found) == 1, (number, wanted, begun[number])
        assert sum(b - a for share in found[0] for a, b in share) == wanted["samples"]
        # Whoever had samples was lost, perhaps before it said so: a step without a gradient.
        result.append((epochs[number] if found[0] else 0, found[0]))
    return result


def places(shares: list[Share]) -> list[int]:
    """The places in their epoch of the samples of some shares."""
    return sorted(place for share in shares for a, b in share for place in range(a, b))


def check_every_sample_once(steps: list[tuple[int, list[Share]]], samples: int) -> int:
    """Returns the number of complete epochs of data."""
    used: dict[int, collections.Counter[int]] = collections.defaultdict(collections.Counter)
    for epoch, shares in steps:
        for share in shares:
            for a, b in share:
                used[epoch].update(range(a, b))
    last = max(used)
    for epoch, counter in used.items():
        assert max(counter.values()) == 1, f"a sample was used twice in epoch {epoch}"
        if epoch < last:
            assert sorted(counter) == list(range(samples)), f"samples of epoch {epoch} are missing"
    return last


def batches(steps: list[tuple[int, list[Share]]], samples: int, seed: int, shuffle: bool = True) -> list[list[int]]:
    """The union of the shares of each step, as indices into the data set."""
    order = Order(samples, shuffle)
    return [
        [i for share in shares for i in order.indices(seed, Piece(epoch, share, 1.0))] for epoch, shares in steps
    ]


def distance(a: str, b: str) -> float:
    """The largest difference between two files of parameters."""
    return max(float((x - y).abs().max()) for x, y in zip(torch.load(a), torch.load(b)))
