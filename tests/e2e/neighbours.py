#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cases beside those of the other tests of the edges, on hosts that are network namespaces.
In all of them no step has two results. Claims:

  own         a newcomer's host has the members' addresses itself, as Docker's bridges have: it
              waits, and joins when they are gone
  twins       a newcomer has the address and port of a member, on a network of its own: its own
              echo proves nothing
  containers  a newcomer in another PID namespace, or of another user, founds nothing beside a live
              process of its host. When that one has ended, a newcomer in another namespace waits
              for T, any other founds at once
  prohibited  a firewall before the job answers newcomers with icmp-host-prohibited: they wait
  replaced    the genesis becomes a directory, a link to nowhere, a FIFO, another job's genesis: no
              second founding, and the job goes on
  readonly    the folder's file system turns read-only: members go on, a newcomer founds nothing,
              and joins when it can be written
  restored    the folder is put back as it was when the job began: newcomers join the live job
  hairpin     in `majority:` one listed address leads back to the asker: its echo is no vote
  junk        records that are directories, links and FIFOs delay the founding for T, no longer
  kinds       a folder that may not rename atomically (ramfs) has no witness, unless a user vouches
              for it; of two machines the one that is left goes on all the same
  crowd       a newcomer whose handshakes take 200 ms there and back comes in beside 2000 strangers a second
  half        a proxy says FIN in everybody's name and goes on reading: one job, one view again
  disjoint    of four hosts, two pairs do not reach each other: the ring that is left is found, and
              nobody is excluded
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
  torn        all machines are lost, and the newest checkpoint is torn: new machines go on from the
              one before
  reboot      all machines lose power and come back at their addresses, one of them late: they go
              on from the checkpoint within T and 10 s
  leaving     two members do not reach each other, and one leaves on a notice: the other goes on
  leaving3    two of three leave while the third is cut off: it goes on
  alone       a member was excluded, and waits before it comes back; all others lose power meanwhile:
              it founds nothing, and ends with SPOTNIK_ERR_PEERS
  stranded    a member that is parked, with a step begun, goes when it is told to
  answered    a firewall answers what two members say, by a reset or by ICMP: one goes on, and when it
              is over both are one job
  deaf        of two hosts one does not hear the other: the same
  hole_oneway  large packets vanish on one way only: both go on
  hole_back   the same, and one is stopped and excluded meanwhile, either of them: it is back
  swapped     another directory takes the folder's name, an empty one: newcomers join; one of another life of
              the job: the members go on, or say why not
  stranger_owner  the folder is taken from the user of the members: they go on, a newcomer founds nothing
  copies      files of the folder are copied under other names: one job; after its loss a new one
  full        the folder's disk is full: members go on, one dies, and a newcomer joins or says why not
  moved       a host gets another address: the others go on, a member at the new one comes in
  shrinking   four hosts lose two at once, then one more: the witness names those that are left

Those of neighbours_odd.py are described there.

    neighbours.py SPOTNIK WORKER [only]"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from jobs_on_hosts import PORT, STALE_MS, CannotRunError, Hosts, Worker, World, ip
from neighbours_hostile import HOSTILE
from neighbours_odd import ODD
from neighbours_paths import disjoint, five, five_disjoint, forgotten, hole, hole_apart, named, oneway, refused, slow

HOSTS = 5


# ---- who may found


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
    ip("-n", f"{world.hosts.name}-sw", "link", "set", "p2", "down")
    ip("-n", world.hosts.netns(2), "addr", "add", f"{world.hosts.address(0)}/32", "dev", "lo")
    newcomer = world.start(2, SPOTNIK_BIND=f"{world.hosts.address(0)}:{PORT}")
    world.waits(newcomer, members, 3 * STALE_MS / 1000)
    newcomer.process.kill()
    ip("-n", world.hosts.netns(2), "addr", "del", f"{world.hosts.address(0)}/32", "dev", "lo")
    ip("-n", f"{world.hosts.name}-sw", "link", "set", "p2", "up")
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


