# SPDX-License-Identifier: Apache-2.0
"""The parts by themselves: layout of buckets, cutting of shares, numbers as bits; samplers and epochs."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cluster import Cluster, Tell, alone
from programs import SAMPLES, Homemade, data, network
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, SubsetRandomSampler

import spotnik.torch as spotnik
from spotnik import Config, StateError
from spotnik.torch import _buckets, _leaves, _optimizers, _replica
from spotnik.torch._loader import order_of
from spotnik.torch._sampler import Order, Piece, cut, pieces
from spotnik.training import shares
from spotnik.training.buckets import GRADIENTS

Make = Callable[..., Cluster]
MIB = 1 << 20


def test_buckets_go_backwards_the_first_is_small_and_large_gradients_travel_alone() -> None:
    sizes = [(MIB // 4, "a")] * 6 + [(3 * MIB, "a"), (MIB // 2, "b"), (MIB // 4, "a")]
    groups = _buckets.plan(sizes, bucket_bytes=2 * MIB)
    assert groups == [[8, 5, 4, 3], [7], [6], [2, 1, 0]]
    assert _buckets.plan(sizes, bucket_bytes=2 * MIB) == groups
    assert sorted(i for group in groups for i in group) == list(range(len(sizes)))


def test_no_more_than_so_many_gradients_travel_alone() -> None:
    groups = _buckets.plan([(2 * MIB, "a")] * 500, bucket_bytes=8 * MIB)
    assert len(groups) <= 240


def llama(layers: int, width: int, wide: int, keys: int, words: int, experts: int = 1) -> list[int]:
    """Elements of the parameters of a Llama, or of a Mixtral with `experts`."""
    gate = [experts * width] if experts > 1 else []
    layer = [width * width, keys * width, keys * width, width * width, *gate, *[wide * width] * 3 * experts]
    return [words * width, *[*layer, width, width] * layers, width, words * width]


def gpt2(layers: int, width: int, words: int) -> list[int]:
    layer = [width, width, 3 * width * width, 3 * width, width * width, width, width, width]
    layer += [4 * width * width, 4 * width, 4 * width * width, width]
    return [words * width, 1024 * width, *layer * layers, width, width]


#: parameters, in billions, and their elements
LARGE = {
    "GPT-2 XL": (1.56, gpt2(48, 1600, 50257)),
    "Llama-2-7B": (6.74, llama(32, 4096, 11008, 4096, 32000)),
    "Llama-3-8B": (8.03, llama(32, 4096, 14336, 1024, 128256)),
    "Llama-3-70B": (70.6, llama(80, 8192, 28672, 1024, 128256)),
    "Mixtral-8x7B": (46.7, llama(32, 4096, 14336, 1024, 32000, experts=8)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("wire", ["auto", "q8"])
@pytest.mark.parametrize("name", LARGE)
def test_large_models_fit_into_the_buckets_of_a_step(name: str, wire: str, dtype: torch.dtype) -> None:
    """Each element of each gradient has one place, and a gradient of more than 256 MiB several buckets."""
    billions, counts = LARGE[name]
    assert round(sum(counts) / 1e9, 2 if billions < 10 else 1) == billions
    named = [(str(n), nn.Parameter(torch.empty(count, dtype=dtype, device="meta"))) for n, count in enumerate(counts)]
    buckets = _buckets.build(named, 25, wire)
    assert len(buckets) <= len(GRADIENTS)
    places = {parameter: 0 for _, parameter in named}
    for bucket in buckets:
        ends = [part.offset + part.count for part in bucket.parts]
        assert [part.offset for part in bucket.parts] == [0, *ends[:-1]]
        assert len(bucket.parts) == 1 or all(len(part.slot.parts) == 1 for part in bucket.parts)
        for part in bucket.parts:
            places[part.slot.parameter] += part.count
    assert all(places[parameter] == parameter.numel() for _, parameter in named)
    largest = max(bucket.wire.size(bucket.count) for bucket in buckets)
    assert largest <= max(1 << 28, 4 * sum(bucket.wire.size(bucket.count) for bucket in buckets) // len(GRADIENTS))


def test_dense_memory_in_any_order_of_dimensions() -> None:
    x = torch.zeros(2, 3, 4, 5)
    assert _buckets.is_dense(x)
    assert _buckets.is_dense(x.to(memory_format=torch.channels_last))
    assert not _buckets.is_dense(x[:, :2])
    assert not _buckets.is_dense(torch.zeros(3, 1).expand(3, 4))


def test_a_piece_of_a_share() -> None:
    assert cut(((10, 20), (50, 60)), 5, 15) == ((15, 20), (50, 55))
    assert cut(((10, 20),), 0, 0) == ()


@pytest.mark.parametrize("total", range(8))
@pytest.mark.parametrize("accumulate", [1, 2, 3, 5])
def test_mini_batches_weigh_what_their_samples_weigh(total: int, accumulate: int) -> None:
    share = ((100, 100 + total),) if total else ()
    made = pieces(0, share, accumulate, samples=1000)
    assert len(made) == accumulate
    real = [piece for piece in made if piece.scale]
    assert sum(piece.count for piece in real) == total
    assert all(piece.count > 0 for piece in made)
    # the mean over the share is the sum of scale * mean / accumulate
    for piece in real:
        assert math.isclose(piece.scale / accumulate, piece.count / total)


@pytest.mark.parametrize("value", [0, 1, -1, True, False, 0.1, -0.0, math.inf, -math.inf, 2**62, 1e-320])
def test_numbers_keep_their_bits(value: Any) -> None:
    decoded = _leaves.decode(_leaves.encode(value), value)
    assert type(decoded) is type(value)
    assert math.copysign(1, decoded) == math.copysign(1, value)
    assert decoded == value
    assert math.isnan(_leaves.decode(_leaves.encode(math.nan), 0.0))


def test_only_numbers_are_replaced_in_a_tree() -> None:
    tree = {"a": [1, 2.5, "x", None], "b": {"c": (True, torch.tensor(3.0))}}
    codes = [_leaves.encode(value) for value in (7, 0.5, False, 9.0)]
    new = _leaves.replaced(tree, iter(codes))
    assert new == {"a": [7, 0.5, "x", None], "b": {"c": (False, torch.tensor(9.0))}}
    assert [path for path, _ in _leaves.numbers(tree)] == ["a[0]", "a[1]", "b.c[0]", "b.c[1]"]


def test_the_mix_is_the_same_everywhere() -> None:
    assert shares.mix(1, 2, 3) == 7602938901349714354
    assert shares.mix(1, 2) != shares.mix(2, 1)
    assert len({shares.mix(7, i) for i in range(10_000)}) == 10_000


def test_an_order_is_a_permutation_that_follows_from_seed_and_epoch() -> None:
    order = Order(100, shuffle=True)
    whole = [order.indices(3, Piece(epoch, ((0, 100),), 1.0)) for epoch in (0, 1, 0)]
    assert sorted(whole[0]) == list(range(100))
    assert whole[0] == whole[2] != whole[1]
    assert Order(100, shuffle=True).indices(3, Piece(1, ((4, 9),), 1.0)) == whole[1][4:9]
    subset = Order(5, shuffle=True, sampler=SubsetRandomSampler([10, 20, 30, 40, 50]))
    assert sorted(subset.indices(1, Piece(0, ((0, 5),), 1.0))) == [10, 20, 30, 40, 50]


def test_a_sharded_loader_answers_what_scripts_ask_of_their_loader() -> None:
    """timm's train.py asks for the batch_sampler in every epoch; others for batch_size and sampler."""
    loader = DataLoader(data(), batch_size=8, shuffle=True)
    sharded = spotnik.shard(loader)
    assert (sharded.batch_size, len(sharded), len(sharded.batch_sampler)) == (8, len(loader), len(loader))
    assert not hasattr(sharded.batch_sampler, "set_epoch") and not hasattr(sharded, "nonsense")
    with pytest.raises(StateError, match="checkpoint="):
        iter(sharded.batch_sampler)


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_distributed_sampler_of_one_is_an_order_of_all(shuffle: bool) -> None:
    """As scripts have it that make one in every case; their sampler.set_epoch() does no harm."""
    sampler = DistributedSampler(data(), num_replicas=1, rank=0, shuffle=shuffle)
    order = order_of(DataLoader(data(), sampler=sampler, batch_size=8))
    assert (order.samples, order.shuffle, order.sampler) == (SAMPLES, shuffle, None)


