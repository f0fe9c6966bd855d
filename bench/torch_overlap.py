# SPDX-License-Identifier: Apache-2.0
"""Step time of a ResNet-18 with several workers: spotnik.torch beside DistributedDataParallel with Gloo, in one run.

    PYTHONPATH=python SPOTNIK_LIBRARY=build/src/libspotnik.so python bench/torch_overlap.py

Prints medians per round, alternating between the two, and their ratio; how long an exchange takes by itself and how
much of it is left to wait for after backward; and what prepare() costs a job of one, step by step beside the same model
without it. Workers are forks of this process with one thread each. Nothing passes or fails here.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
import torch.distributed as dist
from torch import nn
from torch.nn import functional

_source = importlib.util.spec_from_file_location("images", Path(__file__).parents[1] / "examples/torch/images.py")
assert _source is not None and _source.loader is not None
images = importlib.util.module_from_spec(_source)
_source.loader.exec_module(images)
spotnik = images.spotnik

Tell = Callable[[Any], None]
Cost = tuple[float, float]


def make(width: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    """ResNet-18 for 32x32 images, and SGD with momentum."""
    torch.manual_seed(0)
    model = images.ResNet(3, 10, tuple(width << i for i in range(4)))
    return model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def batch_of(count: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noise and labels."""
    return torch.randn(count, 3, size, size), torch.randint(0, 10, (count,))


def step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: tuple[torch.Tensor, torch.Tensor]) -> Cost:
    """One step; returns its seconds, and the seconds of processor time that all threads of this process took."""
    begun, busy = time.perf_counter(), time.process_time()
    optimizer.zero_grad()
    functional.cross_entropy(model(batch[0]), batch[1]).backward()
    optimizer.step()
    return time.perf_counter() - begun, time.process_time() - busy


def split(costs: list[Cost]) -> dict[str, list[float]]:
    """Costs as what workers tell."""
    return {"step": [wall for wall, _ in costs], "busy": [busy for _, busy in costs]}


def with_ddp(options: argparse.Namespace, rank: int, folder: str, tell: Tell) -> None:
    """A worker of DistributedDataParallel."""
    store = dist.FileStore(f"{folder}/store", options.workers)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=options.workers)
    model, optimizer = make(options.width)
    wrapped = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    batch = batch_of(options.batch, options.size)
    tell(split([step(wrapped, optimizer, batch) for _ in range(options.warmup + options.steps)]))
    dist.barrier()
    os._exit(0)


def with_spotnik(options: argparse.Namespace, rank: int, folder: str, tell: Tell) -> None:
    """A worker of spotnik."""
    os.environ.update(
        SPOTNIK_PEERS=f"file:{folder}", SPOTNIK_KEY_FILE=f"{folder}/key", SPOTNIK_MIN=str(options.workers)
    )
    model, optimizer = make(options.width)
    waits: list[float] = []
    model, optimizer = spotnik.prepare(model, optimizer, on_step=lambda report: waits.append(report.wait_s))
    batch = batch_of(options.batch, options.size)
    times = [step(model, optimizer, batch) for _ in range(options.warmup + options.steps)]
    overlapped = waits[:]
    alone = [exchange(model, optimizer) for _ in range(options.warmup + 10)]
    tell({**split(times), "wait": overlapped, "alone": alone})
    spotnik.leave()
    os._exit(0)


def exchange(model: nn.Module, optimizer: torch.optim.Optimizer) -> float:
    """A step with next to nothing to hide behind: gradients are ready when it starts."""
    spotnik._session.current().begin()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    begun = time.perf_counter()
    optimizer.step()
    return time.perf_counter() - begun


