# SPDX-License-Identifier: Apache-2.0
"""What firewalls, operators and disks do to a job that runs. Part of network_faults.py. Claims:

  answered    a firewall answers what two members say, by a reset or by ICMP: one goes on, and when it
              is over both are one job
  deaf        of two hosts one does not hear the other: the same
  swapped     another directory takes the folder's name, an empty one: newcomers join; one of another life of
              the job: the members go on, or say why not
  stranger_owner  the folder is taken from the user of the members: they go on, a newcomer founds nothing
  copies      files of the folder are copied under other names: one job; after its loss a new one
  full        the folder's disk is full: members go on and warn, one dies, and a newcomer joins or says why not
  gone        the peers folder vanishes: members go on, also after a loss, and warn; a worker that starts is told
              what is wrong; once the folder is back the warning goes and a newcomer joins
  encrypted   SPOTNIK_TLS is not set: what passes between hosts is TLS, so one with "off" is refused by both names
  captured    of a job with a kill and a join nothing of sums, state or key passes in the clear; with "off" it does;
              a core dump of a member holds no key
  joining     it vanishes while a newcomer has the state to copy: the newcomer gets in all the same
  moved       a host gets another address: the others go on, a member at the new one comes in"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import time
from collections.abc import Callable

from jobs_on_hosts import PORT, STALE_MS, Worker, World, ip


def one_job(world: World, what: str) -> None:
    if len(world.foundings()) != 1:
        world.fail(f"{what}: {world.foundings()}")


def between(world: World, *how: str, pairs: tuple[tuple[int, int], ...] = ((0, 1), (1, 0))) -> list:  # type: ignore[type-arg]
    """What comes from `source` is treated so at `to`."""
    return [
        world.hosts.rule(to, "INPUT", "-p", "tcp", "-s", world.hosts.address(source), *how) for to, source in pairs
    ]


def broken_for_a_while(world: World, name: str, make: Callable[[], list]) -> None:  # type: ignore[type-arg]
    """Two members; when their path is broken one goes on, within T, and after that both are one job."""
    members = [world.start(0), world.start(1)]
    world.go_on(members)
    rules = make()
    step = max(w.step for w in members)
    took = world.until(f"{name}: one of them to go on", lambda: any(w.step > step + 40 for w in members))
    world.hosts.undo(rules)
    back = world.go_on(members)
    print(f"    {name}: one goes on after {took:.1f} s, both are together {back:.1f} s after it is over")
    one_job(world, name)
    world.end()


def answered(world: World) -> None:
    reject = ["-j", "REJECT", "--reject-with"]
    for number, (name, how) in enumerate(
        {
            "tcp-reset": [*reject, "tcp-reset"],
            "icmp-host-prohibited": [*reject, "icmp-host-prohibited"],
            "icmp-port-unreachable": [*reject, "icmp-port-unreachable"],
        }.items()
    ):
        job = World(world.hosts, world.root, f"answered-{number}")
        broken_for_a_while(job, name, lambda job=job, how=how: between(job, *how))  # type: ignore[misc]


def encrypted(world: World) -> None:
    members = [world.start(0), world.start(1)]
    world.go_on(members)
    odd = world.start(2, SPOTNIK_TLS="off")
    said = "has SPOTNIK_TLS=psk, and this process has off; set the same on all hosts"
    world.until(f"the third to hear '{said}'", lambda: any(said in line for line in odd.errors))
    world.go_on(members)
    if ", TLS" not in world.status(0):
        world.fail(f"the status of a member: {world.status(0)}")
    one_job(world, "encrypted")


def dumped(pid: int, secret: bytes) -> bool:
    """Does the memory that a core dump of this process takes hold the secret?"""
    with open(f"/proc/{pid}/smaps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        area = (0, 0)
        for line in maps:
            word = line.split()
            if "-" in word[0] and not word[0].endswith(":"):
                begin, end = (int(bound, 16) for bound in word[0].split("-"))
                area = (begin, end if word[1].startswith("rw") else begin)
            elif word[0] != "VmFlags:" or "dd" in word or area[0] == area[1]:
                continue
            elif secret in os.pread(memory.fileno(), area[1] - area[0], area[0]):
                return True
    return False


def captured(world: World) -> None:
    """Members of three hosts add up ones, and a newcomer copies bytes that are known."""
    state = bytes((i * 31 + (i >> 16)) & 255 for i in range(1 << 17))
    ones = struct.pack("<4f", *[1.0] * 4)
    for tls in ("off", ""):
        job = World(world.hosts, world.root, f"captured-{tls or 'usual'}")
        job.more = {"SPOTNIK_TLS": tls, "WORKER_ONES": "2000"}
        job.command = [*job.command, "-S", str(len(state))]
        secrets = [ones, state[:16], state[100_000:100_016], (job.root / "key").read_bytes()[:16]]
        with job.hosts.capture(secrets) as seen:
            members = [job.start(host) for host in range(3)]
            job.go_on(members)
            members[2].process.kill()
            members[2].rest()
            members[2] = job.start(2)
            job.go_on(members)
        key = bytes.fromhex((job.root / "key").read_text().split()[0])
        holding = [dumped(member.process.pid, key) for member in members]
        job.end()
        if seen != (set(secrets[:-1]) if tls == "off" else set()):
            job.fail(f"SPOTNIK_TLS={tls}: seen {sorted(seen)}")
        if any(holding):
            job.fail(f"SPOTNIK_TLS={tls}: {holding}: dumps hold the key")


def deaf(world: World) -> None:
    for to in (0, 1):
        job = World(world.hosts, world.root, f"deaf-{to}")
        broken_for_a_while(job, f"host {to} is deaf", lambda job=job, to=to: [job.hosts.drop(to, 1 - to)])  # type: ignore[misc]


def swapped(world: World) -> None:
    """The folder's name leads to another directory: an empty one, and one with another life of the job in it."""
    other = World(world.hosts, world.root, "other")
    shutil.copy(world.root / "key", other.root / "key")
    lone = other.start(4)
    other.until("another job of that name", lambda: lone.step > 5)
    other.end()
    members = [world.start(0), world.start(1)]
    world.go_on(members)
    world.peers.rename(world.root / "before")
    world.peers.mkdir()
    newcomer = world.start(2)
    world.go_on([*members, newcomer])
    if world.foundings():
        world.fail(f"an empty one: {world.foundings()}")
    world.peers.rename(world.root / "empty")
    other.peers.rename(world.peers)
    step = members[0].step
    world.until(
        "the members to go on, or to say why not",
        lambda: (
            all(w.step > step + 200 for w in [*members, newcomer])
            or all(w.errors for w in [*members, newcomer] if w.process.poll() is not None)
            and any(w.process.poll() is not None for w in [*members, newcomer])
        ),
    )
    print(f"    another life's folder: {[w.errors[-1:] for w in members]}")


