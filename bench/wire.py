#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much of the wire an all-reduce gets: hosts in network namespaces, each behind a link of a given rate.

Every host is a namespace with one member, joined by a bridge; its link is shaped to RATE in both directions by token
buckets. In turn, in one run: spotnik, and PyTorch's Gloo where torch is installed. The bound for N hosts is
2(N-1)/N * bytes / rate. Prints medians and the share of the bound that was reached.

    sudo python3 bench/wire.py [--hosts 4] [--rate 1gbit] [--sizes 4KiB,256KiB,4MiB,25MiB,100MiB] [--rounds 20]

Needs root (namespaces), `ip` and `tc`, NumPy, and the Python package (PYTHONPATH=python SPOTNIK_LIBRARY=...).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

NET = "10.77.0"
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
RATES = {"mbit": 1e6, "gbit": 1e9}


def bytes_of(text: str) -> int:
    for unit, factor in UNITS.items():
        if text.endswith(unit):
            return int(float(text[: -len(unit)]) * factor)
    return int(text)


def bits_per_second(text: str) -> float:
    for unit, factor in RATES.items():
        if text.endswith(unit):
            return float(text[: -len(unit)]) * factor
    raise SystemExit(f"wire: a rate is a number and mbit or gbit, such as 1gbit, not {text}")


# ---- one member ----


