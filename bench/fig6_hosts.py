# SPDX-License-Identifier: Apache-2.0
"""Hosts on one machine for bench/fig6.py: network namespaces on a bridge, each behind a card of a given rate.

Members of a host share its memory and its card, so everything that leaves it (all-reduce, pulls, state for joiners,
control) stands in one queue. The queue is the classic one of Linux, three bands, behind a token bucket: what the
library marks as less urgent (pulls of models) lets the rest pass. Needs root, `ip` and `tc`.
"""

from __future__ import annotations

import os
import subprocess

NET = "10.79.0"
BURST = "32kb"  # what may leave at once after a pause
QUEUE = "50ms"


def run(*words: str) -> None:
    """One command of the system. CalledProcessError when it refuses: this needs root."""
    subprocess.run(words, check=True)


class Hosts:
    """All of them, from the with to its end."""

    def __init__(self, count: int, rate: str) -> None:
        self.rate = rate
        self.bridge = f"fig6b{os.getpid() % 100000}"
        self.names = [f"fig6-{os.getpid()}-{i}" for i in range(count)]

    def __enter__(self) -> Hosts:
        run("ip", "link", "add", self.bridge, "type", "bridge")
        run("ip", "link", "set", self.bridge, "up")
        for i, name in enumerate(self.names):
            end = f"fig6v{os.getpid() % 100000}{chr(ord('a') + i)}"
            run("ip", "netns", "add", name)
            run("ip", "link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", name)
            run("ip", "link", "set", end, "master", self.bridge, "up")
            run("ip", "-n", name, "link", "set", "eth0", "txqueuelen", "1000")
            run("ip", "-n", name, "addr", "add", f"{self.address(i)}/24", "dev", "eth0")
            run("ip", "-n", name, "link", "set", "eth0", "up")
            run("ip", "-n", name, "link", "set", "lo", "up")
            shape = ("tbf", "rate", self.rate, "burst", BURST, "latency", QUEUE)
            run("tc", "-n", name, "qdisc", "add", "dev", "eth0", "root", "handle", "1:", *shape)
            run("tc", "-n", name, "qdisc", "add", "dev", "eth0", "parent", "1:1", "handle", "10:", "pfifo_fast")
        return self

    def __exit__(self, *_: object) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)
        subprocess.run(["ip", "link", "del", self.bridge], check=False)

    def address(self, host: int) -> str:
        """Where members of a host listen."""
        return f"{NET}.{host + 1}"

    def inside(self, host: int) -> list[str]:
        """What to write before a command to run it on that host."""
        return ["ip", "netns", "exec", self.names[host]]
