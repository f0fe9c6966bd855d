# SPDX-License-Identifier: Apache-2.0
"""Streams, by shards and by the places of records: each record once per epoch, whoever is killed or joins."""

from __future__ import annotations

import functools
import itertools
import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import ledger
import numpy as np
import pytest
import torch
from cluster import Cluster, Tell, alone
from disturb import KILLS, disturb
from test_features import told
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

import spotnik.torch as spotnik
from spotnik import ArgumentError, StateError
from spotnik.torch._sampler import Order, Piece

Make = Callable[..., Cluster]
SHARDS, RECORDS, SEED = 40, 8, 7
SHUFFLED = ("shards", "functions", "index")


class Stream(IterableDataset[int]):
    """A shard as a library for streams hands it out: no length, no place to jump to."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Iterator[int]:
        with open(self.path) as file:
            yield from map(int, file)


class Streamed(IterableDataset[int]):
    """All shards one after the other, with the interface of a streaming data set of Hugging Face.

    As that one it splits its shards among the workers of a loader.
    """

    def __init__(self, paths: Sequence[Path], skipped: int = 0) -> None:
        self.paths, self.skipped = paths, skipped
        self.num_shards = len(paths)

    def __iter__(self) -> Iterator[int]:
        info = torch.utils.data.get_worker_info()
        paths = self.paths[info.id :: info.num_workers] if info else self.paths
        whole = itertools.chain.from_iterable(Stream(path) for path in paths)
        yield from itertools.islice(whole, self.skipped, None)

    def shard(self, num_shards: int, index: int) -> Streamed:
        return Streamed(self.paths[index::num_shards])

    def skip(self, n: int) -> Streamed:
        return Streamed(self.paths, self.skipped + n)


class Forward(IterableDataset[int]):
    """The same as a stream that can only be begun anew, and knows its length."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return SHARDS * RECORDS

    def __iter__(self) -> Iterator[int]:
        return iter(Streamed(self.paths))


class Indexed(Forward):
    """The same with an index, as those of MosaicML and litdata have."""

    def __getitem__(self, index: int) -> int:
        return int((self.paths[index // RECORDS]).read_text().split()[index % RECORDS])


def of_kind(kind: str, folder: Path) -> tuple[Dataset[Any], int]:
    """A data set that can be dealt, and its samples in a batch."""
    paths = sorted(folder.glob("shard-*"))
    if kind == "shards":
        return spotnik.Shards(Streamed(paths)), 6
    if kind == "functions":
        return spotnik.Shards([functools.partial(Stream, path) for path in paths]), 6
    if kind == "index":
        return spotnik.Records(Indexed(paths)), 48
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
    shuffle = kind in SHUFFLED
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
    ("kind", "workers"),
    [("shards", 2), ("functions", 0), ("skip", 2), ("forward", 2), ("forward", 0), ("index", 0), ("index", 2)],
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
    order = Order(samples, kind in SHUFFLED)
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
    refused(lambda: spotnik.Records(whole), "count is the number of records in an epoch, 1 or more, not None")
    refused(lambda: spotnik.shard(DataLoader(spotnik.Records(whole, 9), shuffle=True)), "shuffle=False and no sampler")
    short = spotnik.Records(whole, SHARDS * RECORDS + 1)
    assert short[SHARDS * RECORDS - 1] == SHARDS * RECORDS - 1
    refused(lambda: short[SHARDS * RECORDS], "the stream ended before record 320 of 321")


# ---- files of token ids ----


def reads_tokens(tell: Tell, path: str, is_plain: bool = False) -> None:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Embedding(50, 8), nn.Linear(8, 50)).double()
    opt: torch.optim.Optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loader: Any = DataLoader(spotnik.Tokens(path, 16), batch_size=12)
    if not is_plain:
        net, opt = spotnik.prepare(net, opt)
        loader = spotnik.shard(loader)
    for x, y in loader:
        opt.zero_grad()
        nn.functional.cross_entropy(net(x).flatten(0, 1), y.flatten()).backward()
        opt.step()
    tell(done=[float(p.detach().sum()) for p in net.parameters()] + [float(net[0].weight[3, 3])])


@pytest.mark.parametrize("name", ["ids.npy", "ids.bin"])
def test_members_that_read_tokens_equal_one_process(cluster: Make, tmp_path: Path, name: str) -> None:
    ids = np.random.default_rng(3).integers(0, 50, 16 * 100 + 5).astype(np.uint16)
    path = str(tmp_path / name)
    np.save(path, ids) if name == "ids.npy" else ids.tofile(path)
    job = cluster()
    job.gather(3)
    for _ in range(3):
        job.start(reads_tokens, path=path)
    job.wait()
    plain = alone(reads_tokens, tmp_path, path=path, is_plain=True)[0]["done"]
    assert [line["done"] for line in job.lines("done")] == [pytest.approx(plain, abs=1e-9)] * 3


def test_blocks_of_tokens_are_dealt_once_and_copied_without_the_file(tmp_path: Path) -> None:
    np.arange(100, 165, dtype=np.int32).tofile(tmp_path / "ids.bin")
    blocks = spotnik.Tokens(tmp_path / "ids.bin", 8, dtype="int32", offset=4)
    x, y = zip(*blocks)
    assert torch.cat(x).tolist() == list(range(101, 157)) and torch.cat(y).tolist() == list(range(102, 158))
    sent = pickle.dumps(blocks)
    assert len(sent) < 1000 and pickle.loads(sent)[6][1].tolist() == list(range(150, 158))
    with pytest.raises(ArgumentError, match=r"takes one row of whole numbers, more than the 65 of a block"):
        spotnik.Tokens(tmp_path / "ids.bin", 65, dtype="int32")


# ---- torchdata ----


class Batches(torch.utils.data.BatchSampler):
    """As torchdata's: a class of that name and module."""


class Stateful(DataLoader[Any]):
    """As torchdata's: an iterator and a state of its own."""

    def __iter__(self) -> Any:
        raise AssertionError("shard() iterates the data itself, never this loader")

    def state_dict(self) -> dict[str, int]:
        return {"at": 0}


Batches.__module__ = Stateful.__module__ = "torchdata.stateful_dataloader"
Batches.__name__ = "BatchSampler"


def stateful(data: Any) -> DataLoader[Any]:
    loader = Stateful(data, batch_size=4)
    object.__setattr__(loader, "batch_sampler", Batches(loader.sampler, 4, False))
    return loader


def reads_statefully(tell: Tell) -> None:
    net = nn.Linear(1, 1).double()
    net, opt = spotnik.prepare(net, torch.optim.SGD(net.parameters(), lr=0.1))
    loader = spotnik.shard(stateful(list(range(10))))
    try:
        loader.state_dict()
    except StateError as error:
        tell(refused=str(error))
    for x in loader:
        tell(batch=x.tolist())
        net(x.double()[:, None]).mean().backward()
        opt.step()


def test_a_stateful_loader_is_dealt_and_its_state_is_the_jobs(tmp_path: Path) -> None:
    refused, *batches = alone(reads_statefully, tmp_path)
    assert "prepare(..., start=epoch)" in refused["refused"]
    assert [line["batch"] for line in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