def spotnik_rounds(sizes: list[int], rounds: int) -> dict[int, list[float]]:
    import numpy
    from spotnik import Config, Dtype, Job, Op

    times: dict[int, list[float]] = {size: [] for size in sizes}
    hosts = int(os.environ["WIRE_HOSTS"])
    plan = [size for size in sizes for _ in range(rounds + 2)]
    with Job(Config(members_min=hosts, members_max=hosts, steps_max=len(plan))) as job:
        buffers = {size: numpy.ones(size // 4, dtype=numpy.float32) for size in sizes}
        for size, step in zip(plan, job):
            data = buffers[size]
            data[:] = 1
            begin = time.perf_counter()
            job.allreduce_start(0, data.ctypes.data, data.size, Dtype.F32, Op.SUM, data)
            if not job.step_commit():
                raise SystemExit("wire: a member was excluded; the network is not what it should be")
            times[size].append(time.perf_counter() - begin)
            if data[0] != step.size or data[-1] != step.size:
                raise SystemExit("wire: a wrong sum")
    return times


def gloo_rounds(sizes: list[int], rounds: int) -> dict[int, list[float]]:
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", rank=int(os.environ["RANK"]), world_size=int(os.environ["WIRE_HOSTS"]))
    times: dict[int, list[float]] = {size: [] for size in sizes}
    for size in sizes:
        data = torch.ones(size // 4)
        for _ in range(rounds + 2):
            data.fill_(1)
            dist.barrier()
            begin = time.perf_counter()
            dist.all_reduce(data)
            times[size].append(time.perf_counter() - begin)
    dist.destroy_process_group()
    return times


def member(kind: str, sizes: list[int], rounds: int, report: str) -> None:
    times = {"spotnik": spotnik_rounds, "gloo": gloo_rounds}[kind](sizes, rounds)
    with open(report, "w", encoding="utf-8") as file:
        json.dump({str(size): seconds[2:] for size, seconds in times.items()}, file)


# ---- the network ----


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


class Network:
    """A bridge and `hosts` namespaces, gone at the end of the with."""

    def __init__(self, hosts: int, rate: str, congestion: str) -> None:
        self.names = [f"wire{os.getpid()}-{i}" for i in range(hosts)]
        self.bridge = f"wire{os.getpid() % 10000}"
        self.rate = rate
        self.congestion = congestion

    def __enter__(self) -> Network:
        ip("link", "add", self.bridge, "type", "bridge")
        ip("link", "set", self.bridge, "up")
        for i, name in enumerate(self.names):
            self._host(i, name)
        return self

    def _host(self, i: int, name: str) -> None:
        outer = f"{self.bridge}v{i}"
        ip("netns", "add", name)
        ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("link", "set", outer, "master", self.bridge, "up")
        ip("-n", name, "addr", "add", f"{NET}.{i + 1}/24", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
        ip("-n", name, "link", "set", "lo", "up")
        if self.congestion:
            control = f"net.ipv4.tcp_congestion_control={self.congestion}"
            subprocess.run(["ip", "netns", "exec", name, "sysctl", "-qw", control], check=True)
        shape = ["root", "tbf", "rate", self.rate, "burst", "256kb", "latency", "50ms"]
        subprocess.run(["tc", "qdisc", "add", "dev", outer, *shape], check=True)
        subprocess.run(["tc", "-n", name, "qdisc", "add", "dev", "eth0", *shape], check=True)

    def __exit__(self, *_: object) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)
        subprocess.run(["ip", "link", "del", self.bridge], check=False)


def environment(kind: str, i: int, hosts: int, folder: str) -> dict[str, str]:
    peers = ",".join(f"{NET}.{k + 1}:4100" for k in range(hosts))
    return {
        **os.environ,
        "WIRE_HOSTS": str(hosts),
        "RANK": str(i),
        "MASTER_ADDR": f"{NET}.1",
        "MASTER_PORT": "4200",
        "GLOO_SOCKET_IFNAME": "eth0",
        "SPOTNIK_PEERS": peers,
        "SPOTNIK_BIND": f"{NET}.{i + 1}:4100",
        "SPOTNIK_KEY_FILE": f"{folder}/key",
        "SPOTNIK_JOB": f"wire-{kind}",
    }


def run(network: Network, kind: str, arguments: argparse.Namespace) -> dict[int, float]:
    """One job over the network; the slowest member's time of each round counts. Milliseconds, medians."""
    hosts = len(network.names)
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/key", "w", encoding="ascii") as key:
            os.fchmod(key.fileno(), 0o600)
            key.write(os.urandom(32).hex() + "\n")
        members = [
            subprocess.Popen(
                ["ip", "netns", "exec", name, sys.executable, __file__, "--member", kind, "--sizes", arguments.sizes]
                + ["--rounds", str(arguments.rounds), "--report", f"{folder}/{i}"],
                env=environment(kind, i, hosts, folder),
            )
            for i, name in enumerate(network.names)
        ]
        if any([one.wait() for one in members]):
            raise SystemExit(f"wire: a member of {kind} failed; what it said is above")
        reports = []
        for i in range(hosts):
            with open(f"{folder}/{i}", encoding="utf-8") as file:
                reports.append(json.load(file))
    return {
        int(size): statistics.median(max(times) for times in zip(*(one[size] for one in reports))) * 1e3
        for size in reports[0]
    }


def has_torch() -> bool:
    return subprocess.run([sys.executable, "-c", "import torch"], stderr=subprocess.DEVNULL, check=False).returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--congestion", default="", help="TCP congestion control of the hosts, else the system's")
    parser.add_argument("--sizes", default="4KiB,256KiB,4MiB,25MiB,100MiB")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--member", help=argparse.SUPPRESS)
    parser.add_argument("--report", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    sizes = [bytes_of(size) for size in arguments.sizes.split(",")]
    if arguments.member:
        member(arguments.member, sizes, arguments.rounds, arguments.report)
        return
    kinds = ["spotnik"] + (["gloo"] if has_torch() else [])
    with Network(arguments.hosts, arguments.rate, arguments.congestion) as network:
        results = {kind: run(network, kind, arguments) for kind in kinds}
    show(results, arguments, sizes)


def show(results: dict[str, dict[int, float]], arguments: argparse.Namespace, sizes: list[int]) -> None:
    hosts, rate = arguments.hosts, bits_per_second(arguments.rate)
    print(f"{hosts} hosts, {arguments.rate} links, float32 sum, medians of {arguments.rounds} (ms, share of the bound)")
    print(f"{'bytes':>12} {'bound':>10}" + "".join(f" {kind:>20}" for kind in results))
    for size in sizes:
        bound = 2 * (hosts - 1) / hosts * size * 8 / rate * 1e3
        cells = "".join(f" {times[size]:11.2f} ({bound / times[size]:5.1%})" for times in results.values())
        print(f"{size:>12} {bound:>10.2f}{cells}")


if __name__ == "__main__":
    main()
