# SPDX-License-Identifier: Apache-2.0
"""What members do in these tests. Usage: programs.py NAME JSON."""

from __future__ import annotations

import array
import contextlib
import json
import multiprocessing
import os
import signal
import sys
import time
from typing import Any

import numpy as np
from loops import alike, hosted, iterations, second, shorter, wholes
from telling import tell

import spotnik

__all__ = ["alike", "hosted", "iterations", "second", "shorter", "wholes"]  # named by the tests, as all functions here

PACE_S = 0.003  # of steps that do nothing: a joiner repeats them, and must be faster than they come


def train(
    samples: int = 120,
    epochs: int = 4,
    batch: int = 8,
    pause_s: float = 0.02,
    aside_every: int = 3,
    wire: str = "auto",
) -> None:
    """Count how often each sample was used, in the replica itself: under any churn it must come out as `epochs`."""
    job = spotnik.init(samples=samples, batch=batch, members_max=16)
    w, seen = np.ones(1000, dtype=np.float32), np.zeros(samples, dtype=np.int32)
    spotnik.register("w", w)
    spotnik.register("seen", seen)
    for step in job:
        if step.number % aside_every == 0:  # as spotnik.allreduce() does, in a loop that joiners can repeat
            job.samples_decline()
            aside = np.full(10, 1 + step.rank, dtype=np.float64)
            spotnik.start(aside, op="max", bucket=255)
            if job.step_commit():
                w += np.float32(aside[0])
            continue
        indices = [index for part in step.ranges for index in part]
        used = np.zeros(samples, dtype=np.int32)
        used[indices] = 1
        gradient = sum((np.sin(w * (index + 1)) for index in indices), np.zeros_like(w)) / max(len(indices), 1)
        time.sleep(pause_s)
        spotnik.start(gradient, wire=wire)
        spotnik.start(used, op="sum")
        if job.step_commit():
            w -= 0.01 * gradient
            seen += used
            if seen.sum() == samples * epochs:
                break
    tell({"digest": job.digest, "fewest": int(seen.min()), "most": int(seen.max()), "step": job.step})
    spotnik.leave()


class Nearer:
    """A rule of a program's own: every third step the models go half of the way to their average."""

    name, synchronous, same_bits, early = "nearer", True, False, True

    def begin(self, sync: Any, now: Any) -> None:
        if now.step % 3 == 0:
            now.scratch[:] = now.model
            sync.average(now.scratch)

    def finish(self, sync: Any, now: Any) -> None:
        if now.step % 3 == 0:
            now.centre[:] = now.scratch
            now.model += 0.5 * (now.centre - now.model)
        sync.apply(now.model, now.gradient)


def under(strategy: str, steps: int = 600, pause_s: float = PACE_S, killed: bool = False) -> None:
    """Find the middle of the samples, under a strategy; tells the digest of what is agreed after every step.

    With `killed`: it is, in the middle of a step, the last but one of an epoch of data, with a share of its samples.
    """
    job = spotnik.init(samples=64, batch=16, members_min=2, members_max=16, steps_max=steps)
    w = np.full(500, 5.0, dtype=np.float32)
    target = np.random.default_rng(1).standard_normal((64, 500)).astype(np.float32)

    def apply(model: Any, gradient: Any) -> None:
        model -= np.float32(0.1) * gradient

    rule = Nearer() if strategy == "nearer" else None
    sync = spotnik.Sync(job, w, apply, strategy=None if rule else strategy, rule=rule)
    for step in job:
        indices = [index for part in step.ranges for index in part]
        # One of three is lost: until another is in, slow enough for it to find the job however long it takes to start.
        time.sleep(20 * pause_s if step.size < 3 and job.status().losses else pause_s)
        if killed and step.number > 30 and step.number % 4 == 3 and indices:
            os.kill(os.getpid(), signal.SIGKILL)
        gradient = np.zeros_like(w) + (w - target[indices].mean(axis=0) if indices else 0)
        sync.tell(0, len(indices))
        if sync.step(gradient):
            tell([step.number, sync.digest, sync.told(0)])
    error = float(np.abs(sync.agreed - target.mean(axis=0)).max())
    tell({"name": sync.name, "digest": sync.digest, "error": error, "same": sync.same_bits})
    spotnik.leave()


