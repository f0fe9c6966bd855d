# SPDX-License-Identifier: Apache-2.0
"""Two hosts on one machine for bench/fig6.py: network namespaces, joined by one link of a given rate in each direction.

Members of a host share its memory and its end of the link, so everything that crosses (all-reduce, pulls, state for
joiners, control) stands in one queue. The queue is the classic one of Linux, three bands, behind a token bucket: what
the library marks as less urgent (pulls of models) lets the rest pass. Needs root, `ip` and `tc`.
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


class TwoHosts:
    """Both of them, from the with to its end."""

    def __init__(self, rate: str) -> None:
        self.rate = rate
        self.names = [f"fig6-{os.getpid()}-{i}" for i in range(2)]

    def __enter__(self) -> TwoHosts:
        ends = [f"fig6v{os.getpid() % 100000}{letter}" for letter in "ab"]
        for name in self.names:
            run("ip", "netns", "add", name)
        run("ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for i, (name, end) in enumerate(zip(self.names, ends)):
            run("ip", "link", "set", end, "netns", name)
            run("ip", "-n", name, "link", "set", end, "name", "eth0", "txqueuelen", "1000")
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

    def address(self, host: int) -> str:
        """Where members of a host listen."""
        return f"{NET}.{host + 1}"

    def inside(self, host: int) -> list[str]:
        """What to write before a command to run it on that host."""
        return ["ip", "netns", "exec", self.names[host]]

    def sent_bytes(self) -> list[int]:
        """What the card of each host has sent so far."""
        path = "/sys/class/net/eth0/statistics/tx_bytes"
        return [
            int(subprocess.run([*self.inside(host), "cat", path], check=True, capture_output=True, text=True).stdout)
            for host in range(2)
        ]
