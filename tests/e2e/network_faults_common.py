# SPDX-License-Identifier: Apache-2.0
"""What programs, folders and resolvers commonly do. Part of network_faults.py. Claims:

  names       a list of names, where each host calls itself 127.0.1.1, and all have an IPv6 address, too, where
              nobody listens: they found one job
  signals     programs block a signal once they have joined, and get it: none ends, and the others' losses are noticed
  wandering   programs name their folders by relative paths and change their directory: a newcomer that does not
              reach them founds nothing, and comes in when it does; when all are lost new ones go on from the
              checkpoint"""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

from jobs_on_hosts import PORT, STALE_MS, Worker, World, ip
from network_faults_hostile import one_job
from network_faults_losses import complete

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


COMMON = (names, signals, wandering)