def stranger_owner(world: World) -> None:
    """They run as a user of their own; somebody takes the folder from that user for a while."""
    user = 23457
    world.root.parent.chmod(0o755)
    os.chown(world.peers, user, user)
    os.chown(world.root / "key", user, user)
    for path in world.peers.iterdir():
        os.chown(path, user, user)
    run = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    members = [world.start(0, *run), world.start(1, *run)]
    world.go_on(members)
    os.chown(world.peers, 0, 0)
    world.peers.chmod(0o700)
    newcomer = world.start(2, *run)
    step, begun = members[0].step, time.monotonic()
    world.until(
        "the members to go on",
        lambda: all(w.step > step + 50 for w in members) and time.monotonic() > begun + 2 * STALE_MS / 1000,
    )
    if newcomer.step or len(list(world.peers.glob("genesis-*"))) != 1:
        world.fail("the newcomer has founded")
    if newcomer.process.poll() is not None and not newcomer.errors:
        world.fail("the newcomer ended without a word")
    os.chown(world.peers, user, user)
    print(f"    the newcomer: {newcomer.errors[-1:] or 'waits'}")
    if newcomer.process.poll() is not None:
        newcomer = world.start(2, *run)
    world.go_on([*members, newcomer])
    one_job(world, "the folder is another's")


def copies(world: World) -> None:
    """Files of the folder copied under other names, as backups and hands do."""
    members = [world.start(0), world.start(1)]
    world.go_on(members)
    for name in ("genesis-2", "genesis-7", "genesis-999999999999999999", "member-copy", "genesis-1.bak", "genesis-01"):
        shutil.copy(world.peers / "genesis-1", world.peers / name)
        newcomer = world.start(2)
        world.go_on([*members, newcomer])
        newcomer.process.kill()
        newcomer.rest()
        world.go_on(members)
    for worker in members:
        worker.process.kill()
        worker.rest()
    world.digests = {}
    begun = time.monotonic()
    last = world.peers / "genesis-999999999999999999"
    lost = world.start(0)
    world.until("it to end", lambda: lost.process.poll() is not None)
    lost.rest()
    if not lost.errors or f"{last} has the last number that there is" not in lost.errors[-1]:
        world.fail(f"it says {lost.errors}")
    last.unlink()
    lost = world.start(0)
    new = [lost, world.start(1)]
    world.go_on(new)
    took = time.monotonic() - begun
    print(f"    all killed, new ones together after {took:.1f} s, without {last.name}: {world.foundings()}")