def test_state_of_foreign_optimizers_is_made_beforehand_or_refused() -> None:
    p = nn.Parameter(torch.arange(4.0))
    opt = Homemade([p])
    _optimizers.materialise(opt)
    assert opt.state[p]["count"] == opt.param_groups[0]["steps"] == 0
    assert opt.state[p]["mean"].eq(1).all()
    assert torch.equal(p.detach(), torch.arange(4.0))
    assert p.grad is None
    with pytest.raises(spotnik.ArgumentError, match="create the state before prepare"):
        _optimizers.materialise(Homemade([p], bad=True))


class Wrapped(torch.optim.SGD):
    """As Lightning's Fabric wraps an optimizer."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        self.__dict__.update(inner.__dict__, optimizer=inner)


def test_the_schedule_of_a_wrapped_optimizer_is_found() -> None:
    inner, other = (torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1) for _ in range(2))
    schedule = torch.optim.lr_scheduler.StepLR(Wrapped(inner), 3)
    assert _replica.discover([other, inner], []) == [schedule]
    assert _replica.discover([other], []) == []


# ---- in a job ----


def sampling(tell: Tell, epochs: int, late: bool) -> None:
    net = network()
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    net, opt = spotnik.prepare(net, opt, config=Config(members_min=1 if late else 2))
    sampler = spotnik.ElasticSampler(data(), batch_size=40, shuffle=True)
    loader = DataLoader(data(), batch_sampler=sampler)
    seen = []
    for epoch in range(epochs):
        count = 0
        for x, y in loader:
            count += len(x)
            opt.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            opt.step()
            tell(step=spotnik.job().status().step_committed, epoch=epoch)
        seen.append(count)
    tell(done=True, seen=seen, length=len(loader))


def test_an_elastic_sampler_hands_out_every_sample_once(cluster: Make) -> None:
    job = cluster(minimum=2)
    for _ in range(2):
        job.start(sampling, epochs=3, late=False)
    job.wait()
    assert not job.errors()
    one, two = (line["seen"] for line in job.lines("done"))
    assert [a + b for a, b in zip(one, two)] == [SAMPLES] * 3
    assert {line["length"] for line in job.lines("done")} == {6}


def counted(tell: Tell, epochs: int, helper: bool) -> None:
    net = network()
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(opt, 1, 0.5)  # stepped once an epoch
    net, opt = spotnik.prepare(net, opt)
    loader = spotnik.shard(DataLoader(data(), batch_size=8))
    for epoch in spotnik.epochs(epochs) if helper else range(epochs):
        for x, y in loader:
            opt.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            opt.step()
            report = spotnik.job().status()
            tell(step=report.step_committed, epoch=epoch, lr=opt.param_groups[0]["lr"], member=report.member)
            if report.size < 2 and not report.joining:
                time.sleep(0.02)  # a job that is not over before anybody can join it
        schedule.step()
    tell(done=True)


@pytest.mark.parametrize("helper", [False, True], ids=["range", "epochs"])
def test_one_that_joins_late_is_in_the_epoch_of_the_others(cluster: Make, helper: bool) -> None:
    job = cluster(minimum=1)
    first = job.start(counted, epochs=40, helper=helper)
    late = None
    for _, line in job.events():
        if "done" in line:
            job.dismiss_latecomers()
        if late is None and line.get("epoch", 0) >= 2:
            late = job.start(counted, epochs=40, helper=helper)
    assert late is not None
    assert not job.errors()
    theirs = {line["step"]: line for line in first.lines if "step" in line}
    shared = [line for line in late.lines if "step" in line and line["step"] in theirs]
    assert shared
    assert min(line["epoch"] for line in shared) >= 2
    for line in shared:
        assert line["epoch"] == theirs[line["step"]]["epoch"]
        assert line["lr"] == theirs[line["step"]]["lr"] == 0.01 * 0.5 ** line["epoch"]


def test_a_loop_that_leaves_an_epoch_early_goes_on_in_it(tmp_path: Path) -> None:
    (told,) = alone(stopping, tmp_path)
    assert told["first"] + told["second"] == sorted(told["first"] + told["second"])
    assert len(told["first"]) == 5
    assert len(told["second"]) == 26 - 5


def stopping(tell: Tell) -> None:
    net = network()
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    net, opt = spotnik.prepare(net, opt)
    loader = spotnik.shard(DataLoader(data(), batch_size=8))
    taken: list[list[int]] = []
    for _ in range(2):
        taken.append([])
        for x, y in loader:
            opt.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            opt.step()
            taken[-1].append(spotnik.job().status().step_committed)
            if len(taken[-1]) == 5 and len(taken) == 1:
                break
    tell(first=taken[0], second=taken[1])


def test_the_manager_for_torchft_needs_no_torchft() -> None:
    program = (
        "import sys; sys.modules['torchft'] = None\n"  # an import of it fails
        "import spotnik; assert 'torch' not in sys.modules\n"
        "from spotnik.torch.torchft import Manager; Manager()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
