# SPDX-License-Identifier: Apache-2.0
"""Two jobs of one name, and members that are cut off. Part of neighbours.py. Claims:

  two_jobs    a member of one job and a newcomer reach another job of the same name: the member tells of it, both
              jobs go on, and `spotnik run --respawn` of the newcomer ends with 76 and names both
  excluded    a member that is excluded for silence again and again joins again at once, then after 1 s, then
              after 2 s"""

from __future__ import annotations

import re
import shutil
import signal

from jobs_on_hosts import PORT, SPOTNIK, World
from neighbours_paths import status


def at(world: World, *hosts: int) -> str:
    return ",".join(f"{world.hosts.address(host)}:{PORT}" for host in hosts)


def two_jobs(world: World) -> None:
    one, other = (World(world.hosts, world.root, name) for name in ("one", "other"))
    try:
        meet(one, other)
    finally:
        one.end()
        other.end()


def meet(one: World, other: World) -> None:
    shutil.copy(one.root / "key", other.root / "key")
    one.spec, other.spec, between = at(one, 0, 1), at(one, 2), at(one, 0, 1, 2)
    members = [one.start(0), one.start(1)]
    one.go_on(members)
    members.append(one.start(3, SPOTNIK_PEERS=between))
    one.go_on(members)
    apart = [one.hosts.drop(2, 3), one.hosts.drop(3, 2)]  # or it would join: the member asks those of its list
    stray = other.start(2)
    other.go_on([stray])
    one.hosts.undo(apart)
    one.spec = at(one, 3)
    told = one.until("a member to tell of the other job", lambda: "another job" in status(one, 3))
    line = next(line for line in status(one, 3).splitlines() if "another job" in line)
    run = [SPOTNIK, "run", "-n", "1", "--respawn", "--bind", at(one, 4), "--"]
    newcomer = one.start(4, *run, SPOTNIK_PEERS=between)
    newcomer.rest()
    ids = {word for word in line.split() if re.fullmatch("[0-9a-f]{16}", word)}
    if newcomer.process.returncode != 76 or len(newcomer.errors) != 1 or len(ids) != 2:
        one.fail(f"it ended with {newcomer.process.returncode} and {newcomer.errors}; a member said: {line}")
    if not all(name in newcomer.errors[0] for name in (*ids, "-303", "3 members", "1 member", "founded")):
        one.fail(f"it does not name both jobs: {newcomer.errors[0]}")
    one.go_on(members)
    other.go_on([stray])
    print(f"    told after {told:.1f} s: {line.strip()}")


def excluded(world: World) -> None:
    members = [world.start(host) for host in range(3)]
    rest, flapper = members[:2], members[2]
    took = []
    for _ in range(3):
        world.go_on(members)
        flapper.process.send_signal(signal.SIGSTOP)
        world.go_on(rest)
        step = max(w.step for w in rest)
        flapper.process.send_signal(signal.SIGCONT)
        took.append(world.until("its return", lambda step=step: flapper.step > step))  # type: ignore[misc]
    if took[1] < 1 or took[2] < 2:
        world.fail(f"it was back after {took} s")
    print("    back after " + ", ".join(f"{s:.2f} s" for s in took))


CUT_OFF = (two_jobs, excluded)
