# SPDX-License-Identifier: Apache-2.0
"""A model beside the prepared one. Claim: a warning names it if it changes and prepare() was not given it."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable

import pytest
import torch
from cluster import Cluster, Tell
from programs import data, network
from test_features import together
from test_weights import Words
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader

import spotnik.torch as spotnik
from spotnik.torch import _outside


def trains(tell: Tell, how: str) -> None:
    words = Words()
    logging.getLogger("spotnik.torch").addHandler(words)
    net = network()
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    average, teacher = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.9)), copy.deepcopy(net)
    other = nn.Linear(6, 2).double()
    own = torch.optim.SGD(other.parameters(), lr=0.05)
    target = copy.deepcopy(net[0])
    spotnik.prepare(net, opt, *([average] if how == "given" else []))
    for x, y in spotnik.shard(DataLoader(data(), batch_size=24)):
        with torch.no_grad():
            out = teacher(x)
        (nn.functional.cross_entropy(net(x), y) + (net(x) - out).square().mean()).backward()
        opt.step()
        opt.zero_grad()
        if how in ("given", "average"):
            average.update_parameters(net)
        elif how == "part":
            with torch.no_grad():
                target.weight.lerp_(net[0].weight, 0.1)
        elif how == "second":
            nn.functional.cross_entropy(other(x), y).backward()
            own.step()
            own.zero_grad()
    tell(done=[one for one in words.kept if "that prepare() was not given" in one])


@pytest.mark.parametrize(
    ("how", "what"),
    [("given", ""), ("teacher", ""), ("average", "AveragedModel"), ("part", "Linear"), ("second", "Linear")],
)
def test_a_model_that_changes_outside_of_the_replica_is_told(
    cluster: Callable[..., Cluster], how: str, what: str
) -> None:
    job = cluster()
    job.gather(2)
    together(job, trains, 2, how=how)
    for line in job.lines("done"):
        assert len(line["done"]) == (1 if what else 0), line["done"]
        assert not what or f"({what})" in line["done"][0]


def test_nothing_but_models_is_asked_for_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program has some 300,000 objects: a call for each took a second before the first step."""
    asked: list[object] = []
    monkeypatch.setattr(_outside, "_parameters", lambda one: asked.append(one) or [])
    kept, _ = nn.Linear(2, 2), _outside.Outside(())
    assert any(one is kept for one in asked) and all(isinstance(one, nn.Module) for one in asked)
