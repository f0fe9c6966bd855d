# SPDX-License-Identifier: Apache-2.0
"""Train the surrogate: an ensemble of small networks, each on its own draw of the data, from (T, rho) to a density
profile. What they agree on is the prediction, where they differ is its error bar.

    spotnik run -n 2 --respawn -- python train.py data.pt prediction.pt
"""

import sys

import torch

import spotnik.torch as spotnik

MEMBERS, WIDTH, EPOCHS = 8, 48, 200


class Ensemble(torch.nn.Module):
    """Networks side by side, one matrix product for all of them."""

    def __init__(self, inputs, outputs):
        super().__init__()
        sizes = [inputs, WIDTH, WIDTH, outputs]
        self.weight = torch.nn.ParameterList(
            torch.randn(MEMBERS, a, b) * (1.5 / a) ** 0.5 for a, b in zip(sizes, sizes[1:], strict=False)
        )
        self.bias = torch.nn.ParameterList(torch.randn(MEMBERS, 1, b) * 0.5 for b in sizes[1:])

    def forward(self, x):
        """Of all members: (members, rows, outputs)."""
        x = x.expand(MEMBERS, *x.shape)
        for layer, (weight, bias) in enumerate(zip(self.weight, self.bias, strict=True)):
            x = torch.baddbmm(bias, x, weight)
            x = torch.tanh(x) if layer + 1 < len(self.weight) else x
        return x


def main():
    """Train, and tell what was asked."""
    torch.manual_seed(0)
    data = torch.load(sys.argv[1])
    x, y = data["x"], data["y"]
    middle, scale = y.mean(0), y.std() + 1e-9
    draws = torch.poisson(torch.ones(len(x), MEMBERS)) + 0.1  # how much each row counts for each member
    rows = torch.utils.data.TensorDataset(x, (y - middle) / scale, draws)
    loader = torch.utils.data.DataLoader(rows, batch_size=min(16, len(x)), shuffle=True)
    model = Ensemble(x.shape[1], y.shape[1])
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=1e-4)
    model, optimizer = spotnik.prepare(model, optimizer)
    loader = spotnik.shard(loader)
    for _ in range(EPOCHS):
        for inputs, targets, weights in loader:
            optimizer.zero_grad()
            error = ((model(inputs) - targets) ** 2).mean(2)
            (error * weights.T).mean().backward()
            optimizer.step()
    if spotnik.rank() == 0:
        with torch.no_grad():
            told = model(data["asked"]) * scale + middle
        torch.save({"mean": told.mean(0), "std": told.std(0)}, sys.argv[2])


main()
