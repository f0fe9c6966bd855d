# SPDX-License-Identifier: Apache-2.0
"""FSDP2 inside groups: each group shards the model over its processes, and is one member of the job.

    spotnik run -n 1:3 --group 2 --respawn -- python examples/torch/fsdp.py
    torchrun --standalone --nproc-per-node 2 examples/torch/fsdp.py         with SPOTNIK_PEERS and SPOTNIK_KEY_FILE

The three lines are those of minimal.py, marked with (1), (2) and (3). On a CPU by Gloo; with GPUs say "nccl" and
"cuda", and have each process use the one of its LOCAL_RANK.
"""

import torch
from torch.distributed.fsdp import fully_shard

import spotnik.torch as spotnik  # (1)

torch.distributed.init_process_group("gloo")  # of this group: it ends with the group
torch.manual_seed(0)  # all processes begin with one model
x = torch.randn(20_000, 20)
y = (x[:, :2].prod(1) > 0).long()
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=200, shuffle=True)

model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
for layer in (model[0], model[2], model):
    fully_shard(layer)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
model, optimizer = spotnik.prepare(model, optimizer)  # (2)
loader = spotnik.shard(loader)  # (3)

for epoch in spotnik.epochs(5):
    for inputs, targets in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), targets).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    with torch.no_grad():  # in all processes of the group: each has a part of the model
        right = (model(x).argmax(1) == y).float().mean()
    if spotnik.rank() == 0:
        print(f"epoch {epoch}: {right:.1%} right, {spotnik.size()} processes", flush=True)