def refused() -> None:
    """What is refused before it reaches the library, and that the job goes on after each refusal; the last sum."""
    job = spotnik.init(samples=4, batch=4)
    w = np.zeros(3, dtype=np.float32)
    said = []
    attempts: list[Any] = [
        lambda: spotnik.allreduce(np.zeros(3, dtype=np.complex128)),
        lambda: spotnik.allreduce(np.zeros(3, dtype=">f4")),
        lambda: spotnik.allreduce([[1, 2], "x"]),
        lambda: spotnik.register("w\0b", w),
        lambda: job.blob_set("b\0", b"x"),
        lambda: job.blob_get("b\0"),
        lambda: spotnik.publish("p\0", w, 1),
        lambda: spotnik.Sync(job, w, lambda model, gradient: None, strategy="ssgd\0x"),
    ]
    for attempt in attempts:
        try:
            attempt()
            said.append("accepted")
        except (spotnik.ArgumentError, ValueError) as error:
            said.append(str(error))
        said.append("running" if job.running is not None else "")
    tell({"said": said, "sum": float(spotnik.allreduce(np.full(2, 4.0), op="sum")[0])})
    spotnik.leave()


def misuse() -> None:
    """What goes wrong with strategies, as the text of the error."""
    job = spotnik.init(samples=4, batch=4, steps_max=2)
    w = np.zeros(3, dtype=np.float32)
    said = []
    for wrong in (np.zeros(3), np.zeros((3, 2), dtype=np.float32)[:, 0]):
        try:
            spotnik.Sync(job, wrong, lambda model, gradient: None)
        except spotnik.ArgumentError as error:
            said.append(str(error))
    try:
        spotnik.Sync(job, w, lambda model, gradient: None, strategy="gossip")
    except spotnik.ArgumentError as error:
        said.append(str(error))
    spotnik.leave()
    job = spotnik.init(samples=4, batch=4, steps_max=2)
    sync = spotnik.Sync(job, w, lambda model, gradient: 1 / 0, strategy="sma")
    job.step_begin()
    try:
        sync.step(np.ones(3, dtype=np.float32))
    except ZeroDivisionError as error:
        said.append(str(error))
    tell(said)
    job.abandon()


def policy() -> None:
    """A job of one under a policy of its own: the strategy of every step, the last report, what a wrong one raises."""
    job = spotnik.init(samples=4, batch=4, steps_max=60)
    w = np.zeros(3, dtype=np.float32)

    def descend(model: Any, gradient: Any) -> None:
        model -= 0.1 * gradient

    def in_turns(numbers: spotnik.Numbers) -> bool:
        numbers.memory[7] += 1
        return int(numbers.memory[7]) % 2 == 1

    sync = spotnik.Sync(job, w, descend, strategy="auto:ssgd/localsgd", policy=in_turns)
    names = []
    for _ in job:
        sync.step(np.ones(3, dtype=np.float32))
        names.append(sync.name)
    report = sync.report
    tell([names, report.switches, report.reason, report.asynchronous])
    spotnik.leave()
    job = spotnik.init(samples=4, batch=4, steps_max=60)
    sync = spotnik.Sync(job, w, descend, strategy="auto:ssgd/localsgd", policy=lambda numbers: numbers.members / 0 > 1)
    try:
        for _ in job:
            sync.step(np.ones(3, dtype=np.float32))
    except ZeroDivisionError as error:
        tell([str(error), job.status().step_committed])
    job.abandon()


