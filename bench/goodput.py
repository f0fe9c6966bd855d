#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goodput on machines that vanish: Spotnik beside torchrun, torchft and Ray Train, on pieces of the Bamboo traces, at two speeds.

    bench/goodput.py BUILD TRACES [--ways spotnik torchrun torchft ray] [--minutes 20] [--speeds 20 60] [--most 6] [--out build/results/goodput]

TRACES holds p3-trace.csv (lines ms,add|remove,node) and the g4dn file (lines s,count). Of each the piece of --minutes with most
changes is taken, scaled down to --most workers at once, and replayed at each of --speeds. A worker that the trace takes away is
killed with SIGKILL, with all its processes. All ways train the same model of 26 MiB on the same data (goodput_worker.py); the
work of a share of --batch samples takes at least --compute-ms, and of others in proportion, so that processors of this machine do not
decide.

What the live workers could have done: before the trace each way runs undisturbed with 1, half and all of the workers; between
those sizes its rate is interpolated. Goodput is useful samples of that. A node is live from the instant at which the first worker on it
has imported torch and made its model: five that come at once need ten seconds for that on two processors, where machines would
have their own. For the same reason they do it only when no other worker wants the processors (as root). What a worker imports when it is started again counts as lost. A sample is useful if its step belongs to the line of steps that
the run ended with: a life that goes back to a checkpoint throws away all that was done after it.

How the others are set (by their own documents):

* All: a checkpoint every --checkpoint-s seconds. With a change every few seconds and 0.1 s a checkpoint, the rule of Young and Daly
  gives 1 to 2 s.
* torchrun: --nnodes=1:N, --max-restarts large, the c10d rendezvous with a store on a machine that is never lost, last_call_timeout
  1 s instead of 30, collectives that time out after 20 s instead of 30 minutes.
* torchft: a lighthouse that is never lost, --min_replicas 1, --quorum_tick_ms 100, --join_timeout_ms 1000, one replica group a worker.
* Ray Train: a head without resources that is never lost, with driver and controller; each node `ray start` with one worker.
  ScalingConfig(num_workers=(1, N)), elastic_resize_monitor_interval_s 2 instead of 60; FailureConfig(max_failures=-1); asynchronous
  upload of checkpoints; the controller asks workers every 0.5 s instead of 2, a group of workers that does not start within 10 s
  instead of 60 is begun anew, nodes are checked every 0.5 s and given up after 3 refusals. That Ray counts its nodes every 20 s
  (TICK_INTERVAL_S) cannot be set.

Steps are whole: a worker that goes in the middle of one loses its share of it, a newcomer waits for the next one, and the step that runs at the end
does not count. *Of whole steps* is the goodput of a job that loses nothing else; no way can have more, but by luck of where in a step a change falls.
A way whose newcomers copy the state at a boundary cannot give them a share of the step that begins there: *and a step of each newcomer* is the most for it.

A way whose packages are not installed is left out, and the page says so. What OUT.json already has from the same settings is not run
again, so a run that was cut off goes on; delete the file to begin anew. At the defaults a way takes about 4 minutes.

Writes OUT.json after each run, and OUT.md with OUT.svg. A figure from a machine that is busy with other things says nothing.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import signal
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Optional

import pictures
from goodput_cluster import WAYS, Cluster, Line, why_not

Event = tuple[float, str, str]  # seconds, add or remove, name
CALM_STEPS_LEAST = 4  # two at the beginning are not counted, and a time is between two


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


# ---- runs ----


def wait_for_steps(cluster: Cluster, size: int, count: int, limit_s: float) -> Optional[float]:
    """The instant when `size` workers have committed `count` steps; None: never."""
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        steps = {line["step"] for line in cluster.lines() if line["size"] == size}
        if len(steps) >= count:
            return time.monotonic()
        time.sleep(0.1)
    return None


def calm_rate(way: str, options: argparse.Namespace, size: int) -> float:
    """Samples a second of `size` workers that nobody disturbs: the median of the times between commits."""
    cluster = Cluster(way, options, size, size)
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
    start = [event for event in events if event[0] == 0]
    cluster = Cluster(way, options, len(start), peak(events))
    try:
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
            done.append((time.monotonic() - begun, what, node))
        end = 60 * options.minutes / speed
        time.sleep(max(0.0, begun + end - time.monotonic()))
        ended = time.monotonic() - begun
        return {"live": len(start), "done": done, "ready": cluster.ready(), "seconds": ended, "begun": begun, "lines": cluster.lines()}
    finally:
        cluster.close(options.keep)


def interpolated(rates: dict[int, float], size: int) -> float:
    known = sorted({0: 0.0, **rates}.items())
    for (a, low), (b, high) in zip(known, known[1:]):
        if a <= size <= b:
            return low + (high - low) * (size - a) / (b - a)
    return known[-1][1] * size / known[-1][0]


