# SPDX-License-Identifier: Apache-2.0
"""What groups cost beside plain members: hand-over through a group's memory, and a third one that joins; by turns.

    PYTHONPATH=python SPOTNIK_LIBRARY=build/src/libspotnik.so build/venv/bin/python bench/groups.py build/cli/spotnik
    ... bench/groups.py build/cli/spotnik --state 256                    a third group joins and copies 256 MiB
    sudo bench/wire.py build --groups 2x4 --sizes 100MiB                 two hosts and a wire
    python3 tests/e2e/groups.py build/cli/spotnik build/tests/e2e/e2e-group-worker groups=3 size=4 count=1048576 kills=50

The last command measures a kill of a process to the others' next commit, at 4 MiB. Here each member stands for a host
of its own (SPOTNIK_HOST), so that what travels between members goes over TCP. A step all-reduces one bucket. Each
process of a group copies its part of the gradient into the group's memory, hands it over, commits, and copies its part
of the average back. A plain member all-reduces the whole.

In one step all processes but the leaders are LATE_S late: told is how much processor time a leader's process takes
meanwhile. With --state one of three kills itself; told is the longest step of the two others from the time its successor
begins to join, all imports done, until they have trained with it, and the bytes that the machine sent itself by then.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

LATE_S = 1.0
TOGETHER = 20  # steps of three members before the kill, and after the join
COMPUTE_S = 0.02  # of a step, with --state


class Member:
    """A plain member, or one process of a group with its part of everything."""

    def __init__(self, kib: int) -> None:
        import torch

        from spotnik import Config, Dtype, Job, Op
        from spotnik.group_job import GroupJob, place

        torch.set_num_threads(1)
        os.environ.setdefault("SPOTNIK_HOST", os.environ.get("SPOTNIK_WORKER", ""))
        self.place, self.kind = place(), (Dtype.F32, Op.MEAN)
        self.job: Any = Job(Config()) if self.place is None else GroupJob(Config(), self.place)
        self.job.join()
        self.rank, self.size = (self.place.rank, self.place.size) if self.place else (0, 1)
        self.own = torch.ones((kib << 8) // self.size)
        self.memory = self.shared(kib) if self.place else self.own
        self.part = self.memory[len(self.own) * self.rank :][: len(self.own)]

    def shared(self, kib: int) -> Any:
        """Numbers in the group's memory, or a plain member's own."""
        import torch

        if self.place is None:
            return torch.zeros(kib << 8)
        return self.job.memory(kib << 10)[: kib << 10].view(torch.float32)

    def state_add(self, mib: int) -> None:
        """Register what a joiner receives."""
        state = self.shared(mib << 10).fill_(1.0)  # as memory that a program uses
        if self.place is None:
            self.job.state_add("state", state.data_ptr(), len(state), self.kind[0], state)
        else:
            self.job.shared_state_add("state", state, self.kind[0])

    def step(self, late_s: float = 0.0, value: float = 1.0) -> tuple[Any, float, float]:
        """The step begun, its seconds, and those of the copies."""
        begun = self.job.step_begin()
        start = time.perf_counter()
        if self.rank:
            time.sleep(late_s)
        if value != 1.0:
            self.own.fill_(value)
        copied = time.perf_counter()
        if self.place is None:
            self.job.allreduce_start(0, self.own.data_ptr(), len(self.own), *self.kind, self.own)
        else:
            self.part.copy_(self.own)
            self.job.parts_start(0, self.memory, *self.kind)
        copied -= time.perf_counter()
        self.job.step_commit()
        back = time.perf_counter()
        if self.place is not None:
            self.own.copy_(self.part)
        end = time.perf_counter()
        return begun, end - start, (end - back) - copied if self.place else 0.0


def awake(used: list[float]) -> None:
    """The share of a processor that this process takes in the middle of LATE_S."""
    time.sleep(LATE_S / 4)
    begun = time.process_time()
    time.sleep(LATE_S / 2)
    used.append((time.process_time() - begun) / (LATE_S / 2))


def work(mib: int, steps: int) -> None:
    """Print RESULT, the median step, of it the copies, in ms, and the leader's share of a processor while it waits."""
    member, used = Member(mib << 10), [0.0]
    seen = [member.step()[1:] for _ in range(steps)][steps // 2 :]  # the first half warms up
    watch = threading.Thread(target=awake, args=(used,))
    if member.place is not None and member.rank == 0:
        watch.start()
    member.step(LATE_S)
    if watch.ident is not None:
        watch.join()
    step, copies = (statistics.median(times) * 1e3 for times in zip(*seen))
    print("RESULT", step, copies, used[-1], flush=True)
    member.job.leave()


def work_on_wire(mib: int, steps: int) -> None:
    """For wire.py: the seconds of each step after five, by the first process of all, and whether averages are right."""
    member = Member(mib << 10)
    times = [member.step()[1] for _ in range(5 + steps)][5:]
    begun, _, _ = member.step()
    groups = begun.size // member.size
    member.step(value=begun.rank // member.size + 1)
    right = bool((member.own == (groups + 1) / 2).all())
    if begun.rank == 0 or not right:
        print(*(f"{one:.9f}" for one in times), "right" if right else "wrong", sep="\n", flush=True)
    member.job.leave()


def loopback() -> int:
    """Bytes that this machine has received over TCP from itself."""
    words = next(line.split(":")[1] for line in Path("/proc/net/dev").read_text().splitlines() if "lo:" in line)
    return int(words.split()[0])


def work_while_one_joins(mib: int, folder: Path) -> None:
    """Print LONGEST and the median step in ms, while one joins; or RECEIVED, in MiB, meanwhile."""
    number, rank = int(os.environ["SPOTNIK_WORKER"]), os.environ.get("RANK", "0")
    os.environ["SPOTNIK_HOST"] = str(number)
    import torch  # noqa: F401 (the others look at the time from here on)

    import spotnik.group_job  # noqa: F401

    before = loopback()
    if number > 2:
        (folder / f"joins-{rank}").touch()
    member = Member(64)
    member.state_add(mib)
    seen: list[float] = []
    sizes, together, received, last = [0], 0, 0, time.perf_counter()  # of the job, from the time one joins
    while sizes[-2:] != [3, 2] and not (number > 2 and together >= TOGETHER):  # the others see it leave again
        time.sleep(COMPUTE_S)
        begun, _, _ = member.step()
        now, joins = time.perf_counter(), len(list(folder.iterdir())) == member.size
        if joins and (sizes[-1] < 3 or together < TOGETHER // 2):
            seen.append(now - last)
        last, members = now, begun.size // member.size
        if begun.replay:
            continue
        if joins and members != sizes[-1]:
            sizes.append(members)
            together, received = 0, loopback() - before
        together += members == 3
        if together >= TOGETHER and number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
    if number > 2 and member.rank == 0:
        print("RECEIVED", received / 2**20, flush=True)
    elif number <= 2:
        print("LONGEST", max(seen) * 1e3, statistics.median(seen) * 1e3, flush=True)
    member.job.leave()


def run(arguments: argparse.Namespace, size: int, members: str, words: list[str]) -> dict[str, list[list[float]]]:
    """Numbers that the processes of one run print, by the word before them; groups of `size`, or plain members."""
    begin = [str(arguments.spotnik), "run", "-n", members, *(["--group", str(size)] if size > 1 else []), "--respawn"]
    worker = [sys.executable, __file__, str(arguments.spotnik), "--worker", *words]
    done = subprocess.run([*begin, "--", *worker], stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, list[list[float]]] = {}
    for line in re.finditer(r"\b([A-Z]{6,})((?: [0-9.]+)+)$", done.stdout, re.MULTILINE):
        found.setdefault(line[1], []).append([float(one) for one in line[2].split()])
    return found


def hand_over(arguments: argparse.Namespace) -> None:
    """The table of steps."""
    words = ["--mib", str(arguments.mib), "--steps", str(arguments.steps)]
    plain, groups = [], []
    for _ in range(arguments.rounds):
        plain.append(max(run(arguments, 1, "2", words)["RESULT"])[0])
        groups.append([max(one) for one in zip(*run(arguments, arguments.size, "2", words)["RESULT"])])
    alone = statistics.median(plain)
    together, copied, awake = (statistics.median(one) for one in zip(*groups))
    print(f"| {arguments.mib} MiB, two members over TCP, {arguments.rounds} runs each | median of a step |")
    print("|---|---|")
    print(f"| plain members | {alone:.1f} ms |")
    print(f"| groups of {arguments.size} | {together:.1f} ms ({together / alone - 1:+.1%}) |")
    print(
        f"| of it copies in and out, in each process | {copied:.1f} ms ({copied / alone:.1%} of plain members' step) |"
    )
    print(f"| a leader that waits for parts | {awake:.1%} of a processor |")


def joins(arguments: argparse.Namespace) -> None:
    """The table of joins."""
    head = f"one of three joins, {arguments.state} MiB of state, {arguments.rounds} runs each"
    print(f"| {head} | longest step of the others | median step | sent on this machine meanwhile |\n|---|---|---|---|")
    for size in (1, arguments.size):
        runs = []
        for _ in range(arguments.rounds):
            with tempfile.TemporaryDirectory() as folder:
                words = ["--state", str(arguments.state), "--folder", folder]
                found = run(arguments, size, "1:3", words)
            runs.append([max(one) for one in zip(*found["LONGEST"])] + found["RECEIVED"][0])
        longest, median, received = (statistics.median(one) for one in zip(*runs))
        most = max(one[0] for one in runs)
        name = f"groups of {size}" if size > 1 else "plain members"
        print(f"| {name} | {longest:.0f} ms (most {most:.0f}) | {median:.0f} ms | {received:.0f} MiB |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spotnik", type=Path)
    parser.add_argument("--mib", type=int, default=64, help="of the whole gradient")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--size", type=int, default=2, help="processes of a group")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--state", type=int, help="MiB of state that one receives which joins")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--wire", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.wire:
        work_on_wire(arguments.mib, arguments.steps)
    elif arguments.worker and arguments.state:
        work_while_one_joins(arguments.state, arguments.folder)
    elif arguments.worker:
        work(arguments.mib, arguments.steps)
    elif arguments.state:
        joins(arguments)
    else:
        hand_over(arguments)


main()
