# SPDX-License-Identifier: Apache-2.0
"""Groups of two processes: FSDP2 inside, over Spotnik and over torchft's HSDP, by turns in one run.

    PYTHONPATH=python SPOTNIK_LIBRARY=build/src/libspotnik.so build/venv/bin/python bench/torchft_groups.py

It needs torchft. All ways train one model by one loop, with Gloo inside a group, and TCP between groups. PyTorch's own
HSDP of the same processes, which survives no kill, says what a step costs without faults. A trial: steps of all
together; SIGKILL of one process; until the other groups have committed a step; then the group is started anew, until all
commit together. torchft has no launcher: its victim's sibling, which torchrun would end 0.1 s later, is killed at once.

torchft 0.2.0 has no device mesh of its own: HSDP is FSDP2 with the Manager's all-reduce as set_all_reduce_hook(), as in its
fsdp_test.py and in torchtitan. Its lighthouse is never lost; --lighthouse holds its settings. One of two groups is no
majority to it, so it waits until the lost one's heartbeat is old (--heartbeat_timeout_ms). With --groups 3 two are one.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import select
import signal
import socket
import statistics
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Optional

import torch
import torch._dynamo  # optimizers import it, which takes seconds: once here, not in every process
import torchft
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torchft_recovery import WARM, open_lighthouse

import spotnik.torch as spotnik

SIZE = 2  # processes of a group
WAYS = {
    "hsdp": "PyTorch's HSDP",
    "spotnik": "Spotnik",
    "torchft": "torchft, heartbeats of 5 s (its default)",
    "torchft-500": "torchft, heartbeats of 0.5 s",
}

Count = Callable[[], int]


def sharded(arguments: argparse.Namespace, mesh: Any = None) -> torch.nn.Module:
    """The model, cut over `mesh`, or over the processes of the group."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(arguments.width, arguments.width) for _ in range(arguments.layers)))
    for layer in (*model, model):
        fully_shard(layer, mesh=mesh)
    return model


def over_torchft(model: torch.nn.Module, group: int, arguments: argparse.Namespace) -> torchft.Manager:
    """The manager of this process; it averages each shard over the groups."""

    def load(state: dict[str, torch.Tensor]) -> None:
        for name, parameter in model.named_parameters():
            parameter.data.to_local().copy_(state[name])

    limit = timedelta(seconds=arguments.timeout_s)
    manager = torchft.Manager(
        pg=torchft.ProcessGroupGloo(timeout=limit),
        min_replica_size=1,
        load_state_dict=load,
        state_dict=lambda: {name: parameter.data.to_local() for name, parameter in model.named_parameters()},
        replica_id=f"group_{group}",
        hostname="127.0.0.1",
        timeout=limit,
    )
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_all_reduce_hook(lambda shard: manager.allreduce(shard).wait())
    return manager