def settled(lines: list[Line]) -> tuple[list[Line], list[Line]]:
    """Shares of the steps that the run ended with, and those that were thrown away. A life that goes back to a checkpoint throws
    away what earlier lives did from its first step on; a way that never goes back has one life."""
    lives: dict[int, list[Line]] = defaultdict(list)
    for line in lines:
        lives[line.get("life", 0)].append(line)
    kept: list[Line] = []
    gone: list[Line] = []
    for number in sorted(lives):
        first = min(line["step"] for line in lives[number])
        gone += [line for line in kept if line["step"] >= first]
        kept = [line for line in kept if line["step"] < first] + lives[number]
    return kept, gone


def coverage(kept: list[Line]) -> tuple[int, int]:
    """Samples that were trained more than once, and samples between the first and the last that were not trained."""
    end = min((line["begin"] for line in kept), default=0)
    again = skipped = 0
    for line in sorted(kept, key=lambda line: line["begin"]):
        skipped += max(0, line["begin"] - end)
        again += max(0, min(end, line["begin"] + line["count"]) - line["begin"])
        end = max(end, line["begin"] + line["count"])
    return again, skipped


def changes_of_live(run: dict[str, Any]) -> list[tuple[float, int]]:
    """When the number of live workers went up and down. One that went before it was ready was never live."""
    found: list[tuple[float, int]] = []
    end: dict[str, float] = {node: at for at, what, node in run["done"] if what == "remove"}
    for at, what, node in run["done"]:
        ready = run["ready"].get(node, math.inf) - run["begun"]
        if what == "add" and ready < min(end.get(node, math.inf), run["seconds"]):
            found.append((max(at, ready), 1))
        elif what == "remove" and ready < at:
            found.append((at, -1))
    return sorted(found)


def start_up(run: dict[str, Any]) -> Optional[float]:
    """Mean seconds from a node's start until it was ready."""
    took = [run["ready"][node] - run["begun"] - at for at, what, node in run["done"] if what == "add" and node in run["ready"]]
    return statistics.mean(took) if took else None


def could_do(run: dict[str, Any], rates: dict[int, float]) -> float:
    """Samples of the live workers, had nobody disturbed them."""
    live, last, could = run["live"], 0.0, 0.0
    for at, more in [*changes_of_live(run), (run["seconds"], 0)]:
        could += interpolated(rates, live) * (at - last)
        live, last = live + more, at
    return could


def whole_steps(run: dict[str, Any], rates: dict[int, float], batch: int, phase: float, late: int = 0) -> int:
    """Samples of a job that loses nothing but shares that are not whole: at the end, of workers that go in the middle of a step, and
    of newcomers that wait for the next one, and then for `late` more. `phase`: how far the running step is at the beginning, 0 to 1."""
    changes, seconds = changes_of_live(run), run["seconds"]
    live, useful, at = run["live"], 0, 0.0
    waiting = [0] * late  # newcomers that have no share yet: of this step, of the next one, ...
    while at < seconds:
        works = max(0, live - sum(waiting)) or live  # newcomers that are alone wait for nobody
        length = batch * works / interpolated(rates, works) if works else min((t for t, _ in changes if t > at), default=seconds) - at
        begin, at = at, at + length * (1 - phase)
        phase = 0.0
        inside = [more for t, more in changes if begin < t <= at]
        gone = -sum(more for more in inside if more < 0)
        if at <= seconds:
            useful += batch * max(0, works - gone)
        live += sum(inside)
        waiting = [*waiting, sum(more for more in inside if more > 0)][1:]
    return useful


def best(run: dict[str, Any], rates: dict[int, float], batch: int, late: int = 0) -> float:
    """Goodput of such a job, the mean over where in a step the run begins."""
    phases = 20
    return statistics.mean(whole_steps(run, rates, batch, i / phases, late) for i in range(phases)) / could_do(run, rates)


def reckon(run: dict[str, Any], rates: dict[int, float], options: argparse.Namespace) -> dict[str, Any]:
    """Figures of one run."""
    kept, gone = settled(run["lines"])
    inside = [line for line in kept if run["begun"] <= line["t"] <= run["begun"] + run["seconds"]]
    could, useful, changes = could_do(run, rates), sum(line["count"] for line in inside), len(run["done"])
    again, skipped = coverage(kept)
    losses = sorted((line["t"] - run["begun"], line["loss"]) for line in inside)
    return {"goodput": useful / could, "best": best(run, rates, options.batch), "best_late": best(run, rates, options.batch, 1), "useful": useful, "could": could, "changes": changes, "seconds": run["seconds"],
            "lost_s_per_change": (could - useful) / (could / run["seconds"]) / max(1, changes),
            "steps_lost": len({(line.get("life", 0), line["step"]) for line in gone}), "samples_lost": sum(line["count"] for line in gone),
            "start_s": start_up(run), "samples_again": again, "samples_skipped": skipped, "time_to_loss_s": time_to(losses, options.loss)}


