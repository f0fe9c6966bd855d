#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The time of a step against the number of members, in simulation, round the ring of all, up a tree and by hosts: writes docs/results/scale.md and
scale.svg. Usage: bench/scale.py BUILD [FOLDER [RING_MAX]]; a minute or two. A ring of N members exchanges 2N(N - 1) frames a step, so rings
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


TEXT = """# A step against the number of members

`bench/scale.py BUILD` simulates, so it prints the same numbers on every machine, loaded or not. It
takes about 90 s of one processor. Members that compute nothing reduce one bucket of F32 in every
step, in five ways:

* **ring, 1 a host**: every member has a host of its own, and the bucket goes round the ring whatever its size (`--ring`).
* **tree, 1 a host**: the same members by default. 4 KiB go from everybody to everybody up to 8
  members, and up a tree beyond ([0013](../design/0013-tree.md)). 25 MiB go round the ring.
* **ring, 8 in a row**: eight members on each host, one ring of all members, neighbours together: one stream leaves each host.
* **ring, 8 scattered**: the same, but every neighbour is on another host: eight streams leave each host, through one card.
* **by hosts**: eight members on each host add up in memory, and one of them takes part in a ring of
  hosts ([0010](../design/0010-hierarchy.md)). 4 KiB go up a tree of hosts. This is the default
  where members share hosts: `spotnik sim --scale N --per-host 8 --bucket 25MiB`.

A host's card carries @gbit@ Gbit/s. Latency is added to that: 0.05 to 0.17 ms a frame between
hosts, 0.11 on average, and 0.02 to 0.025 ms within a host. Each member copies, adds up and reads
from sockets at 4 GB/s. A real machine had about that for adding up eight inputs
([kernels](kernels.md)), and more for copying alone. The last of the ways has 16 GB/s. In place of
25 MiB each process holds a model of 64 KiB; chunks, slices, cards and memory are smaller by the
same factor. Times are in ms. A step is the mean of three after the first (by hosts: after three).
*Wire* is 2(N - 1)/N of the bucket through one card; by hosts it is 2(H - 1)/H, for two hosts half
of what the table says. *Hops, by hosts* is 2(H - 1) times 0.11 ms for H hosts, in a tree twice its
height. *Loss* lasts from the kill of one member until all others have committed the next step. The
simulator compares every result, bit for bit, with the same sum made in one place.

Two cases are left out. Eight members on one host use no network. Rings of 1 000 exchange two
million frames a step, so rings end at @ring_max@, and all else at 1 000. Not simulated are the
receiving side of a card, other programs, and processors that members share.

## A bucket of 4 KiB

@4 KiB@

## A bucket of 25 MiB

@25 MiB@

![time of a step](scale.svg)

## What it says

* **A small bucket is all hops**: @small@.
  The ring has 2(N - 1) hops, a tree 2, 4, 6 or 8 (up to 9, 73, 585, 4 681 members or hosts). An earlier version of this page, without trees, had
  the ring of all for 1 a host, and by hosts 1.4 ms at 64 members, 13.6 at 512 and 28 at 1 000.
* **A large bucket round a ring whose neighbours are on different hosts costs the wire eight times**: 335 ms. By hosts it never does, in
  whatever order the members came. That is what hierarchy is for.
* **A large bucket round a ring in a row is not slower than by hosts, but often faster**: 41 ms against 55 at 64 members, 47 against 62 at
  256. It sends as little, and need not add up on the host before it sends. With memory of 16 GB/s the same step takes 40.5 ms by hosts at 64
  members and 46.7 at 256, so the difference is memory. Two things speak for the ring here that a real host has not: every member has a
  processor of its own, and a hop within the host takes 0.02 ms, always. And nothing ensures that order: a view stands as its members came.
* **From some 100 hosts on a segment of 25 MiB is one chunk**, so the pieces no longer overlap and each hop is taken whole before the next:
  at 1 000 members 100 ms (78 with faster memory), of which the wire needs 42 and the hops 27.
* **A loss costs what the passes cost, and those go round all members, not hosts.** With a small
  bucket it costs hardly anything else.

An earlier version of this page had rings of 1 000 members, one on each host: 219 ms for 4 KiB and 306 ms for 25 MiB. The second counted the
transmission of a chunk twice a hop where a segment is one chunk; this simulator counts it once (at 512: 169 ms where that page had 198).
"""


def small_text(results: Results) -> str:
    size, members = SIZES[0][0], [n for n in (64, 512) if (ONE, n, SIZES[0][0]) in results]
    each = [f"{results[ONE, n, size]['step_ms']:.3g} ms round the ring, {results[TREE, n, size]['step_ms']:.2g} up the tree and "
            f"{results[HOSTS, n, size]['step_ms']:.2g} by hosts with {n} members" for n in members]
    return ";\n  ".join(each)


def page(results: Results, ring_max: int) -> str:
    text = TEXT.replace("@small@", small_text(results)).replace("@gbit@", str(GBIT)).replace("@ring_max@", str(ring_max))
    for size, size_bytes in SIZES:
        text = text.replace(f"@{size}@", table(results, size, size_bytes))
    return text


def write(folder: str, results: Results, ring_max: int) -> None:
    plot(os.path.join(folder, "scale.svg"), results)
    with open(os.path.join(folder, "scale.md"), "w") as out:
        out.write(page(results, ring_max))


def main() -> None:
    build = sys.argv[1]
    folder = sys.argv[2] if len(sys.argv) > 2 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs", "results")
    ring_max = int(sys.argv[3]) if len(sys.argv) > 3 else RING_MAX
    results: Results = {(way, members, size): run(build, members, size, way) for way in OPTIONS for members in MEMBERS
                        for size, size_bytes in SIZES if is_played(members, way, size_bytes, ring_max)}
    write(folder, results, ring_max)


if __name__ == "__main__":
    main()
