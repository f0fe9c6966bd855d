# SPDX-License-Identifier: Apache-2.0
"""Who may found a job. Part of network_faults.py. Claims:

  own         a newcomer's host has the members' addresses itself, as Docker's bridges have: it
              waits, and joins when they are gone
  twins       a newcomer has the address and port of a member, on a network of its own: its own
              echo proves nothing
  containers  a newcomer in another PID namespace, or of another user, founds nothing beside a live
              process of its host. When that one has ended, a newcomer in another namespace waits
              for T, any other founds at once
  prohibited  a firewall before the job refuses newcomers, with icmp-host-prohibited or resets: they wait
  vanished    files of the folder of a live job are torn or removed: a newcomer that reaches nobody founds nothing, and
              says what is missing; when it reaches the members it joins
  listed      two of three listed members die, are started again and cut off from the rest: they found nothing;
              healed, they join
  outsiders   the only listed member dies, while others live: who takes its place joins these
  replaced    the genesis becomes a directory, a link to nowhere, a FIFO, another job's genesis: no
              second founding, and the job goes on
  readonly    the folder's file system turns read-only: members go on, a newcomer founds nothing,
              and joins when it can be written
  restored    the folder is put back as it was when the job began: newcomers join the live job
  junk        records that are directories, links and FIFOs delay the founding for T, no longer
  kinds       a folder that may not rename atomically (ramfs) has no witness, unless a user vouches
              for it; of two machines the one that is left goes on all the same"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time

from jobs_on_hosts import PORT, STALE_MS, Worker, World, ip


def own(world: World) -> None:
    members = [world.start(0), world.start(1)]
    world.go_on(members)
    for host in (0, 1):
        ip("-n", world.hosts.netns(2), "addr", "add", f"{world.hosts.address(host)}/32", "dev", "lo")
    newcomer = world.start(2)
    world.waits(newcomer, members, 2 * STALE_MS / 1000)
    for host in (0, 1):
        ip("-n", world.hosts.netns(2), "addr", "del", f"{world.hosts.address(host)}/32", "dev", "lo")
    world.go_on([*members, newcomer])
    if len(world.foundings()) != 1:
        world.fail(f"it has founded: {world.foundings()}")


def twins(world: World) -> None:
    members = [world.start(0), world.start(1)]
    world.go_on(members)
    world.hosts.cable(2, "down")
    ip("-n", world.hosts.netns(2), "addr", "add", f"{world.hosts.address(0)}/32", "dev", "lo")
    newcomer = world.start(2, SPOTNIK_BIND=f"{world.hosts.address(0)}:{PORT}")
    world.waits(newcomer, members, 3 * STALE_MS / 1000)
    newcomer.process.kill()
    ip("-n", world.hosts.netns(2), "addr", "del", f"{world.hosts.address(0)}/32", "dev", "lo")
    world.hosts.cable(2, "up")
    world.go_on([*members, world.start(2)])
    if len(world.foundings()) != 1:
        world.fail(f"it has founded: {world.foundings()}")


def founds_after(world: World, newcomer: Worker) -> float:
    return world.until("the newcomer to found", lambda: newcomer.step > 0)


def containers(world: World) -> None:
    """On one machine, as far as they know, but no packet of one reaches the other."""
    for rule in ((0, 1), (1, 0)):
        world.hosts.drop(*rule)
    world.root.parent.chmod(0o755)
    user, stale_s = 23456, STALE_MS / 1000
    key = world.root / "key-of-another"
    key.touch(mode=0o600)
    key.write_bytes((world.root / "key").read_bytes())
    os.chown(key, user, user)
    ways = {
        "namespace": (["unshare", "--pid", "--fork", "--kill-child"], [], {}),
        "user": (
            [],
            ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"],
            {"SPOTNIK_KEY_FILE": str(key)},
        ),
        "neither": ([], [], {}),
    }
    for name, (of_member, of_newcomer, more) in ways.items():
        world.spec = f"file:{world.root / name}"
        peers = world.peers = world.root / name
        peers.mkdir()
        peers.chmod(0o777)
        member = world.start(0, *of_member, SPOTNIK_HOST="one")
        world.until("a member", lambda member=member: member.step > 20)
        world.digests = {}
        newcomer = world.start(1, *of_newcomer, SPOTNIK_HOST="one", **more)
        world.waits(newcomer, [member], 2 * stale_s)
        if len(world.foundings()) != 1:
            world.fail(f"another {name}: {world.foundings()}")
        member.process.kill()
        member.rest()
        world.digests = {}
        took = founds_after(world, newcomer)
        print(f"    {name}: alive, it waits; dead, the newcomer founds after {took:.1f} s (T = {stale_s:.0f} s)")
        if (took < stale_s / 2) == (name == "namespace"):
            world.fail(f"{name}: founded after {took:.1f} s")
        newcomer.process.kill()
        newcomer.rest()


def wall(world: World, how: str) -> list[tuple[int, tuple[str, ...]]]:
    """What host 2 dials at hosts 0 and 1 is refused, and what these dial there."""
    there, back = (f"-p tcp -{end} {world.hosts.address(2)} --syn -j REJECT --reject-with" for end in "sd")
    rules = [world.hosts.rule(host, "INPUT", *there.split(), how) for host in (0, 1)]
    return rules + [world.hosts.rule(host, "OUTPUT", *back.split(), "icmp-admin-prohibited") for host in (0, 1)]


def prohibited(world: World) -> None:
    members = [world.start(0), world.start(1)]
    world.go_on(members)
    for how in ("icmp-host-prohibited", "tcp-reset"):
        rules = wall(world, how)
        newcomer = world.start(2)
        world.waits(newcomer, members, 2 * STALE_MS / 1000)
        world.hosts.undo(rules)
        world.go_on([*members, newcomer])
        if len(world.foundings()) != 1:
            world.fail(f"it has founded: {world.foundings()}")
        newcomer.end()
        world.go_on(members)


def vanished(world: World) -> None:
    members = [world.start(0), world.start(1)]
    world.go_on(members)
    known, rules = set(world.peers.glob("member-*")), wall(world, "tcp-reset")

    def tear() -> None:
        for path in known:
            os.truncate(path, 40)

    def remove_all() -> None:
        for path in world.peers.iterdir():
            path.unlink()

    for damage, left, says in (
        (tear, 1, "member-"),
        ((world.peers / "genesis-1").unlink, 0, "genesis-1 is missing"),
        (remove_all, 0, "genesis-1 is missing"),
    ):
        damage()
        newcomer = world.start(2)
        world.until_told(2, says)
        world.waits(newcomer, members, 2 * STALE_MS / 1000)
        if len(world.foundings()) != left:
            world.fail(f"it has founded: {world.foundings()}")
        newcomer.kill()
        for path in set(world.peers.glob("member-*")) - known:
            path.unlink()  # the next newcomer listens there, too
        world.go_on(members)
    world.hosts.undo(rules)
    world.go_on([*members, world.start(2)])


def listed(world: World) -> None:
    world.spec = ",".join(f"{world.hosts.address(host)}:{PORT}" for host in range(3))
    members = [world.start(host) for host in range(5)]
    world.go_on(members)
    for host in (1, 2):
        members[host].kill()
        world.hosts.cable(host, "down")
    rest, again = [members[0], *members[3:]], [world.start(host) for host in (1, 2)]
    for worker in again:
        world.waits(worker, rest, STALE_MS / 1000)
    world.go_on(rest)
    for host in (1, 2):
        world.hosts.cable(host, "up")
    world.go_on([*rest, *again])


def outsiders(world: World) -> None:
    world.spec = f"{world.hosts.address(0)}:{PORT}"
    members = [world.start(host) for host in range(4)]
    world.go_on(members)
    members[0].kill()
    world.go_on([*members[1:], world.start(0)])


def replaced(world: World) -> None:
    other = World(world.hosts, world.root, "other")
    stranger = other.start(4, SPOTNIK_JOB="another")
    other.until("another job", lambda: stranger.step > 0)
    foreign = (other.peers / "genesis-1").read_bytes()
    other.end()
    members = [world.start(0), world.start(1)]
    world.go_on(members)
    genesis = world.peers / "genesis-1"

    def become(how: str) -> None:
        genesis.unlink(missing_ok=True) if not genesis.is_dir() or genesis.is_symlink() else genesis.rmdir()
        if how == "directory":
            genesis.mkdir()
        elif how == "link":
            genesis.symlink_to("nowhere")
        elif how == "fifo":
            os.mkfifo(genesis)
        else:
            genesis.write_bytes(foreign)

    for how in ("directory", "link", "fifo", "foreign"):
        become(how)
        newcomer = world.start(2)
        begun, step = time.monotonic(), members[0].step
        world.until(
            "the members to go on, and the newcomer to join or end",
            lambda newcomer=newcomer, step=step: (
                all(w.step > step + 20 for w in members) and (newcomer.size == 3 or newcomer.process.poll() is not None)
            ),
        )
        joined, took = newcomer.size == 3, time.monotonic() - begun
        if not joined and not newcomer.errors:
            world.fail(f"genesis as {how}: the newcomer ended without a word")
        if len(world.foundings()) != 1:
            world.fail(f"genesis as {how}: {world.foundings()}")
        print(f"    genesis as {how}: " + (f"joined after {took:.1f} s" if joined else newcomer.errors[-1]))
        if joined:
            newcomer.process.send_signal(signal.SIGTERM)
            newcomer.process.wait()
            world.go_on(members)


def readonly(world: World) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "network-faults", str(world.peers)], check=True)
    try:
        members = [world.start(0), world.start(1)]
        world.go_on(members)
        subprocess.run(["mount", "-o", "remount,ro", str(world.peers)], check=True)
        step, begun = members[0].step, time.monotonic()
        newcomer = world.start(2)
        world.until(
            "members to go on",
            lambda: all(w.step > step + 100 for w in members) and time.monotonic() > begun + 2 * STALE_MS / 1000,
        )
        if newcomer.step or len(world.foundings()) != 1:
            world.fail("the newcomer has founded, or stepped")
        ended = newcomer.process.poll() is not None
        if ended and not newcomer.errors:
            world.fail("the newcomer ended without a word")
        subprocess.run(["mount", "-o", "remount,rw", str(world.peers)], check=True)
        if ended:
            print(f"    the newcomer ended: {newcomer.errors[-1]}")
            newcomer = world.start(2)
        world.go_on([*members, newcomer])
        world.end()
    finally:
        subprocess.run(["umount", "-l", str(world.peers)], check=True)


def restored(world: World) -> None:
    first = world.start(0)
    world.until("the founder", lambda: first.step > 5)
    backup = world.root / "backup"
    shutil.copytree(world.peers, backup)
    members = [first, world.start(1), world.start(2)]
    world.go_on(members)
    first.process.kill()
    world.go_on(members[1:])
    for path in world.peers.iterdir():
        path.unlink()
    for path in backup.iterdir():
        shutil.copy2(path, world.peers)
    newcomers = [world.start(0), world.start(3)]
    world.go_on([*members[1:], *newcomers])
    if len(world.foundings()) != 1:
        world.fail(f"foundings: {world.foundings()}")


def junk(world: World) -> None:
    (world.peers / "fresh").unlink()
    (world.peers / f"member-{1:032x}").mkdir()
    (world.peers / f"member-{2:032x}").symlink_to("nowhere")
    (world.peers / f"member-{3:032x}").symlink_to(f"member-{3:032x}")
    os.mkfifo(world.peers / f"member-{4:032x}")
    (world.peers / f"member-{5:032x}").symlink_to("/dev/zero")
    (world.peers / "genesis-1").symlink_to("/dev/zero")
    begun = time.monotonic()
    worker = world.start(0)
    world.until("the founding", lambda: worker.step > 0)
    took = time.monotonic() - begun
    if took < STALE_MS / 1000:
        world.fail(f"it founded after {took:.1f} s")
    print(f"    it founds after {took:.1f} s (T = {STALE_MS / 1000:.0f} s): {world.foundings()}")


def kinds(world: World) -> None:
    subprocess.run(["mount", "-t", "ramfs", "network-faults", str(world.peers)], check=True)
    try:
        members = [world.start(0), world.start(1)]
        world.go_on(members)
        if list(world.peers.glob("witness-*")):
            world.fail("there is a witness")
        world.hosts.power_off(0)
        took = world.go_on(members[1:])
        print(f"    the other goes on after {took:.1f} s; {world.foundings()}")
        world.hosts.power_on(0)
        world.end()
    finally:
        subprocess.run(["umount", "-l", str(world.peers)], check=True)
    subprocess.run(["mount", "-t", "ramfs", "network-faults", str(world.peers)], check=True)
    try:
        vouched = world.start(0, SPOTNIK_FOLDER="witness")
        world.until("a founding", lambda: vouched.step > 0)
        if not list(world.peers.glob("witness-*")):
            world.fail("no witness, though the user vouches for the folder")
        world.end()
    finally:
        subprocess.run(["umount", "-l", str(world.peers)], check=True)


FOUNDING = (own, twins, containers, prohibited, vanished, listed, outsiders, replaced, readonly, restored, junk, kinds)