def time_to(losses: list[tuple[float, float]], target: float) -> Optional[float]:
    """When the mean of the last 20 was first at the target."""
    for i in range(20, len(losses)):
        if statistics.mean(loss for _, loss in losses[i - 20 : i]) <= target:
            return losses[i][0]
    return None


# ---- the page ----


def percent(part: Optional[float]) -> str:
    return "-" if part is None else f"{100 * part:.1f} %"


def page(results: dict[str, Any], options: argparse.Namespace) -> str:
    head = ["trace", "speed", "way", "goodput", "of whole steps", "and a step of each newcomer", "seconds lost a change", "changes", "steps made again", "samples of them", "trained twice", "skipped",
            f"seconds to loss {options.loss:g}", "seconds to start a node"]
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for key, found in sorted(results["runs"].items()):
        trace, speed, way = key.split(" ")
        reached = found["time_to_loss_s"]
        rows.append(f"| {trace} | x{speed} | {way} | {100 * found['goodput']:.1f} % | {percent(found.get('best'))} | {percent(found.get('best_late'))} | {found['lost_s_per_change']:.2f} | {found['changes']} | "
                    f"{found['steps_lost']} | {found['samples_lost']} | {found['samples_again']} | {found['samples_skipped']} | "
                    f"{'never' if reached is None else f'{reached:.0f}'} | {'-' if found['start_s'] is None else format(found['start_s'], '.1f')} |")
    rates = [f"{way}: " + ", ".join(f"{rate:.1f} with {size}" for size, rate in found.items()) + "." for way, found in results["rates"].items()]
    out = ["# Goodput on machines that vanish", "", "Made by `bench/goodput.py`, which says what is compared and how the others are set.", "",
           f"Load average at the end: {results['load']}. Processors: {os.cpu_count()}. Settings: "
           f"{', '.join(f'{name} {value}' for name, value in results['settings'].items())}.", "", *rows, "",
           "Samples a second when nobody disturbs, which is what goodput is a part of. " + " ".join(rates), ""]
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
    parser.add_argument("--minutes", type=float, default=20, help="of the trace")
    parser.add_argument("--speeds", type=float, nargs="+", default=[20, 60])
    parser.add_argument("--most", type=int, default=6, help="workers at once")
    parser.add_argument("--batch", type=int, default=16, help="samples of a worker in a step")
    parser.add_argument("--compute-ms", type=float, default=300)
    parser.add_argument("--checkpoint-s", type=float, default=2)
    parser.add_argument("--calm-steps", type=int, default=20)
    parser.add_argument("--loss", type=float, default=1.0)
    parser.add_argument("--keep", action="store_true", help="keep the folders of the runs")
    parser.add_argument("--out", type=Path, default=Path("build/results/goodput"), help="without a suffix")
    options = parser.parse_args()
    options.build = options.build.resolve()
    if options.calm_steps < CALM_STEPS_LEAST:
        parser.error(f"--calm-steps: at least {CALM_STEPS_LEAST}, because the first ones are not counted")
    return options


def before(options: argparse.Namespace) -> dict[str, Any]:
    """What an earlier run of the same settings has left at --out: it is gone on with."""
    settings = {name: getattr(options, name) for name in ("minutes", "most", "batch", "compute_ms", "checkpoint_s", "calm_steps", "loss")}
    path = options.out.with_suffix(".json")
    found = json.loads(path.read_text()) if path.exists() else {}
    if found.get("settings") != settings:
        return {"settings": settings, "runs": {}, "rates": {}, "left_out": {}}
    return {**found, "left_out": {}, "rates": {way: {int(size): rate for size, rate in rates.items()} for way, rates in found["rates"].items()}}


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("goodput: ended by SIGTERM; the clusters are closed"))
    options = parse()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    results = before(options)
    results["left_out"] = {way: why for way in options.ways if (why := why_not(way))}
    found = {name: events for name, events in traces(options.traces, options.minutes, options.most).items() if name in (options.only or [name])}
    for way in [way for way in options.ways if way not in results["left_out"]]:
        if way not in results["rates"]:
            results["rates"][way] = {size: calm_rate(way, options, size) for size in sorted({1, max(1, options.most // 2), options.most})}
        rates = results["rates"][way]
        print(f"{way}: undisturbed {', '.join(f'{size}: {rate:.0f}/s' for size, rate in rates.items())}", file=sys.stderr)
        for name, speed in [(name, speed) for name in found for speed in options.speeds if f"{name} {speed:g} {way}" not in results["runs"]]:
            figures = reckon(disturbed(way, options, found[name], speed), rates, options)
            results["runs"][f"{name} {speed:g} {way}"] = figures
            print(f"{way}, {name} x{speed:g}: goodput {100 * figures['goodput']:.1f} %, {figures['lost_s_per_change']:.2f} s a change", file=sys.stderr)
            save(results, options)
    save(results, options)


if __name__ == "__main__":
    main()
