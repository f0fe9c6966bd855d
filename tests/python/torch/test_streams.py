# SPDX-License-Identifier: Apache-2.0
"""Streams, by shards and by the places of records: each record once per epoch, whoever is killed or joins."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import ledger
import pytest
import torch
from cluster import Cluster, Tell
from disturb import KILLS, disturb
from test_features import told
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

import spotnik.torch as spotnik
from spotnik import ArgumentError
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


class Streamed(IterableDataset[int]):
    """All shards one after the other, with the interface of a streaming data set of Hugging Face."""

    def __init__(self, paths: Sequence[Path], skipped: int = 0) -> None:
        self.paths, self.skipped = paths, skipped
        self.num_shards = len(paths)

    def __iter__(self) -> Iterator[int]:
        whole = itertools.chain.from_iterable(Stream(path) for path in self.paths)
        yield from itertools.islice(whole, self.skipped, None)

    def shard(self, num_shards: int, index: int) -> Streamed:
        return Streamed(self.paths[index::num_shards])

    def skip(self, n: int) -> Streamed:
        return Streamed(self.paths, self.skipped + n)


class Forward(IterableDataset[int]):
    """The same as a stream that can only be begun anew."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = paths

    def __iter__(self) -> Iterator[int]:
        return iter(Streamed(self.paths))


def of_kind(kind: str, folder: Path) -> tuple[Dataset[Any], int]:
    """A data set that can be dealt, and its samples in a batch."""
    paths = sorted(folder.glob("shard-*"))
    if kind == "shards":
        return spotnik.Shards(Streamed(paths)), 6
    if kind == "functions":
        return spotnik.Shards([functools.partial(Stream, path) for path in paths]), 6
    return spotnik.Records((Streamed if kind == "skip" else Forward)(paths), SHARDS * RECORDS), 48


def write_shards(folder: Path) -> None:
    for shard in range(SHARDS):
        first = shard * RECORDS
        (folder / f"shard-{shard:03}").write_text("".join(f"{i}\n" for i in range(first, first + RECORDS)))


def train(tell: Tell, folder: str, stop: str, kind: str, workers: int = 0) -> None:
    torch.manual_seed(1)
    net = nn.Linear(1, 1).double()
    opt = torch.optim.SGD(net.parameters(), lr=1e-6)
    spotnik.prepare(net, opt, seed=SEED, on_step=told(tell))
    stream, batch = of_kind(kind, Path(folder))
    shuffle = isinstance(stream, spotnik.Shards)
    loader = spotnik.shard(DataLoader(stream, batch_size=batch, shuffle=shuffle, num_workers=workers))
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


@pytest.mark.parametrize(
    ("kind", "workers"), [("shards", 0), ("functions", 2), ("skip", 0), ("forward", 2), ("forward", 0)]
)
def test_each_record_once_per_epoch(cluster: Make, tmp_path: Path, kind: str, workers: int) -> None:
    write_shards(tmp_path)
    job, stop = cluster(), tmp_path / "stop"
    settings = {"folder": str(tmp_path), "stop": str(stop), "kind": kind, "workers": workers}
    last = disturb(job, lambda: job.start(train, **settings), kills=KILLS, stop=stop)
    assert [line["done"] for line in job.lines("done")] == [last] * 3
    in_shards = kind in ("shards", "functions")
    samples = SHARDS if in_shards else SHARDS * RECORDS
    assert ledger.check_every_sample_once(ledger.contributions(job), samples) >= 5
    order = Order(samples, in_shards)
    told_of = [line for line in job.lines("begin") if line["share"]]
    for line in told_of:
        dealt = order.indices(SEED, Piece(line["epoch"], tuple((a, b) for a, b in line["share"]), 1.0))
        whole = [shard * RECORDS + i for shard in dealt for i in range(RECORDS)]
        assert line["records"] == (whole if in_shards else dealt)


def refused(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        make()


def test_what_cannot_be_dealt_is_said(tmp_path: Path) -> None:
    write_shards(tmp_path)
    whole = Forward(sorted(tmp_path.glob("shard-*")))
    refused(lambda: spotnik.shard(DataLoader(whole)), r"spotnik.Shards\(stream\).*spotnik.Records\(stream, count\)")
    refused(lambda: spotnik.Shards(whole), r"has no num_shards .* say Records\(stream, count\)")
    refused(lambda: spotnik.Records(iter(whole), 3), "can be read once only, and every epoch reads it again")
    refused(lambda: spotnik.Records(whole, 0), "count is the number of records in an epoch")
    refused(lambda: spotnik.shard(DataLoader(spotnik.Records(whole, 9), shuffle=True)), "shuffle=False and no sampler")
    short = spotnik.Records(whole, SHARDS * RECORDS + 1)
    assert short[SHARDS * RECORDS - 1] == SHARDS * RECORDS - 1
    refused(lambda: short[SHARDS * RECORDS], "the stream ended before record 320 of 321")
