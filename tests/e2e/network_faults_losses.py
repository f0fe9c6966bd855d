# SPDX-License-Identifier: Apache-2.0
"""All machines are lost, or all but one; members leave. Part of network_faults.py. Claims:

  torn        all machines are lost, and the newest checkpoint is torn: new machines go on from the
              one before
  shrinking   four hosts lose two at once, then one more: the witness names those that are left
  reboot      all machines lose power and come back at their addresses, one of them late: they go
              on from the checkpoint within T and 10 s; until then their status says what is waited for
  halved      of two machines with a folder one loses power, either of them: the other goes on at once, by the witness
  unnamed     the same without the witness: the survivor goes on after T, from its own state
  orphan      all others go on without one that is cut off, write a checkpoint, and lose power: it goes on after T, not
              from its memory but from the checkpoint, which is newer
  noticed     every machine gets a notice, one by one or all at once: the state after the last step that any of them
              committed is on disk, although no checkpoint was due, and the next life goes on at the very next step
  too_few     some leave: while enough stay nothing is written; where fewer stay than the job needs, the leaver saves
              its own last step
  leaving     two members do not reach each other, and one leaves on a notice: the other goes on
  leaving3    two of three leave while the third is cut off: it goes on
  alone       a member was excluded, and waits before it comes back; all others lose power meanwhile:
              it founds nothing, and ends with SPOTNIK_ERR_PEERS
  stranded    a member that is parked, with a step begun, goes when it is told to
  going       a member is told to go, and all others lose power: it does not found the job again
  parting     two members are cut off; one founds the job again, and its program ends at once: the
              other goes on from its state"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

from jobs_on_hosts import STALE_MS, Worker, World


def complete(saved: Path) -> list[tuple[int, Path]]:
    found = [(int(path.parent.name.split("-")[1]), path.parent) for path in saved.glob("step-*-*/manifest.json")]
    return sorted(found)


def newest(saved: Path) -> int:
    return complete(saved)[-1][0] if saved.exists() and complete(saved) else 0


def torn(world: World) -> None:
    saved = world.root / "checkpoints"
    world.more = {"SPOTNIK_CHECKPOINT": str(saved), "SPOTNIK_CHECKPOINT_STEPS": "50"}
    members = [world.start(0), world.start(1)]
    world.until("two checkpoints", lambda: saved.exists() and len(complete(saved)) > 1)
    for host in (0, 1):
        world.hosts.power_off(host)
    for worker in members:
        worker.rest()
    *_, (before, _), (last, path) = complete(saved)
    part = sorted(path.glob("part-*"))[0]
    os.truncate(part, part.stat().st_size - 1)
    world.forget_after(before)
    new = [world.start(2), world.start(3)]
    took = world.until("new machines to go on", lambda: any(w.step for w in new))
    world.go_on(new)
    first = min(w.steps[0] for w in new)
    if first != before + 1:
        world.fail(f"they go on with step {first}; the torn checkpoint is of {last}, the one before of {before}")
    print(f"    new machines go on after {took:.1f} s (T = {STALE_MS / 1000:.0f} s), at step {first}")
    for host in (0, 1):
        world.hosts.power_on(host)


def shrinking(world: World) -> None:
    members = [world.start(host) for host in range(4)]
    world.go_on(members)
    for lost in ((0, 1), (2,)):
        for host in lost:
            world.hosts.cable(host, "down")
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
    world.until("a checkpoint", lambda: newest(saved) > 0)
    for host in (0, 1):
        world.hosts.power_off(host)
    for worker in members:
        worker.rest()
    kept = newest(saved)
    world.forget_after(kept)
    for host in (0, 1):
        world.hosts.power_on(host)
    first, begun = world.start(0), time.monotonic()
    world.until_told(0, f"waiting until it stays the same for {STALE_MS // 1000} s")
    world.until("the first machine to go on", lambda: first.step > 0)
    took = time.monotonic() - begun
    if first.steps[0] != kept + 1:
        world.fail(f"it goes on with step {first.steps[0]} after checkpoint {kept}")
    if took > STALE_MS / 1000 + max(
        10, 10 * founded
    ):  # a machine on which a founding without T takes long is given more
        world.fail(f"it took {took:.1f} s; a founding without T took {founded:.1f} s")
    print(f"    the first machine goes on after {took:.1f} s (T = {STALE_MS / 1000:.0f} s)")
    world.go_on([first, world.start(1)])


def lose_one(world: World, name: str, smaller: bool, has_witness: bool) -> None:
    """One of two machines, that of the smaller or of the larger id. The other goes on, and takes a newcomer in."""
    job = World(world.hosts, world.root, name)
    members = [job.start(0), job.start(1)]
    job.go_on(members)
    lost, left = sorted(members, key=lambda worker: worker.member, reverse=not smaller)
    if not list(job.peers.glob("witness-*")):
        job.fail("there is no witness in the folder")
    for path in [] if has_witness else job.peers.glob("witness-*"):
        path.unlink()
    begun = time.monotonic()
    job.hosts.power_off(lost.host)
    step = left.step
    if has_witness:
        job.go_on([left], 40)
        print(f"    {name} id loses power: the other goes on after {time.monotonic() - begun:.1f} s")
        if len(job.foundings()) != 1:
            job.fail(f"the survivor had to found the job again: {job.foundings()}")
    job.go_on([left, job.start(2)], 40)
    if step + 1 not in left.steps:
        job.fail(f"the survivor did not go on from its own state, after step {step}")
    print(f"    {name}: it goes on with a newcomer after {time.monotonic() - begun:.1f} s")
    job.end()
    world.hosts.power_on(lost.host)


def halved(world: World) -> None:
    lose_one(world, "larger", False, True)
    lose_one(world, "smaller", True, True)


def unnamed(world: World) -> None:
    lose_one(world, "unnamed", True, False)


def orphan(world: World) -> None:
    saved = world.root / "checkpoints"
    world.more = {"SPOTNIK_CHECKPOINT": str(saved), "SPOTNIK_CHECKPOINT_STEPS": "50"}
    *others, left = [world.start(host) for host in range(3)]
    world.go_on([*others, left])
    world.hosts.cable(2, "down")
    step = others[0].step
    world.until("a checkpoint without it", lambda: newest(saved) > step + 50)
    for host in (0, 1):
        world.hosts.power_off(host)
    for worker in others:
        worker.rest()
    had, kept = left.step, newest(saved)
    world.forget_after(kept)
    took = world.until("the one that is left to go on", lambda: left.size == 1 and left.step >= kept + 20)
    if had > kept or kept + 1 not in left.steps:
        world.fail(f"it was cut off at step {had}, and did not go on right after the checkpoint of {kept}")
    print(f"    cut off at step {had}, goes on after the checkpoint of step {kept}, {took:.1f} s after the loss")
    world.hosts.cable(2, "up")
    for host in (0, 1):
        world.hosts.power_on(host)


def saves_at_notice(world: World, least: int) -> Path:
    saved = world.root / "checkpoints"
    world.more = {"SPOTNIK_CHECKPOINT": str(saved), "SPOTNIK_CHECKPOINT_S": "3600", "SPOTNIK_MIN": str(least)}
    world.command = ["-S", str(36 << 20), "-D", *world.command]
    return saved


def all_leave(world: World, members: list[Worker], saved: Path, pause_s: Callable[[], float]) -> int:
    """Returns after which step."""
    for worker in members:
        worker.send(signal.SIGTERM)
        time.sleep(pause_s())  # the claim is about instants
    ends = [worker.rest() for worker in members]
    last = max(worker.step for worker in members)
    if ends != [75] * len(members) or newest(saved) != last:
        world.fail(f"they ended with {ends}; step {last} was the last one, the checkpoint is after {newest(saved)}")
    return last


def noticed(world: World) -> None:
    saved, draw, last = saves_at_notice(world, 1), random.Random(1), 0
    for life in range(6):
        members = [world.start(host) for host in range(4)]
        world.go_on(members)
        if not any(last + 1 in worker.steps for worker in members):
            world.fail(f"step {last + 1} was not made after the checkpoint")
        last = all_leave(world, members, saved, lambda life=life: life % 2 * draw.random() / 50)
    print(f"    all left six times, after step {last} at last: it was saved each time")


def too_few(world: World) -> None:
    saved = saves_at_notice(world, 3)
    members = [world.start(host) for host in range(4)]
    world.go_on(members)
    if members[0].end() != 75 or newest(saved):
        world.fail("one left, enough stayed, and a checkpoint was written all the same")
    if members[1].end() != 75 or newest(saved) != members[1].step:
        world.fail(f"the leaver's last step was {members[1].step}, the checkpoint is after {newest(saved)}")
    for worker in members[2:]:
        worker.kill()
    world.forget_after(newest(saved))  # what those that stayed had begun may be made again, by others
    members = [world.start(host) for host in range(4)]
    world.go_on(members)
    all_leave(world, members, saved, lambda: 0)


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


def going(world: World) -> None:
    """It would go as soon as it has founded, and the job with it. Its notice gives it a minute (minority_wait)."""
    members = [world.start(host) for host in range(3)]
    world.go_on(members)
    for host in (1, 2):
        world.hosts.power_off(host)
    members[0].process.send_signal(signal.SIGTERM)
    time.sleep(2.5 * STALE_MS / 1000)  # the claim is about this time: T and three looks, after which a member founds
    if world.foundings() != ["genesis-1"]:
        world.fail("one that was told to go has founded")
    print(f"    {members[0].last}")


def parting(world: World) -> None:
    """Their programs end by themselves once they are alone, and nobody told the library before."""
    world.more = {"WORKER_QUITS_ALONE": "1"}
    members = [world.start(host) for host in range(5)]
    world.go_on(members)
    for host in (2, 3, 4):
        world.hosts.power_off(host)
    for worker in members[2:]:
        worker.rest()
    begun = time.monotonic()
    world.until("the two that are left to end", lambda: all(w.process.poll() is not None for w in members[:2]))
    for worker in members[:2]:
        worker.rest()
        print(f"    steps {worker.steps[-3:]}, status {worker.process.returncode}: {worker.last}")
    if any(w.process.returncode != 0 for w in members[:2]):
        world.fail("one of them found no member")
    first, second = sorted(members[:2], key=lambda w: w.step)
    print(f"    both have ended after {time.monotonic() - begun:.1f} s; {world.foundings()}")
    if "genesis-2" not in world.foundings() or "genesis-3" in world.foundings():
        world.fail("the job was not founded again, or more than once")
    if first.step + 1 not in second.steps or second.steps != sorted(second.steps):
        world.fail("the second did not go on from the first's state")


LOST = (torn, shrinking, reboot, halved, unnamed, orphan)
LOSSES = (*LOST, noticed, too_few, leaving, leaving3, alone, stranded, going, parting)
