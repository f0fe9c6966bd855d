# SPDX-License-Identifier: Apache-2.0
"""Hosts, clocks, addresses and folders that are not what they seem. Part of network_faults.py. Claims:

  clones        two hosts were resumed from one snapshot of memory, so they have one boot id: a newcomer on the
                one founds nothing beside a member on the other, both train, and a broken path is a broken path
  clock         the clocks of hosts jump by hours, forward and back: members go on, and a newcomer that reaches nobody founds nothing
  sleeper       a member is stopped for longer than T, the others lose power meanwhile and the job is founded
                anew: when it goes on it is in, or it ends and says why
  idle          firewalls forget connections that say nothing for a second, silently or with a reset, and one
                of five dies then: nobody else is excluded
  kept          firewalls forget connections that say nothing for 20 s: those of five idle links are kept
  late_mount    a newcomer starts before its folder is mounted, and founds in the empty place: when it is
                mounted the newcomer stops, and the job goes on
  exchanged     two hosts of five exchange their addresses: the others go on, and the two come back or end
  conflict      a stranger's machine takes the address of one of four members and answers for it: the others
                go on, and the member comes back or ends
  one_folder    two jobs of different names in one folder: the second waits, or says that it is another's
  sixes         hosts with addresses of IPv6 alone: one dies, one loses power, newcomers come in"""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from pathlib import Path

from jobs_on_hosts import PORT, STALE_MS, WORKER, Worker, World, ip
from network_faults_hostile import one_job

STALE_S = STALE_MS / 1000
PRETEND = str(Path(WORKER).with_name("pretend.so"))
MORE = {"LD_PRELOAD": PRETEND, "ASAN_OPTIONS": "verify_asan_link_order=0"}


def back_or_ended(world: World, staying: list[Worker], away: list[Worker]) -> None:
    """Each of those that were away is in one view with the others, or has ended and said why."""

    def settled() -> bool:
        left = [*staying, *(w for w in away if w.process.poll() is None)]
        return all(w.size == len(left) for w in left)

    world.until("those that were away to be back, or to end", settled)
    for worker in away:
        if worker.process.poll() is not None:
            worker.rest()
            if not worker.errors:
                world.fail(f"{worker.name} ended without a word")
        print(f"    {worker.name}: {worker.errors[-1:] or 'is back'}")
    world.go_on([*staying, *(w for w in away if w.process.poll() is None)])


# ---- identities


def clones(world: World) -> None:
    own_space = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]

    def start(host: int) -> Worker:
        return world.start(host, *own_space, SPOTNIK_HOST="", PRETEND_CLONE="1", **MORE)

    members = [start(0)]
    world.until("a member", lambda: members[0].step > 20)
    members.append(start(1))
    took = world.go_on(members)
    one_job(world, "a clone beside a member")
    print(f"    the clone is in after {took:.1f} s")
    for ways in (((0, 1), (1, 0)), ((0, 1),), ((1, 0),)):
        rules = [world.hosts.drop(*way) for way in ways]
        step = max(w.step for w in members)
        took = world.until("one of them to go on", lambda step=step: any(w.step > step + 40 for w in members))  # type: ignore[misc]
        world.hosts.undo(rules)
        back = world.go_on(members)
        print(f"    no path {ways}: one goes on after {took:.1f} s, both are together {back:.1f} s after it is whole")
    members[1].process.kill()
    members[1].rest()
    took = world.go_on(members[:1])
    print(f"    one dies: the other goes on after {took:.1f} s")
    world.go_on([members[0], start(1)])
    one_job(world, "clones")


def clock(world: World) -> None:
    off = [world.root / f"off-{host}" for host in range(4)]

    def start(host: int) -> Worker:
        return world.start(host, PRETEND_CLOCK=str(off[host]), **MORE)

    members = [start(0), start(1)]
    world.go_on(members)
    off[0].write_text("18000")
    off[1].write_text("-18000")
    off[2].write_text("86400")
    off[3].write_text("-86400")
    members.append(start(2))
    took = world.go_on(members)
    for source in range(3):
        world.hosts.drop(3, source)
    newcomer = start(3)
    world.waits(newcomer, members, 2 * STALE_S)
    for host, jump in ((0, "-18000"), (1, "18000"), (2, "0"), (0, "86400")):
        off[host].write_text(jump)
        world.go_on(members)
    world.hosts.undo(list(world.hosts.rules))
    world.go_on([*members, newcomer])
    one_job(world, "clocks that jump")
    if world.exclusions():
        world.fail("somebody was excluded")
    print(f"    a newcomer from another day is in after {took:.1f} s, nobody excluded")


# ---- time


