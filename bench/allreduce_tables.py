#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables, as Markdown, of what allreduce.py kept.

    bench/allreduce_tables.py FILE [--reno FILE]

FILE: medians in seconds by contender, by "MEMBERS SIZE". --reno: of a run with reno for everybody; only those of the
peers over TCP, and ours, are shown of it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from allreduce import duration

Cells = dict[str, dict[str, float]]

OURS = {"spotnik shm, owned": "ours shm, owned", "spotnik shm": "ours shm", "spotnik tcp": "ours tcp"}
BOUNDS = {"bare probe, owned": "probe, owned", "bare probe": "probe"}
PEERS = {"open mpi": "open mpi", "open mpi, tcp": "open mpi, tcp", "mpich": "mpich", "gloo": "gloo",
         "pytorch gloo": "torch gloo"}
TCP_PEERS = ("open mpi, tcp", "gloo", "pytorch gloo")


def label(key: str) -> str:
    """Members and size, aligned."""
    members, size = key.split()
    return f"{members:>7}  {size:>6}"


def medians(cells: Cells, columns: dict[str, str]) -> list[str]:
    """A line per cell, a column per contender; "-" where it is missing."""
    width = {name: max(10, len(title)) for name, title in columns.items()}
    lines = ["members  bucket " + " ".join(f"{title:>{width[name]}}" for name, title in columns.items())]
    for key, cell in cells.items():
        values = (f"{duration(cell[name]) if name in cell else '-':>{width[name]}}" for name in columns)
        lines.append(f"{label(key)} " + " ".join(values))
    return lines


def best(cell: dict[str, float], names: tuple[str, ...]) -> float | None:
    """The shortest time among those that are there."""
    times = [cell[name] for name in names if name in cell]
    return min(times) if times else None


def quotient(above: float | None, below: float | None) -> str:
    """Two digits, or "-" where one is missing."""
    return f"{above / below:.2f}" if above is not None and below is not None else "-"


def ratios(cells: Cells) -> list[str]:
    """Ours beside peers and bounds."""
    lines = ["members  bucket    shm/peer  owned/peer  tcp/tcp peer  shm/torch  shm:probe  owned:probe"]
    for key, cell in cells.items():
        peer, tcp_peer = best(cell, tuple(PEERS)), best(cell, TCP_PEERS)
        plain, owned, tcp = (cell.get(name) for name in ("spotnik shm", "spotnik shm, owned", "spotnik tcp"))
        lines.append("  ".join([
            label(key),
            f"{quotient(peer, plain):>10}",
            f"{quotient(peer, owned):>10}",
            f"{quotient(tcp_peer, tcp):>12}",
            f"{quotient(cell.get('pytorch gloo'), plain):>9}",
            f"{quotient(plain, cell.get('bare probe')):>9}",
            f"{quotient(owned, cell.get('bare probe, owned')):>11}",
        ]))
    return lines


def reno_ratios(cells: Cells) -> list[str]:
    """Ours beside peers over TCP, all with reno."""
    lines = ["members  bucket  tcp/tcp peer  shm/torch"]
    for key, cell in cells.items():
        lines.append(f"{label(key)}  {quotient(best(cell, TCP_PEERS), cell.get('spotnik tcp')):>12}"
                     f"  {quotient(cell.get('pytorch gloo'), cell.get('spotnik shm')):>9}")
    return lines


def show(lines: list[str]) -> None:
    """As a block of the page."""
    print("\n".join(["```", *lines, "```", ""]))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--reno", type=Path)
    options = parser.parse_args()
    cells: Cells = json.loads(options.file.read_text(encoding="utf-8"))
    show(medians(cells, {**OURS, **BOUNDS, **PEERS}))
    show(ratios(cells))
    if options.reno:
        reno: Cells = json.loads(options.reno.read_text(encoding="utf-8"))
        tcp_peers = {name: title for name, title in PEERS.items() if name in TCP_PEERS}
        show(medians(reno, {**OURS, **tcp_peers}))
        show(reno_ratios(reno))


if __name__ == "__main__":
    main()
