# SPDX-License-Identifier: Apache-2.0
"""Paths, folders and proofs that are neither whole nor gone. Part of network_faults.py. Claims:

  nosyn       new connections between one pair of four do not come about, those that are there work, and a
              fifth dies: nobody else is excluded
  small       of four hosts, small packets from one to one other vanish, large ones pass: nobody is excluded
  trickle     the path between one pair of four lets 20 packets a second pass: nobody is excluded
  flapping    the path between one pair of four breaks again and again: nobody is excluded
  frozen      writes to the folder stand still, and one of two loses power: one job, and a newcomer comes in
              when they go on
  late_founder  the process that founds again is stopped for longer than T while it does, and another goes on:
              they are one job afterwards, or the first says why it ends
  masqueraded  address translation between two hosts: one dies and the other goes on
  squatter    another program has the port of a dead member: the others go on; when all are lost a newcomer
              founds within T and a little"""

from __future__ import annotations

import functools
import shutil
import signal
import subprocess
import sys
import time

from jobs_on_hosts import PORT, STALE_MS, World, ip
from network_faults_hostile import one_job
from network_faults_paths import Rule, through

STALE_S = STALE_MS / 1000
FLAP_S, FLAPS, TRIES = 0.6, 12, 3


# ---- half-broken paths


def nosyn(world: World) -> None:
    """A full table of connections: those that are there pass, new ones do not. A death makes new ones necessary."""
    members = [world.start(host) for host in range(4)]
    world.go_on(members)
    for a, b in ((0, 1), (1, 2), (0, 2)):
        for _ in range(TRIES):
            fifth = world.start(4)
            world.go_on([*members, fifth])
            before = world.exclusions()
            rules = [
                world.hosts.rule(to, "INPUT", "-p", "tcp", "--syn", "-s", world.hosts.address(source), "-j", "DROP")
                for to, source in ((a, b), (b, a))
            ]
            fifth.process.kill()
            fifth.rest()
            took = world.go_on(members, 50)
            excluded = world.exclusions() - before
            world.hosts.undo(rules)
            world.go_on(members)
            print(f"    no new connections between {a} and {b}: four go on after {took:.2f} s, {excluded} excluded")
            if not excluded:  # a machine too busy to speak in time looks dead, so there are three tries
                break
        else:
            world.fail("somebody was excluded each time")


def small(world: World) -> None:
    members = [world.start(host) for host in range(4)]
    for ways in (((0, 1),), ((2, 1), (1, 2))):

        def cut(ways: tuple[tuple[int, int], ...] = ways) -> list[Rule]:
            words = ["-p", "tcp", "-m", "length", "--length", "0:100", "-j", "DROP"]
            return [world.hosts.rule(to, "INPUT", "-s", world.hosts.address(source), *words) for to, source in ways]

        through(world, members, f"no small packets {ways}", cut)


def trickle(world: World) -> None:
    members = [world.start(host) for host in range(4)]

    def cut(a: int, b: int) -> list[Rule]:
        some = ["-m", "limit", "--limit", "20/second", "--limit-burst", "5", "-j", "ACCEPT"]
        rules = []
        for to, source in ((a, b), (b, a)):  # the last one is looked at first
            rules += [world.hosts.drop(to, source)]
            rules += [world.hosts.rule(to, "INPUT", "-s", world.hosts.address(source), *some)]
        return rules

    for a, b in ((0, 1), (1, 3)):
        through(world, members, f"20 packets a second between {a} and {b}", functools.partial(cut, a, b))


def flapping(world: World) -> None:
    members = [world.start(host) for host in range(4)]
    for _ in range(TRIES):
        world.go_on(members, 50)
        before, step = world.exclusions(), members[0].step
        for _ in range(FLAPS):
            rules = [world.hosts.drop(0, 1), world.hosts.drop(1, 0)]
            time.sleep(FLAP_S)  # that is how long it is broken, and then whole
            world.hosts.undo(rules)
            time.sleep(FLAP_S)
        steps, excluded = members[0].step - step, world.exclusions() - before
        took = world.go_on(members, 50)
        print(f"    broken {FLAPS} times: {steps} steps meanwhile, {excluded} excluded; 50 more after {took:.2f} s")
        if not excluded:
            break
    else:
        world.fail("somebody was excluded each time")
    if not steps:
        world.fail("no steps meanwhile")


# ---- founding


def has_disk(world: World) -> bool:
    """Give the folder a disk of its own, which can be frozen."""
    disk = world.root / "disk"
    with disk.open("wb") as file:
        file.truncate(32 << 20)
    made = subprocess.run(["mkfs.ext4", "-q", str(disk)], capture_output=True).returncode == 0
    mount = ["mount", "-o", "loop", str(disk), str(world.peers)]
    has = made and subprocess.run(mount, capture_output=True).returncode == 0
    if not has:
        print("    left out, no loop device")
    return has


def frozen(world: World) -> None:
    """Each write to the folder stands still, as on a file server that hangs, and one of two loses power meanwhile."""
    if not has_disk(world):
        return
    try:
        members = [world.start(0), world.start(1)]
        world.go_on(members)
        subprocess.run(["fsfreeze", "-f", str(world.peers)], check=True)
        newcomer = world.start(2)
        world.waits(newcomer, members, 2 * STALE_S)
        world.hosts.power_off(0)
        step, begun = members[1].step, time.monotonic()
        world.until("T to pass", lambda: time.monotonic() > begun + 2 * STALE_S)
        alone = members[1].step - step
        subprocess.run(["fsfreeze", "-u", str(world.peers)], check=True)
        took = world.go_on([members[1], newcomer])
        print(f"    {alone} steps alone while it stood; the newcomer is in {took:.1f} s after it goes on")
        one_job(world, "a folder that stands still")
        world.hosts.power_on(0)
        world.go_on([members[1], newcomer, world.start(0)])
        world.end()
    finally:
        subprocess.run(["fsfreeze", "-u", str(world.peers)], check=False, capture_output=True)
        world.end()
        subprocess.run(["umount", "-l", str(world.peers)], check=True)


