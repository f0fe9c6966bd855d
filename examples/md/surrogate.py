# SPDX-License-Identifier: Apache-2.0
"""A Gaussian process from the parameters of a run to its profile: what it predicts, how sure it is, and which runs
would make it surer.

All points of a profile share one kernel (Matern 5/2, a length for each parameter). A curve bends each parameter, since
fluids change faster where they are cold and dense. The size of what varies differs from point to point."""

import torch

EPOCHS, RATE = 60, 0.1


class Process(torch.nn.Module):
    """The kernel. Parameters of runs are scaled to -1..1."""

    def __init__(self, inputs):
        super().__init__()
        self.length = torch.nn.Parameter(torch.full((inputs,), 0.7).double())
        self.bend = torch.nn.Parameter(torch.zeros(2, inputs).double())
        self.noise = torch.nn.Parameter(torch.tensor(-3.0).double())

    def place(self, x):
        """Where a run is, in lengths."""
        share = ((x + 1) / 2).clamp(1e-6, 1 - 1e-6)
        early, late = self.bend.exp()
        return 2 * (1 - (1 - share**early) ** late) / self.length.exp()

    def kernel(self, a, b):
        """How much two runs have in common, 0 to 1."""
        far = 5**0.5 * torch.cdist(self.place(a), self.place(b), compute_mode="donot_use_mm_for_euclid_dist")
        return (1 + far + far**2 / 3) * torch.exp(-far)

    def factor(self, x):
        """Cholesky factor of the runs' covariance, their own noise included."""
        return torch.linalg.cholesky(self.kernel(x, x) + torch.eye(len(x)).double() * (self.noise.exp() + 1e-6))

    def forward(self, x, y):
        """How badly it explains each row of y: one point of the profile in all runs, its mean taken away."""
        factor = self.factor(x)
        white = torch.linalg.solve_triangular(factor, y.T, upper=False)
        prior = ((self.bend**2).sum() + ((self.length - 0.7) ** 2).sum()) / (100 * len(x))
        return 0.5 * torch.log((white**2).mean(0) + 1e-12) + factor.diagonal().log().mean() + prior


def rows(y):
    """The rows that a kernel is judged by: the points of the profile, over all runs. Inside a wall there is nothing to
    learn from: all runs have no fluid there."""
    y = y - y.mean(0)
    return y.T[y.std(0) > y.std(0).max() / 100]


def fit(process, x, y):
    """Find the kernel, in this process alone. train.py does it with Spotnik."""
    optimizer, points = torch.optim.Adam(process.parameters(), lr=RATE), rows(y)
    for _ in range(EPOCHS):
        optimizer.zero_grad()
        process(x, points).mean().backward()
        optimizer.step()
    return process


def predict(process, x, y, asked):
    """(mean, standard deviation) of the profiles that are asked for, after runs at x gave y."""
    with torch.no_grad():
        factor = process.factor(x)
        white = torch.linalg.solve_triangular(factor, y - y.mean(0), upper=False)
        common = torch.linalg.solve_triangular(factor, process.kernel(x, asked), upper=False)
        left = (1 - (common**2).sum(0)).clamp(min=1e-9)
        return y.mean(0) + common.T @ white, (left[:, None] * (white**2).mean(0)).sqrt()


def gains(process, x, pool):
    """How much uncertainty, summed over the whole pool, a run at each point of the pool would take away."""
    with torch.no_grad():
        common = torch.linalg.solve_triangular(process.factor(x), process.kernel(x, pool), upper=False)
        doubt = process.kernel(pool, pool) - common.T @ common
        return (doubt**2).sum(0) / (doubt.diagonal() + process.noise.exp())


def choose(process, x, pool, count):
    """The next runs: those that take away most. Each counts the ones before it, so they do not come in clusters. The
    largest error bar alone is mostly at a corner, where a run says little of anything else."""
    chosen = []
    for _ in range(count):
        best = int(gains(process, x, pool).argmax())
        chosen.append(best)
        x = torch.cat([x, pool[best : best + 1]])
    return chosen
