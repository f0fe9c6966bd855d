# SPDX-License-Identifier: Apache-2.0
"""The scenarios of neighbours.py in which paths between hosts break, wholly or for large packets."""

from __future__ import annotations

import functools
import subprocess
import time
from collections.abc import Callable

from jobs_on_hosts import Worker, World

# A path that broke is taken for broken for 2 s; with two at once there may be no ring (docs/design/0025).
REMEMBERED_S = 2.5
LARGE = ("-p", "tcp", "-m", "length", "--length", "1281:", "-j", "DROP")


Rule = tuple[int, tuple[str, ...]]


def through(world: World, members: list[Worker], what: str, cut: Callable[[], list[Rule]]) -> None:
    """Nobody is excluded while that is cut. A machine too busy to speak in time looks dead, so there are three tries."""
    for _ in range(3):
        world.go_on(members, 50)
        before, rules = world.exclusions(), cut()
        step, begun = max(worker.step for worker in members), time.monotonic()
        world.until(
            "50 steps of all, or an exclusion",
            lambda before=before, step=step: (
                world.exclusions() > before or all(w.step > step + 50 and w.size == len(members) for w in members)
            ),
        )
        excluded, took = world.exclusions() - before, time.monotonic() - begun
        world.hosts.undo(rules)
        time.sleep(REMEMBERED_S)  # the next cut is to meet members that have forgotten this one
        if not excluded:
            print(f"    {what}: 50 steps on with all after {took:.2f} s")
            return
        print(f"    {what}: {excluded} excluded, once more")
    world.fail(f"{what}: somebody was excluded each time")


def disjoint(world: World) -> None:
    members = [world.start(host) for host in range(4)]
    for pairs in (((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2))):
        ways = [way for a, b in pairs for way in ((a, b), (b, a))]
        through(world, members, f"no path in {pairs}", lambda ways=ways: [world.hosts.drop(*way) for way in ways])


def oneway(world: World) -> None:
    members = [world.start(host) for host in range(4)]
    for to, source in ((0, 1), (2, 0), (1, 3), (3, 2)):
        cut = functools.partial(lambda way: [world.hosts.drop(*way)], (to, source))
        through(world, members, f"{to} does not hear {source}", cut)


def five(world: World) -> None:
    members = [world.start(host) for host in range(5)]
    for a, b in ((0, 1), (1, 2), (2, 4), (0, 3)):
        cut = functools.partial(lambda a, b: [world.hosts.drop(a, b), world.hosts.drop(b, a)], a, b)
        through(world, members, f"no path between {a} and {b}", cut)


def refused(world: World) -> None:
    members = [world.start(host) for host in range(4)]

    def refuse(to: int, source: int, how: str) -> Rule:
        words = f"INPUT -p tcp -s {world.hosts.address(source)} -j REJECT --reject-with {how}"
        return world.hosts.rule(to, *words.split())

    for how in ("tcp-reset", "icmp-host-prohibited", "icmp-port-unreachable"):
        for a, b in ((0, 1), (2, 3)):  # that share no host: what broke again is remembered for longer each time
            cut = functools.partial(lambda a, b, how: [refuse(a, b, how), refuse(b, a, how)], a, b, how)
            through(world, members, f"{how} between {a} and {b}", cut)


def as_on_a_cable(world: World) -> bool:
    """A rule looks at packets before anybody has cut them up: let them be as short as on a cable."""
    for host in range(3):
        words = ["ip", "-n", world.hosts.netns(host), "link", "set", "dev", "eth0", "gso_max_segs", "1"]
        if subprocess.run(words, capture_output=True).returncode != 0:
            print("    left out, this `ip` knows no gso_max_segs")
            return False
    return True


def hole(world: World) -> None:
    if not as_on_a_cable(world):
        return
    world.command = [*world.command, "-S", str(64 << 20), "-D"]
    members = [world.start(0), world.start(1)]
    world.go_on(members)
    rules = [world.hosts.rule(2, "INPUT", *LARGE)]
    newcomer = world.start(2)
    took = world.go_on([*members, newcomer])
    print(f"    the newcomer is in after {took:.2f} s")
    world.hosts.undo(rules)


def hole_apart(world: World) -> None:
    if not as_on_a_cable(world):
        return
    members = [world.start(host, SPOTNIK_SYNC="asp") for host in range(2)]
    world.go_on(members)
    rules = [world.hosts.rule(1, "INPUT", *LARGE)]
    print(f"    100 steps on after {world.go_on(members, 100):.2f} s")
    world.hosts.undo(rules)
