# SPDX-License-Identifier: Apache-2.0
"""The three lines: a plain PyTorch script, made to survive. Marked with (1), (2) and (3).

    python examples/torch/minimal.py                                             a job of one
    spotnik run -n 4 -- python examples/torch/minimal.py                         four workers
    spotnik run -n 2:4 --respawn --kill-every 5s -- python examples/torch/minimal.py
"""

import torch

import spotnik.torch as spotnik  # (1)

torch.manual_seed(0)
x = torch.randn(20_000, 20)
y = (x[:, :2].prod(1) > 0).long()
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=100, shuffle=True)

model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
model, optimizer = spotnik.prepare(model, optimizer)  # (2)
loader = spotnik.shard(loader)  # (3)

for epoch in range(20):
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
    if spotnik.rank() == 0:
        with torch.no_grad():
            right = (model(x).argmax(1) == y).float().mean()
        print(f"epoch {epoch}: {right:.1%} right, {spotnik.size()} workers", flush=True)
