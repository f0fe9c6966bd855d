#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fig. 6 of the Spotnik paper on one machine: workers are added one by one, and what a worker gets done is measured
under S-SGD, AD-PSGD and `auto`.

    bench/fig6.py BUILD OUT [--scenario gradual|cliff] [--strategy NAME]...

gradual: each worker's network card is slow (SPOTNIK_SHAPE, docs/guide/strategies.md), so S-SGD loses a little with each that
comes. cliff: workers 1 to 4 are on one host, 5 to 8 on a second one behind a slow link (bench/fig6_hosts.py; needs
root), so S-SGD loses nothing until the fifth comes, and then most.

Compute is a stand-in that waits, so that the processors of this machine are not what is measured. Writes
OUT/fig6-SCENARIO-N.json for each strategy, and OUT/fig6.md and OUT/fig6-SCENARIO.svg of all that are there.
"""

from __future__ import annotations

import argparse
import contextlib
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

from fig6_hosts import TwoHosts
from fig6_page import page, svg

MEGABYTES = 1.0
SIZES = 8
SETTLE_STEPS = 4  # of a size, as seen by a worker, before it counts
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
    first_host: int  #: number of workers on the first host, the others are on a second one; 0: each has a card of its own

    def rate(self) -> str:
        """Speed of the slow link."""
        return f"{MEGABYTES * 8 / (self.load * self.compute_s):.1f}mbit"


SCENARIOS = {
    "gradual": Scenario("gradual", 0.075, 0.9, 11.6, 0.55, 0),
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

    def __init__(self, build: pathlib.Path, scenario: Scenario, strategy: str, hosts: Optional[TwoHosts]) -> None:
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
            **({} if hosts else {"SPOTNIK_SHAPE": scenario.rate()}),
        }
        self.workers: list[subprocess.Popen[bytes]] = []
        self.files: list[TextIO] = []
        self.spotnik = build / "cli" / "spotnik"

    def add(self) -> None:
        """One more worker; returns when it has committed a step of its own."""
        path = self.folder / f"{len(self.workers)}.txt"
        file = open(path, "w")  # noqa: SIM115  (closed by end())
        self.files.append(file)
        words = [sys.executable, __file__, "--worker", str(self.scenario.compute_s)]
        environment = dict(self.environment)
        if self.hosts:
            host = int(len(self.workers) >= self.scenario.first_host)
            words = [*self.hosts.inside(host), *words]
            environment["SPOTNIK_BIND"] = self.hosts.address(host)
        self.workers.append(subprocess.Popen(words, env=environment, stdout=file))
        until = time.monotonic() + 30
        while not any(line[4] == "0" for line in lines(path)):
            if time.monotonic() > until or self.workers[-1].poll() is not None:
                raise SystemExit("fig6: a worker did not come in within 30 s; see its words above")
            time.sleep(0.05)

    def status(self) -> dict[str, Any]:
        """What a member says of the strategy."""
        words = [*(self.hosts.inside(0) if self.hosts else []), str(self.spotnik), "status", "--json"]
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


def dwell(cluster: Cluster, size: int) -> tuple[float, list[float]]:
    """Wait at a size: computes a second of a worker, and MB a second that each host sent to the other."""
    scenario, hosts = cluster.scenario, cluster.hosts
    time.sleep(scenario.dwell_s * scenario.settle)
    sent, begun = hosts.sent_bytes() if hosts else [], time.monotonic()
    time.sleep(scenario.dwell_s * (1 - scenario.settle))
    now, ended = hosts.sent_bytes() if hosts else [], time.monotonic()
    speeds = [speed(cluster.folder / f"{i}.txt", begun, ended, size) for i in range(size)]
    crossed = [(after - before) / (ended - begun) / 1e6 for before, after in zip(sent, now)]
    return statistics.mean(value for value in speeds if value is not None), crossed


def measure(build: pathlib.Path, scenario: Scenario, strategy: str) -> dict[str, Any]:
    """Per-worker throughput by size, and the switches."""
    result: dict[str, Any] = {"strategy": strategy, **dataclasses.asdict(scenario), "rate": scenario.rate()}
    result.update(throughput=[], crossed_mb_s=[], status=[])
    with TwoHosts(scenario.rate()) if scenario.first_host else contextlib.nullcontext() as hosts:
        cluster = Cluster(build, scenario, strategy, hosts)
        try:
            for size in range(1, SIZES + 1):
                cluster.add()
                throughput, crossed = dwell(cluster, size)
                result["throughput"].append(throughput)
                result["crossed_mb_s"].append(crossed)
                result["status"].append(cluster.status())
                print(f"fig6: {strategy}: {size} workers, {throughput:.3f} computes/s each", file=sys.stderr)
        finally:
            cluster.end()
    return result


def files(out: pathlib.Path, scenario: str) -> dict[str, pathlib.Path]:
    """Where the result of each strategy lies."""
    return {name: out / f"fig6-{scenario}-{number}.json" for number, name in enumerate(STRATEGIES)}


def write(out: pathlib.Path) -> None:
    """Table and plots of all that is there."""
    results = {
        name: [json.loads(file.read_text()) for file in files(out, name).values() if file.exists()]
        for name in SCENARIOS
    }
    for name, found in results.items():
        if found:
            (out / f"fig6-{name}.svg").write_text(svg(found))
    (out / "fig6.md").write_text(page(results))


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
    write(arguments.out)


if __name__ == "__main__":
    main()