def prohibited(world: World) -> None:
    members = [world.start(0), world.start(1)]
    world.go_on(members)
    words = f"INPUT -p tcp -s {world.hosts.address(2)} --syn -j REJECT --reject-with icmp-host-prohibited".split()
    rules = [world.hosts.rule(host, *words) for host in (0, 1)]
    words = f"OUTPUT -p tcp -d {world.hosts.address(2)} --syn -j REJECT --reject-with icmp-admin-prohibited".split()
    rules += [world.hosts.rule(host, *words) for host in (0, 1)]
    newcomer = world.start(2)
    world.waits(newcomer, members, 2 * STALE_MS / 1000)
    world.hosts.undo(rules)
    world.go_on([*members, newcomer])
    if len(world.foundings()) != 1:
        world.fail(f"it has founded: {world.foundings()}")


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
    subprocess.run(["mount", "-t", "tmpfs", "neighbours", str(world.peers)], check=True)
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


def hairpin(world: World) -> None:
    at = [f"{world.hosts.address(host)}:{PORT}" for host in range(3)]
    virtual = "10.79.0.99"
    world.spec = f"majority:{at[0]},{virtual}:{PORT},{at[2]}"
    nat = ["-t", "nat", "-A", "OUTPUT", "-p", "tcp", "-d", virtual, "-j", "DNAT", "--to-destination", at[0]]
    world.hosts.iptables(0, *nat)
    ip("-n", world.hosts.netns(0), "route", "add", f"{virtual}/32", "dev", "eth0", check=False)
    asker = world.start(0)
    time.sleep(2 * STALE_MS / 1000)  # the claim is that it founds nothing in twice T: that time has to pass
    if asker.step or asker.process.poll() is not None:
        world.fail("it took its own echo for another's vote, or gave up")
    other = world.start(2)
    world.go_on([asker, other])


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
    subprocess.run(["mount", "-t", "ramfs", "neighbours", str(world.peers)], check=True)
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
    subprocess.run(["mount", "-t", "ramfs", "neighbours", str(world.peers)], check=True)
    try:
        vouched = world.start(0, SPOTNIK_FOLDER="witness")
        world.until("a founding", lambda: vouched.step > 0)
        if not list(world.peers.glob("witness-*")):
            world.fail("no witness, though the user vouches for the folder")
        world.end()
    finally:
        subprocess.run(["umount", "-l", str(world.peers)], check=True)


# ---- proofs of death


def half(world: World) -> None:
    world.hosts.count = 2
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
        world.hosts.count = HOSTS


def crowd(world: World) -> None:
    """Everything that the members say takes 100 ms each way; strangers come from a host of their own, without delay."""
    world.hosts.count = 3
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
        world.hosts.count = HOSTS


# ---- losses


def complete(saved: Path) -> list[tuple[int, Path]]:
    found = [(int(path.parent.name.split("-")[1]), path.parent) for path in saved.glob("step-*-*/manifest.json")]
    return sorted(found)


def torn(world: World) -> None:
    saved = world.root / "checkpoints"
    world.more = {"SPOTNIK_CHECKPOINT": str(saved), "SPOTNIK_CHECKPOINT_STEPS": "50", "SPOTNIK_CHECKPOINT_KEEP": "3"}
    members = [world.start(0), world.start(1)]
    world.until("two checkpoints", lambda: saved.exists() and len(complete(saved)) > 1)
    for host in (0, 1):
        world.hosts.power_off(host)
    for worker in members:
        worker.rest()
    *_, (before, _), (newest, path) = complete(saved)
    part = sorted(path.glob("part-*"))[0]
    os.truncate(part, part.stat().st_size - 1)
    world.forget_after(before)
    new = [world.start(2), world.start(3)]
    took = world.until("new machines to go on", lambda: any(w.step for w in new))
    world.go_on(new)
    first = min(w.steps[0] for w in new)
    if first != before + 1:
        world.fail(f"they go on with step {first}; the torn checkpoint is of {newest}, the one before of {before}")
    print(f"    new machines go on after {took:.1f} s (T = {STALE_MS / 1000:.0f} s), at step {first}")
    for host in (0, 1):
        world.hosts.power_on(host)


