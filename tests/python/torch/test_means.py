# SPDX-License-Identifier: Apache-2.0
"""What the graph of a loss tells of how it was made: is it a mean over samples?"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as f

from spotnik.torch._means import compares, shape_of

ROWS = 12
torch.manual_seed(1)
X = torch.randn(ROWS, 6)
Y, KEPT, PICTURES = (X[:, 0] > 0).long(), X[:, 2] > -0.5, torch.randn(ROWS, 3, 8, 8)
NET = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
SQUARE, TABLE, HEAD = nn.Linear(6, ROWS, bias=False), nn.Embedding(ROWS, 6), nn.Linear(6, 6)
CONV, SCALE = nn.Conv2d(3, 5, 3), nn.Parameter(torch.ones(()))
Loss = Callable[[], torch.Tensor]


def each() -> torch.Tensor:
    """The losses of samples."""
    return f.cross_entropy(NET(X), Y, reduction="none")


def shares() -> torch.Tensor:
    return NET(X).softmax(1)


def quotient(dim: tuple[int, ...]) -> torch.Tensor:
    """1 - Dice, of all or of each sample."""
    p = CONV(PICTURES).sigmoid()
    return (1 - (2 * (p * 0.5).sum(dim) + 1) / (p.sum(dim) + 2)).mean()


MEANS: dict[str, Loss] = {
    "criterion": lambda: f.cross_entropy(NET(X), Y, label_smoothing=0.1),
    "pixels": lambda: f.cross_entropy(CONV(PICTURES), torch.zeros(ROWS, 6, 6).long()),
    "by length": lambda: each().sum() / len(X),
    "of each sample": lambda: ((NET(X) - 1).square().mean(1) + 1e-6).sqrt().mean(),
    "dice of each sample": lambda: quotient((1, 2, 3)),
    "columns": lambda: NET(X).square().mean(0).sum(),
    "focal": lambda: ((1 - torch.exp(-each())) ** 2 * each()).mean(),
    "penalty": lambda: each().mean() + torch.stack([p.norm() for p in NET.parameters()]).norm(),
    "uncertainty": lambda: each().mean() * torch.exp(-SCALE) + each().mean() / (2 * SCALE**2) + SCALE.log(),
    "several": lambda: torch.stack([each().mean(), NET(X).abs().mean()]).sum(),
    "top classes": lambda: -NET(X).topk(1, dim=1).values.mean(),
    "chosen columns": lambda: -NET(X).log_softmax(1)[torch.arange(ROWS), Y].mean(),
    "as many classes as rows": lambda: f.cross_entropy(SQUARE(HEAD(X)), torch.arange(ROWS)),
    "tied to a table": lambda: f.cross_entropy(TABLE(torch.arange(ROWS)) @ TABLE.weight.T, torch.arange(ROWS)),
    "attention": lambda: attended(HEAD(X).view(ROWS, 3, 2)).square().mean(),
    "places": lambda: (HEAD(X).view(ROWS, 6) + TABLE(torch.zeros(1).long())).square().mean(),
    "flipped pictures": lambda: CONV(PICTURES).flip(3).square().mean(),
    "less its own mean": lambda: (NET(X) - NET(X).mean(1, keepdim=True)).square().mean(),
}
OTHERS: dict[str, tuple[str, Loss]] = {
    "inverse root": ("a root", lambda: each().mean().rsqrt()),
    "root": ("a root", lambda: f.mse_loss(NET(X)[:, 0], Y.float()).sqrt()),
    "norm": ("a root", lambda: (NET(X) - 1).norm()),
    "dice": ("a root", lambda: quotient((0, 1, 2, 3))),
    "dice of classes": ("a root", lambda: quotient((0, 2, 3))),
    "variance": ("a root", lambda: NET(X)[:, 0].var()),
    "flooding": ("a root", lambda: (each().mean() - 0.1).abs()),
    "entropy of a mean": ("a root", lambda: (shares().mean(0) * shares().mean(0).log()).sum()),
    "moments": ("a root", lambda: f.mse_loss(CONV(PICTURES).mean((0, 2, 3)), torch.ones(5))),
    "balance": ("a root", lambda: (shares().mean(0) * shares().square().mean(0)).sum()),
    "hard ones": ("a root", lambda: each().topk(5).values.mean()),
    "some": ("samples that it leaves out", lambda: f.cross_entropy(NET(X)[KEPT], Y[KEPT])),
    "mask": ("samples that it leaves out", lambda: each().masked_select(KEPT).mean()),
    "sum": ("a sum", lambda: each().sum()),
}


COMPARED: dict[str, Loss] = {
    "contrast": lambda: f.cross_entropy(f.normalize(NET(X)) @ f.normalize(NET(X)).T * 5, torch.arange(ROWS)),
    "ranks": lambda: f.relu(1 - (NET(X)[:, :1] - NET(X)[:, 0].unsqueeze(0)) * (X[:, :1] - X[:, 0])).mean(),
    "uniform": lambda: (-torch.cdist(NET(X), NET(X))).exp().mean(),
    "triplets": lambda: f.triplet_margin_loss(NET(X), NET(X).roll(1, 0), NET(X).flip(0)),
    "covariance": lambda: (NET(X).T @ NET(X) / ROWS - torch.eye(2)).square().mean(),
    "whitened": lambda: ((NET(X) - NET(X).mean(0)) / (NET(X).var(0) + 1e-5).sqrt()).abs().mean(),
    "weights of samples": lambda: (each() * (each() / each().sum())).mean(),
}


def attended(x: torch.Tensor) -> torch.Tensor:
    return (x @ x.mT).softmax(-1) @ x


@pytest.mark.parametrize("loss", MEANS.values(), ids=MEANS)
def test_a_mean_over_samples(loss: Loss) -> None:
    assert shape_of(loss(), ROWS) is None and not compares(loss(), ROWS)


@pytest.mark.parametrize("loss", COMPARED.values(), ids=COMPARED)
def test_samples_that_are_compared(loss: Loss) -> None:
    value = loss()
    value.backward()
    assert compares(value, ROWS)


@pytest.mark.parametrize(("words", "loss"), OTHERS.values(), ids=OTHERS)
def test_what_is_another_for_a_share(words: str, loss: Loss) -> None:
    value = loss()
    value.backward()  # which frees what the graph has kept
    assert (shape_of(value, ROWS) or "").startswith(words)
