#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fig. 6 of the Spotnik paper on one machine: workers are added one by one, and what a worker gets done is measured
under S-SGD, AD-PSGD and `auto`.

    bench/fig6.py BUILD OUT [--scenario gradual|cliff] [--strategy NAME]...

gradual: each worker is on a host of its own behind a slow card, so S-SGD loses a little with each that comes. cliff:
workers 1 to 4 are on one host, 5 to 8 on a second one, so S-SGD loses nothing until the fifth comes, and then most.
Hosts are network namespaces (bench/fig6_hosts.py), so this needs root.

Compute is a stand-in that waits, so that the processors of this machine are not what is measured. Writes
OUT/fig6-SCENARIO-N.json for each strategy; prints a table, and draws OUT/fig6-SCENARIO.svg, of all that are there.
"""

from __future__ import annotations

import argparse
import dataclasses
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

import pictures
from fig6_hosts import Hosts

MEGABYTES = 1.0
SIZES = 8
SETTLE_STEPS = 4  # of a size, as seen by a worker, before it counts
COLOURS = ("#c23b22", "#1f6fb2", "#2a8f4d", "#8a56ac")
STRATEGIES = ("ssgd", "adpsgd", "auto:throughput=0.4,0.5", "auto:throughput=0.9,0.95")
ROOT = pathlib.Path(__file__).resolve().parent.parent


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A cluster, and how long it is looked at."""

    name: str
    compute_s: float
    load: float  #: time for one model through the slow link, in computes
    dwell_s: float  #: at each size: the windows of the policy, and what is measured after them
    settle: float  #: the part of it that is not measured
    per_host: int  #: workers of a host

    def rate(self) -> str:
        """Speed of the slow link."""
        return f"{MEGABYTES * 8 / (self.load * self.compute_s):.1f}mbit"


SCENARIOS = {
    "gradual": Scenario("gradual", 0.075, 0.9, 11.6, 0.55, 1),
    "cliff": Scenario("cliff", 0.075, 2.0, 11.6, 0.55, 4),
}


# ---- the worker ----


def worker(compute_s: float) -> None:
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
            time.sleep(0 if step.replay else compute_s)
            gradient[:] = 1e-3
            if not sync.step(gradient):
                continue
            print(f"{time.monotonic():.6f} {step.number} {step.size} {sync.name} {int(step.replay)}", flush=True)


# ---- the run ----


