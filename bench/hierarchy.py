#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What hierarchy saves: hosts of several members each, joined by links of a given rate; one ring of all members beside one stream a host.

Every host is a network namespace with EACH members, behind a link that is shaped in both directions (bench/wire.py). In turn, in one run:
each member a host of its own (SPOTNIK_HOST: a ring of all) and members that know their host. Prints the median time of a step with one bucket of float32, and the bytes that the busiest host sent for it,
as counted by its network card, beside 2(H-1)/H * bytes.

    sudo python3 bench/hierarchy.py BUILD [--hosts 2] [--each 4] [--rate 1gbit] [--sizes 256KiB,4MiB,25MiB] [--rounds 20]

BUILD: the build folder. Needs root (namespaces), `ip` and `tc`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

from wire import NET, Network, bits_per_second, bytes_of

WARM_UP_AND_CHECK = 6  # steps that allreduce_worker makes beside those it is asked for
PORT = 4100


def sent_bytes(host: str) -> int:
    """Bytes that the card of a host has sent so far."""
    text = ["ip", "netns", "exec", host, "cat", "/sys/class/net/eth0/statistics/tx_bytes"]
    return int(subprocess.run(text, check=True, capture_output=True, text=True).stdout)


def environment(algorithm: str, host: int, place: int, hosts: int, each: int, folder: str) -> dict[str, str]:
    peers = ",".join(f"{NET}.{h + 1}:{PORT + p}" for h in range(hosts) for p in range(each))
    return {
        **os.environ,
        **({"SPOTNIK_HOST": f"{host}.{place}"} if algorithm == "ring" else {}),
        "SPOTNIK_PEERS": peers,
        "SPOTNIK_BIND": f"{NET}.{host + 1}:{PORT + place}",
        "SPOTNIK_KEY_FILE": f"{folder}/key",
        "SPOTNIK_JOB": f"hierarchy-{algorithm}",
        "SPOTNIK_MIN": str(hosts * each),
    }


def run(network: Network, build: Path, algorithm: str, each: int, size: int, rounds: int) -> tuple[float, float]:
    """One job. Milliseconds of a step (median), and bytes sent for one by the host that sent the most."""
    hosts = len(network.names)
    before = [sent_bytes(host) for host in network.names]
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/key", "w", encoding="ascii") as key:
            os.fchmod(key.fileno(), 0o600)
            key.write(os.urandom(32).hex() + "\n")
        members = [
            subprocess.Popen(
                ["ip", "netns", "exec", name, str(build / "bench/allreduce_worker"), "plain", str(size), str(rounds)],
                env=environment(algorithm, host, place, hosts, each, folder),
                stdout=subprocess.PIPE,
                text=True,
            )
            for place in range(each)
            for host, name in enumerate(network.names)
        ]
        words = [one.communicate()[0].split() for one in members]
        if any(one.returncode for one in members):
            raise SystemExit(f"hierarchy: a member of {algorithm} failed; what it said is above")
    lines = next(said for said in words if said)
    if lines[-1] != "right":
        raise SystemExit(f"hierarchy: {algorithm}: the sums are {lines[-1]}")
    steps = rounds + WARM_UP_AND_CHECK
    most = max(sent_bytes(host) - was for host, was in zip(network.names, before)) / steps
    return statistics.median(float(line) for line in lines[:-1]) * 1e3, most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--each", type=int, default=4)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--mtu", type=int, default=1500)
    parser.add_argument("--delay", type=float, default=0, help="milliseconds that each host's link holds what it sends")
    parser.add_argument("--congestion", default="", help="TCP congestion control of the hosts, else the system's")
    parser.add_argument("--sizes", default="256KiB,4MiB,25MiB")
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    hosts = arguments.hosts
    print(f"{hosts} hosts of {arguments.each} members, {arguments.rate} links; medians of {arguments.rounds} steps")
    print(f"{'bytes':>10} {'bound ms':>9} {'algorithm':>10} {'ms':>9} {'sent by a host':>15} {'of 2(H-1)/H B':>14}")
    with Network(arguments, arguments.build / "bench") as network:
        for size in (bytes_of(text) for text in arguments.sizes.split(",")):
            least = 2 * (hosts - 1) / hosts * size
            bound = least * 8 / bits_per_second(arguments.rate) * 1e3
            for algorithm in ("ring", "hierarchy"):
                took, most = run(network, arguments.build, algorithm, arguments.each, size, arguments.rounds)
                print(f"{size:>10} {bound:>9.2f} {algorithm:>10} {took:>9.2f} {most:>15.0f} {most / least:>13.2f}x", flush=True)


if __name__ == "__main__":
    main()
