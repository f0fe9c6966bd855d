#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much of the wire an all-reduce gets: hosts in network namespaces, each behind a link of a given rate.

Every host is a namespace with one member, joined by a bridge; its link is shaped to RATE in both directions by token
buckets (tbf), which count whole frames, headers and all. With --delay a relay in user space (wire_delay.c) holds what a
host sends for so long; there is no netem everywhere. With --flow it lets each TCP connection have so much and no more, as clouds
do. Contenders take turns, each with a job of its own: ours with a
plain pointer and with memory of spotnik_alloc(), Gloo and Open MPI over TCP where they are installed.

The bound for N hosts is 2(N-1)/N * bytes / RATE. A frame of MTU bytes carries MTU - 52 of payload and has 14 more on the
wire, so 95.6 % of it is all that can be had with an MTU of 1500, and 99.3 % with 9000.

With --groups HOSTSxSIZE each host runs a group of SIZE processes, by turns with a plain member.

    sudo bench/wire.py BUILD [--hosts 4] [--rate 1gbit] [--mtu 1500] [--delay MS] [--flow 250mbit] [--lanes auto] [--sizes 25MiB,100MiB] [--svg FILE]

Needs root (namespaces), `ip` and `tc`.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pictures

HERE = Path(__file__).resolve().parent
NET = "10.77.0"
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20}
RATES = {"mbit": 1e6, "gbit": 1e9}
PATIENCE_S = 100
COLOURS = {"spotnik": "#1b6ca8", "spotnik, owned": "#0a3d62", "gloo": "#b0b0b0", "open mpi": "#808080"}

Start = Callable[["Network", Path, int, int], list["subprocess.Popen[str]"]]
"""Network, scratch directory, bytes, iterations -> the processes of one run."""


def bytes_of(text: str) -> int:
    """ "4MiB" -> bytes."""
    for unit, factor in UNITS.items():
        if text.endswith(unit):
            return int(float(text[: -len(unit)]) * factor)
    return int(text)


def bits_per_second(text: str) -> float:
    """ "1gbit" -> 1e9. SystemExit for anything else: say what tc understands."""
    for unit, factor in RATES.items():
        if text.endswith(unit):
            return float(text[: -len(unit)]) * factor
    raise SystemExit(f"wire: a rate is a number and mbit or gbit, such as 1gbit, not {text}")


def ip(*words: str) -> None:
    """Run ip(8). CalledProcessError when it refuses: this needs root."""
    subprocess.run(["ip", *words], check=True)


