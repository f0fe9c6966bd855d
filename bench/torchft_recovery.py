# SPDX-License-Identifier: Apache-2.0
"""From a kill to the next commit: torchft's wrappers over Spotnik's manager and over torchft's own, by turns in one run.

    PYTHONPATH=python SPOTNIK_LIBRARY=build/src/libspotnik.so build/venv/bin/python bench/torchft_recovery.py --members 3 8

It needs torchft. N processes train one small model with torchft's DDP and Optimizer. The parent kills one, and each
survivor tells of its commits, with the clock of the host. What counts is the first commit of N - 1 members. A step that a
survivor did not commit is one dropped. torchft 0.2.0's DDP raises an AssertionError or AttributeError when its all-reduce
fails; a program would end there, and here it makes a new DDP. torchft's lighthouse is never lost; --lighthouse holds
its settings.

Members have the table that `spotnik run` gives them (host_table.py). A group that is not whole within --gather-s seconds, before
the kill or after it, does not count; how often that was is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import shlex
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Optional, TextIO

import torch
import torch._dynamo  # optimizers import it, which takes seconds: once here, not in every member
import torchft
from host_table import table_open, table_take
from torch.distributed import TCPStore
from torchft.manager import Manager as LighthouseManager

from spotnik.torch.torchft import Manager

WARM = 10  # commits of all members before a kill


def managed(way: str, number: int, timeout_s: float, state: dict[str, Any]) -> Any:
    """The manager of one member."""
    if way == "spotnik":
        return Manager(None, **state)
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    limit = timedelta(seconds=timeout_s)
    manager = LighthouseManager(
        pg=torchft.ProcessGroupGloo(timeout=limit),
        min_replica_size=1,
        rank=0,
        world_size=1,
        store_addr="127.0.0.1",
        store_port=store.port,
        replica_id=f"member_{number}",
        hostname="127.0.0.1",
        timeout=limit,
        **state,
    )
    manager.kept = store
    return manager


def member(way: str, number: int, arguments: argparse.Namespace, pipe: int) -> None:
    """Train until killed, and tell of each step."""
    elements = arguments.elements
    torch.set_num_threads(1)
    net = torch.nn.Linear(elements, 1)
    inner = torch.optim.SGD(net.parameters(), lr=0.001)
    state = {"load_state_dict": net.load_state_dict, "state_dict": net.state_dict}
    manager = managed(way, number, arguments.timeout_s, state)
    model = torchft.DistributedDataParallel(manager, net)
    optimizer = torchft.Optimizer(manager, inner)
    inputs = torch.ones(4, elements)
    while True:
        before = manager.current_step()
        optimizer.zero_grad()
        time.sleep(arguments.compute_ms / 1000)
        try:
            model(inputs).square().mean().backward()
        except (AssertionError, AttributeError):  # torchft 0.2.0's DDP, where Gloo fails: it is reported; a new DDP goes on
            model = torchft.DistributedDataParallel(manager, net)
        optimizer.step()
        done = {"at": time.monotonic(), "committed": manager.current_step() > before}
        os.write(pipe, json.dumps({"number": number, "members": manager.num_participants(), **done}).encode() + b"\n")


def begin(way: str, size: int, arguments: argparse.Namespace, pipe: int) -> list[int]:
    """Fork the members."""
    pids = []
    for number in range(size):
        pid = os.fork()
        if pid == 0:
            table_take(number)
            try:
                member(way, number, arguments, pipe)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        pids.append(pid)
    return pids


def steps(lines: TextIO) -> Iterator[dict[str, Any]]:
    """What members tell."""
    for line in lines:
        yield json.loads(line)


def is_warm(lines: TextIO, size: int, most_s: float) -> bool:
    """Whether all have made some steps together within `most_s`."""
    warm, until = [0] * size, time.monotonic() + most_s
    for told in steps(lines):
        warm[told["number"]] += told["committed"] and told["members"] == size
        if min(warm) >= WARM:
            return True
        if told["at"] > until:
            return False
    raise RuntimeError("the members ended")


def watch(lines: TextIO, pids: list[int], arguments: argparse.Namespace) -> Optional[tuple[float, int]]:
    """Kill one: seconds until the last survivor commits without it, and steps dropped. None: not all find together."""
    size = len(pids)
    if not is_warm(lines, size, arguments.gather_s):
        return None
    time.sleep(random.uniform(0.0, 0.02))  # not always at the same place of a step
    victim, at = random.randrange(size), time.monotonic()
    os.kill(pids[victim], signal.Signals[arguments.signal])
    after: dict[int, float] = {}
    dropped = 0
    for told in steps(lines):
        if told["number"] == victim or told["at"] < at or told["number"] in after:
            continue
        dropped += not told["committed"]
        if told["committed"] and told["members"] == size - 1:
            after[told["number"]] = told["at"] - at
        if len(after) == size - 1:
            return max(after.values()), dropped
        if told["at"] > at + arguments.gather_s:
            return None
    raise RuntimeError("the survivors ended")


def trial(way: str, size: int, arguments: argparse.Namespace) -> Optional[tuple[float, int]]:
    """One kill, or None: the group was not whole."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "peers").mkdir()
        (folder / "peers" / "fresh").touch()
        (folder / "key").touch(mode=0o600)
        (folder / "key").write_text(secrets.token_hex(32) + "\n")
        os.environ.update(SPOTNIK_PEERS=f"file:{folder / 'peers'}", SPOTNIK_KEY_FILE=str(folder / "key"))
        lighthouse = open_lighthouse(arguments, size) if way == "torchft" else None
        table = table_open(size)
        read, write = os.pipe()
        pids = begin(way, size, arguments, write)
        os.close(write)
        try:
            with os.fdopen(read) as lines:
                return watch(lines, pids, arguments)
        finally:
            os.close(table)
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            if lighthouse is not None:
                lighthouse.kill()
                lighthouse.wait()