def collectives(members: int) -> None:
    """Each collective once; results to the test. `members` of them."""
    job = spotnik.init(members_min=members, members_max=8)
    changes: list[int] = []
    spotnik.on_change(lambda change: changes.append(change.size))
    spotnik.barrier()
    mine = np.arange(3, dtype=np.float32) + job.rank
    inplace = mine.copy()
    same = spotnik.allreduce(inplace, op="sum", out=inplace)
    tell(
        {
            "rank": job.rank,
            "size": job.size,
            "members": sorted(member.member for member in job.members),
            "sum": spotnik.allreduce(mine, op="sum").tolist(),
            "inplace": inplace.tolist() if same is inplace else None,
            "mean": spotnik.allreduce(mine).tolist(),
            "product": spotnik.allreduce(np.int64(job.rank + 1), op="product").tolist(),
            "half": spotnik.allreduce(np.float16(job.rank), op=spotnik.Op.MAX).tolist(),
            "all": bool(spotnik.allreduce(job.rank >= 0, op="min")),
            "none": bool(spotnik.allreduce([job.rank == 99], op="max")[0]),
            "gathered": spotnik.allgather(np.array([job.rank, -1], dtype=np.int16)).tolist(),
            "strings": [text.decode() for text in spotnik.allgather(np.array(f"r{job.rank}", dtype="S4")).tolist()],
            "empty": list(spotnik.allgather(np.zeros((0, 2))).shape),
            "from_one": spotnik.broadcast(np.array([[job.rank + 0.5]]), root=1).tolist(),
            "changes": changes,
        }
    )
    spotnik.leave()


def edges(members: int) -> None:
    """Sums in buckets 0, 254 and 255, alone and beside a broadcast or an all-gather of the library."""
    job = spotnik.init(members_min=members, members_max=members)
    told = []
    for turn in range(4):
        step = job.step_begin()
        job.samples_decline()
        sums = [np.full(3, float(step.share + 1)) for _ in range(3)]
        for number, mine in zip((0, 254, 255), sums):
            spotnik.start(mine, op="sum", bucket=number)
        lent, rows = np.full(1, step.share, dtype=np.uint8), np.zeros((members, 1), dtype=np.uint8)
        if turn % 2:
            job.collective_start("spotnik_broadcast", lent, 7, lent.ctypes.data, 1, spotnik.Dtype.U8, 1)
        if turn == 3:
            row = np.full(1, 10 + step.share, dtype=np.uint8)
            arguments = (253, row.ctypes.data, 1, spotnik.Dtype.U8, rows.ctypes.data, members)
            job.collective_start("spotnik_allgather", (row, rows), *arguments)
        assert job.step_commit()
        told.append([[mine.tolist() for mine in sums], int(lent[0]) if turn % 2 else None, rows.ravel().tolist()])
    tell({"told": told})
    spotnik.leave()


def gather(job: spotnik.Job, members: int) -> None:
    """Step until `members` take part, and this member can prove the death of each other one.

    A place in the view is not enough. A newcomer may still lack the last step. Two newcomers hear each other after they
    have entered, and the end of a member that was never heard proves nothing. Each step has the bucket of the steps
    after it, because another member may have left this loop already.
    """
    while True:
        step = job.step_begin()
        job.samples_decline()
        spotnik.start(np.ones(4), bucket=255)  # as spotnik.allreduce() does
        if job.step_commit() and not step.replay and step.size == members and job.status().linked == members - 1:
            return
        time.sleep(PACE_S)


def follow_speed(steps: int) -> None:
    """Train under the strategy that the environment names; the share and who we are, at the end."""
    job = spotnik.init(samples=1_000_000, batch=360, members_min=3, members_max=8)
    w = np.ones(100, dtype=np.float32)

    def descend(model: Any, gradient: Any) -> None:
        model -= np.float32(0.01) * gradient

    sync = spotnik.Sync(job, w, descend)
    first = share = 0
    sample_s = 0.0003 if os.environ["SPOTNIK_SLOT"] == "0" else 0.00005
    for step in job:
        share = step.sample_count
        first = first or share
        time.sleep(share * sample_s)
        sync.step(w.copy())
        if step.number >= steps:
            break
    tell({"slot": int(os.environ["SPOTNIK_SLOT"]), "first": first, "share": share, "strategy": sync.name})
    spotnik.leave()


def no_such_root() -> None:
    job = spotnik.init(members_min=2)
    try:
        spotnik.broadcast(1.0, root=7)
    except spotnik.ArgumentError as error:
        tell(str(error))
    job.leave()


def steps(fork: bool = False, count: int = 1_000_000) -> None:
    """Step after step, telling the number of each. With `fork`, while a child lives that never execs."""
    job = spotnik.init(steps_max=count)
    gather(job, 3)
    child = os.fork() if fork else -1
    if child == 0:
        time.sleep(600)
        os._exit(0)
    tell("ready")
    job_step(job)
    spotnik.leave()


