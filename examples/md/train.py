# SPDX-License-Identifier: Apache-2.0
"""Train the surrogate on the runs so far: how far the parameters of one run speak for others. The rows of the training
are the points of the profile, shared among the members.

    spotnik run -n 2 --respawn -- python train.py data.pt surrogate.pt
"""

import os
import sys

import torch
from surrogate import EPOCHS, RATE, Process, rows

import spotnik.torch as spotnik


def main():
    """Train, and keep what was learned."""
    data = torch.load(sys.argv[1])
    x, points = data["x"], rows(data["y"])
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(points), batch_size=len(points))
    process = Process(x.shape[1])
    optimizer = torch.optim.Adam(process.parameters(), lr=RATE)
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
