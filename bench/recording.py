#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What recording costs: the length of a step with the flight recorder off, with it on (as always), and with a trace as well.

    bench/recording.py BUILD [--rounds 20] [--steps 200] [--sizes 4KiB,4MiB]

Each round runs `spotnik bench allreduce` once in each mode, in an order that turns. Prints the ratios of medians, round by round
paired, with 95 % of the bootstrap. On a machine that is busy with other things it says nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

from scrapes import interval

MODES = ("off", "recorder", "trace")


def run(mode: str, options: argparse.Namespace) -> dict[tuple[int, str], float]:
    """Milliseconds a step, by size and way."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SPOTNIK_")}
        environment |= {"off": {"SPOTNIK_DUMP": "off"}, "recorder": {}, "trace": {"SPOTNIK_TRACE": folder}}[mode]
        command = [str(options.build / "cli/spotnik"), "bench", "allreduce", "--workers", "2", "--sizes", options.sizes]
        told = subprocess.run([*command, "--steps", str(options.steps), "--json"], env=environment, capture_output=True, text=True, check=True)
        if mode == "trace" and not list(Path(folder).glob("*.json")):
            raise SystemExit("recording: no trace was written")
    cells = [json.loads(line) for line in told.stdout.splitlines()]
    return {(cell["bytes"], cell["way"]): cell["median_ms"] for cell in cells}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--sizes", default="4KiB,4MiB")
    options = parser.parse_args()
    options.build = options.build.resolve()
    ratios: dict[tuple[int, str, str], list[float]] = defaultdict(list)
    for number in range(options.rounds):
        took = {MODES[(number + place) % 3]: run(MODES[(number + place) % 3], options) for place in range(3)}
        for mode in MODES[1:]:
            for cell, ms in took[mode].items():
                ratios[(*cell, mode)].append(ms / took["off"][cell])
    for (size, way, mode), values in sorted(ratios.items()):
        middle, low, high = interval(values)
        print(f"{size:>9} bytes, {way:<10} {mode:<8} / off: {middle:.4f} (95 %: {low:.4f} to {high:.4f})")
    print(f"load average: {' '.join(f'{value:.1f}' for value in os.getloadavg())}")


if __name__ == "__main__":
    main()
