#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What recording costs: the length of a step with the flight recorder off, with it on (as always), and with a trace as well.
And what the tags of data cost (docs/design/0040-trust.md): without them, and with them (as always).

    bench/recording.py BUILD --modes bare recorder --ways tcp --sizes 4MiB 25MiB 100MiB
    bench/recording.py BUILD [--sizes 4MiB] [--ways shm tcp] [--modes off recorder trace] [--jobs 4] [--rounds 30] [--block-ms 300]

Two runs of one program differ by more than what is to be measured: by where their pages lie, and by how the members fell on the
processors. So all modes are measured in one job. Its two members (recording_worker.c) do nothing but steps of one bucket. Each round
has a block in each mode, in an order that turns; both members switch recorder and trace before the same step. The first
--settle-ms of a block are not measured: the thread that writes the trace works five times a second, and may still have the marks of
the block before. In a block with a trace it works as it always does, so its processor time counts.

A ratio compares the blocks of one round, half a second apart. Printed is the median of the ratios of all rounds of all jobs with
95 % of the bootstrap, which draws jobs first and then rounds of each: what differs between jobs widens the interval. After that
the ratio of each job. A mode costs at most 1 % if the upper end is below 1.01.

On a machine that is busy with other things it says
nothing.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

MODES = {"off": "o", "recorder": "r", "trace": "t", "bare": "b"}
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20}
Blocks = dict[str, list[float]]  # by mode, milliseconds a step of each round


def bytes_of(text: str) -> int:
    return int(text[:-3]) * UNITS[text[-3:]] if text[-3:] in UNITS else int(text)


def job(size: int, way: str, options: argparse.Namespace) -> Blocks:
    """Two members that switch together."""
    with tempfile.TemporaryDirectory(prefix="spotnik-recording-") as folder:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SPOTNIK_")}
        environment |= {"SPOTNIK_TRACE": folder, "SPOTNIK_TRANSPORT": way}
        letters = "".join(MODES[mode] for mode in options.modes)
        command = [str(options.build / "cli/spotnik"), "run", "-q", "-n", "2", "--", str(options.build / "bench/recording_worker"), letters]
        told = subprocess.run([*command, str(size), str(options.rounds), str(options.settle_ms), str(options.block_ms)], env=environment,
                              capture_output=True, text=True, check=False)
        if told.returncode != 0:
            raise SystemExit(f"recording: the job failed: {told.stderr.strip()}")
        if "trace" in options.modes and sum(path.stat().st_size for path in Path(folder).glob("*.trace")) < 1 << 16:
            raise SystemExit("recording: no trace was written")
    names = {letter: mode for mode, letter in MODES.items()}
    blocks: Blocks = defaultdict(list)
    for line in told.stdout.splitlines():
        _, letter, ms = line.split()[-3:]
        blocks[names[letter]].append(float(ms))
    return blocks


def interval(jobs: list[list[float]]) -> tuple[float, float, float]:
    """Median of all, and 95 % of its bootstrap over jobs and rounds."""
    draw = random.Random(1)
    medians = sorted(statistics.median(ratio for of in draw.choices(jobs, k=len(jobs)) for ratio in draw.choices(of, k=len(of)))
                     for _ in range(2000))
    return statistics.median(ratio for of in jobs for ratio in of), medians[50], medians[-51]


def report(size: int, way: str, found: list[Blocks], options: argparse.Namespace) -> None:
    """Against no recorder; and what SPOTNIK_TRACE adds to a job, which keeps the recorder without it, too."""
    pairs = [(mode, "off") for mode in options.modes if mode in ("recorder", "trace") and "off" in options.modes]
    pairs += [("recorder", "bare")] if {"recorder", "bare"} <= set(options.modes) else []
    pairs += [("trace", "recorder")] if {"trace", "recorder"} <= set(options.modes) else []
    for mode, base in pairs:
        jobs = [[a / b for a, b in zip(blocks[mode], blocks[base])] for blocks in found]
        middle, low, high = interval(jobs)
        each = ", ".join(f"{statistics.median(of):.4f}" for of in jobs)
        base_ms = statistics.median(ms for blocks in found for ms in blocks[base])
        print(f"{size:>9} bytes, {way}, {base_ms:.4f} ms: {mode:<8} / {base}: {middle:.4f} (95 %: {low:.4f} to {high:.4f}; jobs: {each})", flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--sizes", nargs="+", type=bytes_of, default=[4 << 20])
    parser.add_argument("--ways", nargs="+", choices=("shm", "tcp"), default=["shm", "tcp"])
    parser.add_argument("--modes", nargs="+", choices=tuple(MODES), default=["off", "recorder", "trace"])
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--settle-ms", type=float, default=220)
    parser.add_argument("--block-ms", type=float, default=300)
    options = parser.parse_args()
    options.build = options.build.resolve()
    if not {"off", "bare"} & set(options.modes) or len(set(options.modes)) < 2:
        parser.error("--modes: off, or bare, and one to compare with it")
    return options


def main() -> None:
    options = parse()
    for size in options.sizes:
        for way in options.ways:
            report(size, way, [job(size, way, options) for _ in range(options.jobs)], options)
    print(f"load average: {' '.join(f'{value:.1f}' for value in os.getloadavg())}")


if __name__ == "__main__":
    main()
