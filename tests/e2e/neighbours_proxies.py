# SPDX-License-Identifier: Apache-2.0
"""Members that speak through proxies. Part of neighbours.py. Claims:

  half        a proxy says FIN in everybody's name and goes on reading: one job, one view again
  crowd       a newcomer whose handshakes take 200 ms there and back comes in beside 2000 strangers a second"""

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


def crowd(world: World) -> None:
    """Everything that the members say takes 100 ms each way; strangers come from a host of their own, without delay."""
    count, world.hosts.count = world.hosts.count, 3
    world.hosts.use_proxies(delay_ms=100)
    doors = [f"{world.hosts.address(host)}:{PORT}" for host in range(3)]
    strangers = None
    try:
        members = [world.start(0), world.start(1)]
        world.go_on(members)
        words = world.hosts.on(4, sys.executable, str(Path(__file__).with_name("crowd.py")), "2000", *doors)
        strangers = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert strangers.stdout is not None
        strangers.stdout.readline()
        newcomer = world.start(2)
        took = world.go_on([*members, newcomer])
        strangers.terminate()
        came, seconds = map(float, strangers.communicate()[0].split())
        print(f"    in after {took:.2f} s, beside {came / seconds:.0f} strangers a second")
        if world.exclusions():
            world.fail("somebody was excluded")
    finally:
        if strangers:
            strangers.kill()
        world.end()
        for host in range(3):
            world.hosts.end_proxy(host)
            world.hosts.iptables(host, "-t", "nat", "-F", "OUTPUT")
        world.hosts.count = count


PROXIED = (half, crowd)
