#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fig. 6 of the Spotnik paper on one machine: workers are added one by one behind slow links, and what a worker gets
done is measured under S-SGD, AD-PSGD and `auto`.

    bench/fig6.py BUILD OUT [--strategy NAME]...

Each worker is a process whose network card is slow (SPOTNIK_SHAPE, docs/shaping.md) and whose compute is a stand-in
that waits, so that the processors of this machine are not what is measured. The model is as large as makes its exchange
by S-SGD fall below 40 % of what one worker does when some have come. Writes OUT/fig6-N.json for each strategy, and
OUT/fig6.md and OUT/fig6.svg of all that are there.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Optional, TextIO

COMPUTE_S = 0.16
LOAD = 0.9  # time for one model through a worker's card, in computes
MEGABYTES = 1.0
SIZES = 8
DWELL_S = 12.5  # at each size: the windows of the policy, and what is measured after them
SETTLE = 0.82  # the part of it that is not measured
SETTLE_STEPS = 4  # of a size, as seen by a worker, before it counts
STRATEGIES = ("ssgd", "adpsgd", "auto:throughput=0.4,0.5", "auto:throughput=0.9,0.95")
COLOURS = ("#c23b22", "#1f6fb2", "#2a8f4d", "#8a56ac")
ROOT = pathlib.Path(__file__).resolve().parent.parent


def shape() -> str:
    """Speed of a card that takes LOAD computes for a model."""
    return f"{MEGABYTES * 8 / (LOAD * COMPUTE_S):.1f}mbit"


# ---- the worker ----


def worker() -> None:
    """Train nothing, as fast as links allow: one line a step on standard output: instant, step, members, strategy."""
    sys.path.insert(0, str(ROOT / "python"))
    import numpy

    import spotnik

    count = int(MEGABYTES * 1e6 / 4)
    model = numpy.zeros(count, dtype=numpy.float32)
    gradient = numpy.zeros(count, dtype=numpy.float32)

    def apply(to: Any, by: Any) -> None:
        to -= 0.1 * by

    config = spotnik.Config(members_min=1, members_max=SIZES, samples=1 << 40, batch_per_member=32)
    with spotnik.init(config) as job:
        sync = spotnik.Sync(job, model, apply)
        for step in job:
            time.sleep(0 if step.replay else COMPUTE_S)
            gradient[:] = 1e-3
            if not sync.step(gradient):
                continue
            print(f"{time.monotonic():.6f} {step.number} {step.size} {sync.name} {int(step.replay)}", flush=True)


# ---- the run ----


class Cluster:
    """Workers of one strategy, added one by one; their lines go to files in a folder of this run."""

    def __init__(self, build: pathlib.Path, strategy: str) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="spotnik-fig6-"))
        (self.folder / "peers").mkdir()
        self.key = self.folder / "key"
        subprocess.run([build / "cli" / "spotnik", "key", self.key], check=True, stdout=subprocess.DEVNULL)
        library = next((build / "src").glob("libspotnik.so*"))
        self.environment = {
            **os.environ,
            "SPOTNIK_LIBRARY": str(library),
            "SPOTNIK_PEERS": f"file:{self.folder}/peers",
            "SPOTNIK_KEY_FILE": str(self.key),
            "SPOTNIK_SHAPE": shape(),
            "SPOTNIK_SYNC": strategy,
            "SPOTNIK_MIN": "1",
            "OMP_NUM_THREADS": "1",
        }
        self.workers: list[subprocess.Popen[bytes]] = []
        self.files: list[TextIO] = []
        self.spotnik = build / "cli" / "spotnik"

    def add(self) -> None:
        """One more worker; returns when it has committed a step of its own."""
        path = self.folder / f"{len(self.workers)}.txt"
        file = open(path, "w")  # noqa: SIM115  (closed by end())
        self.files.append(file)
        self.workers.append(
            subprocess.Popen([sys.executable, __file__, "--worker"], env=self.environment, stdout=file)
        )
        until = time.monotonic() + 30
        while not any(line[4] == "0" for line in lines(path)):
            if time.monotonic() > until or self.workers[-1].poll() is not None:
                raise SystemExit("fig6: a worker did not come in within 30 s; see its words above")
            time.sleep(0.05)

    def status(self) -> dict[str, Any]:
        """What a member says of the strategy."""
        said = subprocess.run(
            [self.spotnik, "status", "--json"], env=self.environment, capture_output=True, text=True, check=False
        )
        return dict(json.loads(said.stdout).get("sync", {})) if said.returncode == 0 else {}

    def end(self) -> None:
        """Kill the workers, remove the folder."""
        for process in self.workers:
            process.kill()
            process.wait()
        for file in self.files:
            file.close()
        shutil.rmtree(self.folder)