def late_founder(world: World) -> None:
    """All die. Two newcomers wait for T; whichever founds is stopped at that moment, for longer than T."""
    members = [world.start(0), world.start(1)]
    world.go_on(members)
    for worker in members:
        world.hosts.power_off(int(worker.name[0]))
        worker.rest()
    world.digests = {}
    new = [world.start(2), world.start(3)]
    before = set(world.foundings())
    world.until("a founding", lambda: len(set(world.foundings()) - before) > 0)
    for worker in new:
        worker.process.send_signal(signal.SIGSTOP)
    founder = max(new, key=lambda w: w.step)
    other = next(w for w in new if w is not founder)
    other.process.send_signal(signal.SIGCONT)
    world.until("the other to found, or to be in", lambda: other.step > founder.step + 20)
    world.digests = {}
    stopped_at = founder.step
    founder.process.send_signal(signal.SIGCONT)
    world.until("it to be in, or to end", lambda: founder.size == 2 or founder.process.poll() is not None)
    if founder.process.poll() is not None:
        founder.rest()
        if not founder.errors:
            world.fail("it ended without a word")
    print(f"    stopped at {stopped_at}, then {founder.last}; {world.foundings()}")
    left = [other, founder if founder.process.poll() is None else world.start(2 if founder is new[0] else 3)]
    world.go_on(left)
    for host in (0, 1):
        world.hosts.power_on(host)


# ---- proofs of death


def masqueraded(world: World) -> None:
    """No two hosts know each other by the addresses and ports that their sockets have."""
    for host in range(2):
        source = f"{world.hosts.address(host)}:50000-60000"
        where = ["-t", "nat", "-A", "POSTROUTING", "-p", "tcp", "-j", "SNAT", "--to-source", source, "--random"]
        world.hosts.iptables(host, *where)
    try:
        for killed in (0, 1):
            members = [world.start(0), world.start(1)]
            world.go_on(members)
            members[killed].process.kill()
            took = world.go_on([members[1 - killed]])
            back = world.go_on([members[1 - killed], world.start(killed)])
            print(f"    host {killed} dies: the other goes on after {took:.2f} s, a new one is in after {back:.2f} s")
            world.end()
            world.digests = {}
    finally:
        for host in range(2):
            world.hosts.iptables(host, "-t", "nat", "-F", "POSTROUTING")


SQUATTERS = {
    "says nothing": "while True: kept.append(server.accept())",
    "says something": "while True: (lambda one: (one.sendall(b'HTTP/1.1 400 Bad Request\\r\\n\\r\\n'), one.close()))(server.accept()[0])",
}


def squat(world: World, host: int, how: str) -> subprocess.Popen[str]:
    """Another program has the port of the member that was there."""
    lines = [
        "import socket",
        "kept, server = [], socket.socket()",
        "server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)",
        f"server.bind(({world.hosts.address(host)!r}, {PORT}))",
        "server.listen(64)",
        "print('there', flush=True)",
        SQUATTERS[how],
    ]
    words = world.hosts.on(host, sys.executable, "-c", "\n".join(lines))
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def squatter(world: World) -> None:
    """A member dies and another program takes its port; then all others lose power."""
    for number, how in enumerate([*SQUATTERS, "another job"]):
        job = World(world.hosts, world.root, f"squatter-{number}")
        members = [job.start(host) for host in range(3)]
        job.go_on(members)
        members[1].process.kill()
        members[1].rest()
        another = World(world.hosts, world.root, f"another-{number}")
        shutil.copy(job.root / "key", another.root / "key")
        if how == "another job":
            squatting = another.start(1, SPOTNIK_JOB="another").process
            another.until("the other job", lambda another=another: another.workers[0].step > 0)  # type: ignore[misc]
        else:
            squatting = squat(job, 1, how)
        try:
            two = [members[0], members[2]]
            took = job.go_on(two)
            job.go_on([*two, job.start(1, SPOTNIK_BIND=f"{job.hosts.address(1)}:{PORT + 1}")])
            before = job.foundings()
            for host in (0, 2):
                job.hosts.power_off(host)
            job.end()
            for worker in job.workers:
                worker.rest()
            job.digests = {}
            begun = time.monotonic()
            newcomer = job.start(3)
            job.until("a newcomer to found", lambda newcomer=newcomer: newcomer.step > 0)  # type: ignore[misc]
            print(
                f"    a port that {how} has: the others go on after {took:.2f} s; all gone, a newcomer after "
                f"{time.monotonic() - begun:.1f} s (T = {STALE_S:.0f} s)"
            )
            if len(job.foundings()) > len(before) + 1:
                job.fail(f"foundings: {job.foundings()}")
        finally:
            squatting.kill()
            squatting.wait()
            job.end()
            for host in (0, 2):
                if job.hosts.netns(host) not in ip("netns", "list"):
                    job.hosts.power_on(host)


ODD = (nosyn, small, trickle, flapping, frozen, late_founder, masqueraded, squatter)
