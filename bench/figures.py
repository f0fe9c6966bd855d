#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The paper's Fig. 4 (recovery of ResNet-50's gradient by 16 and 32 workers, 1 to 3 of them killed) and Fig. 5 (all-reduce with and
without the step transaction, gradients of four models): fig4.json, fig5.json, tables on standard output, and pictures.

Usage: bench/figures.py BUILD [--only 4|5] [--trials N] [--rounds N] [--workers LIST] [--bytes SIZE] [--members N] [--divide N] [--folder DIR] [--draw]

--draw measures nothing and draws what the folder has. --divide makes the gradients of Fig. 5 smaller, to try it. Let nothing else run. Times in
ms; workers are processes of one machine, so these are not the paper's machines."""
from __future__ import annotations

import argparse
import json
import statistics
import subprocess
from pathlib import Path
from typing import Any

import pictures

# float32 parameters as in torchvision 0.21 and Hugging Face's bert-base-uncased; Inception-v3 with its auxiliary head
MODELS = {"VGG-16": 138_357_544, "ResNet-50": 25_557_032, "Inception-v3": 27_161_264, "BERT-base": 109_482_240}
TRANSPORTS = {"shm": "shared memory", "tcp": "TCP"}
SIDES = {"plain_ms": "a plain ring or sum", "spotnik_ms": "with the step transaction"}
Run = dict[str, Any]


def measured(command: list[str], path: Path) -> None:
    """Run `command`, whose output is one JSON object a line, into `path`; a run that fails leaves the file of before."""
    found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    path.write_text(found, encoding="utf-8")


def read(path: Path) -> list[Run]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def measure_recovery(asked: argparse.Namespace, path: Path) -> None:
    command = [f"{asked.build}/cli/spotnik", "bench", "recovery", "--workers", asked.workers, "--losses", "1,2,3", "--trials", str(asked.trials)]
    measured([*command, "--bytes", asked.bytes, "--json"], path)


def number(ms: float) -> str:
    """Three digits, or all before the point."""
    return f"{ms:.0f}" if ms >= 100 else f"{ms:.3g}"


def spread(ms: dict[str, float]) -> str:
    """Median (quartiles; maximum)."""
    return f"{number(ms['median'])} ({number(ms['q1'])} to {number(ms['q3'])}; {number(ms['max'])})"


def draw_recovery(folder: Path) -> None:
    """From the kill to the next commit on all survivors: quartiles as a box, the maximum as a mark, and the undisturbed step."""
    runs = read(folder / "fig4.json")
    workers = sorted({run["workers"] for run in runs})
    figure, axes = pictures.panels(len(workers), 2.4 + 3.6 * len(workers), 3.6, sharey=True)
    for axis, count in zip(axes, workers):
        own = [run for run in runs if run["workers"] == count]
        for place, run in enumerate(own):
            total, calm = run["total_ms"], run["undisturbed_ms"]["median"]
            axis.bar(place, total["q3"] - total["q1"], 0.5, bottom=total["q1"], color=pictures.COLOURS[0], alpha=0.5,
                     label="" if place else "first to third quartile")
            axis.plot([place - 0.25, place + 0.25], [total["median"]] * 2, color=pictures.COLOURS[0], linewidth=2.5, label="" if place else "median")
            axis.plot([place], [total["max"]], "^", color=pictures.COLOURS[1], label="" if place else "maximum")
            axis.plot([place - 0.25, place + 0.25], [calm] * 2, "--", color=pictures.COLOURS[5], label="" if place else "undisturbed step")
        axis.set_title(f"{count} workers, {own[0]['trials']} trials each")
        axis.set_xticks(range(len(own)), [str(run["losses"]) for run in own])
        axis.set_xlabel("workers killed at once")
    axes[0].set_ylim(bottom=0)  # of all panels, once all is drawn
    axes[0].set_ylabel("kill to next commit on all survivors, ms")
    pictures.legend(figure, axes[-1])
    pictures.save(figure, folder / "fig4.svg")


def table_recovery(runs: list[Run]) -> None:
    print("| workers | killed | trials | the four phases | re-reduce | kill to next commit on all | undisturbed step | join |")
    print("|" + "---|" * 8)
    for run in runs:
        cells = [str(run[name]) for name in ("workers", "losses", "trials")]
        cells += [spread(run[name + "_ms"]) for name in ("these four", "re-reduce", "total")]
        print("| " + " | ".join([*cells, number(run["undisturbed_ms"]["median"]), spread(run["join_ms"])]) + " |")


def measure_transaction(asked: argparse.Namespace, path: Path) -> None:
    """All sizes over both transports; VGG-16's 553 MB with four members takes some 12 GB."""
    sizes = {name: count * 4 // asked.divide for name, count in MODELS.items()}
    lines = []
    for transport in TRANSPORTS:
        for name, size in sizes.items():
            command = [f"{asked.build}/bench/atomicity", str(asked.rounds), transport, str(asked.members), str(size)]
            found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            lines.append(json.dumps({"model": name, **json.loads(found)}))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def throughput(run: Run, side: str) -> float:
    """Gradient bytes that each member has averaged, GB/s, in the median."""
    rate: float = run["bytes"] / statistics.median(run[side]) / 1e6
    return rate


def draw_transaction(folder: Path) -> None:
    runs = read(folder / "fig5.json")
    figure, axes = pictures.panels(len(TRANSPORTS), 12.5, 3.6)
    for axis, (transport, words) in zip(axes, TRANSPORTS.items()):
        own = [run for run in runs if run["transport"] == transport]
        pictures.bars(axis, [run["model"] for run in own], {text: [throughput(run, side) for run in own] for side, text in SIDES.items()},
                      "gradient averaged, GB/s")
        axis.set_title(f"{words}, {own[0]['members']} members")
        axis.set_xlabel("gradient of")
    pictures.legend(figure, axes[-1])
    pictures.save(figure, folder / "fig5.svg")


def table_transaction(runs: list[Run]) -> None:
    print("| gradient | MB | members | transport | without, ms | with, ms | with / without: time, quartiles of the pairs |")
    print("|" + "---|" * 7)
    for run in runs:
        ratios = [ours / plain for plain, ours in zip(run["plain_ms"], run["spotnik_ms"])]
        low, middle, high = statistics.quantiles(ratios, method="inclusive") if len(ratios) > 1 else ratios * 3
        times = [f"{number(statistics.median(run[side]))} ({number(max(run[side]))})" for side in SIDES]
        cells = [run["model"], f"{run['bytes'] / 1e6:.4g}", str(run["members"]), TRANSPORTS[run["transport"]], *times]
        print("| " + " | ".join([*cells, f"{middle:.3f} ({low:.3f} to {high:.3f})"]) + " |")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("--only", choices=("4", "5"))
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--workers", default="16,32")
    parser.add_argument("--bytes", default="100MiB")
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--divide", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("build/results"))
    parser.add_argument("--draw", action="store_true")
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    asked.folder.mkdir(parents=True, exist_ok=True)
    if asked.only != "5":
        if not asked.draw:
            measure_recovery(asked, asked.folder / "fig4.json")
        draw_recovery(asked.folder)
        table_recovery(read(asked.folder / "fig4.json"))
    if asked.only != "4":
        if not asked.draw:
            measure_transaction(asked, asked.folder / "fig5.json")
        draw_transaction(asked.folder)
        table_transaction(read(asked.folder / "fig5.json"))


if __name__ == "__main__":
    main()