class Cluster:
    """Workers of one strategy, added one by one; their lines go to files in a folder of this run."""

    def __init__(self, build: pathlib.Path, scenario: Scenario, strategy: str, hosts: Hosts) -> None:
        self.scenario = scenario
        self.hosts = hosts
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="spotnik-fig6-"))
        (self.folder / "peers").mkdir()
        (self.folder / "peers" / "fresh").touch()  # nobody was here before
        self.key = self.folder / "key"
        subprocess.run([build / "cli" / "spotnik", "key", self.key], check=True, stdout=subprocess.DEVNULL)
        library = next((build / "src").glob("libspotnik.so*"))
        self.environment = {
            **os.environ,
            "SPOTNIK_LIBRARY": str(library),
            "SPOTNIK_PEERS": f"file:{self.folder}/peers",
            "SPOTNIK_KEY_FILE": str(self.key),
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
        host = len(self.workers) // self.scenario.per_host
        words = [*self.hosts.inside(host), sys.executable, __file__, "--worker", str(self.scenario.compute_s)]
        environment = {**self.environment, "SPOTNIK_BIND": self.hosts.address(host)}
        self.workers.append(subprocess.Popen(words, env=environment, stdout=file))
        until = time.monotonic() + 30
        while not any(line[4] == "0" for line in lines(path)):
            if time.monotonic() > until or self.workers[-1].poll() is not None:
                raise SystemExit("fig6: a worker did not come in within 30 s; see its words above")
            time.sleep(0.05)

    def status(self) -> dict[str, Any]:
        """What a member says of the strategy."""
        words = [*self.hosts.inside(0), str(self.spotnik), "status", "--json"]
        said = subprocess.run(words, env=self.environment, capture_output=True, text=True, check=False)
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


def dwell(cluster: Cluster, size: int) -> float:
    """Wait at a size: computes a second of a worker."""
    scenario = cluster.scenario
    time.sleep(scenario.dwell_s * scenario.settle)
    begun = time.monotonic()
    time.sleep(scenario.dwell_s * (1 - scenario.settle))
    speeds = [speed(cluster.folder / f"{i}.txt", begun, time.monotonic(), size) for i in range(size)]
    return statistics.mean(value for value in speeds if value is not None)


def measure(build: pathlib.Path, scenario: Scenario, strategy: str) -> dict[str, Any]:
    """Per-worker throughput by size, and the switches."""
    result: dict[str, Any] = {"strategy": strategy, **dataclasses.asdict(scenario), "rate": scenario.rate()}
    result.update(throughput=[], status=[])
    with Hosts(SIZES // scenario.per_host, scenario.rate()) as hosts:
        cluster = Cluster(build, scenario, strategy, hosts)
        try:
            for size in range(1, SIZES + 1):
                cluster.add()
                result["throughput"].append(dwell(cluster, size))
                result["status"].append(cluster.status())
                print(f"fig6: {strategy}: {size} workers, {result['throughput'][-1]:.3f} computes/s each", file=sys.stderr)
        finally:
            cluster.end()
    return result


# ---- table and picture ----


def curve(result: dict[str, Any]) -> list[float]:
    """Throughput of a worker relative to one alone, by size."""
    return [value / result["throughput"][0] for value in result["throughput"]]


def svg(results: list[dict[str, Any]]) -> str:
    """The relative throughput of each strategy against the number of workers."""
    figure, (axes,) = pictures.panels(1, 8.2, 3.8)
    series = {result["strategy"]: list(enumerate(curve(result), 1)) for result in results}
    pictures.lines(axes, series, "workers", "throughput of a worker\n(one alone = 1)", colours=dict(zip(series, COLOURS)))
    axes.axhline(0.4, color="#5a6570", linestyle=":", linewidth=1.2, label="limit of auto:throughput=0.4,0.5")
    axes.set_ylim(0, 1.08)
    axes.set_xticks(range(1, len(results[0]["throughput"]) + 1))
    pictures.legend(figure, axes)
    return pictures.text(figure)


def table(results: list[dict[str, Any]]) -> list[str]:
    """The curves as words, and the switches of each `auto`."""
    names = [result["strategy"] for result in results]
    curves = [curve(result) for result in results]
    rows = ["| workers | " + " | ".join(f"`{name}`" for name in names) + " |", "|---|" + "---|" * len(names)]
    for size in range(len(curves[0])):
        rows.append(f"| {size + 1} | " + " | ".join(f"{values[size]:.3f}" for values in curves) + " |")
    rows.append("")
    for result in results:
        if result["strategy"].startswith("auto"):
            counts = [int(status.get("switches", 0)) for status in result["status"]]
            rows.append(f"`{result['strategy']}`: switches so far, by workers: {', '.join(map(str, counts))}")
    return rows


def files(out: pathlib.Path, scenario: str) -> dict[str, pathlib.Path]:
    """Where the result of each strategy lies."""
    return {name: out / f"fig6-{scenario}-{number}.json" for number, name in enumerate(STRATEGIES)}


def write(out: pathlib.Path, scenario: str) -> None:
    """Table and picture of all that is there."""
    found = [json.loads(file.read_text()) for file in files(out, scenario).values() if file.exists()]
    if found:
        (out / f"fig6-{scenario}.svg").write_text(svg(found))
        print("\n".join(table(found)))


def main() -> None:
    """Measure, then write table and plots."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", type=pathlib.Path, help="a build of the library and the command")
    parser.add_argument("out", nargs="?", type=pathlib.Path, help="where results go")
    parser.add_argument("--scenario", choices=SCENARIOS, default="gradual")
    parser.add_argument("--strategy", action="append", choices=STRATEGIES, help="measure only this; none: all")
    parser.add_argument("--plot", action="store_true", help="measure nothing: tables and plots of what is there")
    parser.add_argument("--worker", type=float, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.worker)
        return
    if arguments.build is None or arguments.out is None:
        parser.error("a build and a folder for results are needed")
    arguments.out.mkdir(parents=True, exist_ok=True)
    scenario = SCENARIOS[arguments.scenario]
    for strategy in () if arguments.plot else arguments.strategy or STRATEGIES:
        result = measure(arguments.build.resolve(), scenario, strategy)
        files(arguments.out, scenario.name)[strategy].write_text(json.dumps(result, indent=1) + "\n")
    write(arguments.out, scenario.name)


if __name__ == "__main__":
    main()