def sleeper(world: World) -> None:
    members = [world.start(host) for host in range(3)]
    world.go_on(members)
    asleep, awake = members[2], members[:2]
    asleep.process.send_signal(signal.SIGSTOP)
    world.go_on(awake)
    for host in (0, 1):
        world.hosts.power_off(host)
    for worker in awake:
        worker.rest()
    world.digests = {}
    new = [world.start(3), world.start(4)]
    took = world.until("the job to be founded anew", lambda: any(w.step for w in new))
    world.go_on(new)
    world.digests = {}
    had = asleep.step
    asleep.process.send_signal(signal.SIGCONT)
    world.until("it to be in, or to end", lambda: asleep.size == 3 or asleep.process.poll() is not None)
    print(f"    founded anew after {took:.1f} s, {world.foundings()}; it had step {had}, they {new[0].step}")
    back_or_ended(world, new, [asleep])
    for host in (0, 1):
        world.hosts.power_on(host)


# ---- paths


def tables(world: World, forget_s: int) -> bool:
    """Each host has a table of connections, which forgets what is silent for so long, and at once what has ended."""
    limits = dict.fromkeys(("time_wait", "close", "fin_wait", "last_ack", "close_wait", "unacknowledged"), 1)
    limits["established"] = forget_s
    values = [f"net.netfilter.nf_conntrack_tcp_timeout_{name}={value}" for name, value in limits.items()]
    for host in range(5):
        words = world.hosts.on(host, "sysctl", "-q", "-w", "net.netfilter.nf_conntrack_tcp_loose=0", *values)
        world.hosts.rule(host, "INPUT", "-p", "tcp", "-m", "conntrack", "--ctstate", "ESTABLISHED", "-j", "ACCEPT")
        shown = world.hosts.on(host, "test", "-r", "/proc/net/nf_conntrack")
        if any(subprocess.run(run, capture_output=True).returncode for run in (words, shown)):
            print("    left out, no table of connections here")
            return False
    return True


def idle_rules(world: World, host: int, *answer: str) -> None:
    """It takes no connection in its midst."""
    world.hosts.rule(host, "INPUT", "-p", "tcp", *answer)
    world.hosts.rule(host, "INPUT", "-p", "tcp", "--syn", "-j", "ACCEPT")
    world.hosts.rule(host, "INPUT", "-p", "tcp", "-m", "conntrack", "--ctstate", "ESTABLISHED", "-j", "ACCEPT")


def idle(world: World) -> None:
    for number, answer in enumerate((["-j", "DROP"], ["-j", "REJECT", "--reject-with", "tcp-reset"])):
        for attempt in range(3):
            job = World(world.hosts, world.root, f"idle-{number}-{attempt}")
            if not tables(job, 1):
                return
            for host in range(5):
                idle_rules(job, host, *answer)
            members = [job.start(host) for host in range(5)]
            job.go_on(members)
            time.sleep(3)  # the tables forget after 1 s of silence: this silence is the fault that is tried
            before = job.exclusions()
            members[1].process.kill()
            members[1].rest()
            left = [members[0], *members[2:]]
            took = job.go_on(left, 50)
            newcomer = job.start(1)
            back = job.go_on([*left, newcomer])
            excluded = job.exclusions() - before
            print(f"    {answer[1]}: four go on after {took:.2f} s, one is in after {back:.2f} s, {excluded} excluded")
            job.hosts.undo(list(job.hosts.rules))
            job.end()
            if not excluded:  # a machine too busy to speak in time looks dead
                break
        else:
            world.fail("somebody was excluded each time")


def forgotten_connections(world: World) -> list[str]:
    """At each host, how many connections of members there are, and how many of them its table has."""
    found = []
    for host in range(5):
        lines = ip("netns", "exec", world.hosts.netns(host), "ss", "-Htn", "state", "established").splitlines()
        table = ip("netns", "exec", world.hosts.netns(host), "cat", "/proc/net/nf_conntrack")
        has = sum(" tcp " in line and " ESTABLISHED " in line for line in table.splitlines())
        if has < len(lines):
            found.append(f"host {host}: {len(lines)} connections, and its table has {has}")
    return found


def kept(world: World) -> None:
    """What a table has forgotten comes back to it by a new connection only."""
    forget_s = 20
    if not tables(world, forget_s):
        return
    members = [world.start(host) for host in range(5)]
    world.go_on(members)
    step, begun = members[0].step, time.monotonic()
    world.until("time to pass", lambda: time.monotonic() > begun + 2 * forget_s + 5)
    found = forgotten_connections(world)
    if found:
        world.fail(f"forgotten: {found}")
    world.go_on(members)
    print(f"    nothing forgotten in {2 * forget_s + 5} s and {members[0].step - step} steps")


# ---- folders


def beside(world: World, name: str) -> World:
    """Processes of their own on the same hosts, with the same folder and key."""
    other = World(world.hosts, world.root, name)
    other.spec = world.spec
    shutil.copy(world.root / "key", other.root / "key")
    return other


