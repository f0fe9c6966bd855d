# SPDX-License-Identifier: Apache-2.0
"""Train the surrogate on the runs so far: how far the parameters of one run speak for others. The rows of the training
are the points of the profile, shared among the members.

    spotnik run -n 2 --respawn -- python train.py data.pt surrogate.pt
"""

import os
import sys

import torch
from surrogate import Process

import spotnik.torch as spotnik

EPOCHS = 60


def main():
    """Train, and keep what was learned."""
    data = torch.load(sys.argv[1])
    x, y = data["x"], data["y"] - data["y"].mean(0)
    varies = (
        y.std(0) > y.std(0).max() / 100
    )  # inside a wall there is nothing to learn from: all runs have no fluid there
    rows = torch.utils.data.TensorDataset(y.T[varies])
    loader = torch.utils.data.DataLoader(rows, batch_size=len(rows))
    process = Process(x.shape[1])
    optimizer = torch.optim.Adam(process.parameters(), lr=0.1)
    process, optimizer = spotnik.prepare(process, optimizer)
    loader = spotnik.shard(loader)
    for _ in range(EPOCHS):
        for (points,) in loader:
            optimizer.zero_grad()
            process(x, points).mean().backward()
            optimizer.step()
    own = f"{sys.argv[2]}.{os.getpid()}"
    torch.save(process.state_dict(), own)
    os.replace(own, sys.argv[2])  # all members have the same; whoever is killed now, it is whole


main()
