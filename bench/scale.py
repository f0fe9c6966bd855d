#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The time of a step against the number of members, in simulation, round the ring of all, up a tree and by hosts: prints the tables, and draws
scale.svg in FOLDER (default: build/results). Usage: bench/scale.py BUILD [FOLDER [RING_MAX]]; a minute or two. A ring of N members exchanges 2N(N - 1) frames a step, so rings
are played up to RING_MAX members only (512). The code is that of the library (core, ring, shm, kernels); clocks, links and memory are
not: see `spotnik sim --scale`."""
from __future__ import annotations

import json
import os
import subprocess
import sys

import pictures

MEMBERS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)
PER_HOST = 8
RING_MAX = 512
GBIT = 10
LATENCY_MS = 0.11  # between hosts, on the average: 0.05 to 0.15, and up to 0.02 of jitter
SIZES = (("4 KiB", 4096), ("25 MiB", 25 << 20))
ONE, ROW, SCATTERED = "ring, 1 a host", "ring, 8 in a row", "ring, 8 scattered"
TREE = "tree, 1 a host"
FAN = 8  # as in src/ring/tree.h
HOSTS, FAST = "by hosts, 8 each", "by hosts, 16 GB/s"
OPTIONS = {ONE: ["--ring"], TREE: [], ROW: ["--ring", "--per-host", "8"], SCATTERED: ["--ring", "--per-host", "8", "--scattered"],
           HOSTS: ["--per-host", "8"], FAST: ["--per-host", "8", "--memory", "16"]}
COLOURS = {ONE: "#999999", TREE: "#222222", ROW: "#1f5fbf", SCATTERED: "#8e44ad", HOSTS: "#c0392b", FAST: "#e8a33d", "bound: wire": "#0a7d32"}
Results = dict[tuple[str, int, str], dict[str, float]]


def run(build: str, members: int, size: str, way: str) -> dict[str, float]:
    """One simulation; its line of JSON. Raises CalledProcessError when a promise is broken in it."""
    command = [os.path.join(build, "cli", "spotnik"), "sim", "--scale", str(members), "--losses", "1", "--gbit", str(GBIT),
               "--bucket", size.replace(" ", ""), "--json", *OPTIONS[way]]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def is_played(members: int, way: str, size_bytes: int, ring_max: int) -> bool:
    """Eight on one host are reduced in memory alone, which is neither; large rings take too long; and large buckets go up no tree."""
    if way == TREE and size_bytes > 16384:
        return False
    return (way in (ONE, TREE) or members > PER_HOST) and (way in (TREE, HOSTS, FAST) or members <= ring_max)


def wire_ms(stations: int, size: int) -> float:
    return 2 * (stations - 1) / stations * size / (GBIT * 125000)


def hops_ms(stations: int, size: int) -> float:
    """What the hops of a step alone take: in a tree its height twice, round a ring 2(N - 1)."""
    if size > 16384 or stations == 2:
        return 2 * (stations - 1) * LATENCY_MS
    height, last = 0, stations - 1
    while last > 0:
        height, last = height + 1, (last - 1) // FAN
    return 2 * height * LATENCY_MS


# ---- the plot: one panel per size, both axes logarithmic ----

def series_of(results: Results, size: str, size_bytes: int) -> dict[str, list[tuple[int, float]]]:
    lines = {way: [(n, results[way, n, size]["step_ms"]) for n in MEMBERS if (way, n, size) in results]
             for way in OPTIONS if any((way, n, size) in results for n in MEMBERS)}
    lines["bound: wire"] = [(n, wire_ms(n, size_bytes)) for n in MEMBERS]
    return lines


def plot(path: str, results: Results) -> None:
    figure, panels = pictures.panels(len(SIZES), 10.5, 4.4)
    for axes, (size, size_bytes) in zip(panels, SIZES):
        series = series_of(results, size, size_bytes)
        pictures.lines(axes, series, "members", "time of a step (ms)", colours=COLOURS, dashed=tuple(name for name in series if name.startswith("bound")))
        axes.set_xscale("log")
        axes.set_xticks(MEMBERS, [str(members) for members in MEMBERS])
        values = [value for found in series.values() for _, value in found]
        pictures.logarithmic(axes, min(values), max(values))
        axes.set_title(f"a bucket of {size}")
    pictures.legend(figure, max(panels, key=lambda axes: len(axes.lines)))
    pictures.save(figure, path)


# ---- the page ----

def cell(results: Results, way: str, members: int, size: str, key: str) -> str:
    return f"{results[way, members, size][key]:.3g}" if (way, members, size) in results else "-"


def table(results: Results, size: str, size_bytes: int) -> str:
    ways = [way for way in OPTIONS if way != TREE or size_bytes <= 16384]
    lost = [way for way in (ONE, TREE, HOSTS) if way in ways]
    lines = ["| members | " + " | ".join(ways) + " | wire | hops, by hosts | " + " | ".join(f"loss: {way}" for way in lost) + " |",
             "|---|" + "---|" * (len(ways) + 2 + len(lost))]
    for members in MEMBERS:
        cells = [cell(results, way, members, size, "step_ms") for way in ways]
        hosts = members // PER_HOST
        cells += [f"{wire_ms(members, size_bytes):.3g}", f"{hops_ms(hosts, size_bytes):.3g}" if hosts > 1 else "-"]
        cells += [cell(results, way, members, size, "total_ms") for way in lost]
        lines.append(f"| {members} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    build = sys.argv[1]
    folder = sys.argv[2] if len(sys.argv) > 2 else "build/results"
    ring_max = int(sys.argv[3]) if len(sys.argv) > 3 else RING_MAX
    results: Results = {(way, members, size): run(build, members, size, way) for way in OPTIONS for members in MEMBERS
                        for size, size_bytes in SIZES if is_played(members, way, size_bytes, ring_max)}
    os.makedirs(folder, exist_ok=True)
    plot(os.path.join(folder, "scale.svg"), results)
    for size, size_bytes in SIZES:
        print(f"## A bucket of {size}\n\n{table(results, size, size_bytes)}\n")


if __name__ == "__main__":
    main()
