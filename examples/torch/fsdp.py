# SPDX-License-Identifier: Apache-2.0
"""FSDP2 inside groups: each group shards the model over its processes, and is one member of the job.

    spotnik run -n 1:3 --group 2 --respawn -- python examples/torch/fsdp.py
    torchrun --standalone --nproc-per-node 2 examples/torch/fsdp.py         with SPOTNIK_PEERS and SPOTNIK_KEY_FILE

On a CPU by Gloo; with GPUs say "nccl" and "cuda", and have each process use the one of its LOCAL_RANK.
"""

import torch
from torch.distributed.fsdp import fully_shard

import spotnik
from spotnik.torch import sharded

torch.distributed.init_process_group("gloo")  # of this group: it ends with the group
torch.manual_seed(0)  # all processes begin with one model
x = torch.randn(20_000, 20)
y = (x[:, :2].prod(1) > 0).long()

model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
for layer in model:
    if isinstance(layer, torch.nn.Linear):
        fully_shard(layer)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

with sharded.join(spotnik.Config(samples=len(x), batch=200, steps_max=500)) as job:
    replica = sharded.Replica(job, model, optimizer)
    for step in replica.steps():
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(step.data_epoch))
        mine = [index for one in step.ranges for index in one]
        optimizer.zero_grad()
        if not step.replay:
            batch = order[mine or [0]]  # FSDP's collectives need every process: one without samples takes any, times 0
            losses = torch.nn.functional.cross_entropy(model(x[batch]), y[batch], reduction="sum")
            (losses * (replica.scale(step) if mine else 0)).backward()
        if replica.average():
            replica.clip_grad_norm_(1.0)
            optimizer.step()
    right = (model(x).argmax(1) == y).float().mean()
    if step.rank == 0:
        print(f"{right:.1%} right after {step.number} steps, {step.size} processes", flush=True)
