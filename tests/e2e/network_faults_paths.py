# SPDX-License-Identifier: Apache-2.0
"""Paths between hosts that break, wholly or for large packets. Part of network_faults.py. Claims:

  pair        of four hosts two do not reach each other, in both directions or in one: at least 500 steps of 5 ms in
              30 s meanwhile, `spotnik status` at another host names both ends, all are in one view 60 s after it healed
  pair_large  the same with five hosts and buckets of 400 KB
  slow        a member whose caller takes seconds for a step, with large buckets: nobody accuses it
  refused     of four hosts, firewalls refuse what goes between one pair: the others go on, and all are
              in one view when the firewalls let it pass
  hole        of four hosts, large packets to one vanish: the others go on, and it comes back
  forgotten   a firewall forgets all connections, and lets new ones pass: the hosts find each other
              again by new ones"""

from __future__ import annotations

import functools
import subprocess
import time
from collections.abc import Callable

from jobs_on_hosts import Worker, World, ip

KERNEL_GIVES_UP_MS = 60_000  # SPOTNIK_USER_TIMEOUT_NS
CUT_S, STEPS_WANTED, HEALED_S = 30, 500, 60
LARGE = ("-p", "tcp", "-m", "length", "--length", "1281:", "-j", "DROP")


Rule = tuple[int, tuple[str, ...]]


def through(world: World, members: list[Worker], what: str, cut: Callable[[], list[Rule]]) -> None:
    """The others go on while that is cut, and all are together when it is not any more."""
    world.go_on(members, 50)
    before, rules = world.exclusions(), cut()
    step = max(worker.step for worker in members)
    world.until("200 steps", lambda: max(worker.step for worker in members) > step + 200)
    excluded = world.exclusions() - before
    world.hosts.undo(rules)
    took = world.go_on(members, 50)
    print(f"    {what}: {excluded} excluded, all together after {took:.2f} s")


def broken(world: World, members: list[Worker], a: int, b: int, one_way: bool) -> None:
    """The path between two hosts, for CUT_S; all others reach both."""
    world.go_on(members, 100)
    before, step, begun = world.exclusions(), max(w.step for w in members), time.monotonic()
    rules = [world.hosts.drop(*ends) for ends in ((b, a), (a, b))[: 1 if one_way else 2]]
    world.until("the end of the cut", lambda: time.monotonic() > begun + CUT_S)
    steps, apart = max(w.step for w in members) - step, any(w.size != len(members) for w in members)
    told = [line for line in world.status(len(members) - 1).splitlines() if line.startswith("path:")]
    named = any(all(f"{world.hosts.address(host)}" in line for host in (a, b)) for line in told)
    world.hosts.undo(rules)
    healed = world.go_on(members, 10)
    excluded = world.exclusions() - before
    print(f"    {a}, {b}: {steps} steps in {CUT_S} s, {excluded} exclusions; together {healed:.1f} s after it healed")
    if steps < STEPS_WANTED or not apart or not named or healed > HEALED_S:
        world.fail(f"{a}, {b}: {steps} steps, apart: {apart}, healed after {healed:.1f} s; the status says {told}")


def broken_ways(world: World, count: int) -> None:
    members = [world.start(host) for host in range(count)]
    for a, b, one_way in ((0, 1, False), (0, 2, False), (2, 0, True)):
        broken(world, members, a, b, one_way)


def pair(world: World) -> None:
    world.command = ["-u", "5000"]
    broken_ways(world, 4)


def pair_large(world: World) -> None:
    world.command = ["-u", "5000", "-c", "100000"]
    broken_ways(world, 5)


def slow(world: World) -> None:
    """Its caller is late by seconds and takes no data meanwhile: windows close, and its kernel acknowledges."""
    world.command = [*world.command, "-c", "4000000"]
    members = [world.start(host) for host in range(3)]
    world.command = [*world.command, "-u", "6000000"]
    members.append(world.start(3))
    world.go_on(members, 1)
    before = world.exclusions()  # three that join at once may be left out where the machine is busy
    took = world.go_on(members, 2)
    paths = [line for host in range(4) for line in world.status(host).splitlines() if "path:" in line]
    if world.exclusions() > before or paths:
        world.fail(f"a slow caller was accused: {world.exclusions() - before} excluded, {paths}")
    print(f"    2 steps with a caller that takes 6 s each: {took:.1f} s, nobody accused")


def refused(world: World) -> None:
    members = [world.start(host) for host in range(4)]

    def refuse(to: int, source: int, how: str) -> Rule:
        words = f"INPUT -p tcp -s {world.hosts.address(source)} -j REJECT --reject-with {how}"
        return world.hosts.rule(to, *words.split())

    for how in ("tcp-reset", "icmp-host-prohibited", "icmp-port-unreachable"):
        for a, b in ((0, 1), (2, 3)):
            cut = functools.partial(lambda a, b, how: [refuse(a, b, how), refuse(b, a, how)], a, b, how)
            through(world, members, f"{how} between {a} and {b}", cut)


def as_on_a_cable(world: World) -> bool:
    """A rule looks at packets before anybody has cut them up: let them be as short as on a cable."""
    for host in range(4):
        words = ["ip", "-n", world.hosts.netns(host), "link", "set", "dev", "eth0", "gso_max_segs", "1"]
        if subprocess.run(words, capture_output=True).returncode != 0:
            print("    left out, this `ip` knows no gso_max_segs")
            return False
    return True


def hole(world: World) -> None:
    if not as_on_a_cable(world):
        return
    world.command = [*world.command, "-c", "20000"]
    members = [world.start(host) for host in range(4)]
    through(world, members, "large packets to 3 vanish", lambda: [world.hosts.rule(3, "INPUT", *LARGE)])


def forget(world: World, count: int) -> list[Rule]:
    """What a stateful firewall does that is flushed: nothing passes of the connections of now. New ones pass."""
    rules = []
    for host in range(count):
        lines = ip("netns", "exec", world.hosts.netns(host), "ss", "-Htn", "state", "established").splitlines()
        for ours, theirs in (line.split()[-2:] for line in lines):
            address, port = theirs.rsplit(":", 1)
            words = f"INPUT -p tcp -s {address} --sport {port} --dport {ours.rsplit(':', 1)[1]} -j DROP"
            rules.append(world.hosts.rule(host, *words.split()))
    return rules


def forgotten(world: World) -> None:
    """New connections bring them together, before any kernel has given up an old one, and before T."""
    world.more = {"SPOTNIK_STALE_MS": str(KERNEL_GIVES_UP_MS)}
    members: list[Worker] = [world.start(0)]
    for count in (2, 3, 4):
        if len(members) < count:
            members.append(world.start(count - 1))
        world.go_on(members, 50)
        before, step, rules = world.exclusions(), max(worker.step for worker in members) + 50, forget(world, count)
        took = world.until(
            "all in one view",
            lambda step=step, count=count: all(w.step >= step and w.size == count for w in members),
            KERNEL_GIVES_UP_MS / 1000,
        )
        excluded = world.exclusions() - before
        print(f"    {count} hosts: {len(rules)} ways forgotten, together after {took:.1f} s, {excluded} excluded")
        world.hosts.undo(rules)


PATHS = (pair, pair_large, slow, refused, hole, forgotten)
