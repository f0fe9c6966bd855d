# SPDX-License-Identifier: Apache-2.0
"""What a hand-over through a group's memory costs: two groups beside two plain members, the same bytes, by turns.

    PYTHONPATH=python SPOTNIK_LIBRARY=build/src/libspotnik.so build/venv/bin/python bench/groups.py build/cli/spotnik
    python3 tests/e2e/groups.py build/cli/spotnik build/tests/e2e/e2e-group-worker groups=3 size=4 count=1048576 kills=50

The second command measures a kill of a process to the others' next commit, at 4 MiB. Here each member stands for a host
of its own (SPOTNIK_HOST), so that what travels between members goes over TCP. A step all-reduces one bucket. Each
process of a group copies its part of the gradient into the group's memory, hands it over, commits, and copies its part
of the average back. A plain member all-reduces the whole.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path


def work(mib: int, steps: int) -> None:
    """One process of a group, or a plain member: prints the median step, and of it the copies, in ms."""
    import torch

    from spotnik import Config, Dtype, Job, Op
    from spotnik.group_job import GroupJob, place

    torch.set_num_threads(1)
    os.environ["SPOTNIK_HOST"] = os.environ["SPOTNIK_WORKER"]
    where, count = place(), mib << 18
    job = Job(Config()) if where is None else GroupJob(Config(), where)
    job.join()
    own = torch.ones(count // (where.size if where else 1))
    times: list[float] = []
    copies: list[float] = []
    memory = part = own
    if isinstance(job, GroupJob):
        memory = job.memory(4 * count)[: 4 * count].view(torch.float32)
        part = memory[len(own) * job.place.rank :][: len(own)]
    for _ in range(steps):
        job.step_begin()
        begun = time.perf_counter()
        if isinstance(job, GroupJob):
            part.copy_(own)
            copied = time.perf_counter() - begun
            job.parts_start(0, memory, Dtype.F32, Op.MEAN)
        else:
            copied = 0.0
            job.allreduce_start(0, own.data_ptr(), count, Dtype.F32, Op.MEAN, own)
        job.step_commit()
        back = time.perf_counter()
        if isinstance(job, GroupJob):
            own.copy_(part)
            copied += time.perf_counter() - back
        times.append(time.perf_counter() - begun)
        copies.append(copied)
    half = steps // 2  # the first half warms up
    print("RESULT", statistics.median(times[half:]) * 1e3, statistics.median(copies[half:]) * 1e3, flush=True)
    job.leave()


def run(spotnik: str, size: int, arguments: argparse.Namespace) -> tuple[float, float]:
    """Medians over the processes of one run; groups of `size`, or plain members."""
    words = [spotnik, "run", "-n", "2", *(["--group", str(size)] if size > 1 else []), "--"]
    words += [
        sys.executable,
        __file__,
        "--worker",
        "--mib",
        str(arguments.mib),
        "--steps",
        str(arguments.steps),
        spotnik,
    ]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    found = [line.split("RESULT ")[1].split() for line in done.stdout.splitlines() if "RESULT " in line]
    return max(float(one) for one, _ in found), max(float(copied) for _, copied in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spotnik", type=Path)
    parser.add_argument("--mib", type=int, default=64, help="of the whole gradient")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--size", type=int, default=2, help="processes of a group")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.mib, arguments.steps)
        return
    plain, groups = [], []
    for _ in range(arguments.rounds):
        plain.append(run(str(arguments.spotnik), 1, arguments)[0])
        groups.append(run(str(arguments.spotnik), arguments.size, arguments))
    alone, together = statistics.median(plain), statistics.median(one for one, _ in groups)
    copied = statistics.median(one for _, one in groups)
    print(f"| {arguments.mib} MiB, two members over TCP, {arguments.rounds} runs each | median of a step |")
    print("|---|---|")
    print(f"| plain members | {alone:.1f} ms |")
    print(f"| groups of {arguments.size} | {together:.1f} ms ({together / alone - 1:+.1%}) |")
    print(
        f"| of it copies in and out, in each process | {copied:.1f} ms ({copied / alone:.1%} of plain members' step) |"
    )


main()