def late_mount(world: World) -> None:
    members = [world.start(0), world.start(1)]
    world.go_on(members)
    stray = beside(world, "stray")
    cover = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs empty {world.peers} && exec "$@"', "sh"]
    early = stray.start(2, *cover)
    took = stray.until("it to found in the empty place", lambda: early.step > 20)
    into = ["nsenter", "-t", str(early.process.pid), "--mount", "umount", "-l", str(world.peers)]
    subprocess.run(into, check=True)
    ended = stray.until("the stray to end", lambda: early.process.poll() is not None)
    early.rest()
    print(f"    it founds after {took:.1f} s, and ends {ended:.1f} s after the mount: {early.errors[-1:]}")
    if not any("-107" in error or "lineage" in error for error in early.errors):
        world.fail("the stray has not said why it ends")
    world.go_on([*members, world.start(2)])
    one_job(world, "a folder mounted late")


def one_folder(world: World) -> None:
    members = [world.start(0), world.start(1)]
    world.go_on(members)
    another = beside(world, "another")
    second = another.start(2, SPOTNIK_JOB="another")
    step, begun = members[0].step, time.monotonic()
    world.until(
        "members to go on", lambda: time.monotonic() > begun + 2 * STALE_S and all(w.step > step + 20 for w in members)
    )
    if second.step:
        world.fail("a second job goes on in the folder of the first")
    ended = second.process.poll() is not None
    if ended:
        second.rest()
        if not second.errors:
            world.fail("the second ended without a word")
    print(f"    the second job {second.errors[-1] if ended else 'waits'}")
    world.go_on([*members, world.start(3)])
    one_job(world, "two jobs in one folder")
    another.end()


# ---- addresses


def readdress(world: World, host: int, address: str) -> None:
    space = world.hosts.netns(host)
    ip("-n", space, "addr", "flush", "dev", "eth0")
    ip("-n", space, "addr", "add", f"{address}/24", "dev", "eth0")


def exchanged(world: World) -> None:
    members = [world.start(host) for host in range(5)]
    world.go_on(members)
    at = [world.hosts.address(host) for host in (3, 4)]
    for host, address in ((3, at[1]), (4, at[0])):
        readdress(world, host, address)
    for host in range(5):  # a card that says which address it has now
        ip("-n", world.hosts.netns(host), "neigh", "flush", "all")
    took = world.go_on(members[:3])
    print(f"    the others go on after {took:.1f} s")
    for host, address in ((3, at[0]), (4, at[1])):
        readdress(world, host, address)
    for host in range(5):
        ip("-n", world.hosts.netns(host), "neigh", "flush", "all")
    back_or_ended(world, members[:3], members[3:])
    one_job(world, "exchanged addresses")


def conflict(world: World) -> None:
    members = [world.start(host) for host in range(4)]
    world.go_on(members)
    readdress(world, 4, world.hosts.address(3))
    card = ip("-n", world.hosts.netns(4), "-o", "link", "show", "eth0").split("link/ether ")[1].split()[0]
    for host in range(3):
        words = [world.hosts.address(3), "lladdr", card, "dev", "eth0", "nud", "permanent"]
        ip("-n", world.hosts.netns(host), "neigh", "replace", *words)
    took = world.go_on(members[:3])
    print(f"    the others go on after {took:.1f} s")
    for host in range(3):
        ip("-n", world.hosts.netns(host), "neigh", "del", world.hosts.address(3), "dev", "eth0")
    readdress(world, 4, world.hosts.address(4))
    back_or_ended(world, members[:3], members[3:])
    one_job(world, "an address that is there twice")


def sixes(world: World) -> None:
    def six(host: int) -> None:
        space = world.hosts.netns(host)
        ip("-n", space, "addr", "flush", "dev", "eth0", "scope", "global")
        ip("-n", space, "-6", "addr", "add", f"fd79::{host + 1}/64", "dev", "eth0", "nodad")

    def start(host: int) -> Worker:
        return world.start(host, SPOTNIK_BIND=f"[fd79::{host + 1}]:{PORT}")

    for host in range(5):
        six(host)
    try:
        members = [start(host) for host in range(4)]
        world.go_on(members)
        members[1].process.kill()
        left = [members[0], *members[2:]]
        took = world.go_on(left)
        world.hosts.power_off(0)
        left = left[1:]
        gone = world.go_on(left)
        world.hosts.power_on(0)
        six(0)
        new = [start(0), start(1)]
        back = world.go_on([*left, *new])
        print(f"    one dies: {took:.2f} s, one loses power: {gone:.2f} s, two newcomers: {back:.2f} s")
        one_job(world, "IPv6 alone")
        world.end()
        world.digests = {}
        world.spec = ",".join(f"[fd79::{host + 1}]:{PORT}" for host in range(3))
        listed = [start(host) for host in range(3)]
        world.go_on(listed)
    finally:
        world.end()
        for host in range(5):
            ip("-n", world.hosts.netns(host), "-6", "addr", "flush", "dev", "eth0", "scope", "global")
            readdress(world, host, world.hosts.address(host))


MISTAKEN = (clones, clock, sleeper, idle, kept, late_mount, one_folder, exchanged, conflict, sixes)