def shrinking(world: World) -> None:
    members = [world.start(host) for host in range(4)]
    world.go_on(members)
    for lost in ((0, 1), (2,)):
        for host in lost:
            ip("-n", f"{world.hosts.name}-sw", "link", "set", f"p{host}", "down")
        for host in lost:
            world.hosts.power_off(host)
        left = members[max(lost) + 1 :]
        took = world.go_on(left)
        print(f"    {len(left)} left: they go on after {took:.2f} s (T = {STALE_MS / 1000:.0f} s)")
        if len(world.foundings()) != 1:
            world.fail(f"they had to found anew: {world.foundings()}")
    for host in range(3):
        world.hosts.power_on(host)
    grown = [members[3], world.start(0), world.start(1)]
    world.go_on(grown)


def reboot(world: World) -> None:
    saved = world.root / "checkpoints"
    world.more = {"SPOTNIK_CHECKPOINT": str(saved), "SPOTNIK_CHECKPOINT_STEPS": "50"}
    members = [world.start(0), world.start(1)]
    founded = world.until("a founding, in a folder made for it", lambda: any(w.step for w in members))
    world.until("a checkpoint", lambda: saved.exists() and len(complete(saved)) > 0)
    for host in (0, 1):
        world.hosts.power_off(host)
    for worker in members:
        worker.rest()
    newest = complete(saved)[-1][0]
    world.forget_after(newest)
    for host in (0, 1):
        world.hosts.power_on(host)
    first = world.start(0)
    took = world.until("the first machine to go on", lambda: first.step > 0)
    if first.steps[0] != newest + 1:
        world.fail(f"it goes on with step {first.steps[0]} after checkpoint {newest}")
    if took > STALE_MS / 1000 + max(
        10, 10 * founded
    ):  # a machine on which a founding without T takes long is given more
        world.fail(f"it took {took:.1f} s; a founding without T took {founded:.1f} s")
    print(f"    the first machine goes on after {took:.1f} s (T = {STALE_MS / 1000:.0f} s)")
    world.go_on([first, world.start(1)])


def leave_apart(world: World, count: int, leavers: int) -> None:
    members = [world.start(host) for host in range(count)]
    world.go_on(members)
    pairs = [(one, two) for one in range(leavers) for two in range(leavers, count)]
    rules = [world.hosts.drop(*ends) for one, two in pairs for ends in ((one, two), (two, one))]
    for worker in members[:leavers]:
        worker.process.send_signal(signal.SIGTERM)
    step, begun = members[-1].step, time.monotonic()
    world.until(
        "the one that is left to go on, or the others to end",
        lambda: members[-1].step > step + 20 or all(w.process.poll() is not None for w in members[:leavers]),
    )
    for worker in members[:leavers]:
        worker.process.kill()  # of two the witness may have named the other: the leaver is parked
        worker.rest()
    # on a busy machine they exclude it first: what they made without it is lost with them
    world.forget_after(members[-1].step)
    print(f"    the leavers: {[w.last for w in members[:leavers]]}")
    world.until(
        "the one that is left to go on", lambda: members[-1].step > step + 20 or members[-1].process.poll() is not None
    )
    took = time.monotonic() - begun
    if members[-1].process.poll() is not None:
        world.fail("it has ended")
    print(f"    the one that is left goes on after {took:.1f} s; {world.foundings()}")
    world.hosts.undo(rules)
    world.go_on([members[-1], world.start(0)])


def leaving(world: World) -> None:
    leave_apart(world, 2, 1)


