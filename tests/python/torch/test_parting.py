# SPDX-License-Identifier: Apache-2.0
"""Replicas that part are noticed: all members end, and name the step, the member and the tensor."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from cluster import Cluster, Tell
from programs import data
from test_features import together
from torch import nn
from torch.utils.data import DataLoader

import spotnik.torch as spotnik
from spotnik.torch._parting import _words, sums_of

Make = Callable[..., Cluster]
PARTS_AT = 6
STEPS_MOST = 3000


class Codebook(nn.Module):
    """As vector quantisers: a large buffer that forward() changes, unseen by PyTorch's versions."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.layer = nn.Linear(6, 2).double()
        self.register_buffer("codes", torch.zeros(1 << 16 | 8, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.codes.data[0] += x.sum()
        return self.layer(x)


def train(tell: Tell, how: str, odd: int = -1) -> None:
    """The member with rank `odd` does after some steps what the others do not."""
    torch.manual_seed(1)
    net: nn.Module = Codebook() if how == "codebook" else nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 2)).double()
    opt = torch.optim.AdamW(net.parameters(), lr=0.01)
    spotnik.prepare(net, opt)
    loader = spotnik.shard(DataLoader(data(), batch_size=24))
    rank = spotnik.rank()
    while spotnik.step() < (STEPS_MOST if odd >= 0 or how == "codebook" else 60):
        for x, y in loader:
            nn.functional.cross_entropy(net(x), y).backward()
            opt.step()
            opt.zero_grad()
            if rank == odd and spotnik.step() == PARTS_AT:
                with torch.no_grad():
                    if how == "parameter":
                        net[1].weight[0, 0] += 1e-12
                    elif how == "moment":
                        opt.state[net[0].weight]["exp_avg"][0, 0] += 1e-12
    tell(done=spotnik.job().digest)


@pytest.mark.parametrize(
    ("how", "members", "what", "who"),
    [
        ("parameter", 3, "parameter 1.weight", "rank 1"),
        ("parameter", 2, "parameter 1.weight", "ranks 0, 1"),
        ("moment", 3, "(optimizers torch.float64 small|parameter 0.weight)", "rank 1"),
        ("codebook", 2, "buffer codes", "ranks 0, 1"),
    ],
)
def test_all_members_end_and_name_what_differs(cluster: Make, how: str, members: int, what: str, who: str) -> None:
    job = cluster()
    job.gather(members)
    for _ in range(members):
        job.start(train, how=how, odd=1)
    for _ in job.events():
        pass
    errors = job.lines("error")
    assert [line["error"] for line in errors] == ["StateError"] * members, errors
    (text,) = {line["text"] for line in errors}
    assert re.search(f"parted: {what} is not the same on all members.*look at {who}\\.", text), text
    step = int(re.search(r"after step (\d+) the replicas", text)[1])  # type: ignore[index]
    assert how == "codebook" or PARTS_AT <= step < STEPS_MOST


def test_replicas_that_are_equal_train_on(cluster: Make) -> None:
    job = cluster()
    job.gather(3)
    together(job, train, 3, how="parameter")
    assert len({line["done"] for line in job.lines("done")}) == 1


def test_one_bit_changes_a_sum() -> None:
    tensors = [torch.ones(5, dtype=kind) for kind in (torch.float32, torch.bfloat16, torch.float64, torch.uint8)]
    tensors.append(torch.ones(2, dtype=torch.complex64))
    before = sums_of([("", tensor) for tensor in tensors])
    for tensor in tensors:
        whole = tensor.view(torch.uint8)
        whole[0] ^= 1
    after = sums_of([("", tensor) for tensor in tensors])
    assert all(one != other for one, other in zip(before, after))


def test_sums_of_parts_add_up() -> None:
    """So a group of processes, each with rows of a tensor, comes to the number of one that has all of it."""
    whole = torch.randn(3, 99_999)
    parts = sums_of([("", one) for one in (whole[:1], whole[1:, :7], whole[1:, 7:])])
    assert sums_of([("", whole)]) == [sum(parts)] == [int(whole.view(torch.int32).sum(dtype=torch.int64))]


def test_members_that_did_not_compare_are_not_named() -> None:
    assert "look at rank 2." in _words(4, ["a", "b"], [[1, 0, 5, 5], [1, 1, 5, 5], [1, 2, 5, 6], [0, 3, 0, 0]])
    assert "b is not the same" in _words(4, ["a", "b"], [[1, 0, 5, 5], [1, 1, 5, 6], [0, 2, 0, 0]])
