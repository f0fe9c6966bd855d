# SPDX-License-Identifier: Apache-2.0
"""One worker of bench/goodput.py: the same model, data and step under each way of surviving. A line of JSON a committed step.

A share of --batch samples takes --compute-ms at least, as if the worker had a device of its own: what is compared is what losses
cost, not how several workers share the processors of this machine. More or fewer samples take as much more or less: Spotnik's loader
gives twice as many after a loss, and a few of weight zero to a newcomer that repeats a step or comes in the middle of one.

A machine that starts has processors of its own. So what a new worker imports runs only when no other wants the processors, until
it is ready; otherwise five that import torch would make the steps of the others a quarter longer. That needs root.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import time
from typing import Any


def take_turn(policy: int) -> None:
    """Let all threads of this process run with this policy."""
    if os.geteuid() == 0:
        for thread in os.listdir("/proc/self/task"):
            with contextlib.suppress(ProcessLookupError):  # it has ended
                os.sched_setscheduler(int(thread), policy, os.sched_param(0))


take_turn(os.SCHED_IDLE)

import torch  # noqa: E402

WIDTH, DEPTH, INPUTS = 1152, 5, 64  # 6.8 million parameters: 26 MiB
SAMPLES = 1 << 20


def make_model() -> torch.nn.Module:
    torch.manual_seed(1)
    layers: list[torch.nn.Module] = [torch.nn.Linear(INPUTS, WIDTH), torch.nn.ReLU()]
    for _ in range(DEPTH):
        layers += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, 1))


def make_batch(begin: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Samples are functions of their number, so all ways see the same data."""
    generator = torch.Generator().manual_seed(begin)
    inputs = torch.randn(count, INPUTS, generator=generator)
    return inputs, (inputs[:, :8].sin().sum(1, keepdim=True))


class Numbers(torch.utils.data.Dataset):
    """A data set of its own indices."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> int:
        return index


class Worker:
    """What all ways have in common."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.model = make_model()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.log = open(options.ledger, "a", encoding="ascii", buffering=1)  # noqa: SIM115
        self.begun = 0.0
        take_turn(os.SCHED_OTHER)
        self.tell(ready=os.environ["GOODPUT_NODE"])

    def backward(self, begin: int, count: int) -> float:
        """Loss and gradients of a share, in the time that a device takes for its samples."""
        self.begun = time.monotonic()
        self.optimizer.zero_grad()
        inputs, targets = make_batch(begin, max(count, 1))
        loss = torch.nn.functional.mse_loss(self.model(inputs), targets)
        device_s = self.options.compute_ms / 1000 * count / self.options.batch
        time.sleep(max(0.0, device_s - (time.monotonic() - self.begun)))
        loss.backward()
        return float(loss.detach())

    def save(self, model: torch.nn.Module, path: str, step: int, cursor: int) -> None:
        torch.save({"model": model.state_dict(), "optimizer": self.optimizer.state_dict(), "step": step, "cursor": cursor}, path)

    def load(self, path: str) -> tuple[int, int]:
        """Steps and samples that the checkpoint has; none without one."""
        if not os.path.exists(path):
            return 0, 0
        kept = torch.load(path)
        self.model.load_state_dict(kept["model"])
        self.optimizer.load_state_dict(kept["optimizer"])
        return kept["step"], kept["cursor"]

    def tell(self, **line: Any) -> None:
        """One write a line: many workers share the file."""
        os.write(self.log.fileno(), (json.dumps({"t": time.monotonic(), "pid": os.getpid(), **line}) + "\n").encode())


def run_spotnik(worker: Worker) -> None:
    """The three lines of the README."""
    import spotnik.torch as spotnik

    batch = worker.options.batch
    _, optimizer = spotnik.prepare(worker.model, worker.optimizer, batch="per_member")
    loader = spotnik.shard(torch.utils.data.DataLoader(Numbers(), batch_size=batch, shuffle=False))
    while True:
        for indices in loader:
            loss = worker.backward(int(indices[0]), len(indices))
            optimizer.step()
            step = spotnik.current().running.last_step
            if step.replay:
                continue  # a joiner's: the others have done it
            worker.tell(step=step.number, size=spotnik.size(), rank=spotnik.rank(), begin=int(indices[0]), count=len(indices), loss=loss)


def run_torchrun(worker: Worker) -> None:
    """DDP over Gloo under torchrun, rank 0 writes a checkpoint at equal intervals: torchrun's own documents' recipe."""
    import torch.distributed as dist

    options = worker.options
    dist.init_process_group("gloo", timeout=__import__("datetime").timedelta(seconds=20))
    step, cursor = worker.load(options.checkpoint)
    life = agreed(time.time_ns())
    model = worker.model = torch.nn.parallel.DistributedDataParallel(worker.model)
    rank, size, saved = dist.get_rank(), dist.get_world_size(), time.monotonic()
    while True:
        begin = (cursor + rank * options.batch) % SAMPLES
        loss = worker.backward(begin, options.batch)
        worker.optimizer.step()
        step, cursor = step + 1, cursor + size * options.batch
        worker.tell(step=step, size=size, rank=rank, begin=begin, count=options.batch, loss=loss, life=life)
        if rank == 0 and time.monotonic() - saved >= options.checkpoint_s:
            saved = time.monotonic()
            worker.save(model.module, options.checkpoint + ".new", step, cursor)
            os.replace(options.checkpoint + ".new", options.checkpoint)


def agreed(number: int) -> int:
    """Rank 0's."""
    told = torch.tensor([number])
    torch.distributed.broadcast(told, 0)
    return int(told)