def lines(path: pathlib.Path) -> list[list[str]]:
    """The whole lines of a worker so far."""
    return [line.split() for line in path.read_text().split("\n")[:-1]]


def speed(path: pathlib.Path, since: float, until: float, size: int) -> Optional[float]:
    """Computes a second of one worker between two instants, over steps of that size; None: too few."""
    at = [float(line[0]) for line in lines(path) if since <= float(line[0]) <= until and int(line[2]) == size]
    return (len(at) - 1) / (at[-1] - at[0]) if len(at) >= SETTLE_STEPS else None


def measure(build: pathlib.Path, strategy: str) -> dict[str, Any]:
    """Per-worker throughput by size, and the switches."""
    cluster = Cluster(build, strategy)
    throughput: list[float] = []
    switches: list[dict[str, Any]] = []
    try:
        for size in range(1, SIZES + 1):
            cluster.add()
            begun = time.monotonic()
            time.sleep(DWELL_S)
            ended = time.monotonic()
            speeds = [
                speed(cluster.folder / f"{i}.txt", begun + SETTLE * DWELL_S, ended, size) for i in range(size)
            ]
            throughput.append(statistics.mean(value for value in speeds if value is not None))
            switches.append(cluster.status())
            print(f"fig6: {strategy}: {size} workers, {throughput[-1]:.3f} computes/s each", file=sys.stderr)
    finally:
        cluster.end()
    settings = {"dwell_s": DWELL_S, "settle": SETTLE}
    return {"strategy": strategy, **settings, "throughput": throughput, "status": switches}


# ---- the table and the plot ----


def curve(result: dict[str, Any]) -> list[float]:
    """Throughput of a worker relative to one alone, by size."""
    return [value / result["throughput"][0] for value in result["throughput"]]


def svg(results: list[dict[str, Any]]) -> str:
    """The relative throughput of each strategy against the number of workers."""
    width, height, left, top = 560, 320, 60, 20
    inner_width, inner_height = width - left - 20, height - top - 50

    def x(size: float) -> float:
        return left + (size - 1) / (SIZES - 1) * inner_width

    def y(value: float) -> float:
        return top + (1.1 - value) / 1.1 * inner_height

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        'font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for value in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
        dash = ' stroke-dasharray="5 4"' if value == 0.4 else ""
        grey = "#555" if value == 0.4 else "#ddd"
        out.append(f'<path d="M{left} {y(value):.1f}H{left + inner_width}" stroke="{grey}"{dash}/>')
        out.append(f'<text x="{left - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{value:.1f}</text>')
    for size in range(1, SIZES + 1):
        out.append(f'<text x="{x(size):.1f}" y="{top + inner_height + 18}" text-anchor="middle">{size}</text>')
    for result, colour in zip(results, COLOURS):
        points = " ".join(f"{x(size):.1f},{y(value):.1f}" for size, value in enumerate(curve(result), 1))
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
    for number, (result, colour) in enumerate(zip(results, COLOURS)):
        at = top + inner_height + 36
        name = result["strategy"]
        out.append(f'<text x="{left + number * 125}" y="{at}" fill="{colour}" font-size="11">{name}</text>')
    out.append(
        f'<text x="14" y="{top + inner_height / 2:.0f}" transform="rotate(-90 14 {top + inner_height / 2:.0f})" '
        'text-anchor="middle">throughput of a worker, one alone = 1</text></svg>'
    )
    return "\n".join(out) + "\n"


