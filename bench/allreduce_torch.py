#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The loop of allreduce_worker.c over PyTorch's Gloo: allreduce_torch.py RANK SIZE DIRECTORY BYTES ITERATIONS."""

from __future__ import annotations

import sys
import time

import torch
import torch.distributed as dist

WARM_UP = 5


def main() -> int:
    """Print the seconds of each iteration on rank 0, then whether the sums were right."""
    rank, size, directory, count, iterations = sys.argv[1:]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{directory}/torch", rank=int(rank), world_size=int(size))
    data = torch.zeros(int(count) // 4, dtype=torch.float32)
    for _ in range(WARM_UP):
        dist.all_reduce(data)
    end = [time.perf_counter()]
    for _ in range(int(iterations)):
        dist.all_reduce(data)
        end.append(time.perf_counter())
    if rank == "0":
        print("\n".join(f"{after - before:.9f}" for before, after in zip(end, end[1:])))
    data.fill_(float(rank) + 1)
    dist.all_reduce(data)
    bad = not bool((data == int(size) * (int(size) + 1) / 2).all())
    if rank == "0" or bad:
        print("wrong" if bad else "right")
    dist.destroy_process_group()
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
