#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The time of a step against the number of members, in simulation: writes docs/results/scale.md and scale.svg.
Usage: bench/scale.py BUILD [FOLDER]; some minutes, for a thousand members exchange two million frames a step. The code is
that of the library (core, ring, kernels); clocks and links are not: see `spotnik sim --scale`."""
import json
import math
import os
import subprocess
import sys

MEMBERS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)
GBIT = 10
LATENCY_MS = 0.11  # on the average: 0.05 to 0.15, and up to 0.02 of jitter
SIZES = (("4 KiB", 4096), ("25 MiB", 25 << 20))
COLOURS = ("#1f5fbf", "#c0392b", "#0a7d32", "#8e44ad", "#999999")


def run(build, members, text):
    command = [os.path.join(build, "cli", "spotnik"), "sim", "--scale", str(members), "--losses", "1", "--gbit", str(GBIT),
               "--bucket", text.replace(" ", ""), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def wire_ms(members, size):
    return 2 * (members - 1) / members * size / (GBIT * 125000)


def hops_ms(members):
    return 2 * (members - 1) * LATENCY_MS


def ticks(least, most):
    value = 10.0 ** math.floor(math.log10(least))
    while value <= most * 1.001:
        yield value
        value *= 10


def plot(path, series):
    """series: {name: [(members, ms), ...]}; both axes logarithmic."""
    most = max(y for points in series.values() for _, y in points)
    least = min(y for points in series.values() for _, y in points)
    low, high = math.floor(math.log10(least)), math.ceil(math.log10(most))

    def at(x, y):
        return (70 + 560 * math.log10(x / MEMBERS[0]) / math.log10(MEMBERS[-1] / MEMBERS[0]),
                370 - 320 * (math.log10(y) - low) / (high - low))
    svg = ["<svg xmlns='http://www.w3.org/2000/svg' width='860' height='430' font-family='sans-serif' font-size='11'>",
           "<rect width='100%' height='100%' fill='white'/>",
           "<text x='70' y='24' font-size='14'>Time of a step, simulated: links of 10 Gbit/s and 0.11 ms</text>"]
    for value in ticks(10.0 ** low, 10.0 ** high):
        y = at(2, value)[1]
        svg.append(f"<line x1='70' x2='630' y1='{y:.1f}' y2='{y:.1f}' stroke='#e5e5e5'/>"
                   f"<text x='64' y='{y + 4:.1f}' text-anchor='end'>{value:g}</text>")
    svg += [f"<text x='{at(x, least)[0]:.1f}' y='388' text-anchor='middle'>{x}</text>" for x in MEMBERS]
    svg += ["<text x='350' y='412' text-anchor='middle'>members</text>",
            "<text x='18' y='210' transform='rotate(-90 18 210)' text-anchor='middle'>ms</text>"]
    for n, (name, points) in enumerate(series.items()):
        line = " ".join("{:.1f},{:.1f}".format(*at(x, y)) for x, y in points)
        dash = " stroke-dasharray='5 4'" if name.startswith("bound") else ""
        svg.append(f"<polyline points='{line}' fill='none' stroke='{COLOURS[n]}' stroke-width='1.6'{dash}/>"
                   f"<rect x='645' y='{60 + 20 * n}' width='10' height='10' fill='{COLOURS[n]}'/>"
                   f"<text x='660' y='{69 + 20 * n}'>{name}</text>")
    with open(path, "w") as out:
        out.write("\n".join([*svg, "</svg>", ""]))


def table(results):
    lines = ["| members | " + " | ".join(f"{text}: step | wire | hops | from a loss to the next commit" for text, _ in SIZES) + " |",
             "|---|" + "---|" * (4 * len(SIZES))]
    for members in MEMBERS:
        cells = []
        for text, size in SIZES:
            one = results[members, text]
            cells += [f"{one['step_ms']:.3g}", f"{wire_ms(members, size):.3g}", f"{hops_ms(members):.3g}", f"{one['total_ms']:.3g}"]
        lines.append(f"| {members} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


TEXT = """# A step against the number of members

`bench/scale.py BUILD` (simulation: the same on every machine, apart from how long it takes). Members that compute nothing reduce one
bucket of F32 in every step; every link carries {gbit} Gbit/s and takes 0.05 to 0.17 ms, 0.11 on the average; every member has a host of
its own. Of the 25 MiB each process holds a model of 64 KiB, with chunks and links smaller by the same factor. Times in ms: a step, mean
of three; *wire*: 2(N - 1)/N of the bucket over one link; *hops*: 2(N - 1) times a link's latency, which is what a ring takes when there is
nothing to carry; then, with one member killed, until all others have committed the next step.

{table}

![time of a step](scale.svg)

What it says: up to some dozens of members a large bucket costs what the wire costs, and beyond that the ring's 2(N - 1) hops: at 1 000
members {large:.0f} ms, of which the wire needs {wire:.0f}. (Where a segment is one chunk, from 128 members on, the simulator counts its transmission
twice a hop: sent, then received.) A small bucket goes another way among few members (`spotnik bench allreduce --explain` says which) and
is all hops beyond. A ring was chosen for jobs of up to some hundred members; for thousands far apart it takes a hierarchy, one stream
per host, which this table does not have: here every host has one member.
"""


def main():
    build = sys.argv[1]
    folder = sys.argv[2] if len(sys.argv) > 2 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs", "results")
    results = {(members, text): run(build, members, text) for members in MEMBERS for text, _ in SIZES}
    series = {f"{text}: step": [(n, results[n, text]["step_ms"]) for n in MEMBERS] for text, _ in SIZES}
    series["25 MiB: loss to commit"] = [(n, results[n, "25 MiB"]["total_ms"]) for n in MEMBERS]
    series["bound: 25 MiB on the wire"] = [(n, wire_ms(n, 25 << 20)) for n in MEMBERS]
    series["bound: hops"] = [(n, hops_ms(n)) for n in MEMBERS]
    plot(os.path.join(folder, "scale.svg"), series)
    with open(os.path.join(folder, "scale.md"), "w") as out:
        out.write(TEXT.format(gbit=GBIT, table=table(results), large=results[1000, "25 MiB"]["step_ms"], wire=wire_ms(1000, 25 << 20)))
    print(table(results))


if __name__ == "__main__":
    main()