def train_under_ray(config: dict[str, Any]) -> None:
    """A worker of Ray Train, as its documents have it: a checkpoint goes through report(), which all ranks call for the same step."""
    import tempfile

    import ray.train

    torch.set_num_threads(1)
    worker = Worker(argparse.Namespace(**config))
    options, context = worker.options, ray.train.get_context()
    step = cursor = 0
    if kept := ray.train.get_checkpoint():
        with kept.as_directory() as folder:
            step, cursor = worker.load(folder + "/state")
    life = agreed(time.time_ns())
    model = worker.model = ray.train.torch.prepare_model(worker.model)
    module = getattr(model, "module", model)
    rank, size, saved = context.get_world_rank(), context.get_world_size(), time.monotonic()
    while True:
        begin = (cursor + rank * options.batch) % SAMPLES
        loss = worker.backward(begin, options.batch)
        worker.optimizer.step()
        step, cursor = step + 1, cursor + size * options.batch
        worker.tell(step=step, size=size, rank=rank, begin=begin, count=options.batch, loss=loss, life=life)
        if agreed(time.monotonic() - saved >= options.checkpoint_s):
            saved = time.monotonic()
            folder = tempfile.mkdtemp(dir=os.path.dirname(options.ledger)) if rank == 0 else None
            if folder:
                worker.save(module, folder + "/state", step, cursor)
            ray.train.report({"step": step}, checkpoint=ray.train.Checkpoint(folder) if folder else None,
                             checkpoint_upload_mode=ray.train.CheckpointUploadMode.ASYNC, delete_local_checkpoint_after_upload=True)


def drive_ray(options: argparse.Namespace) -> None:
    """The driver of Ray Train: it begins when the first nodes are there."""
    import ray
    from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    while True:
        try:
            ray.init(address=options.ray, log_to_driver=False)
            break
        except ConnectionError:
            time.sleep(0.2)  # the head is starting
    while ray.cluster_resources().get("CPU", 0) < options.first:
        time.sleep(0.2)
    scaling = ScalingConfig(num_workers=(1, options.most), elastic_resize_monitor_interval_s=options.resize_s)
    run = RunConfig(name="goodput", storage_path=os.path.dirname(options.checkpoint) + "/storage", failure_config=FailureConfig(max_failures=-1),
                    checkpoint_config=CheckpointConfig(num_to_keep=2))
    TorchTrainer(train_under_ray, train_loop_config=vars(options), torch_config=TorchConfig(backend="gloo", timeout_s=20), scaling_config=scaling,
                 run_config=run).fit()


def run_torchft(worker: Worker) -> None:
    """torchft's Manager with DDP's gradients over its Gloo, a replica group a worker; as in its train_ddp.py."""
    from datetime import timedelta

    from torchft import Manager, Optimizer, ProcessGroupGloo
    from torchft.ddp import DistributedDataParallel

    options = worker.options
    cursor = {"begin": 0}

    def load(kept: dict[str, Any]) -> None:
        worker.model.load_state_dict(kept["model"])
        worker.optimizer.load_state_dict(kept["optimizer"])
        cursor.update(kept["cursor"])

    def state() -> dict[str, Any]:
        return {"model": inner.state_dict(), "optimizer": worker.optimizer.state_dict(), "cursor": dict(cursor)}

    inner = worker.model
    store = torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    manager = Manager(pg=ProcessGroupGloo(timeout=timedelta(seconds=5)), load_state_dict=load, state_dict=state, min_replica_size=1,
                      replica_id=f"worker_{os.getpid()}", store_addr="localhost", store_port=store.port, rank=0, world_size=1,
                      timeout=timedelta(seconds=10))
    model = DistributedDataParallel(manager, inner)
    optimizer = Optimizer(manager, worker.optimizer)
    while True:
        worker.begun = time.monotonic()
        optimizer.zero_grad()  # begins the quorum
        begin = cursor["begin"] + (manager.participating_rank() or 0) * options.batch
        inputs, targets = make_batch(begin % SAMPLES, options.batch)
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        time.sleep(max(0.0, options.compute_ms / 1000 - (time.monotonic() - worker.begun)))
        loss.backward()
        before = manager.current_step()
        optimizer.step()
        if manager.current_step() == before:
            continue  # not committed: the step is made again
        size, rank = manager.num_participants(), manager.participating_rank()
        cursor["begin"] += size * options.batch
        if rank is not None:  # the gradients of one that heals are not taken, so it has trained nothing
            worker.tell(step=manager.current_step(), size=size, rank=rank, begin=begin, count=options.batch, loss=float(loss.detach()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("way", choices=("spotnik", "torchrun", "torchft", "ray"))
    parser.add_argument("--ledger", required=True, help="the file of the steps")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--compute-ms", type=float, default=300)
    parser.add_argument("--checkpoint", default="")
    parser.add_argument("--checkpoint-s", type=float, default=10)
    parser.add_argument("--ray", default="", help="the address of Ray's head: this is the driver")
    parser.add_argument("--first", type=int, default=1, help="nodes that the driver waits for")
    parser.add_argument("--most", type=int, default=1, help="workers at once")
    parser.add_argument("--resize-s", type=float, default=2, help="how often Ray considers a change of size")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(75))
    torch.set_num_threads(1)
    if options.way == "ray":
        take_turn(os.SCHED_OTHER)  # the driver is no machine of the trace
        drive_ray(options)
    else:
        {"spotnik": run_spotnik, "torchrun": run_torchrun, "torchft": run_torchft}[options.way](Worker(options))


if __name__ == "__main__":
    main()