def full(world: World) -> None:
    """The folder's disk is full to the last byte and the last inode while members die and come."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k,nr_inodes=64", "hostile", str(world.peers)], check=True)
    try:
        members = [world.start(0), world.start(1), world.start(2)]
        world.go_on(members)
        count = 0
        try:
            while True:
                (world.peers / f"junk-{count}").write_bytes(b"x" * 8192)
                count += 1
        except OSError:
            pass
        members[2].process.kill()
        members[2].rest()
        world.go_on(members[:2], 100)
        expect_warnings(world, members[:2], "No space left on device")
        newcomer = world.start(3)
        step = members[0].step
        world.until(
            "the members to go on, and the newcomer to join or end",
            lambda: all(w.step > step + 50 for w in members[:2]) and (newcomer.step or newcomer.process.poll() is not None),
        )
        said = newcomer.errors[-1:]
        if newcomer.process.poll() is not None and not said:
            world.fail("the newcomer ended without a word")
        for path in world.peers.glob("junk-*"):
            path.unlink()
        if newcomer.process.poll() is not None:
            newcomer = world.start(3)
        world.go_on([*members[:2], newcomer])
        print(f"    the newcomer on a full disk: {said or 'joined'}")
        one_job(world, "a full disk")
        world.end()
    finally:
        subprocess.run(["umount", "-l", str(world.peers)], check=True)


def expect_warnings(world: World, members: list[Worker], words: str) -> None:
    for worker in members:
        world.until_told(worker.host, words)


def gone(world: World) -> None:
    members = [world.start(host) for host in range(4)]
    world.go_on(members)
    elsewhere = world.root / "elsewhere"
    world.peers.rename(elsewhere)
    world.go_on(members)
    expect_warnings(world, members, '"warning":"cannot write this member\'s record to ')
    newcomer = world.start(4)
    newcomer.rest()
    if "it must exist and be writable" not in "".join(newcomer.errors):
        world.fail(f"a worker was told {newcomer.errors}")
    members.pop(2).kill()
    world.go_on(members)
    elsewhere.rename(world.peers)
    expect_warnings(world, members, '"warning":""')
    world.go_on([*members, world.start(2)])


def joining(world: World) -> None:
    """spotnik_join() has returned, the state is not copied: that is when the folder goes."""
    world.command = ["-S", str(16 << 20), "-D", *world.command]
    members = [world.start(0), world.start(1)]
    world.go_on(members)
    go, elsewhere = world.root / "go", world.root / "elsewhere"
    newcomer = world.start(2, WORKER_HOLD=str(go))
    world.until("the newcomer to know of the job", lambda: newcomer.member != "")
    if newcomer.step:
        world.fail("the newcomer was in before the folder went")
    world.peers.rename(elsewhere)
    go.touch()
    world.go_on([*members, newcomer])
    elsewhere.rename(world.peers)


def moved(world: World) -> None:
    """A host loses its address and gets another, as machines that move do: its member is over for the others; a new one
    at the new address comes in. When it gets its address back the old one is back, or has ended with a word."""
    members = [world.start(host) for host in range(3)]
    world.go_on(members)
    space, old, new = world.hosts.netns(2), world.hosts.address(2), "10.79.0.77"
    ip("-n", space, "addr", "del", f"{old}/24", "dev", "eth0")
    ip("-n", space, "addr", "add", f"{new}/24", "dev", "eth0")
    took = world.go_on(members[:2])
    newcomer = world.start(2, SPOTNIK_BIND=f"{new}:{PORT + 1}")
    world.go_on([*members[:2], newcomer])
    ip("-n", space, "addr", "add", f"{old}/24", "dev", "eth0")
    world.until(
        "the one that was moved to be back, or to end",
        lambda: members[2].process.poll() is not None or members[2].size == 4,
    )
    left: list[Worker] = [*members[:2], newcomer, *([members[2]] if members[2].process.poll() is None else [])]
    if len(left) == 3 and not members[2].errors:
        world.fail("it ended without a word")
    world.go_on(left)
    print(f"    the others go on after {took:.1f} s; the one that was moved: {members[2].errors[-1:] or 'is back'}")
    ip("-n", space, "addr", "del", f"{new}/24", "dev", "eth0")
    one_job(world, "moved")


HOSTILE = (answered, encrypted, captured, deaf, swapped, stranger_owner, copies, full, gone, joining, moved)