def train(way: str, group: int, rank: int, arguments: argparse.Namespace, pipe: int) -> None:
    """One process: train until killed, and tell of each step."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    shape = (arguments.groups, SIZE)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard")) if way == "hsdp" else None
    model = sharded(arguments, mesh)
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.001)
    step: Count
    members: Count
    if way == "spotnik":
        model, optimizer = spotnik.prepare(model, optimizer)
        step, members = spotnik.step, lambda: spotnik.size() // SIZE
    elif way.startswith("torchft"):
        manager = over_torchft(model, group, arguments)
        optimizer = torchft.Optimizer(manager, optimizer)
        step, members = manager.current_step, manager.num_participants
    else:
        made = [0]
        optimizer.register_step_post_hook(lambda *_: made.append(made.pop() + 1))
        step, members = lambda: made[0], lambda: arguments.groups
    inputs = torch.ones(4, arguments.width)
    while True:
        before = step()
        optimizer.zero_grad()
        time.sleep(arguments.compute_ms / 1000)
        model(inputs).square().mean().backward()
        optimizer.step()
        told = {"who": [group, rank], "at": time.monotonic(), "committed": step() > before, "members": members()}
        os.write(pipe, json.dumps(told).encode() + b"\n")


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Trial:
    """The processes of one trial."""

    def __init__(self, way: str, arguments: argparse.Namespace, folder: Path) -> None:
        self.way, self.arguments = way, arguments
        self.pids: dict[tuple[int, int], int] = {}
        self.starts = 0
        self.port = free_port()  # of all together
        (folder / "peers").mkdir()
        (folder / "peers" / "fresh").touch()
        (folder / "key").touch(mode=0o600)
        (folder / "key").write_text(secrets.token_hex(32) + "\n")
        os.environ.update(SPOTNIK_PEERS=f"file:{folder / 'peers'}", SPOTNIK_KEY_FILE=str(folder / "key"))
        self.name = f"bench-{os.getpid()}-{folder.name}"
        self.lines, self.pipe = os.pipe()
        self.begun = b""  # of a line

    def start(self, group: int) -> None:
        """Fork the processes of a group, with what their launcher would set."""
        port, self.starts = free_port(), self.starts + 1
        for rank in range(SIZE):
            pid = os.fork()
            if pid:
                self.pids[group, rank] = pid
                continue
            place = {
                "RANK": rank,
                "LOCAL_RANK": rank,
                "WORLD_SIZE": SIZE,
                "LOCAL_WORLD_SIZE": SIZE,
                "MASTER_PORT": port,
            }
            if self.way == "hsdp":
                place.update(RANK=group * SIZE + rank, WORLD_SIZE=self.arguments.groups * SIZE, MASTER_PORT=self.port)
            if self.way == "spotnik":  # each group stands for a host
                place.update(SPOTNIK_GROUP=f"{self.name}-{self.starts}:{rank}:{SIZE}", SPOTNIK_HOST=group)
            os.environ.update(MASTER_ADDR="127.0.0.1", **{key: str(value) for key, value in place.items()})
            try:
                train(self.way, group, rank, self.arguments, self.pipe)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)

    def end(self, group: int, rank: int) -> None:
        """Kill a process."""
        os.kill(self.pids[group, rank], signal.SIGKILL)

    def reap(self, group: int) -> None:
        """Wait for processes that have been killed, or whose group kills them."""
        for rank in range(SIZE):
            os.waitpid(self.pids.pop((group, rank)), 0)

    def told(self, begun: float) -> Iterator[dict[str, Any]]:
        """What processes tell from `begun` on. TimeoutError: --gather-s are over."""
        while True:
            left = begun + self.arguments.gather_s - time.monotonic()
            if not select.select([self.lines], [], [], max(0.0, left))[0]:
                raise TimeoutError
            *lines, self.begun = (self.begun + os.read(self.lines, 1 << 16)).split(b"\n")
            yield from (one for one in map(json.loads, lines) if one["at"] > begun)

    def together(self, steps: int, begun: float) -> tuple[float, list[float], int]:
        """Until all have committed `steps` steps of both groups: seconds, those of each step, and steps dropped."""
        seen: dict[tuple[int, ...], list[float]] = {who: [] for who in self.pids}
        dropped = 0
        for one in self.told(begun):
            who = tuple(one["who"])
            dropped += who[1] == 0 and not one["committed"]
            if one["committed"] and one["members"] == self.arguments.groups:
                seen[who].append(one["at"])
                if min(map(len, seen.values())) >= steps:
                    break
        first = seen[0, 0]
        return max(at[steps - 1] for at in seen.values()) - begun, [b - a for a, b in zip(first, first[1:])], dropped

    def kill(self) -> dict[str, float]:
        """Kill a process; see its group out, and in again."""
        time.sleep(random.uniform(0.0, 0.02))  # not always at the same place of a step
        victim, rank, begun = random.randrange(self.arguments.groups), random.randrange(SIZE), time.monotonic()
        self.end(victim, rank)
        if self.way.startswith("torchft"):
            self.end(victim, 1 - rank)
        left = {who for who in self.pids if who[0] != victim}
        dropped, after = 0, 0.0
        for one in self.told(begun):
            who = tuple(one["who"])
            if who not in left:
                continue
            dropped += who[1] == 0 and not one["committed"]
            if one["committed"] and one["members"] == self.arguments.groups - 1:
                after = one["at"] - begun
                left.remove(who)
            if not left:
                break
        self.reap(victim)
        begun = time.monotonic()
        self.start(victim)
        back, _, more = self.together(1, begun)
        return {"after": after, "dropped": dropped + more, "back": back}


def trial(way: str, arguments: argparse.Namespace) -> Optional[dict[str, Any]]:
    """Steps without faults, and one kill. None: the groups did not find together."""
    with tempfile.TemporaryDirectory() as name:
        one, lighthouse = Trial(way, arguments, Path(name)), None
        if way.startswith("torchft"):
            ms = 500 if way == "torchft-500" else 5000
            settings = argparse.Namespace(**vars(arguments))
            settings.lighthouse += f" --heartbeat_timeout_ms {ms}"
            lighthouse = open_lighthouse(settings, arguments.groups)
        try:
            begun = time.monotonic()
            for group in range(arguments.groups):
                one.start(group)
            _, steps, _ = one.together(WARM + arguments.steps, begun)
            found = {"steps": steps[WARM:]}
            return found if way == "hsdp" else {**found, **one.kill()}
        except TimeoutError:
            return None
        finally:
            for pid in one.pids.values():
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            os.close(one.pipe)
            os.close(one.lines)
            if lighthouse is not None:
                lighthouse.kill()
                lighthouse.wait()


def line(way: str, trials: list[Optional[dict[str, Any]]], plain: float) -> tuple[str, float]:
    """A row of the table, and the median of a step."""
    good = [one for one in trials if one is not None]
    if not good:
        return f"| {WAYS[way]} | the groups never found together |", plain
    step = statistics.median(ms for one in good for ms in one["steps"]) * 1e3
    plain = plain or step
    row = f"| {WAYS[way]} | {step:.1f} ms ({step / plain - 1:+.0%}) |"
    if way == "hsdp":
        row += " - | - | - | - |"
    else:
        for key in ("after", "back"):
            times = [one[key] * 1e3 for one in good]
            row += f" {statistics.median(times):.0f} ms (most {max(times):.0f}) |"
        row += f" {sum(one['dropped'] for one in good)} | {len(trials) - len(good)} |"
    return row, plain


def main() -> None:
    """Take trials by turns and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--groups", type=int, default=2)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no further kill of each after so long")
    parser.add_argument("--steps", type=int, default=40, help="without faults, before each kill")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--compute-ms", type=float, default=20.0, help="a step takes this long before backward")
    parser.add_argument("--gather-s", type=float, default=30.0, help="how long groups may take until all step together")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--timeout-s", type=float, default=60.0, help="torchft's, of its Gloo, too (its default: 60)")
    tuned = "--min_replicas {least} --quorum_tick_ms 10 --join_timeout_ms 100"
    parser.add_argument(
        "--lighthouse", default=tuned, help=f"its settings; {{least}} is one less than groups (default: {tuned})"
    )
    parser.add_argument("--log", default=os.devnull, help="where the lighthouse writes")
    arguments = parser.parse_args()
    seen: dict[str, list[Optional[dict[str, Any]]]] = {way: [] for way in arguments.ways}
    until, done = time.monotonic() + 60 * arguments.minutes, 0
    while done < arguments.kills and time.monotonic() < until:
        done += 1
        for way in arguments.ways:
            seen[way].append(trial(way, arguments))
    megabytes = arguments.layers * arguments.width * (arguments.width + 1) * 4 / 1e6
    print(
        f"{done} kills each; {megabytes:.1f} MB of gradients; {os.cpu_count()} cores; torch {torch.__version__}"
    )
    print(
        f"| {arguments.groups} groups of two | a step without faults | kill to the others' next commit | start of a new group to a"
        " step of all | steps dropped | trials that failed |"
    )
    print("|---|---|---|---|---|---|")
    plain = 0.0
    for way, trials in seen.items():
        row, plain = line(way, trials, plain)
        print(row, flush=True)


if __name__ == "__main__":
    main()
