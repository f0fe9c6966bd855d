# SPDX-License-Identifier: Apache-2.0
"""Members that speak through proxies. Part of network_faults.py. Claims:

  half        a proxy says FIN in everybody's name and goes on reading: one job, one view again
  load        a newcomer whose handshakes take 200 ms there and back enters beside 2000 unauthenticated peers a second"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from jobs_on_hosts import PORT, World


def half(world: World) -> None:
    count, world.hosts.count = world.hosts.count, 2
    world.hosts.use_proxies()
    try:
        members = [world.start(0), world.start(1)]
        world.go_on(members)
        for turn in range(4):
            took = []
            for host in [0, 1] if turn == 3 else [turn % 2]:
                world.hosts.proxies[host].send_signal(signal.SIGUSR1)
            took.append(world.go_on(members, 50))
            print(f"    both go on after {took[-1]:.2f} s")
        if len(world.foundings()) != 1:
            world.fail(f"foundings: {world.foundings()}")
    finally:
        world.end()
        for host in (0, 1):
            world.hosts.end_proxy(host)
            world.hosts.iptables(host, "-t", "nat", "-F", "OUTPUT")
        world.hosts.count = count


def load(world: World) -> None:
    """Everything that the members say takes 100 ms each way; unauthenticated peers come from a host of their own, without delay."""
    count, world.hosts.count = world.hosts.count, 3
    world.hosts.use_proxies(delay_ms=100)
    doors = [f"{world.hosts.address(host)}:{PORT}" for host in range(3)]
    flood = None
    try:
        members = [world.start(0), world.start(1)]
        world.go_on(members)
        words = world.hosts.on(4, sys.executable, str(Path(__file__).with_name("load.py")), "2000", *doors)
        flood = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert flood.stdout is not None
        flood.stdout.readline()
        newcomer = world.start(2)
        took = world.go_on([*members, newcomer])
        flood.terminate()
        came, seconds = map(float, flood.communicate()[0].split())
        print(f"    in after {took:.2f} s, beside {came / seconds:.0f} unauthenticated peers a second")
        if world.exclusions():
            world.fail("somebody was excluded")
    finally:
        if flood:
            flood.kill()
        world.end()
        for host in range(3):
            world.hosts.end_proxy(host)
            world.hosts.iptables(host, "-t", "nat", "-F", "OUTPUT")
        world.hosts.count = count


PROXIED = (half, load)