def switch_lines(results: list[dict[str, Any]]) -> list[str]:
    """When `auto` switched, and why."""
    out = []
    for result in results:
        if not result["strategy"].startswith("auto"):
            continue
        counts = [int(status.get("switches", 0)) for status in result["status"]]
        at = next((size for size, count in enumerate(counts, 1) if count), None)
        last = result["status"][-1]
        why = f" at {at} workers ({last.get('reason')}: {last.get('value', 0):.3f})" if at else ""
        out.append(f"* `{result['strategy']}`: {counts[-1]} switch{'' if counts[-1] == 1 else 'es'}{why}.")
    return out


def parts(values: list[float], fixed: list[list[float]]) -> list[float]:
    """What a curve reaches of the highest of others, by size."""
    return [value / max(others) for value, others in zip(values, zip(*fixed))]


def table(results: list[dict[str, Any]]) -> str:
    """The same as words."""
    names = [result["strategy"] for result in results]
    curves = [curve(result) for result in results]
    fixed = [values for name, values in zip(names, curves) if not name.startswith("auto")]
    rows = ["| workers | " + " | ".join(f"`{name}`" for name in names) + " |", "|---|" + "---|" * len(names)]
    for size in range(SIZES):
        rows.append(f"| {size + 1} | " + " | ".join(f"{values[size]:.3f}" for values in curves) + " |")
    out = [
        "# Fig. 6: workers added one by one behind slow links",
        "",
        f"Throughput of a worker, relative to one alone. Each worker computes for {COMPUTE_S * 1e3:.0f} ms a step",
        f"(a stand-in that waits) and sends at most {shape()}; the model has {MEGABYTES:.0f} MB, {LOAD:.1f} computes'",
        f"time on such a card. All on one machine, `bench/fig6.py`; each size for {DWELL_S:.0f} s or so, of which the",
        "end is measured, when a policy has had the windows it needs. Where it contains one of the averages that are made",
        "every 64 steps, it shows by 6 to 7 %.",
        "",
        *rows,
        "",
        *switch_lines(results),
        *(
            [
                f"* Against the faster of the fixed ones at each size, `{name}` is at "
                + ", ".join(f"{part * 100:.0f} %" for part in parts(values, fixed)) + "."
                for name, values in zip(names, curves)
                if name.startswith("auto") and len(fixed) == 2
            ]
        ),
        "",
        "The rule of the paper keeps S-SGD, whose models are equal, until it gives less than 40 % of one worker: up to",
        "there `auto` is S-SGD, and AD-PSGD is faster. With the limit at 90 % `auto` goes for throughput alone.",
        "AD-PSGD's pulls travel while a worker computes, so slow links cost it nothing up to one model a compute;",
        "every 64 steps all models are averaged.",
        "",
        "![Fig. 6](fig6.svg)",
        "",
    ]
    return "\n".join(out)


def main() -> None:
    """Measure, then write table and plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", type=pathlib.Path, help="a build of the library and the command")
    parser.add_argument("out", nargs="?", type=pathlib.Path, help="where results go")
    parser.add_argument("--strategy", action="append", choices=STRATEGIES, help="measure only this; none: all")
    parser.add_argument("--plot", action="store_true", help="measure nothing: table and plot of what is there")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker()
        return
    if arguments.build is None or arguments.out is None:
        parser.error("a build and a folder for results are needed")
    arguments.out.mkdir(parents=True, exist_ok=True)
    files = {name: arguments.out / f"fig6-{number}.json" for number, name in enumerate(STRATEGIES)}
    for strategy in () if arguments.plot else arguments.strategy or STRATEGIES:
        files[strategy].write_text(json.dumps(measure(arguments.build.resolve(), strategy), indent=1) + "\n")
    results = [json.loads(file.read_text()) for file in files.values() if file.exists()]
    (arguments.out / "fig6.md").write_text(table(results))
    (arguments.out / "fig6.svg").write_text(svg(results))


if __name__ == "__main__":
    main()
