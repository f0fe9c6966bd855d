# SPDX-License-Identifier: Apache-2.0
"""Paths between hosts that break, wholly or for large packets. Part of neighbours.py. Claims:

  oneway      of four hosts, one does not hear one other: nobody is excluded
  five        of five hosts one pair does not reach each other: nobody is excluded
  five_disjoint  of five hosts two pairs do not reach each other, the second a moment after the
              first: nobody is excluded, and steps go on while both are broken
  named       of four hosts one pair does not reach each other: every member tells, wherever it is asked
  slow        a member whose caller takes seconds for a step, with large buckets: nobody accuses it
  refused     of four hosts, firewalls refuse what goes between one pair: nobody is excluded
  hole        a newcomer on a path that swallows large packets copies a large state, and is in
  hole_apart  two hosts under ASP, which push and fetch by connections of their own, get on over such a path
  forgotten   a firewall forgets all connections, and lets new ones pass: the hosts find each other
              again by new ones
  disjoint    of four hosts, two pairs do not reach each other: the ring that is left is found, and
              nobody is excluded"""

from __future__ import annotations

import functools
import json
import subprocess
import time
from collections.abc import Callable

from jobs_on_hosts import SPOTNIK, Worker, World, ip

# A path that broke is taken for broken for 2 s; with two at once there may be no ring (docs/design/0025).
REMEMBERED_S = 2.5
KERNEL_GIVES_UP_MS = 60_000  # SPOTNIK_USER_TIMEOUT_NS
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


def five_disjoint(world: World) -> None:
    """The second path breaks while the view that avoids the first is found, accepted, or used."""
    members = [world.start(host) for host in range(5)]
    for after_s, (a, b), (c, d) in ((0.0, (0, 1), (2, 3)), (0.25, (1, 2), (3, 4)), (0.3, (0, 2), (1, 3))):

        def cut(after_s: float = after_s, a: int = a, b: int = b, c: int = c, d: int = d) -> list[Rule]:
            first = [world.hosts.drop(a, b), world.hosts.drop(b, a)]
            time.sleep(after_s)
            return [*first, world.hosts.drop(c, d), world.hosts.drop(d, c)]

        through(world, members, f"no path between {a} and {b}, nor, {after_s} s later, between {c} and {d}", cut)


def status(world: World, host: int, *options: str) -> str:
    words = [SPOTNIK, "status", "--peers", world.spec, "--key-file", str(world.root / "key"), "--job", "neighbours"]
    return subprocess.run(
        world.hosts.on(host, *words, *options), check=True, capture_output=True, text=True, timeout=60
    ).stdout


def named(world: World) -> None:
    """`spotnik status` names the path on hosts that reach both ends. Each member says that the view goes round it."""
    members = [world.start(host) for host in range(4)]
    world.go_on(members, 50)
    ends = [world.hosts.address(host) for host in (0, 1)]
    rules = [world.hosts.drop(0, 1), world.hosts.drop(1, 0)]
    world.until("the path to be named", lambda: "path: lane to" in status(world, 2))
    world.go_on(members, 20)
    for host in range(4):
        said = [line for line in status(world, host).splitlines() if line.startswith("path:")]
        names = any(any(end in line for end in ends) and "nothing gets through" in line for line in said)
        # Whoever has found it may be the one that an end of the path does not reach.
        if not names and (host > 1 or not said):
            world.fail(f"the status at host {host} does not name the path: {said}")
    told = json.loads(status(world, 3, "--json"))["paths"]
    if len(told) != len(members):
        world.fail(f"not every member tells of the path: {told}")
    print(f"    hosts that reach all name it: {told[0]['path']}, by {told[0]['address']}")
    world.hosts.undo(rules)


def slow(world: World) -> None:
    """Its caller is late by seconds and takes no data meanwhile: windows close, and its kernel acknowledges."""
    world.command = [*world.command, "-c", "4000000"]
    members = [world.start(host) for host in range(3)]
    world.command = [*world.command, "-u", "6000000"]
    members.append(world.start(3))
    world.go_on(members, 1)
    before = world.exclusions()  # three that join at once may be left out where the machine is busy
    took = world.go_on(members, 2)
    paths = [line for host in range(4) for line in status(world, host).splitlines() if "path:" in line]
    if world.exclusions() > before or paths:
        world.fail(f"a slow caller was accused: {world.exclusions() - before} excluded, {paths}")
    print(f"    2 steps with a caller that takes 6 s each: {took:.1f} s, nobody accused")


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
    for count in (2, 2, 3, 4):  # the second time their lanes have small segments already
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


def hole_apart(world: World) -> None:
    if not as_on_a_cable(world):
        return
    members = [world.start(host, SPOTNIK_SYNC="asp") for host in range(2)]
    world.go_on(members)
    rules = [world.hosts.rule(1, "INPUT", *LARGE)]
    print(f"    100 steps on after {world.go_on(members, 100):.2f} s")
    world.hosts.undo(rules)


PATHS = (oneway, five, five_disjoint, named, slow, refused, hole, hole_apart, forgotten, disjoint)