def open_lighthouse(arguments: argparse.Namespace, size: int) -> subprocess.Popen[bytes]:
    """Start a lighthouse, and wait until it listens."""
    settings = arguments.lighthouse.format(least=size - 1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    lighthouse = Path(__file__).with_name("torchft_lighthouse.py")
    command = [sys.executable, str(lighthouse), "--bind", f"127.0.0.1:{port}"]
    with open(arguments.log, "ab") as log:
        server = subprocess.Popen([*command, *shlex.split(settings)], stdout=log, stderr=log)
    os.environ["TORCHFT_LIGHTHOUSE"] = f"http://127.0.0.1:{port}"
    while server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return server
        except OSError:
            time.sleep(0.01)
    raise RuntimeError("the lighthouse did not start")


def main() -> None:
    """Take the kills by turns and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--members", type=int, nargs="+", default=[3, 8])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--elements", type=int, default=10_000)
    parser.add_argument("--compute-ms", type=float, default=20.0, help="a step takes this long before backward")
    parser.add_argument("--gather-s", type=float, default=30.0, help="how long a group may take until all step together")
    parser.add_argument("--signal", default="SIGKILL", choices=["SIGKILL", "SIGSTOP"])
    parser.add_argument("--ways", nargs="+", default=["spotnik", "torchft"])
    parser.add_argument("--timeout-s", type=float, default=60.0, help="torchft's, of its Gloo, too (its default: 60)")
    tuned = "--min_replicas {least} --quorum_tick_ms 10 --join_timeout_ms 100"
    parser.add_argument("--lighthouse", default=tuned, help=f"its settings; {{least}} is N - 1 (default: {tuned})")
    parser.add_argument("--log", default=os.devnull, help="where the lighthouse writes; RUST_LOG=info: why a quorum waits")
    arguments = parser.parse_args()
    print(f"{arguments.kills} x {arguments.signal}, {os.cpu_count()} cores; lighthouse: {arguments.lighthouse}")
    for size in arguments.members:
        seen: dict[str, list[Optional[tuple[float, int]]]] = {way: [] for way in arguments.ways}
        for _ in range(arguments.kills):
            for way in arguments.ways:
                seen[way].append(trial(way, size, arguments))
        for way, trials in seen.items():
            kills = [one for one in trials if one is not None]
            if not kills:
                print(f"N = {size}  {way:<8} was never whole within {arguments.gather_s:g} s", flush=True)
                continue
            times = sorted(1e3 * seconds for seconds, _ in kills)
            print(
                f"N = {size}  {way:<8} median {statistics.median(times):8.1f} ms   most {times[-1]:8.1f} ms   "
                f"steps that survivors dropped {sum(dropped for _, dropped in kills)}   "
                f"groups that were not whole {len(trials) - len(kills)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