def job_step(job: spotnik.Job) -> None:
    try:
        while True:
            spotnik.allreduce(np.ones(4))
            tell({"step": job.step, "size": job.size, "losses": job.status().losses, "leaves": job.status().leaves})
            time.sleep(PACE_S)
    except spotnik.DoneError:
        pass


def alone(members_min: int = 1, sigterm: bool = False) -> None:
    """Begin one step, which waits for others; then end without leaving."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background has it ignored
    if sigterm:
        spotnik.leave_on_sigterm()
    job = spotnik.init(members_min=members_min)
    try:
        tell("waiting")
        job.step_begin()
    except KeyboardInterrupt:
        tell("interrupted")
        return
    tell("begun")


def terminate_child() -> None:
    """Fork a child that waits for ever, and end it; tell its exit status."""
    with spotnik.init():
        child = multiprocessing.get_context("fork").Process(target=signal.pause)
        child.start()
        child.terminate()
        child.join()
        tell(child.exitcode)


def places() -> None:
    """Tells its place in each step, until two members have taken 20 steps together, or one has done so and left."""
    job, together = spotnik.init(), 0
    spotnik.register("w", np.zeros(1 << 20, dtype=np.float32))
    for step in job:
        tell({"step": step.number, "rank": step.rank, "at": job.rank, "replay": step.replay})
        job.samples_decline()
        spotnik.start(np.ones(4))
        job.step_commit()
        together += step.size == 2 and not step.replay
        # The other may have come in the middle of a step that we began alone, and then counts one more.
        if together == 20 or (together and step.size == 1):
            return
        time.sleep(PACE_S)


def end(middle: bool, members: int) -> None:
    """Steps until `members` take part; then the script just ends, in the middle of one or between two."""
    job = spotnik.init(members_min=members)
    for step in job:
        job.step_commit()
        if not step.replay and step.size == members:
            break
    if middle:
        job.step_begin()
    tell("ends")


def kept(folder: str, way: str) -> None:
    """Three steps, and the end. A refresh brings the state up to date; tells of that of a checkpoint."""
    job = spotnik.init(checkpoint_dir=folder, checkpoint_steps=1000)
    memory, own, loads = np.zeros(1, dtype=np.int64), 0, job.loads
    spotnik.register("memory", memory)

    def refresh() -> None:
        assert way != "fails", "as told"
        if job.loads == loads:
            memory[0] = own
            job.blob_set("blob", str(own).encode())

    job.refresh_set(refresh)
    for _ in range(3):
        job.step_begin()
        if job.loads != loads:
            loads, own = job.loads, int(memory[0])
            tell({"memory": own, "blob": job.blob_get("blob").decode()})
        assert job.step_commit()
        own += 1
    _part(job, way)


def _part(job: spotnik.Job, way: str) -> None:
    if way == "notice":
        job.notice()
        with contextlib.suppress(spotnik.LeavingError):
            job.step_begin()
    try:
        if way != "end":
            job.leave()
    except AssertionError as error:
        tell(str(error))


def follow() -> None:
    """Steps until somebody goes; tells how."""
    job = spotnik.init(members_min=1)
    status = job.status()
    while not status.losses + status.leaves:
        spotnik.barrier()
        time.sleep(PACE_S)
        status = job.status()
    tell({"losses": status.losses, "leaves": status.leaves})
    spotnik.leave()


def join(**settings: Any) -> None:
    """Join and commit one step; tell what came of it."""
    try:
        spotnik.init(**settings)
        spotnik.barrier()
        tell("in")
        while True:
            spotnik.barrier()
            time.sleep(PACE_S)
    except spotnik.SpotnikError as error:
        tell({"error": type(error).__name__, "text": str(error)})


def differ(length: int) -> None:
    """An all-reduce whose length is not that of the others."""
    spotnik.init(members_min=2)
    spotnik.barrier()
    try:
        spotnik.allreduce(np.zeros(length))
        tell("no error")
    except spotnik.MismatchError as error:
        tell(str(error))


def stop_and_go_on() -> None:
    """On SIGUSR1 stops itself in the middle of a step, and goes on until it has been told what became of it."""
    asked: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, _: asked.append(number))
    job = spotnik.init()
    gather(job, 3)
    tell("ready")
    while not asked:
        spotnik.allreduce(np.ones(4))
        time.sleep(PACE_S)
    results: list[tuple[bool, int]] = []
    while not results or all(committed for committed, _ in results) or not results[-1][0]:
        step, mine = job.step_begin(), np.ones(4)
        if not results:
            # Stands in for computing. The others' data mostly come meanwhile: the hard case, in which all that the
            # step takes is here. Nothing rests on it: should they come later, the same is asked of this member.
            time.sleep(10 * PACE_S)
            os.kill(os.getpid(), signal.SIGSTOP)
        job.samples_decline()
        spotnik.start(mine, bucket=255)
        results.append((job.step_commit(), step.number))
    told = [committed for committed, _ in results].index(False)
    tell({"alone": told, "later": results[-1][1] > results[told][1]})
    spotnik.leave()


def apart(members: int = 3) -> None:
    """Point to point: once calmly, then with a member that is killed while others wait for it."""
    job = spotnik.init(members_min=members, members_max=8)
    spotnik.barrier()
    rank, following = job.rank, (job.rank + 1) % members
    w, out = np.full((2, 3), rank + 1, dtype=np.float32), np.zeros((2, 3), dtype=np.float32)
    spotnik.publish("model", w, version=1)
    spotnik.publish("counts", array.array("q", [rank, 7]), version=1)
    arrival = spotnik.pull("model", following, out, version_min=1).wait()
    counts = array.array("q", [0, 0])
    with spotnik.pull("counts", following, counts, version_min=1) as request:
        counted = request.wait()
    with spotnik.pull("unknown", 0, np.zeros(4)) as request:
        nothing = request.wait()
    spotnik.barrier()
    tell(
        {
            "rank": rank,
            "came": [bool(arrival), arrival and arrival.version, arrival and arrival.rank, out.tolist()],
            "counts": [bool(counted), counts.tolist()],
            "nothing": bool(nothing),
        }
    )
    spotnik.store_open("store", np.ones((3, 5), dtype=np.float32))
    assert spotnik.push("store", np.full((3, 5), rank + 1, dtype=np.float32)).wait()
    spotnik.barrier()
    whole = np.zeros((3, 5), dtype=np.float32)
    assert spotnik.fetch("store", whole).wait()
    tell([float(whole.min()), float(whole.max())])
    request = spotnik.pull("model", following, out, version_min=2)
    tell("waiting")
    while rank == 2 and len(job.members) == members and not request.wait(0.02):
        pass
    if rank == 2 or request.wait():
        spotnik.publish("model", w, version=2)
    tell({"came": bool(request.wait()), "value": float(out[0, 0])})
    if rank == 0:  # serves the other one until that has gone, which ends the wait
        assert not spotnik.pull("never", job.rank, np.zeros(1), version_min=1).wait()
    given_up = spotnik.pull("model", following, out, version_min=3)
    assert rank == 0 or given_up.wait(0) is None
    job.abandon()  # closes it
    tell(repr(job))


def wired() -> None:
    """An array of float32 in each of the forms it may travel in; and what cannot."""
    job = spotnik.init(members_min=2)
    step = job.step_begin()
    job.samples_decline()
    mine = np.linspace(-1, 1, 1000, dtype=np.float32) * np.float32(step.share + 1)
    sent = {form: mine.copy() for form in ("f16", "bf16", "q8")}
    refused = 0
    for given, form in ((mine, "q9"), (np.zeros(3), "q8")):
        try:
            spotnik.start(given, wire=form)
        except spotnik.ArgumentError:
            refused += 1
    for form, given in sent.items():
        spotnik.start(given, op="sum", wire=form)
    job.step_commit()
    want = 3 * np.linspace(-1, 1, 1000)
    tell(
        {
            "refused": refused,
            "error": {form: float(np.abs(came - want).max()) for form, came in sent.items()},
            "bits": {form: hash(came.tobytes()) for form, came in sent.items()},
        }
    )
    spotnik.leave()


if __name__ == "__main__":
    globals()[sys.argv[1]](**json.loads(sys.argv[2]))
