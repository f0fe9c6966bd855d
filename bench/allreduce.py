#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All-reduce of float32 sums among processes of one host: Spotnik beside its peers, in one run.

    bench/allreduce.py BUILD [--members 2,4,8] [--sizes 4KiB,256KiB,4MiB,25MiB,100MiB] [--only NAME,...] [--json FILE]
    bench/allreduce_tables.py FILE [--reno FILE]                    # the tables

Every contender runs the same loop: warm up, then all-reduces back to back; one iteration is the time from the end of
the one before to its own end, on rank 0, printed when all are done. For Spotnik an iteration is a whole step (begin, all-reduce, commit).
Contenders take turns, in rounds, so that all see the same weather; a cell is the median over all rounds. Of every run
the first third is left out, for everybody alike: until then the kernel moves processes between processors. The first
round is short and tells how many iterations each contender has time for in the others; nobody gets less than 20 timed
ones. Every run checks its sums. Peers that are not installed are named and left out. Ours over TCP are compared with
peers over TCP, ours in shared memory with all of them, and with the bare probe that copies as they do: no peer, but what shared memory
allows without any protocol. TCP figures name the congestion control in use.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20}
TORCH_LOOP = HERE / "allreduce_torch.py"
FIRST = 15
"""Iterations of the first run of a contender, and the fewest of any: 10 of them count."""
RUN_S = 0.8
"""Seconds that later runs may take, where FIRST iterations take less."""

Start = Callable[[Path, int, int, int], list[subprocess.Popen[str]]]
"""Scratch directory, members, bytes, iterations -> the processes of one run."""


@dataclass(frozen=True)
class Contender:
    """Somebody who all-reduces. Ours are compared with the best of the peers, and with their `bound` ("" for none)."""

    name: str
    start: Start
    ours: bool = False
    tcp: bool = False
    bound: str = ""
    peer: bool = True


