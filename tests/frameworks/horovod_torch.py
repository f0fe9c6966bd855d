# SPDX-License-Identifier: Apache-2.0
"""A member of a Horovod program for PyTorch, in the calls that Horovod's own examples make; import changed."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import torch
import torch.nn.functional as functional
from data import digits
from member import tell

import spotnik.horovod.torch as hvd


def digest(model: torch.nn.Module) -> int:
    import zlib

    return zlib.crc32(b"".join(one.detach().numpy().tobytes() for one in model.parameters()))


def make(settings: dict[str, Any]) -> Any:
    hvd.init()
    torch.manual_seed(1234)
    torch.set_num_threads(1)
    images, labels = digits(settings["samples"])
    data = torch.utils.data.TensorDataset(torch.from_numpy(images.copy()), torch.from_numpy(labels.copy()).long())
    layers = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.02 * hvd.size(), momentum=0.5)
    return data, layers, optimizer


def evaluate(model: torch.nn.Module, data: Any) -> float:
    with torch.no_grad():
        x, y = data[:500]
        mine = functional.cross_entropy(model(x), y)
    return float(hvd.allreduce(mine.clone(), name="avg_loss").item())


def plain(settings: dict[str, Any]) -> None:
    data, model, optimizer = make(settings)
    sampler = torch.utils.data.distributed.DistributedSampler(data, num_replicas=hvd.size(), rank=hvd.rank())
    loader = torch.utils.data.DataLoader(data, batch_size=settings["batch"], sampler=sampler)
    if hvd.rank() > 0:
        torch.nn.init.zeros_(model[1].weight)  # broadcast_parameters has something to do
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(
        optimizer, named_parameters=model.named_parameters(), compression=hvd.Compression.none, op=hvd.Average
    )
    number = 0
    for epoch in range(1, settings["epochs"] + 1):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.synchronize()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            with optimizer.skip_synchronize():
                optimizer.step()
            number += 1
            tell(step=number, loss=loss.item(), rank=hvd.rank())
        tell(step=number, digest=digest(model), size=hvd.size(), mean=evaluate(model, data))
    rows = hvd.allgather(torch.full((hvd.rank() + 1, 2), float(hvd.rank())))
    said = hvd.allgather_object({"rank": hvd.rank()})
    more = {"rows": len(rows), "said": len(said), "local": hvd.local_rank()}
    tell(end=number, digest=digest(model), final=evaluate(model, data), **more)


def elastic(settings: dict[str, Any]) -> None:
    data, model, optimizer = make(settings)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    sampler = hvd.elastic.ElasticSampler(data)
    loader = torch.utils.data.DataLoader(data, batch_size=settings["batch"], sampler=sampler)

    def reset() -> None:
        for group in optimizer.param_groups:
            group["lr"] = 0.02 * hvd.size()

    @hvd.elastic.run
    def train(state: Any) -> None:
        tell(entered=state.epoch, batch=state.batch, size=hvd.size(), rank=hvd.rank())
        for state.epoch in range(state.epoch, settings["epochs"] + 1):  # noqa: B020  # as the examples
            first = state.batch
            for index, (x, y) in enumerate(loader):
                if settings.get("anew") and index >= len(loader) - first:
                    break
                # Horovod's example counts anew when it goes on, so a newcomer that repeats calls counts otherwise.
                state.batch = index if settings.get("anew") else first + index
                optimizer.zero_grad()
                loss = functional.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                state.sampler.record_batch(index, settings["batch"])
                state.total += 1
                tell(step=state.total, loss=loss.item(), rank=hvd.rank())
                if (index + 1) % settings["commit"] == 0:
                    state.batch += 1
                    state.commit()
            tell(epoch=state.epoch, mean=evaluate(model, data))
            state.batch = 0
            state.sampler.set_epoch(state.epoch + 1)
            state.commit()
            state.check_host_updates()

    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, sampler=sampler, epoch=1, batch=0, total=0)
    state.register_reset_callbacks([reset])
    train(state)
    lr = optimizer.param_groups[0]["lr"]
    tell(end=state.total, digest=digest(model), final=evaluate(model, data), size=hvd.size(), lr=lr)


if __name__ == "__main__":
    os.environ.pop("WEIGHTS", None)
    given = json.loads(sys.argv[1])
    (elastic if given.get("elastic") else plain)(given)
