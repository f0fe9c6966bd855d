# SPDX-License-Identifier: Apache-2.0
"""Members that speak through proxies. Part of network_faults.py. Claims:

  restarts    the proxies die and start again, which both members read as the end of the other: one job, one view again
  half        a proxy says FIN in everybody's name and goes on reading: one job, one view again
  load        a newcomer whose handshakes take 200 ms there and back enters beside 2000 unauthenticated peers a second"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from faults.process import Process
from jobs_on_hosts import PORT, World


@contextlib.contextmanager
def proxied(world: World, count: int, delay_ms: int = 0) -> Iterator[None]:
    """What these hosts dial goes through their proxies."""
    hosts, world.hosts.count = world.hosts.count, count
    world.hosts.use_proxies(delay_ms)
    try:
        yield
    finally:
        world.end()
        world.hosts.end_proxies()
        world.hosts.count = hosts


def go_on_through(world: World, turns: int, disturb: Callable[[int], None]) -> None:
    members = [world.start(0), world.start(1)]
    world.go_on(members)
    for turn in range(turns):
        disturb(turn)
        print(f"    both go on after {world.go_on(members, 50):.2f} s")
    if len(world.foundings()) != 1:
        world.fail(f"foundings: {world.foundings()}")


def restarts(world: World) -> None:
    def restart(turn: int) -> None:
        for host in (turn % 2, 1 - turn % 2):
            world.hosts.end_proxy(host)
        for host in (0, 1):
            world.hosts.start_proxy(host)

    with proxied(world, 2):
        go_on_through(world, 5, restart)


def half(world: World) -> None:
    def half_close(turn: int) -> None:
        for host in [0, 1] if turn == 3 else [turn % 2]:
            world.hosts.proxies[host].send_signal(signal.SIGUSR1)

    with proxied(world, 2):
        go_on_through(world, 4, half_close)


def load(world: World) -> None:
    """Everything that the members say takes 100 ms each way; unauthenticated peers come from a host of their own, without delay."""
    doors = [f"{world.hosts.address(host)}:{PORT}" for host in range(3)]
    words = world.hosts.on(4, sys.executable, str(Path(__file__).with_name("load.py")), "2000", *doors)
    with proxied(world, 3, delay_ms=100):
        members = [world.start(0), world.start(1)]
        world.go_on(members)
        with Process(*words) as flood:
            flood.until("")
            took = world.go_on([*members, world.start(2)])
            flood.end()
            came, seconds = map(float, flood.kept[-1].split())
        print(f"    in after {took:.2f} s, beside {came / seconds:.0f} unauthenticated peers a second")
        if world.exclusions():
            world.fail("somebody was excluded")


PROXIED = (restarts, half, load)
