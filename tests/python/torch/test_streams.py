# SPDX-License-Identifier: Apache-2.0
"""Data that is only read from front to back, in shards: each record once per epoch, whoever is killed or joins.

A shard is dealt as a sample is: the data set has one entry for each shard, and reads it when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ledger
import torch
from cluster import Cluster, Tell
from disturb import KILLS, disturb
from test_features import told
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

import spotnik.torch as spotnik
from spotnik.torch._sampler import Order, Piece

Make = Callable[..., Cluster]
SHARDS, RECORDS, SEED = 40, 8, 7


class Stream(IterableDataset[int]):
    """A shard as a library for streams hands it out: no length, no place to jump to."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Iterator[int]:
        with open(self.path) as file:
            yield from map(int, file)


class Shards(Dataset[list[int]]):
    """The data set of a stream's shards."""

    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.glob("shard-*"))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> list[int]:
        return list(Stream(self.paths[index]))


def write_shards(folder: Path) -> None:
    for shard in range(SHARDS):
        first = shard * RECORDS
        (folder / f"shard-{shard:03}").write_text("".join(f"{i}\n" for i in range(first, first + RECORDS)))


def together(shards: list[list[int]]) -> torch.Tensor:
    return torch.tensor([record for shard in shards for record in shard])


def train(tell: Tell, folder: str, stop: str) -> None:
    torch.manual_seed(1)
    net = nn.Linear(1, 1).double()
    opt = torch.optim.SGD(net.parameters(), lr=1e-6)
    spotnik.prepare(net, opt, seed=SEED, on_step=told(tell))
    loader = spotnik.shard(DataLoader(Shards(Path(folder)), batch_size=6, shuffle=True, collate_fn=together))
    for _ in spotnik.epochs(20000):
        for records in loader:
            step = spotnik.job().running
            assert step is not None
            share = [(part.start, part.stop) for part in step.ranges]
            tell(begin=step.number, epoch=step.data_epoch, share=share, records=records.tolist())
            net(records.double()[:, None]).square().mean().backward()
            opt.step()
            opt.zero_grad()
            if Path(stop).exists() and spotnik.step() >= int(Path(stop).read_text()):
                tell(done=spotnik.step())
                return


def test_each_record_once_per_epoch(cluster: Make, tmp_path: Path) -> None:
    write_shards(tmp_path)
    job, stop = cluster(), tmp_path / "stop"
    last = disturb(job, lambda: job.start(train, folder=str(tmp_path), stop=str(stop)), kills=KILLS, stop=stop)
    assert [line["done"] for line in job.lines("done")] == [last] * 3
    assert ledger.check_every_sample_once(ledger.contributions(job), SHARDS) >= 5
    order = Order(SHARDS, True)
    for line in job.lines("begin"):
        assert line["records"] == _of_share(order, line)


def _of_share(order: Order, line: dict[str, Any]) -> list[int]:
    share = tuple((a, b) for a, b in line["share"])
    shards = order.indices(SEED, Piece(line["epoch"], share, 1.0))
    return [shard * RECORDS + i for shard in shards for i in range(RECORDS)]
