#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goodput on machines that vanish: Spotnik beside torchrun and torchft, on pieces of the Bamboo traces, at two speeds.

    bench/goodput.py BUILD TRACES [--ways spotnik torchrun torchft] [--minutes 20] [--speeds 20 60] [--most 6] [--out docs/results/goodput]

TRACES holds p3-trace.csv (lines ms,add|remove,node) and the g4dn file (lines s,count). Of each the piece of --minutes with most
changes is taken, scaled down to --most workers at once, and replayed at each of --speeds. A worker that the trace takes away is
killed with SIGKILL, with all its processes. All ways train the same model of 26 MiB on the same data (goodput_worker.py); the
work of a step is at least --compute-ms a worker, so that processors of this machine do not decide.

What the live workers could have done: before the trace each way runs undisturbed with 1, half and all of the workers; between
those sizes its rate is interpolated. Goodput is useful samples of that. A sample is useful once, and only if the step it was in
belongs to the line of steps that the run ended with; steps that were made again after a restart count as lost.

How the others are set (by their own documents): torchrun with --nnodes=1:N, --max-restarts large, the c10d rendezvous with a
store on a machine of its own that is never killed, last_call_timeout 1 s instead of 30, checkpoints every --checkpoint-s seconds;
torchft with a lighthouse that is never killed, --min_replicas 1, --quorum_tick_ms 100, --join_timeout_ms 1000, one replica
group a worker. A way whose packages are not installed is left out, and the page says so. Ray Train is not here yet.

Writes OUT.json after each run, and OUT.md with OUT.svg. A figure from a machine that is busy with other things says nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Optional

import pictures

HERE = Path(__file__).resolve().parent
WAYS = ("spotnik", "torchrun", "torchft")
Event = tuple[float, str, str]  # seconds, add or remove, name
Line = dict[str, Any]


# ---- traces ----


def read_names(path: Path) -> list[Event]:
    """Lines ms,add|remove,node."""
    with open(path, newline="", encoding="ascii") as file:
        return [(int(ms) / 1000, what, node) for ms, what, node in csv.reader(file)]


def read_counts(path: Path) -> list[Event]:
    """Lines s,count: the youngest goes first."""
    events: list[Event] = []
    live: list[str] = []
    number = 0
    with open(path, newline="", encoding="ascii") as file:
        for at, count in csv.reader(file):
            while len(live) < int(float(count)):
                number += 1
                live.append(f"n{number}")
                events.append((float(at), "add", live[-1]))
            while len(live) > int(float(count)):
                events.append((float(at), "remove", live.pop()))
    return events


def piece(events: list[Event], seconds: float, most: int) -> list[Event]:
    """The stretch with most changes; it begins with whoever is there then. Every k-th node of it, so that `most` are there at once."""
    starts = [at for at, _, _ in events if at > events[0][0]]
    begin = max(starts, key=lambda at: sum(at <= other < at + seconds for other, _, _ in events), default=events[0][0])
    live: dict[str, None] = {}
    for at, what, node in events:
        if at <= begin:
            if what == "add":
                live[node] = None
            else:
                live.pop(node, None)
    inside = [(0.0, "add", node) for node in live] + [(at - begin, what, node) for at, what, node in events if begin < at < begin + seconds]
    names = list(dict.fromkeys(node for _, _, node in inside))
    for stride in range(1, len(names) + 1):
        kept = set(names[::stride])
        cut = [event for event in inside if event[2] in kept]
        if peak(cut) <= most:
            return [event for event in cut if event[1] == "add" or any(e[1] == "add" and e[2] == event[2] for e in cut)]
    return []


def peak(events: list[Event]) -> int:
    now = top = 0
    for _, what, _ in events:
        now += 1 if what == "add" else -1
        top = max(top, now)
    return top


def traces(folder: Path, minutes: float, most: int) -> dict[str, list[Event]]:
    found = {}
    for path in sorted(folder.glob("*.csv")):
        if path.name == "p3-trace.csv":
            found["p3"] = piece(read_names(path), 60 * minutes, most)
        elif "g4dn" in path.name and "1c" in path.name:
            found["g4dn"] = piece(read_counts(path), 60 * minutes, most)
    if not found:
        raise SystemExit(f"goodput: neither p3-trace.csv nor the g4dn trace is in {folder}")
    return found


