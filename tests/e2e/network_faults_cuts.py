# SPDX-License-Identifier: Apache-2.0
"""Hosts that are cut off, wholly, one way or together. Part of network_faults.py. Claims:

  cut         a host vanishes from the network without FIN or RST: the others commit again within 500 ms of their last
              commit before, and of the cut; it comes back when the cable is mended
  mute_host   the others do not hear a host that hears them: the same
  deaf_host   a host does not hear the others, and they hear it: the same
  three       2|3, the smallest id among the two: the three go on, the two say that they are parked, and commit nothing;
              when it heals they learn that they were excluded, and are members again (P1, P3)
  tie         2|2: the half that takes the witness in the peers folder goes on, whichever it is; the other is parked
  reset       two of four die with input unread, which makes RSTs: FIN proves it all the same, the other two go on
  orphans     2|3, the three go on, commit and die all at once; when it heals the two still commit nothing: what the
              three did is lost with them, not done again (P1)
  resettled   2|3, and the three are replaced one by one until no member that the two knew is left; when it
              heals the two find the job all the same, by the peers folder, and join it
  storm       cuts, kills and heals at random instants: the members that are left go on, or know that they may not

A machine whose undisturbed steps take longer than 25 ms is given more time than 500 ms."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable
from typing import Any

from jobs_on_hosts import PORT, Worker, World

LIMIT_MS, TRIES, MS = 500, 3, 10**6
COMMAND = ["-c", "5000", "-n", "10000", "-b", "64", "-u", "2000"]


def assemble(world: World, count: int) -> list[Worker]:
    world.command = COMMAND
    members = [world.start(host) for host in range(count)]
    settle(world, members)
    return members


def settle(world: World, members: list[Worker]) -> float:
    """Until all have stepped together for a while: a fresh view measures its jitter anew. Returns the longest pause of
    the steps after that, in ms."""
    world.go_on(members, 100)
    begun = time.monotonic_ns()
    world.go_on(members, 100)
    return max(pause for worker in members for ns, pause, _ in worker.commits if ns > begun) / MS


def smallest(members: list[Worker]) -> Worker:
    return min(members, key=lambda worker: worker.member)


# ---- one host


def resumed_ms(members: list[Worker], cut_ns: int) -> tuple[float, float]:
    """From the cut, and from the last commit before, to the first commit of the new view on the last of these."""
    firsts = [next(one for one in w.commits if one[0] > cut_ns and one[2] == len(members)) for w in members]
    return (max(ns for ns, _, _ in firsts) - cut_ns) / MS, max(pause for _, pause, _ in firsts) / MS


def cut_off(
    world: World, members: list[Worker], victim: Worker, cut: Callable[[int], Any], mend: Callable[[int], Any]
) -> None:
    """A machine that is held up in that very moment costs a try; a fault of ours would cost all."""
    others = [worker for worker in members if worker is not victim]
    for _ in range(TRIES):
        calm_ms, cut_ns = settle(world, members), time.monotonic_ns()
        cut(victim.host)
        world.go_on(others, 300)
        took_ms, pause_ms = resumed_ms(others, cut_ns)
        mend(victim.host)
        back_s = world.go_on(members, 100)
        print(f"    the others commit after {took_ms:.0f} ms, {pause_ms:.0f} ms after the commit before; back {back_s:.1f} s")
        allowed_ms = max(LIMIT_MS, LIMIT_MS / 2 + 10 * calm_ms)
        if took_ms <= allowed_ms and pause_ms <= allowed_ms:
            return
    world.fail(f"that is more than {allowed_ms:.0f} ms, {TRIES} times")


def cut(world: World) -> None:
    members = assemble(world, 5)
    first = smallest(members)
    for victim in (members[(first.host + 1) % 5], first):
        cut_off(
            world,
            members,
            victim,
            lambda host: world.hosts.cable(host, "down"),
            lambda host: world.hosts.cable(host, "up"),
        )


def one_way(world: World, chain: str) -> None:
    members = assemble(world, 5)
    rules: list[Any] = []
    cut_off(
        world,
        members,
        members[1],
        lambda host: rules.append(world.hosts.rule(host, chain, "-p", "tcp", "-j", "DROP")),
        lambda _: world.hosts.undo(rules),
    )


def mute_host(world: World) -> None:
    one_way(world, "OUTPUT")


def deaf_host(world: World) -> None:
    one_way(world, "INPUT")


# ---- two hosts together


def told(world: World, worker: Worker) -> dict[str, Any]:
    """What it says of itself; {} where it does not answer."""
    said = world.status(worker.host, "--json", peers=f"{world.hosts.address(worker.host)}:{PORT}")
    return json.loads(said) if said else {}  # type: ignore[no-any-return]


def is_out(world: World, worker: Worker) -> bool:
    """Parked, or excluded and on the way in again: two cables are pulled one after the other, and a slow machine may
    make a view in between, which the second to be cut off tells the first."""
    said = told(world, worker)
    return bool(said.get("parked") or said.get("joining"))


def until_parked(world: World, workers: list[Worker]) -> dict[Worker, int]:
    """Returns after which step each says that it is parked."""
    world.until("the other side to say that it is parked", lambda: all(is_out(world, worker) for worker in workers))
    return {worker: told(world, worker)["step_committed"] for worker in workers}


def made_none(world: World, parked: dict[Worker, int]) -> None:
    for worker, step in parked.items():
        if worker.step > step:
            world.fail(f"{worker.name} was parked after step {step}, and committed step {worker.step}")


def two_off(world: World, count: int) -> tuple[list[Worker], list[Worker]]:
    """The hosts of the smallest id and of its neighbour, on a switch of their own. Returns all members, and the two."""
    members = assemble(world, count)
    first = smallest(members)
    two = [first, members[(first.host + 1) % count]]
    for worker in two:
        world.hosts.move(worker.host, True)
    return members, two


def heal(world: World, workers: list[Worker]) -> None:
    for worker in workers:
        world.hosts.move(worker.host, False)


def rest_of(members: list[Worker], some: list[Worker]) -> list[Worker]:
    return [worker for worker in members if worker not in some]


def sides(world: World, members: list[Worker], going: list[Worker]) -> None:
    parked = until_parked(world, rest_of(members, going))
    world.go_on(going, 300)
    made_none(world, parked)
    heal(world, members)
    took = world.go_on(members, 100)
    if any(worker.exclusions == 0 for worker in parked):
        world.fail("the parked never learnt that they were excluded")
    print(f"    {len(going)} went on, {len(parked)} were parked and made none; together {took:.1f} s after it healed")


def three(world: World) -> None:
    members, two = two_off(world, 5)
    going = rest_of(members, two)
    world.go_on(going, 1)
    sides(world, members, going)


def tie(world: World) -> None:
    members, two = two_off(world, 4)
    halves, step = (two, rest_of(members, two)), max(worker.step for worker in members)

    def going() -> list[list[Worker]]:
        return [half for half in halves if all(w.size == 2 and w.step > step for w in half)]

    world.until("one half to go on", lambda: bool(going()))
    sides(world, members, going()[0])


def reset(world: World) -> None:
    members = assemble(world, 4)
    first = smallest(members)
    two = [first, members[(first.host + 1) % 4]]
    for worker in two:
        worker.send(signal.SIGSTOP)
    time.sleep(0.12)  # the claim is about this time: heartbeats come, and nobody reads them
    for worker in two:
        worker.send(signal.SIGKILL)
    took = world.go_on(rest_of(members, two), 1)
    print(f"    half of the members died with input unread; the others commit again {1000 * took:.0f} ms later")


def orphans(world: World) -> None:
    members, two = two_off(world, 5)
    rest = rest_of(members, two)
    world.go_on(rest, 1)
    parked = until_parked(world, two)
    for worker in rest:
        worker.send(signal.SIGKILL)
    for worker in rest:
        worker.rest()
    heal(world, two)
    time.sleep(2)  # the claim is about this time, which is enough for many ballots
    made_none(world, parked)
    if any(step > parked[worker] for worker, step in until_parked(world, two).items()):
        world.fail("the two committed although the three had gone on without them")


def resettled(world: World) -> None:
    members, two = two_off(world, 5)
    rest = rest_of(members, two)
    world.go_on(rest, 1)
    until_parked(world, two)
    for old in list(rest):
        old.kill()
        rest.remove(old)
        world.go_on(rest, 1)
        rest.append(world.start(old.host))
        world.go_on(rest, 1)
    heal(world, two)
    took = world.go_on([*two, *rest], 100)
    if any(worker.exclusions == 0 for worker in two):
        world.fail("the two never learnt that the job had gone on without them")
    print(f"    all that the two knew were replaced; all together {took:.1f} s after it healed")


# ---- all of it at random


def wait_a_while(draw: random.Random) -> None:
    """Short ones hit ballots and last words under way, long ones make silence count."""
    time.sleep(draw.random() * draw.choice((5, 60, 300, 600)) / 1000)


def strike(world: World, members: list[Worker], draw: random.Random) -> None:
    """Some hosts are cut off, some members die on either side, the cable is mended."""
    side = draw.sample(members, draw.randrange(1, 5))
    for worker in side:
        world.hosts.move(worker.host, True)
    for _ in range(2):
        wait_a_while(draw)
        alive = [worker for worker in members if worker.process.poll() is None]
        if len(alive) < 2 or draw.random() < 3 / 8:
            continue
        victim = draw.choice(alive)
        if draw.random() < 1 / 3:
            victim.send(signal.SIGSTOP)  # it dies with unread input
            wait_a_while(draw)
        victim.kill()
    wait_a_while(draw)
    heal(world, side)
    wait_a_while(draw)


def storm(world: World) -> None:
    for seed in (1, 2):
        job = World(world.hosts, world.root, f"storm-{seed}")
        members, draw = assemble(job, 5), random.Random(seed)
        for _ in range(2):
            strike(job, members, draw)
        left = [worker for worker in members if worker.process.poll() is None]
        step = max(worker.step for worker in members) + 50

        def is_decided(job: World = job, left: list[Worker] = left, step: int = step) -> bool:
            """One death leaves a quorum of everybody else, whatever was cut meanwhile: then the rest goes on."""
            return any(w.step > step for w in left) or (len(left) < 4 and all(is_out(job, w) for w in left))

        job.until("the rest to go on, or to be out", is_decided)
        goes_on = any(worker.step > step for worker in left)
        print(f"    storm {seed}: {5 - len(left)} died; the rest {'goes on' if goes_on else 'is parked or out'}")
        job.end()


CUTS = (cut, mute_host, deaf_host, three, tie, reset, orphans, resettled, storm)