def run_workers(worker: Callable[..., None], options: argparse.Namespace) -> list[dict[str, list[float]]]:
    """Fork the workers and collect what they tell."""
    with tempfile.TemporaryDirectory() as folder:
        key = Path(folder, "key")
        key.write_text(secrets.token_hex(32) + "\n")
        key.chmod(0o600)
        pipes = []
        for rank in range(options.workers):
            read, write = os.pipe()
            if os.fork() == 0:
                try:
                    worker(options, rank, folder, lambda what, to=write: os.write(to, json.dumps(what).encode()))
                finally:
                    os._exit(1)
            os.close(write)
            pipes.append(read)
        texts = [b"".join(iter(lambda pipe=pipe: os.read(pipe, 65536), b"")) for pipe in pipes]
        for _ in pipes:
            os.wait()
    return [json.loads(text) for text in texts]


def median(told: list[dict[str, list[float]]], key: str, skip: int) -> float:
    """Over all workers and steps after the first `skip`."""
    return statistics.median(value for one in told for value in one[key][skip:])


def job_of_one(options: argparse.Namespace, tell: Tell) -> None:
    """The same step with and without prepare(), by turns."""
    torch.set_num_threads(options.threads)
    (plain, plain_optimizer), (model, optimizer) = make(options.width), make(options.width)
    for variable in ("SPOTNIK_PEERS", "SPOTNIK_KEY_FILE"):
        os.environ.pop(variable, None)
    model, optimizer = spotnik.prepare(model, optimizer)
    batch = batch_of(options.batch * options.workers, options.size)
    pairs = []
    for number in range(options.warmup + options.pairs):
        if number % 2:
            without, with_ = step(plain, plain_optimizer, batch), step(model, optimizer, batch)
        else:
            with_, without = step(model, optimizer, batch), step(plain, plain_optimizer, batch)
        pairs.append((without, with_))
    tell(pairs[options.warmup :])


def cost_of_one(options: argparse.Namespace) -> None:
    """Print what prepare() costs without other members."""
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            job_of_one(options, lambda what: os.write(write, json.dumps(what).encode()) and None)
        finally:
            os._exit(0)
    os.close(write)
    pairs = json.loads(b"".join(iter(lambda: os.read(read, 65536), b"")))
    os.wait()
    for number, what in enumerate(("a step", "of processor time")):
        without, with_ = (statistics.median(pair[i][number] for pair in pairs) for i in (0, 1))
        ratio = statistics.median(b[number] / a[number] for a, b in pairs)
        print(f"job of one: {without * 1e3:.1f} ms {what}, prepared {with_ * 1e3:.1f} ms; median ratio {ratio:.3f}")


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("workers", 4), ("batch", 4), ("size", 32), ("width", 64), ("rounds", 3), ("steps", 12)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=20, help="steps of the job of one")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of the job of one")
    parser.add_argument("--only", choices=["workers", "one"])
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    options = parse()
    torch.set_num_threads(1)
    parameters = sum(p.numel() for p in make(options.width)[0].parameters())
    print(
        f"ResNet-18, width {options.width}: {parameters / 1e6:.1f} million parameters; {options.workers} workers, "
        f"{options.batch} images of {options.size}x{options.size} each; {os.cpu_count()} cores",
        flush=True,
    )
    if options.only != "workers":
        cost_of_one(options)
        sys.stdout.flush()
    ratios = []
    for number in range(options.rounds if options.only != "one" else 0):
        ddp = run_workers(with_ddp, options)
        own = run_workers(with_spotnik, options)
        a, b = median(ddp, "step", options.warmup), median(own, "step", options.warmup)
        wait, alone = median(own, "wait", options.warmup), median(own, "alone", options.warmup)
        ratios.append(b / a)
        busy = [median(told, "busy", options.warmup) for told in (ddp, own)]
        print(
            f"round {number + 1}: DDP+Gloo {a * 1e3:.0f} ms a step, spotnik {b * 1e3:.0f} ms, ratio {b / a:.2f}; "
            f"processor time a worker {busy[0] * 1e3:.0f} and {busy[1] * 1e3:.0f} ms\n"
            f"         an exchange alone takes {alone * 1e3:.0f} ms, after backward {wait * 1e3:.0f} ms are left: "
            f"{max(0.0, 1 - wait / alone):.0%} hidden",
            flush=True,
        )
    if ratios:
        print(f"median ratio {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