# ---- ways ----


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Cluster:
    """Workers of one way. A node is a process group of its own, which is killed whole."""

    def __init__(self, way: str, options: argparse.Namespace, most: int) -> None:
        self.way, self.options, self.most = way, options, most
        self.folder = Path(tempfile.mkdtemp(prefix="spotnik-goodput-"))
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}
        self.helper: Optional[subprocess.Popen[bytes]] = None
        self.log = self.folder / "steps"
        self.log.touch()
        self.out = open(self.folder / "out", "wb")  # noqa: SIM115
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parent / "python"),
                            "SPOTNIK_LIBRARY": str(options.build / "src/libspotnik.so")}
        self.port = free_port()
        getattr(self, f"_open_{way}")()

    def _helper(self, *command: str) -> None:
        self.helper = subprocess.Popen(command, stdout=self.out, stderr=self.out, env=self.environment, start_new_session=True)

    def _open_spotnik(self) -> None:
        (self.folder / "peers").mkdir()
        key = self.folder / "key"
        subprocess.run([str(self.options.build / "cli/spotnik"), "key", str(key)], check=True)
        self.environment |= {"SPOTNIK_PEERS": f"file:{self.folder}/peers", "SPOTNIK_KEY_FILE": str(key), "SPOTNIK_CHECKPOINT": str(self.folder / "checkpoints"),
                             "SPOTNIK_CHECKPOINT_S": f"{self.options.checkpoint_s:g}"}

    def _open_torchrun(self) -> None:
        """The rendezvous' store lives on a machine that is never lost: better than any of theirs could do by itself."""
        self._helper(sys.executable, "-c", f"import time, torch.distributed as d; s = d.TCPStore('127.0.0.1', {self.port}, is_master=True, "
                                           "wait_for_workers=False); time.sleep(1e6)")

    def _open_torchft(self) -> None:
        lighthouse = Path(sys.executable).parent / "torchft_lighthouse"
        self._helper(str(lighthouse), "--min_replicas", "1", "--quorum_tick_ms", "100", "--join_timeout_ms", "1000", "--bind", f"[::]:{self.port}")
        self.environment["TORCHFT_LIGHTHOUSE"] = f"http://localhost:{self.port}"

    def _command(self) -> list[str]:
        options = self.options
        worker = [str(HERE / "goodput_worker.py"), self.way, "--ledger", str(self.log), "--batch", str(options.batch), "--compute-ms", str(options.compute_ms),
                  "--checkpoint", str(self.folder / "checkpoint"), "--checkpoint-s", str(options.checkpoint_s)]
        if self.way == "spotnik":  # an agent a node, as on a machine of its own
            return [str(options.build / "cli/spotnik"), "run", "-q", "-n", "1", "--", sys.executable, *worker]
        if self.way == "torchrun":
            return [sys.executable, "-m", "torch.distributed.run", f"--nnodes=1:{self.most}", "--nproc-per-node=1", "--max-restarts=100000",
                    "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{self.port}", "--rdzv-id=goodput",
                    "--rdzv-conf=is_host=0,last_call_timeout=1,join_timeout=600", *worker]
        return [sys.executable, *worker]

    def add(self, name: str) -> None:
        self.nodes[name] = subprocess.Popen(self._command(), stdout=self.out, stderr=self.out, env=self.environment, start_new_session=True)

    def remove(self, name: str) -> None:
        kill_all(self.nodes.pop(name))

    def lines(self) -> list[Line]:
        """What was committed so far; a half line at the end is left."""
        text = self.log.read_text()
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines() if line.startswith("{") and line.endswith("}")]

    def close(self, keep: bool) -> None:
        for node in list(self.nodes):
            self.remove(node)
        if self.helper:
            kill_all(self.helper)
        self.out.close()
        if keep:
            print(f"goodput: kept {self.folder}", file=sys.stderr)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


def descendants(pid: int) -> list[int]:
    """A machine goes with all its processes, also those in groups of their own."""
    found = []
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    for child in map(int, children):
        found += [child, *descendants(child)]
    return found


