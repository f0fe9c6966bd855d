#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What does it cost a member that trains a real model that others pull it?

    spotnik run -n 2 -- python bench/serving_model.py --model images --images FOLDER
    spotnik run -n 2 -- python bench/serving_model.py --model characters --text FILE

(with PYTHONPATH=python:examples/torch). Member 0 trains by itself, with PyTorch on one thread; member 1 only pulls.
Steps of five kinds in turn, so that all see the same machine: the local training alone; the same while the other
one pulls what was published long before; and publishes its model; and is pulled from each time; and AD-PSGD: pulls
another's model too, and takes the mean. Prints, for each kind, what a step takes on the clock (tenth percentile and
median) and the processor time of all threads of the member (median).
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any, Callable

import numpy as np
import torch
from torch.nn import functional

import spotnik

KINDS = ["training alone", "and is pulled from", "and publishes", "and both", "AD-PSGD"]
ALONE, SERVED, PUBLISHED, BOTH, ADPSGD = range(5)
END = 1 << 40  # a version: no more


def images(folder: str, batch: int, wide: int) -> tuple[torch.nn.Module, Callable[[int], torch.Tensor]]:
    """A ResNet and its loss on the batch of a step."""
    import images as example

    x, y = example.read(Path(folder))
    network = example.ResNet(1, 10, (wide, 2 * wide, 4 * wide), 1)

    def loss(step: int) -> torch.Tensor:
        at = step * batch % (len(x) - batch)
        return functional.cross_entropy(network(x[at : at + batch]), y[at : at + batch])

    return network, loss


def characters(path: str, batch: int, wide: int) -> tuple[torch.nn.Module, Callable[[int], torch.Tensor]]:
    """The same of a GPT."""
    import charlm as example

    data = example.Text(Path(path).read_text()[:400_000], 64)
    network = example.Gpt(len(data.characters), 64, wide, 4, 4)

    def loss(step: int) -> torch.Tensor:
        some = [data[(step * batch + i) % len(data)] for i in range(batch)]
        x, y = (torch.stack(list(part)) for part in zip(*some))
        return functional.cross_entropy(network(x).flatten(0, 1), y.flatten())

    return network, loss


def flatten(network: torch.nn.Module) -> Any:
    """One vector whose parts all parameters are from now on."""
    parameters = list(network.parameters())
    flat = torch.cat([one.data.flatten() for one in parameters])
    at = 0
    for one in parameters:
        one.data = flat[at : at + one.numel()].view_as(one)
        at += one.numel()
    return flat.numpy()


def pull_on(count: int, rank: int) -> None:
    """At each tick pull what it asks for: what is there of "old", or the "model" with its number."""
    out, tick = np.zeros(count, dtype=np.float32), np.zeros(1, dtype=np.float32)
    version = 0
    while arrival := spotnik.pull("tick", rank, tick, version_min=version + 1).wait():
        version = arrival.version
        if version >= END:
            return
        name, wanted = ("old", 0) if tick[0] == SERVED else ("model", version)
        spotnik.pull(name, rank, out, version_min=wanted).wait()


def report(model: str, count: int, times: list[list[int]], used: list[list[int]]) -> None:
    """A table as in docs/results/serving.md."""
    print(f"## {model}, {count * 4 / 2**20:.1f} MiB, {len(times[0])} steps of each kind\n")
    print("| step | 10 % ms | | median ms | | processor ms | |\n|---|---|---|---|---|---|---|")
    base = [np.percentile(times[ALONE], 10), np.median(times[ALONE]), np.median(used[ALONE])]
    for kind, name in enumerate(KINDS):
        now = [np.percentile(times[kind], 10), np.median(times[kind]), np.median(used[kind])]
        cells = (f"{value / 1e6:.2f} | {(value / first - 1) * 100:+.2f} %" for value, first in zip(now, base))
        print(f"| {name} | {' | '.join(cells)} |")


def train(options: argparse.Namespace, network: Any, loss: Callable[[int], torch.Tensor], flat: Any) -> None:
    """Steps of all kinds, measured."""
    optimiser = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    incoming = np.zeros_like(flat)
    times: list[list[int]] = [[] for _ in KINDS]
    used: list[list[int]] = [[] for _ in KINDS]
    spotnik.publish("old", flat, version=1)
    for version in range(1, (options.steps + 2) * len(KINDS) + 1):
        kind = version % len(KINDS)
        request = None
        begun, processor = time.perf_counter_ns(), time.process_time_ns()
        if kind not in (ALONE, PUBLISHED):
            spotnik.publish("tick", np.full(1, kind, dtype=np.float32), version=version)
        if kind == ADPSGD:
            request = spotnik.pull("other", 1, incoming)
        optimiser.zero_grad()
        loss(version).backward()
        if request and request.wait():
            flat += incoming
            flat *= np.float32(0.5)
        optimiser.step()
        if kind in (PUBLISHED, BOTH, ADPSGD):
            spotnik.publish("model", flat, version=version)
        if version > 2 * len(KINDS):
            times[kind].append(time.perf_counter_ns() - begun)
            used[kind].append(time.process_time_ns() - processor)
    spotnik.publish("tick", flat[:1], version=END)
    report(options.model, len(flat), times, used)


def main() -> None:
    """Train, or pull."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["images", "characters"], default="images")
    parser.add_argument("--images", default=os.environ.get("SPOTNIK_IMAGES", ""), help="a folder with IDX files")
    parser.add_argument("--text", default="", help="any text")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--wide", type=int, default=32, help="of the first layers (images), of all (characters)")
    parser.add_argument("--steps", type=int, default=40, help="of each kind")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    make = images if options.model == "images" else characters
    network, loss = make(options.images if make is images else options.text, options.batch, options.wide)
    flat = flatten(network)
    job = spotnik.init(samples=1000, batch=10)
    step = job.step_begin()
    job.step_commit()
    if step.rank == 0:
        train(options, network, loss, flat)
    else:
        spotnik.publish("other", flat, version=1)
        pull_on(len(flat), 0)
    spotnik.leave()


if __name__ == "__main__":
    main()