class Network:
    """A bridge and `hosts` namespaces, gone at the end of the with."""

    def __init__(self, options: argparse.Namespace, tools: Path) -> None:
        self.names = [f"wire{os.getpid()}-{i}" for i in range(options.hosts)]
        self.bridge = f"wire{os.getpid() % 10000}"
        self.options = options
        self.tools = tools
        self.relays: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Network:
        ip("link", "add", self.bridge, "type", "bridge")
        ip("link", "set", self.bridge, "mtu", str(self.options.mtu), "up")
        for i, name in enumerate(self.names):
            self._host(i, name)
        return self

    def _line(self, outer: str, inner: str) -> None:
        """Two ends of a line, delayed or not."""
        mtu = str(self.options.mtu)
        if not self.options.delay and not self.options.flow:
            ip("link", "add", outer, "mtu", mtu, "type", "veth", "peer", "name", inner, "mtu", mtu)
            return
        flow = bits_per_second(self.options.flow) / 1e6 if self.options.flow else 0
        command = [str(self.tools / "delay"), outer, inner, str(self.options.delay), str(flow)]
        relay = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.relays.append(relay)
        if relay.stdout is None or relay.stdout.readline() != "ready\n":
            raise SystemExit("wire: the relay cannot make tap devices; what it said is above")
        for end in (outer, inner):
            ip("link", "set", end, "mtu", mtu, "txqueuelen", "10000")

    def _host(self, i: int, name: str) -> None:
        outer, inner = f"{self.bridge}v{i}", f"{self.bridge}h{i}"
        ip("netns", "add", name)
        self._line(outer, inner)
        ip("link", "set", outer, "master", self.bridge, "up")
        ip("link", "set", inner, "netns", name)
        ip("-n", name, "link", "set", inner, "name", "eth0")
        ip("-n", name, "addr", "add", f"{NET}.{i + 1}/24", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
        ip("-n", name, "link", "set", "lo", "up")
        if self.options.congestion:
            control = f"net.ipv4.tcp_congestion_control={self.options.congestion}"
            subprocess.run(["ip", "netns", "exec", name, "sysctl", "-qw", control], check=True)
        shape = ["root", "tbf", "rate", self.options.rate, "burst", "256kb", "latency", "50ms"]
        subprocess.run(["tc", "qdisc", "add", "dev", outer, *shape], check=True)
        subprocess.run(["tc", "-n", name, "qdisc", "add", "dev", "eth0", *shape], check=True)

    def __exit__(self, *_: object) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)
        for relay in self.relays:
            relay.kill()
        subprocess.run(["ip", "link", "del", self.bridge], check=False)

    def spawn(self, i: int, command: list[str], **extra: str) -> subprocess.Popen[str]:
        """Start a command on host i."""
        return subprocess.Popen(["ip", "netns", "exec", self.names[i], *command], env={**os.environ, **extra},
                                text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def settings_of(build: Path, network: Network, scratch: Path) -> dict[str, str]:
    """What all members of a job of ours are told."""
    hosts = range(len(network.names))
    subprocess.run([build / "cli" / "spotnik", "key", scratch / "key"], check=True, capture_output=True)
    return {"SPOTNIK_KEY_FILE": str(scratch / "key"), "SPOTNIK_MIN": str(len(hosts)), "SPOTNIK_TRANSPORT": "tcp",
            "SPOTNIK_LANES": network.options.lanes, "SPOTNIK_PEERS": ",".join(f"{NET}.{i + 1}:4100" for i in hosts)}


def spotnik(build: Path, mode: str) -> Start:
    """Our own members, found by a list of addresses."""

    def start(network: Network, scratch: Path, size: int, iterations: int) -> list[subprocess.Popen[str]]:
        common = settings_of(build, network, scratch)
        worker = [str(build / "bench" / "allreduce_worker"), mode, str(size), str(iterations)]
        return [network.spawn(i, worker, SPOTNIK_BIND=f"{NET}.{i + 1}:4100", **common) for i in range(len(network.names))]

    return start


def groups(build: Path, size: int) -> Start:
    """Groups of `size` processes, each with its part of the buffer (groups.py)."""

    def start(network: Network, scratch: Path, bytes_: int, iterations: int) -> list[subprocess.Popen[str]]:
        settings = {**settings_of(build, network, scratch), "SPOTNIK_LIBRARY": str(build / "src" / "libspotnik.so"),
                    "PYTHONPATH": str(HERE.parent / "python")}
        worker = [str(build / "venv" / "bin" / "python"), str(HERE / "groups.py"), str(build / "cli" / "spotnik"),
                  "--wire", "--mib", str(bytes_ >> 20), "--steps", str(iterations)]
        return [network.spawn(i, worker, SPOTNIK_BIND=f"{NET}.{i + 1}:4100", SPOTNIK_HOST=str(i),
                              SPOTNIK_GROUP=f"wire-{os.getpid()}-{i}:{rank}:{size}", **settings)
                for i in range(len(network.names)) for rank in range(size)]

    return start


def gloo(program: Path) -> Start:
    """Gloo's ring."""

    def start(network: Network, scratch: Path, size: int, iterations: int) -> list[subprocess.Popen[str]]:
        hosts = range(len(network.names))
        words = [str(len(hosts)), str(scratch), str(size), str(iterations)]
        return [network.spawn(i, [str(program), str(i), *words], WIRE_ADDRESS=f"{NET}.{i + 1}") for i in hosts]

    return start


def open_mpi(program: Path) -> Start:
    """mpirun on the first host; a stand-in for ssh enters the namespaces of the others."""

    def start(network: Network, scratch: Path, size: int, iterations: int) -> list[subprocess.Popen[str]]:
        agent = scratch / "agent"
        cases = "".join(f"{NET}.{i + 1}) n={name};; " for i, name in enumerate(network.names))
        agent.write_text(f'#!/bin/sh\ncase $1 in {cases}esac\nshift\nexec ip netns exec $n sh -c "$*"\n', encoding="ascii")
        agent.chmod(0o755)
        hosts = ",".join(f"{NET}.{i + 1}:1" for i in range(len(network.names)))
        only = [word for which in ("btl_tcp", "oob_tcp") for word in ("--mca", f"{which}_if_include", "eth0")]
        return [network.spawn(0, ["mpirun.openmpi", "--allow-run-as-root", "--host", hosts, "--mca", "plm_rsh_agent",
                                  str(agent), "--mca", "btl", "tcp,self", *only, str(program), str(size), str(iterations)])]

    return start


def run(network: Network, start: Start, size: int, iterations: int) -> list[float]:
    """Seconds of each iteration on rank 0. RuntimeError when the run fails or sums are wrong."""
    with tempfile.TemporaryDirectory() as scratch:
        processes = start(network, Path(scratch), size, iterations)
        until = time.monotonic() + PATIENCE_S
        try:
            outputs = [process.communicate(timeout=max(1, until - time.monotonic())) for process in processes]
        except subprocess.TimeoutExpired as slow:
            raise RuntimeError(f"not done within {PATIENCE_S} s") from slow
        finally:
            for process in processes:
                process.kill()
    words = " ".join(out for out, _ in outputs).split()
    if "wrong" in words or "right" not in words:
        raise RuntimeError(f"{' '.join(words[-1:])} {outputs[0][1][-400:]}")
    return [float(word) for word in words if word != "right"]


def compiled(command: list[str], program: Path) -> bool:
    """Compile a loop. False where its compiler or library is missing."""
    try:
        return subprocess.run([*command, "-o", str(program)], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def contenders(build: Path, tools: Path, size: int) -> dict[str, Start]:
    """Who is here; with groups of `size`, they and plain members."""
    if size:
        return {"spotnik": spotnik(build, "plain"), f"groups of {size}": groups(build, size)}
    here = {"spotnik": spotnik(build, "plain"), "spotnik, owned": spotnik(build, "owned")}
    source = str(HERE / "allreduce_gloo.cc")
    if compiled(["g++", "-O2", "-std=c++17", source, "-lgloo", "-lpthread"], tools / "gloo"):
        here["gloo"] = gloo(tools / "gloo")
    if compiled(["mpicc.openmpi", "-O2", str(HERE / "allreduce_mpi.c")], tools / "openmpi"):
        here["open mpi"] = open_mpi(tools / "openmpi")
    return here


def svg(shares: dict[tuple[str, str], float], title: str) -> str:
    """Bars: the share of the bound, per size and contender."""
    sizes, names = (list(dict.fromkeys(key[place] for key in shares)) for place in (0, 1))
    figure, (axes,) = pictures.panels(1, 2 + 2.2 * len(sizes), 4)
    percent = {name: [100 * shares[size, name] if (size, name) in shares else None for size in sizes] for name in names}
    pictures.bars(axes, sizes, percent, "of the bound (%)")
    axes.axhline(100, color="#c23b22", linestyle=":", linewidth=1.2)
    axes.set_xlabel("size")
    axes.set_title(title)
    pictures.legend(figure, axes)
    return pictures.text(figure)


def measure(options: argparse.Namespace, tools: Path) -> dict[tuple[str, str], float]:
    """Print a line per size and contender; returns shares of the bound by both."""
    rate, shares = bits_per_second(options.rate), {}
    here = contenders(options.build.resolve(), tools, options.group)
    wanted = options.only.split("+") if options.only else list(here)
    with Network(options, tools) as network:
        for label in options.sizes.split(","):
            bound = 2 * (options.hosts - 1) / options.hosts * bytes_of(label) * 8 / rate
            for name in (name for name in here if name in wanted):
                try:
                    seconds = run(network, here[name], bytes_of(label), options.rounds)
                except RuntimeError as error:
                    print(f"  left out: {name}, {label}: {error}", file=sys.stderr)
                    continue
                median, mean = statistics.median(seconds), statistics.fmean(seconds)
                shares[label, name] = bound / median
                print(f"{label:>8}  {name:<16} {median * 1e3:10.2f} ms {bound * 1e3:10.2f} ms  {bound / median:6.1%}  {bound / mean:6.1%}"
                      f"  {max(seconds) * 1e3:10.2f} ms")
                if options.each:
                    print("          " + " ".join(f"{second * 1e3:.0f}" for second in seconds))
                sys.stdout.flush()
    return shares


def main() -> None:
    """Options, the table, and the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path, help="a build directory of Spotnik")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--mtu", type=int, default=1500)
    parser.add_argument("--delay", type=float, default=0, help="milliseconds that each host's link holds what it sends")
    parser.add_argument("--flow", default="", help="what one TCP connection gets at most, else all of the link")
    parser.add_argument("--lanes", default="", help="SPOTNIK_LANES of our own members")
    parser.add_argument("--congestion", default="", help="TCP congestion control of the hosts, else the system's")
    parser.add_argument("--sizes", default="25MiB,100MiB")
    parser.add_argument("--rounds", type=int, default=5, help="iterations of each contender, after 5 to warm up")
    parser.add_argument("--each", action="store_true", help="print the milliseconds of every iteration as well")
    parser.add_argument("--only", default="", help="contenders, with + between them")
    parser.add_argument("--groups", default="", help="HOSTSxSIZE: groups of SIZE processes beside plain members")
    parser.add_argument("--svg", type=Path)
    options = parser.parse_args()
    options.group = 0
    if options.groups:
        options.hosts, options.group = map(int, options.groups.split("x"))
    title = (f"{options.hosts} hosts, {options.rate}, MTU {options.mtu}, delay {options.delay:g} ms, "
             f"{options.flow or 'no cap'} per flow, {options.lanes} lanes, "
             f"{options.congestion or 'default congestion control'}: share of 2(N-1)/N bytes/rate")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("wire: terminated"))  # so that the namespaces go
    with tempfile.TemporaryDirectory() as tools:
        if (options.delay or options.flow) and not compiled(["cc", "-O2", "-D_GNU_SOURCE", str(HERE / "wire_delay.c")], Path(tools) / "delay"):
            raise SystemExit("wire: no C compiler for the relay (wire_delay.c)")
        print(f"{title}\n    size  who                   median         bound   share    mean        slowest")
        shares = measure(options, Path(tools))
    if options.svg:
        options.svg.write_text(svg(shares, title), encoding="utf-8")


if __name__ == "__main__":
    main()
