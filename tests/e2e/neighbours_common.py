# SPDX-License-Identifier: Apache-2.0
"""What programs, folders and resolvers commonly do. Part of neighbours.py. Claims:

  tight       packets above 576 bytes vanish between two hosts: they find segments that pass
  wandering   programs name their folders by relative paths and change their directory: a newcomer that does not
              reach them founds nothing, and comes in when it does; when all are lost new ones go on from the
              checkpoint"""

from __future__ import annotations

from jobs_on_hosts import STALE_MS, Worker, World
from neighbours_hostile import between, one_job
from neighbours_losses import complete
from neighbours_paths import as_on_a_cable

STALE_S = STALE_MS / 1000


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


def tight(world: World) -> None:
    if not as_on_a_cable(world):
        return
    world.command = [*world.command, "-c", "20000"]
    members = [world.start(0), world.start(1)]
    world.go_on(members)
    rules = between(world, "-m", "length", "--length", "577:", "-j", "DROP")
    took = world.go_on(members, 50)
    print(f"    50 steps on after {took:.1f} s, {world.exclusions()} excluded")
    world.hosts.undo(rules)


COMMON = (tight, wandering)