def kill_all(process: subprocess.Popen[bytes]) -> None:
    for pid in [process.pid, *descendants(process.pid)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def why_not(way: str) -> str:
    """The reason why a way cannot be run here; "" when it can."""
    need = {"spotnik": "import torch, numpy", "torchrun": "import torch", "torchft": "import torch, torchft"}[way]
    done = subprocess.run([sys.executable, "-c", need], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["?"])[-1]


# ---- runs ----


def wait_for_steps(cluster: Cluster, size: int, count: int, limit_s: float) -> Optional[float]:
    """The instant when so many steps of so many workers are committed; None: never."""
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        steps = {line["step"] for line in cluster.lines() if line["size"] == size}
        if len(steps) >= count:
            return time.monotonic()
        time.sleep(0.1)
    return None


def calm_rate(way: str, options: argparse.Namespace, size: int) -> float:
    """Samples a second of `size` workers that nobody disturbs: the median of the times between commits."""
    cluster = Cluster(way, options, size)
    try:
        for number in range(size):
            cluster.add(f"n{number}")
        if wait_for_steps(cluster, size, options.calm_steps, 180) is None:
            raise SystemExit(f"goodput: {size} workers of {way} did not come together; see {cluster.folder}/out (run with --keep)")
        first: dict[int, float] = {}
        for line in cluster.lines():
            if line["size"] == size:
                first[line["step"]] = min(line["t"], first.get(line["step"], 1e18))
        at = [first[step] for step in sorted(first)]
        return options.batch * size / statistics.median(b - a for a, b in zip(at[2:], at[3:]))
    finally:
        cluster.close(options.keep)


def disturbed(way: str, options: argparse.Namespace, events: list[Event], speed: float) -> dict[str, Any]:
    """Replay; returns the lines and what was done when, from the moment the first workers had begun to train."""
    cluster = Cluster(way, options, peak(events))
    try:
        start = [event for event in events if event[0] == 0]
        rest = [(at / speed, what, node) for at, what, node in events if at > 0]
        for _, _, node in start:
            cluster.add(node)
        if wait_for_steps(cluster, len(start), 3, 180) is None:
            raise SystemExit(f"goodput: the first workers of {way} did not come together (run with --keep and see its folder)")
        begun, done = time.monotonic(), []
        for at, what, node in rest:
            time.sleep(max(0.0, begun + at - time.monotonic()))
            if what == "add":
                cluster.add(node)
            elif node in cluster.nodes:
                cluster.remove(node)
            done.append((time.monotonic() - begun, what))
        end = 60 * options.minutes / speed
        time.sleep(max(0.0, begun + end - time.monotonic()))
        ended = time.monotonic() - begun
        return {"live": len(start), "done": done, "seconds": ended, "begun": begun, "lines": cluster.lines()}
    finally:
        cluster.close(options.keep)


def interpolated(rates: dict[int, float], size: int) -> float:
    known = sorted({0: 0.0, **rates}.items())
    for (a, low), (b, high) in zip(known, known[1:]):
        if a <= size <= b:
            return low + (high - low) * (size - a) / (b - a)
    return known[-1][1] * size / known[-1][0]


def reckon(run: dict[str, Any], rates: dict[int, float], options: argparse.Namespace) -> dict[str, Any]:
    """Figures of one run."""
    live, last, could = run["live"], 0.0, 0.0
    for at, what in [*run["done"], (run["seconds"], "")]:
        could += interpolated(rates, live) * (at - last)
        live, last = live + (what == "add") - (what == "remove"), at
    by_step: dict[int, list[Line]] = defaultdict(list)
    for line in run["lines"]:
        if run["begun"] <= line["t"] <= run["begun"] + run["seconds"]:
            by_step[line["step"]].append(line)
    useful = repeated = lost = 0
    seen: dict[int, int] = defaultdict(int)
    for lines in by_step.values():
        # A share of a step that was logged twice was made twice: the last one counts.
        last_of = {line["begin"]: line for line in sorted(lines, key=lambda line: line["t"])}
        useful += sum(line["count"] for line in last_of.values())
        lost += len(last_of) < len(lines)
        repeated += sum(line["count"] for line in lines) - sum(line["count"] for line in last_of.values())
        for begin in last_of:
            seen[begin] += 1
    changes = len(run["done"])
    missing = max(0.0, could - useful)
    rate = could / run["seconds"] if run["seconds"] else 0
    losses = sorted((line["t"] - run["begun"], line["loss"]) for lines in by_step.values() for line in lines)
    return {"goodput": useful / could if could else 0, "useful": useful, "could": could, "changes": changes,
            "lost_s_per_change": missing / rate / changes if changes and rate else 0, "steps_lost": lost, "samples_again": repeated,
            "twice": sum(count - 1 for count in seen.values()), "time_to_loss_s": time_to(losses, options.loss), "seconds": run["seconds"]}


def time_to(losses: list[tuple[float, float]], target: float) -> Optional[float]:
    """When the mean of the last 20 was first at the target."""
    for i in range(20, len(losses)):
        if statistics.mean(loss for _, loss in losses[i - 20 : i]) <= target:
            return losses[i][0]
    return None


# ---- the page ----


def page(results: dict[str, Any], options: argparse.Namespace) -> str:
    head = ["trace", "speed", "way", "goodput", "seconds lost a change", "changes", "steps made again", "samples again", f"seconds to loss {options.loss:g}"]
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for key, found in sorted(results["runs"].items()):
        trace, speed, way = key.split(" ")
        reached = found["time_to_loss_s"]
        rows.append(f"| {trace} | x{speed} | {way} | {100 * found['goodput']:.1f} % | {found['lost_s_per_change']:.2f} | {found['changes']} | "
                    f"{found['steps_lost']} | {found['samples_again']} | {'never' if reached is None else f'{reached:.0f}'} |")
    out = ["# Goodput on machines that vanish", "", "Made by `bench/goodput.py`, which says what is compared and how the others are set.", "",
           f"Load average while it ran: {results['load']}. Processors: {os.cpu_count()}.", "", *rows, ""]
    out += [f"Left out: {way}: {why}." for way, why in results["left_out"].items()]
    return "\n".join([*out, "", "![goodput](goodput.svg)", ""])


def plot(results: dict[str, Any], path: Path) -> None:
    cases = sorted({key.rsplit(" ", 1)[0] for key in results["runs"]})
    series: dict[str, list[Optional[float]]] = {way: [100 * results["runs"][f"{case} {way}"]["goodput"] if f"{case} {way}" in results["runs"] else None
                                                      for case in cases] for way in WAYS if any(key.endswith(" " + way) for key in results["runs"])}
    figure, (axes,) = pictures.panels(1, 3 + 1.6 * len(cases), 4)
    pictures.bars(axes, [case.replace(" ", " x") for case in cases], series, "useful samples\n(% of what live workers could do)")
    axes.set_ylim(0, 112)
    pictures.legend(figure, axes)
    pictures.save(figure, path)


def save(results: dict[str, Any], options: argparse.Namespace) -> None:
    results["load"] = " ".join(f"{value:.1f}" for value in os.getloadavg())
    options.out.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
    if results["runs"]:
        options.out.with_suffix(".md").write_text(page(results, options))
        plot(results, options.out.with_suffix(".svg"))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("traces", type=Path)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--only", nargs="+", help="names of traces: p3, g4dn")
    parser.add_argument("--minutes", type=float, default=120, help="of the trace")
    parser.add_argument("--speeds", type=float, nargs="+", default=[20, 60])
    parser.add_argument("--most", type=int, default=6, help="workers at once")
    parser.add_argument("--batch", type=int, default=16, help="samples of a worker in a step")
    parser.add_argument("--compute-ms", type=float, default=300)
    parser.add_argument("--checkpoint-s", type=float, default=10)
    parser.add_argument("--calm-steps", type=int, default=30)
    parser.add_argument("--loss", type=float, default=1.0)
    parser.add_argument("--keep", action="store_true", help="keep the folders of the runs")
    parser.add_argument("--out", type=Path, default=Path("goodput"), help="without a suffix")
    options = parser.parse_args()
    options.build = options.build.resolve()
    return options


def main() -> None:
    options = parse()
    left_out = {way: why for way in options.ways if (why := why_not(way))}
    results: dict[str, Any] = {"left_out": left_out, "runs": {}, "rates": {}}
    found = traces(options.traces, options.minutes, options.most)
    for way in [way for way in options.ways if way not in left_out]:
        sizes = sorted({1, max(1, options.most // 2), options.most})
        rates = {size: calm_rate(way, options, size) for size in sizes}
        results["rates"][way] = rates
        print(f"{way}: undisturbed {', '.join(f'{size}: {rate:.0f}/s' for size, rate in rates.items())}", file=sys.stderr)
        for name, events in found.items():
            for speed in options.speeds if not options.only or name in options.only else []:
                run = disturbed(way, options, events, speed)
                results["runs"][f"{name} {speed:g} {way}"] = figures = reckon(run, rates, options)
                print(f"{way}, {name} x{speed:g}: goodput {100 * figures['goodput']:.1f} %, {figures['lost_s_per_change']:.2f} s a change", file=sys.stderr)
                save(results, options)
    save(results, options)


if __name__ == "__main__":
    main()