def spawn(command: list[str], **extra: str) -> subprocess.Popen[str]:
    """Start a command with `extra` in its environment; its output is read later."""
    return subprocess.Popen(command, env={**os.environ, **extra}, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def spotnik(build: Path, mode: str, transport: str) -> Start:
    """Our own members, found by a directory, as `spotnik run` would start them."""

    def start(scratch: Path, members: int, size: int, iterations: int) -> list[subprocess.Popen[str]]:
        key, peers = scratch / "key", scratch / "peers"
        subprocess.run([build / "cli" / "spotnik", "key", key], check=True, capture_output=True)
        peers.mkdir()
        (peers / "fresh").touch()  # nobody was here before
        worker = [str(build / "bench" / "allreduce_worker"), mode, str(size), str(iterations)]
        return [spawn(worker, SPOTNIK_KEY_FILE=str(key), SPOTNIK_PEERS=f"file:{peers}",
                      SPOTNIK_MIN=str(members), SPOTNIK_TRANSPORT=transport) for _ in range(members)]

    return start


def probe(build: Path, mode: str) -> Start:
    """Barriers and sums in shared memory, nothing else."""

    def start(scratch: Path, members: int, size: int, iterations: int) -> list[subprocess.Popen[str]]:
        del scratch
        return [spawn([str(build / "bench" / "allreduce_probe"), mode, str(members), str(size), str(iterations)])]

    return start


def mpi(launcher: list[str], program: Path) -> Start:
    """One launcher that starts all ranks."""

    def start(scratch: Path, members: int, size: int, iterations: int) -> list[subprocess.Popen[str]]:
        del scratch
        return [spawn([*launcher, "-n", str(members), str(program), str(size), str(iterations)])]

    return start


def ranked(command: list[str]) -> Start:
    """Programs that are told rank, size and a directory to meet in."""

    def start(scratch: Path, members: int, size: int, iterations: int) -> list[subprocess.Popen[str]]:
        return [spawn([*command, str(rank), str(members), str(scratch), str(size), str(iterations)])
                for rank in range(members)]

    return start


def compiled(command: list[str], program: Path) -> bool:
    """Compile a peer's loop. False where its compiler or library is missing."""
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run([*command, "-o", str(program)], capture_output=True, check=False).returncode == 0


def contenders(build: Path, tools: Path) -> tuple[list[Contender], list[str]]:
    """Who is here, and the names of those who are not."""
    here = [Contender("spotnik shm", spotnik(build, "plain", "shm"), ours=True, bound="bare probe"),
            Contender("spotnik shm, owned", spotnik(build, "owned", "shm"), ours=True, bound="bare probe, owned"),
            Contender("spotnik tcp", spotnik(build, "plain", "tcp"), ours=True, tcp=True),
            Contender("bare probe", probe(build, "plain"), peer=False),
            Contender("bare probe, owned", probe(build, "owned"), peer=False)]
    missing = []
    loop = str(HERE / "allreduce_mpi.c")
    if compiled(["mpicc.openmpi", "-O2", loop], tools / "openmpi"):
        launcher = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"]
        here.append(Contender("open mpi", mpi(launcher, tools / "openmpi")))
        over_tcp = [*launcher, "--mca", "btl", "tcp,self"]
        here.append(Contender("open mpi, tcp", mpi(over_tcp, tools / "openmpi"), tcp=True))
    else:
        missing.append("open mpi")
    if compiled(["mpicc.mpich", "-O2", loop], tools / "mpich"):
        here.append(Contender("mpich", mpi(["mpirun.mpich"], tools / "mpich")))
    else:
        missing.append("mpich")
    gloo = ["g++", "-O2", "-std=c++17", str(HERE / "allreduce_gloo.cc"), "-lgloo", "-lpthread"]
    if compiled(gloo, tools / "gloo"):
        here.append(Contender("gloo", ranked([str(tools / "gloo")]), tcp=True))
    else:
        missing.append("gloo")
    torch = subprocess.run([sys.executable, "-c", "import torch.distributed"], capture_output=True, check=False)
    if torch.returncode == 0:
        here.append(Contender("pytorch gloo", ranked([sys.executable, str(TORCH_LOOP)]), tcp=True))
    else:
        missing.append("pytorch gloo")
    return here, missing


def run(contender: Contender, members: int, size: int, iterations: int, patience_s: float) -> list[float]:
    """Seconds of each iteration. RuntimeError when the run fails or sums are wrong."""
    with tempfile.TemporaryDirectory() as scratch:
        processes = contender.start(Path(scratch), members, size, iterations)
        try:
            with ThreadPoolExecutor(len(processes)) as readers:  # all at once: a full pipe would hold its writer up, and so the others
                outputs = list(readers.map(lambda process: process.communicate(timeout=patience_s), processes))
        except subprocess.TimeoutExpired as slow:
            raise RuntimeError(f"{contender.name} did not end within {patience_s:.0f} s") from slow
        finally:
            for process in processes:
                process.kill()
    words = " ".join(out for out, _ in outputs).split()
    if "wrong" in words or "right" not in words:
        raise RuntimeError(f"{contender.name}: {' '.join(words[-1:])} {outputs[0][1][-300:]}")
    return [float(word) for word in words if word != "right"]


def parse_size(text: str) -> int:
    """ "4MiB" -> bytes."""
    for unit, factor in UNITS.items():
        if text.endswith(unit):
            return int(text[: -len(unit)]) * factor
    return int(text)


def duration(seconds: float) -> str:
    """Three digits and a unit."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.3g} us"
    return f"{seconds * 1e3:.3g} ms"


def iterations_for(times: list[float], most: int) -> int:
    """Of the next run, by the times of the runs before: as many as take RUN_S, a third of which is for settling."""
    if not times:
        return FIRST
    return max(FIRST, min(most, int(RUN_S / statistics.median(times))))


def measure_cell(here: list[Contender], members: int, size: int, rounds: int, most: int) -> dict[str, float]:
    """Medians in seconds by name; those that fail are told and left out of the cell."""
    taken: dict[str, list[float]] = {contender.name: [] for contender in here}
    for _ in range(rounds):
        for contender in here:
            times = taken[contender.name]
            try:
                ran = run(contender, members, size, iterations_for(times, most), 120)
                times += ran[len(ran) // 3:]
            except RuntimeError as error:
                print(f"  left out: {error}", file=sys.stderr)
    return {name: statistics.median(times) for name, times in taken.items() if times}


def keep(path: Path | None, label: str, cell: dict[str, float]) -> None:
    """Add a cell to the medians in a file, so that a run that is cut off has left what it had."""
    if path is None:
        return
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    kept[label] = cell
    path.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")


def print_cell(here: list[Contender], members: int, label: str, cell: dict[str, float]) -> None:
    """One line per contender; ours with the ratio to the fastest peer, above 1 where we are faster, and the bound."""
    peers = {c.name: c.tcp for c in here if c.peer and not c.ours and c.name in cell}
    for contender in here:
        if contender.name not in cell:
            continue
        rivals = [cell[name] for name, tcp in peers.items() if contender.ours and (tcp or not contender.tcp)]
        ratio = f"{min(rivals) / cell[contender.name]:6.2f} x" if rivals else " " * 8
        if contender.bound in cell:
            ratio += f"  {cell[contender.name] / cell[contender.bound]:8.2f} x"
        print(f"{members:7d}  {label:>8}  {contender.name:<20} {duration(cell[contender.name]):>10}  {ratio}")


def main() -> int:
    """Run the matrix and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path, help="a build directory of Spotnik")
    parser.add_argument("--members", default="2,4,8")
    parser.add_argument("--sizes", default="4KiB,256KiB,4MiB,25MiB,100MiB")
    parser.add_argument("--only", help="names of contenders, separated by commas; a name with a comma: by its start")
    parser.add_argument("--rounds", type=int, default=3, help="2 at least, for 20 timed iterations")
    parser.add_argument("--most", type=int, default=200000, help="iterations of a run, at most")
    parser.add_argument("--minutes", type=float, default=60, help="begin no further cell after so long")
    parser.add_argument("--json", type=Path, help="add the medians to this file, cell by cell")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as tools:
        here, missing = contenders(options.build.resolve(), Path(tools))
        if options.only:
            wanted = options.only.split(",")
            here = [c for c in here if any(c.name == w or c.name.replace(",", "") == w for w in wanted)]
        control = Path("/proc/sys/net/ipv4/tcp_congestion_control")
        print(f"{os.cpu_count()} processors, TCP: {control.read_text().strip() if control.exists() else '?'}"
              f" by default, reno for Spotnik; medians of {options.rounds} interleaved rounds")
        for name in missing:
            print(f"not installed, left out: {name}")
        print("members      size  who                        median  fastest peer / ours   ours / bare probe")
        until = time.monotonic() + options.minutes * 60
        for members in map(int, options.members.split(",")):
            for label in options.sizes.split(","):
                if time.monotonic() > until:
                    print(f"{members:7d}  {label:>8}  not measured: {options.minutes:g} minutes are over")
                    continue
                cell = measure_cell(here, members, parse_size(label), options.rounds, options.most)
                print_cell(here, members, label, cell)
                sys.stdout.flush()
                keep(options.json, f"{members} {label}", cell)
    return 0


if __name__ == "__main__":
    sys.exit(main())