def leaving3(world: World) -> None:
    leave_apart(world, 3, 2)


def alone(world: World) -> None:
    """Excluded twice within a minute, it waits for a second before it joins again."""
    members = [world.start(host) for host in range(3)]
    world.go_on(members)
    last = members[2]
    for turn in (1, 2):
        last.process.send_signal(signal.SIGSTOP)
        world.go_on(members[:2])
        last.process.send_signal(signal.SIGCONT)
        world.until("it to learn of that", lambda turn=turn: last.exclusions == turn)
        if turn == 1:
            world.go_on(members)
    step = last.step
    for host in (0, 1):
        world.hosts.power_off(host)
    begun = time.monotonic()
    for worker in members[:2]:
        worker.rest()
    if last.exclusions == 2 and last.step == step:
        world.forget_after(step)  # what they made without it is lost with them
    world.until("it to end", lambda: last.process.poll() is not None)
    last.rest()
    print(f"    it ends after {time.monotonic() - begun:.1f} s at step {last.step}; {world.foundings()}: {last.errors}")
    if world.foundings() != ["genesis-1"]:
        world.fail("it has founded")
    if not any("-100" in error and "went on without this member" in error for error in last.errors):
        world.fail("it says something else than SPOTNIK_ERR_PEERS, or not what its user is to do")


def stranded(world: World) -> None:
    world.more = {"WORKER_PATIENCE_MS": "1500"}
    members = [world.start(0), world.start(1)]
    world.go_on(members)
    rules = [world.hosts.drop(0, 1), world.hosts.drop(1, 0)]
    world.until("the one that the witness names to go on alone", lambda: any(w.size == 1 for w in members))
    staying, parked = sorted(members, key=lambda w: w.size)
    parked.process.send_signal(signal.SIGTERM)
    took = world.until("the parked one to go", lambda: parked.process.poll() is not None)
    if parked.process.returncode != 75:
        world.fail(f"it ended with {parked.process.returncode}")
    print(f"    the parked one went after {took:.1f} s: {parked.last}")
    world.go_on([staying])
    world.hosts.undo(rules)
    world.go_on([staying, world.start(1 if staying is members[0] else 0)])


SCENARIOS = (
    own,
    twins,
    containers,
    prohibited,
    replaced,
    readonly,
    restored,
    hairpin,
    junk,
    kinds,
    half,
    crowd,
    oneway,
    five,
    five_disjoint,
    named,
    slow,
    refused,
    hole,
    hole_apart,
    forgotten,
    torn,
    reboot,
    leaving,
    leaving3,
    alone,
    stranded,
    disjoint,
    *HOSTILE,
    *ODD,
    shrinking,
)


def main() -> None:
    only = re.split("[ ,]", sys.argv[3]) if len(sys.argv) > 3 else [scenario.__name__ for scenario in SCENARIOS]
    try:
        hosts = Hosts(HOSTS, f"spotnik-nb-{os.getpid()}")
    except CannotRunError as why:
        print(f"SKIPPED: {why}")
        sys.exit(77)
    failed = []
    try:
        with tempfile.TemporaryDirectory() as root:
            for scenario in (one for one in SCENARIOS if one.__name__ in only):
                world = World(hosts, Path(root), scenario.__name__)
                begun = time.monotonic()
                try:
                    scenario(world)
                    print(f"{scenario.__name__}: well, {time.monotonic() - begun:.0f} s", flush=True)
                except SystemExit as error:
                    print(error.code, flush=True)
                    failed.append(scenario.__name__)
                finally:
                    world.end()
                    hosts.undo(list(hosts.rules))
                    for host in range(HOSTS):
                        if f"{hosts.netns(host)}" not in ip("netns", "list"):
                            hosts.power_on(host)
    finally:
        hosts.remove()
    sys.exit(f"FAILED: {', '.join(failed)}" if failed else 0)


main()
