# SPDX-License-Identifier: Apache-2.0
"""What programs, folders and resolvers commonly do. Part of neighbours.py. Claims:

  names       a list of names, where each host calls itself 127.0.1.1, and all have an IPv6 address, too, where
              nobody listens: they found one job
  forced      an operator forces both halves of a pair to go on: one does, the other ends with SPOTNIK_ERR_LINEAGE
  signals     programs block a signal once they have joined, and get it: none ends, and the others' losses are noticed
  wandering   programs name their folders by relative paths and change their directory: a newcomer that does not
              reach them founds nothing, and comes in when it does; when all are lost new ones go on from the
              checkpoint"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

from jobs_on_hosts import PORT, SPOTNIK, STALE_MS, Worker, World, ip
from neighbours_hostile import one_job
from neighbours_losses import complete
from neighbours_paths import status

STALE_S = STALE_MS / 1000


def names(world: World) -> None:
    """`ip netns exec` shows each host the files of /etc/netns/HOST as its own of /etc."""
    hosts = range(3)
    spaces = [world.hosts.netns(host) for host in hosts]
    try:
        for host, space in zip(hosts, spaces):
            ip("-n", space, "-6", "addr", "add", f"fd79::{host + 1}/64", "dev", "eth0", "nodad")
            folder = Path("/etc/netns") / space
            folder.mkdir(parents=True)
            lines = ["127.0.0.1 localhost", *(f"fd79::{other + 1} h{other}" for other in hosts)]
            lines += [f"{'127.0.1.1' if other == host else world.hosts.address(other)} h{other}" for other in hosts]
            (folder / "hosts").write_text("\n".join([*lines, ""]))
        world.spec = ",".join(f"h{host}:{PORT}" for host in hosts)
        members = [world.start(host) for host in hosts]
        took = world.go_on(members)
        print(f"    all are one view after {took:.1f} s")
    finally:
        for space in spaces:
            shutil.rmtree(Path("/etc/netns") / space, ignore_errors=True)
            ip("-n", space, "-6", "addr", "flush", "dev", "eth0", "scope", "global", check=False)


def force(world: World, host: int) -> None:
    more = {"SPOTNIK_JOB": "neighbours", "SPOTNIK_KEY_FILE": str(world.root / "key"), "SPOTNIK_PEERS": world.spec}
    words = [SPOTNIK, "lineage", "force", f"{world.hosts.address(host)}:{PORT}", "--yes"]
    subprocess.run(world.hosts.on(host, *words), env={**os.environ, **more}, check=True, capture_output=True)


def forced(world: World) -> None:
    """The witness is gone, so both park; T is far away."""
    world.more = {"SPOTNIK_STALE_MS": "60000"}
    members = [world.start(0), world.start(1)]
    world.go_on(members)
    for witness in world.peers.glob("witness-*"):
        witness.unlink()
    rules = [world.hosts.drop(0, 1), world.hosts.drop(1, 0)]
    for host in (0, 1):
        world.until("it to park", lambda host=host: "PARKED" in status(world, host))  # type: ignore[misc]
    judge, world.settle = world.settle, lambda *_: None  # type: ignore[method-assign]
    for host in (0, 1):  # each makes steps of its own until the first finds the other's founding
        force(world, host)
    world.until("one of them to end", lambda: any(w.process.poll() is not None for w in members))
    world.settle = judge  # type: ignore[method-assign]
    ended, staying = sorted(members, key=lambda w: w.process.poll() is None)
    ended.rest()
    if not any(error.startswith("-303 ") for error in ended.errors):
        world.fail(f"it ended with {ended.errors}")
    world.hosts.undo(rules)
    world.go_on([staying, world.start(2)])


def wandering(world: World) -> None:
    within = ["sh", "-c", f'cd {world.root} && exec "$@"', "sh"]
    world.spec = "file:peers"
    world.more = {"SPOTNIK_CHECKPOINT": "saved", "SPOTNIK_CHECKPOINT_STEPS": "50", "WORKER_CHDIR": "/"}

    def start(host: int) -> Worker:
        return world.start(host, *within)

    members = [start(0), start(1)]
    world.go_on(members)
    rules = [world.hosts.drop(2, source) for source in (0, 1)]
    newcomer = start(2)
    world.waits(newcomer, members, 1.5 * STALE_S)
    one_job(world, "members elsewhere")
    world.hosts.undo(rules)
    world.go_on([*members, newcomer])
    saved = world.root / "saved"
    world.until("checkpoints", lambda: saved.exists() and len(complete(saved)) > 1)
    for worker in [*members, newcomer]:
        worker.process.kill()
        worker.rest()
    newest = complete(saved)[-1][0]
    world.forget_after(newest)
    new = [start(0), start(1)]
    world.go_on(new)
    first = min(w.steps[0] for w in new)
    if first != newest + 1:
        world.fail(f"they go on with step {first} after checkpoint {newest}")


def signals(world: World) -> None:
    world.more = {"WORKER_BLOCKS": "1", "SPOTNIK_TRACE": str(world.root)}
    beside = {"SPOTNIK_BIND": f"{world.hosts.address(0)}:{PORT + 1}"}
    members = [world.start(0), world.start(0, **beside), world.start(1)]
    world.go_on(members)
    for _ in range(3):
        for worker in members:
            worker.process.send_signal(signal.SIGUSR1)
        world.go_on(members)
    members[1].process.kill()
    world.go_on([members[0], members[2]])


COMMON = (names, forced, signals, wandering)
