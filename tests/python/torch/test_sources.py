# SPDX-License-Identifier: Apache-2.0
"""Data as libraries for large sets keep them: each record once, under kills, and on from the very sample after the
loss of all members. What has an index is read where it is used.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ledger
import pytest
import torch
from cluster import Cluster, Tell
from disturb import KILLS, disturb, total_loss
from operator_names import name_operators
from test_features import told
from test_recipes import TORCHRUN
from torch import nn
from torch.utils.data import DataLoader, Dataset

import spotnik.torch as spotnik
from spotnik.torch._sampler import Order, Piece

Make = Callable[..., Cluster]
SHARDS, RECORDS, SEED = 12, 8, 7  # shards, and the records in each


def parquet_files(folder: Path) -> list[str]:
    return sorted(map(str, folder.glob("*.parquet")))


# ---- each: writes records 0 to SHARDS * RECORDS - 1 into a folder, and opens that ----


def write_parquet(folder: Path) -> None:
    import datasets

    for shard in range(SHARDS):
        ids = list(range(shard * RECORDS, (shard + 1) * RECORDS))
        datasets.Dataset.from_dict({"id": ids}).to_parquet(str(folder / f"{shard:03}.parquet"))


def open_arrow(folder: Path) -> Dataset[Any]:
    import datasets

    cache = str(folder / f"cache-{os.getpid()}")
    return datasets.Dataset.from_parquet(parquet_files(folder), cache_dir=cache).with_format("torch")


def open_stream(folder: Path) -> Any:
    import datasets

    files = parquet_files(folder)
    return datasets.load_dataset("parquet", data_files=files, split="train", streaming=True, cache_dir=str(folder))


def write_tar(folder: Path) -> None:
    import webdataset

    for shard in range(SHARDS):
        with webdataset.TarWriter(str(folder / f"{shard:03}.tar")) as tar:
            for number in range(shard * RECORDS, (shard + 1) * RECORDS):
                tar.write({"__key__": f"{number:06}", "json": json.dumps({"id": number}).encode()})


def one_tar(url: str) -> Any:
    import webdataset

    whole = webdataset.WebDataset(url, shardshuffle=False, nodesplitter=None)
    return whole.decode().map(lambda sample: sample["json"])


def open_tars(folder: Path) -> Dataset[Any]:
    return spotnik.Shards([functools.partial(one_tar, str(path)) for path in sorted(folder.glob("*.tar"))])


def write_mds(folder: Path) -> None:
    import streaming

    with streaming.MDSWriter(out=str(folder / "mds"), columns={"id": "int"}, size_limit=256) as out:
        for number in range(SHARDS * RECORDS):
            out.write({"id": number})


def open_mds(folder: Path) -> Dataset[Any]:
    import streaming

    return streaming.LocalDataset(str(folder / "mds"))


def open_mds_stream(folder: Path) -> Dataset[Any]:
    import streaming

    own = str(folder / f"cache-{os.getpid()}")
    return spotnik.Records(streaming.StreamingDataset(remote=str(folder / "mds"), local=own, batch_size=1))


def as_record(number: int) -> dict[str, int]:
    return {"id": number}


def write_lit(folder: Path) -> None:
    import litdata

    everything = list(range(SHARDS * RECORDS))
    litdata.optimize(fn=as_record, inputs=everything, output_dir=str(folder / "lit"), chunk_size=RECORDS, num_workers=1)


def open_lit(folder: Path) -> Dataset[Any]:
    import litdata

    return spotnik.Records(litdata.StreamingDataset(str(folder / "lit")))


#: what to install, who writes, who opens, does the source have an index?, workers of the loader
SOURCES: dict[str, tuple[str, Callable[[Path], None], Callable[[Path], Any], bool, int]] = {
    "parquet, mapped": ("datasets", write_parquet, open_arrow, True, 0),
    "parquet, streamed by shards": ("datasets", write_parquet, lambda f: spotnik.Shards(open_stream(f)), False, 2),
    "parquet, streamed by records": (
        "datasets",
        write_parquet,
        lambda f: spotnik.Records(open_stream(f), SHARDS * RECORDS),
        True,
        2,
    ),
    "webdataset": ("webdataset", write_tar, open_tars, False, 2),
    "mds": ("streaming", write_mds, open_mds, True, 2),
    "mds, streamed": ("streaming", write_mds, open_mds_stream, True, 0),
    "litdata": ("litdata", write_lit, open_lit, True, 0),
}


def train(tell: Tell, folder: str, stop: str, kind: str) -> None:
    spotnik.hide_torchrun()
    torch.manual_seed(1)
    net = nn.Linear(1, 1).double()
    opt = torch.optim.SGD(net.parameters(), lr=1e-6)
    _, _, make, by_record, workers = SOURCES[kind]
    data = make(Path(folder))
    spotnik.prepare(net, opt, seed=SEED, on_step=told(tell))
    loader = DataLoader(data, batch_size=24 if by_record else 3, shuffle="records" not in kind, num_workers=workers)
    loader = spotnik.shard(loader)
    for _ in spotnik.epochs(20000):
        for batch in loader:
            step = spotnik.job().running
            assert step is not None
            share = [(part.start, part.stop) for part in step.ranges]
            tell(begin=step.number, epoch=step.data_epoch, share=share, ids=batch["id"].tolist())
            net(batch["id"].double()[:, None]).square().mean().backward()
            opt.step()
            opt.zero_grad()
            if Path(stop).exists() and spotnik.step() >= int(Path(stop).read_text()):
                tell(done=spotnik.step())
                return


def dealt(kind: str, epoch: int, share: list[list[int]]) -> list[int]:
    """The records of a share."""
    by_record = SOURCES[kind][3]
    order = Order(SHARDS * RECORDS if by_record else SHARDS, "records" not in kind)
    places = order.indices(SEED, Piece(epoch, tuple((a, b) for a, b in share), 1.0))
    return places if by_record else [shard * RECORDS + i for shard in places for i in range(RECORDS)]


def check(job: Cluster, kind: str) -> None:
    """What the job dealt is what members read; each record once in an epoch."""
    for line in job.lines("ids"):
        assert not line["share"] or line["ids"] == dealt(kind, line["epoch"], line["share"])


@pytest.fixture(scope="module", params=SOURCES)
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    kind = request.param
    needs, write, *_ = SOURCES[kind]
    name_operators()  # of streaming's pictures, which are not used here
    pytest.importorskip(needs, reason=f"{needs} is not installed")
    folder = tmp_path_factory.mktemp("source")
    write(folder)
    return kind, folder


def test_each_record_once_under_kills(cluster: Make, tmp_path: Path, source: tuple[str, Path]) -> None:
    kind, folder = source
    job, stop = cluster(), tmp_path / "stop"
    job.environment.update(TORCHRUN)
    settings = {"folder": str(folder), "stop": str(stop), "kind": kind}
    last = disturb(job, lambda: job.start(train, **settings), kills=KILLS, stop=stop)
    assert [line["done"] for line in job.lines("done")] == [last] * 3
    check(job, kind)
    samples = SHARDS * RECORDS if SOURCES[kind][3] else SHARDS
    assert ledger.check_every_sample_once(ledger.contributions(job), samples) >= 5


def test_after_a_total_loss_the_very_next_record(cluster: Make, tmp_path: Path, source: tuple[str, Path]) -> None:
    kind, folder = source
    stop = tmp_path / "stop"
    settings = {"folder": str(folder), "stop": str(stop), "kind": kind}

    def start(job: Cluster) -> None:
        job.environment.update(TORCHRUN)
        job.start(train, **settings)

    before, after, killed = total_loss(cluster, tmp_path / "checkpoints", start, since=10)
    stop.write_text(str(killed + 20))
    for _ in range(2):
        start(after)
    after.wait()
    assert not after.errors()
    first = min(ledger.agreed(after))
    assert 1 < first <= killed + 1
    check(before, kind)
    check(after, kind)
    steps = ledger.contributions(before, until=first - 1) + ledger.contributions(after, since=first)
    ledger.check_every_sample_once(steps, SHARDS * RECORDS if SOURCES[kind][3] else SHARDS)
