# SPDX-License-Identifier: Apache-2.0
"""How soon survivors learn of a kill, and go on: Spotnik's process group beside Gloo, in turns, in one run.

    PYTHONPATH=python SPOTNIK_LIBRARY=build/src/libspotnik.so build/venv/bin/python bench/process_group.py --kills 100

For each kill, N processes all-reduce without pause. The parent kills one of them and notes the time. Each survivor notes
when its pending call raises, and, with Spotnik, when the first all-reduce after reconfigure() is there. Times are those
of one clock of one host. A Gloo survivor that has not raised after --limit seconds counts with that limit.

Members have the table that `spotnik run` gives them, so that they need not wait until the kernel has torn down the memory
of the dead and closes its sockets. Under torchrun there is none: --no-table.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import signal
import statistics
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from host_table import table_open, table_take

import spotnik.torch.distributed as survivors

WARM = 20  # all-reduces before a kill


def tell(pipe: int, **what: object) -> None:
    """One line for the parent."""
    os.write(pipe, json.dumps(what).encode() + b"\n")


def member(backend: str, rank: int, size: int, elements: int, folder: Path, limit_s: float, pipe: int) -> None:
    """All-reduce until one is lost, and tell when that was known."""
    torch.set_num_threads(1)
    is_ours = backend == "spotnik"
    store = dist.HashStore() if is_ours else dist.FileStore(str(folder / "store"), size)
    timeout = timedelta(seconds=60 if is_ours else limit_s)
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)
    x = torch.ones(elements)
    count = 0
    try:
        while True:
            dist.all_reduce(x.fill_(1))
            count += 1
            if count == WARM:
                tell(pipe, warm=rank)
    except RuntimeError:
        raised = time.monotonic()
    again = 0.0
    begun = time.monotonic()
    if is_ours:
        survivors.reconfigure()
        dist.all_reduce(x.fill_(1))
        again = time.monotonic() - begun
        assert x[0].item() == size - 1
    tell(pipe, raised=raised, again=again, count=count)
    signal.pause()  # its end would tell the others


def start(backend: str, size: int, arguments: argparse.Namespace, folder: Path, pipe: int) -> list[int]:
    """Fork the members of one group."""
    pids = []
    for rank in range(size):
        pid = os.fork()
        if pid == 0:
            table_take(rank)
            try:
                member(backend, rank, size, arguments.elements, folder, arguments.limit, pipe)
            finally:
                os._exit(1)
        pids.append(pid)
    return pids


def trial(backend: str, arguments: argparse.Namespace) -> tuple[list[float], list[float], int]:
    """One kill: seconds until each survivor raised, seconds from reconfigure to the result, different counts of calls."""
    size = arguments.members
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "peers").mkdir()
        (folder / "peers" / "fresh").touch()
        (folder / "key").touch(mode=0o600)
        (folder / "key").write_text(secrets.token_hex(32) + "\n")
        os.environ.update(SPOTNIK_PEERS=f"file:{folder / 'peers'}", SPOTNIK_KEY_FILE=str(folder / "key"))
        table = table_open(size) if arguments.table else None
        read, write = os.pipe()
        pids = start(backend, size, arguments, folder, write)
        os.close(write)
        lines = os.fdopen(read)
        for _ in range(size):
            assert "warm" in lines.readline()
        time.sleep(random.uniform(0.005, 0.05))  # not always at the same place of a step
        killed = time.monotonic()
        os.kill(pids[random.randrange(size)], signal.SIGKILL)
        told = [json.loads(lines.readline()) for _ in range(size - 1)]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        lines.close()
        if table is not None:
            os.close(table)
    raised = [line["raised"] - killed for line in told]
    return raised, [line["again"] for line in told], len({line["count"] for line in told})


def quantiles(name: str, seconds: list[float]) -> str:
    """Median, 99th percentile and maximum, in milliseconds."""
    ordered = sorted(seconds)
    last = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    return (
        f"{name:<44} median {1e3 * statistics.median(ordered):8.1f} ms   99 % {1e3 * last:8.1f} ms   "
        f"most {1e3 * ordered[-1]:8.1f} ms"
    )


def main() -> None:
    """Take the kills in turns and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--members", type=int, default=8)
    parser.add_argument("--elements", type=int, default=1000)
    parser.add_argument("--limit", type=float, default=5.0, help="seconds that a Gloo survivor may take")
    parser.add_argument("--backends", default="spotnik,gloo")
    parser.add_argument("--table", action=argparse.BooleanOptionalAction, default=True)
    arguments = parser.parse_args()
    raised: dict[str, list[list[float]]] = {}
    again: dict[str, list[float]] = {}
    uneven: dict[str, int] = {}
    for _ in range(arguments.kills):
        for backend in arguments.backends.split(","):
            one, more, counts = trial(backend, arguments)
            raised.setdefault(backend, []).append(one)
            again.setdefault(backend, []).append(max(more))
            uneven[backend] = uneven.get(backend, 0) + (counts > 1)
    print(f"{arguments.kills} kills, {arguments.members} members, {arguments.elements} float32, {os.cpu_count()} cores")
    for backend, kills in raised.items():
        print(quantiles(f"{backend}: every survivor raises after", [one for kill in kills for one in kill]))
        print(quantiles(f"{backend}: the first survivor raises after", [min(kill) for kill in kills]))
        print(quantiles(f"{backend}: the last survivor raises after", [max(kill) for kill in kills]))
        if backend != "gloo":
            print(quantiles(f"{backend}: reconfigure to the next all-reduce", again[backend]))
        print(f"{backend}: kills after which survivors raised at different calls: {uneven[backend]}")


if __name__ == "__main__":
    main()
