# SPDX-License-Identifier: Apache-2.0
"""Two jobs of one name, and members that are cut off. Part of network_faults.py. Claims:

  two_jobs    a member of one job and a newcomer reach another job of the same name: the member tells of it, both
              jobs go on, and `spotnik run --respawn` of the newcomer ends with 76 and names both
  excluded    a member that is excluded for silence again and again joins again at once, then after 1 s, then
              after 2 s
  stops       two of five, on one host, are cut off and are to stop: they end with 75 and leave their state beside the
              checkpoints. Started again one joins the majority; with that state as SPOTNIK_FROM it is refused while
              the job lives, and where the job has a later checkpoint; after the loss of all an ordinary start goes on
              from the majority's. A fresh job goes on from that very state, on two hosts, and one killed there comes
              back"""

from __future__ import annotations

import json
import re
import shutil
import signal
from pathlib import Path

from jobs_on_hosts import PORT, SPOTNIK, Worker, World
from network_faults_losses import newest


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
    told = one.until("a member to tell of the other job", lambda: "another job" in one.status(3))
    line = next(line for line in one.status(3).splitlines() if "another job" in line)
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


def cut_off(world: World, saved: Path) -> tuple[list[Worker], Path]:
    """Three that go on, and where one of the two others has left its state."""
    run, beside = [SPOTNIK, "run", "--bind", f"{world.hosts.address(3)}:{PORT + 1}", "--"], at(world, 3)
    rest, two = [world.start(host) for host in range(3)], [world.start(3, *run), world.start(3, SPOTNIK_BIND=beside)]
    world.go_on([*rest, *two])
    world.until("a checkpoint", lambda: newest(saved) > 0)
    world.hosts.cable(3, "down")
    took = world.until("those that are cut off to end", lambda: all(w.process.poll() is not None for w in two))
    world.hosts.cable(3, "up")
    for worker in two:
        worker.rest()
        left = saved / f"minority-step-{worker.step:012}-{worker.digest}"
        manifest = json.loads((left / "manifest.json").read_text())["manifest"]
        if worker.process.returncode != 75 or not manifest["minority"] or str(left) not in worker.errors[0]:
            world.fail(f"{worker.name} ended with {worker.process.returncode}: {worker.errors}")
    left = saved / f"minority-step-{two[0].step:012}-{two[0].digest}"
    if not any("--from" in line and str(left) in line for line in two[0].told):
        world.fail(f"its agent does not say where its state is: {two[0].told}")
    print(f"    two stopped {took:.1f} s after the cut, and left {[path.name for path in saved.glob('minority-*')]}")
    return rest, left


def refused(world: World, worker: Worker, number: int, *words: str) -> None:
    worker.rest()
    if worker.process.returncode in (0, 75) or not all(word in str(worker.errors) for word in (str(number), *words)):
        world.fail(f"{worker.name} ended with {worker.process.returncode}: {worker.errors}")


def kill(workers: list[Worker]) -> None:
    for worker in workers:
        worker.process.kill()
        worker.rest()


def stops(world: World) -> None:
    saved = world.root / "saved"
    world.more = {
        "SPOTNIK_CHECKPOINT": str(saved),
        "SPOTNIK_CHECKPOINT_STEPS": "50",
        "SPOTNIK_ON_MINORITY": "stop",
        "WORKER_PATIENCE_MS": "1500",
    }
    rest, left = cut_off(world, saved)
    step = int(left.name.split("-")[2])
    members = [*rest, world.start(3)]
    world.go_on(members)
    refused(world, world.start(4, SPOTNIK_FROM=str(left)), -303, left.name, "4 members")
    world.until("a later checkpoint", lambda: newest(saved) > step)
    kill(members)
    refused(world, world.start(4, SPOTNIK_FROM=str(left)), -105, left.name, f"step-{newest(saved):012}")
    after = newest(saved)
    world.forget_after(after)
    again = [world.start(0), world.start(1)]
    world.go_on(again)
    kill(again)
    if min(w.steps[0] for w in again) != after + 1:
        world.fail(f"they go on with step {again[0].steps[0]} after checkpoint {after}")
    with_another_key(world, left)
    afresh(world, left, step)


def with_another_key(world: World, left: Path) -> None:
    other = World(world.hosts, world.root, "other")
    try:
        refused(other, other.start(0, SPOTNIK_FROM=str(left)), -105, left.name, "is signed by key")
    finally:
        other.end()


def afresh(world: World, left: Path, step: int) -> None:
    fresh = World(world.hosts, world.root, "fresh")
    run = [SPOTNIK, "run", "--respawn", "--from", str(left), "--bind", f"{world.hosts.address(0)}:{PORT}", "--"]
    shutil.copy(world.root / "key", fresh.root / "key")
    try:
        first = fresh.start(0, *run)
        second = fresh.start(1, SPOTNIK_FROM=str(left))
        fresh.go_on([first, second])
        if min(first.steps[0], second.steps[0]) != step + 1 or not left.exists():
            fresh.fail(f"they go on with steps {first.steps[0]} and {second.steps[0]} after {step}")
        kill([second])
        fresh.go_on([first])
        fresh.go_on([first, fresh.start(1, SPOTNIK_FROM=str(left))])
        print(f"    a fresh job goes on with step {step + 1}")
    finally:
        fresh.end()


CUT_OFF = (two_jobs, excluded, stops)
