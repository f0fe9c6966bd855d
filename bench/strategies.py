#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does every strategy learn as well as S-SGD, undisturbed and with workers revoked?

    PYTHONPATH=python bench/strategies.py --build build --text FILE --images FOLDER --out build/results/strategies

Small models of characters and of images are trained by three workers under `spotnik run` (strategies_worker.py), each
strategy for the same number of samples. First its learning rate is chosen among three, the same ones for all: by the loss
on a part of the data kept for tuning. Then one run undisturbed and one with a worker
killed every five seconds; what is compared is the loss on the validation part, which was looked at by no choice, of the
model that the members agree on at the end. In all runs that model must be the same bits on every member after every
commit. One run at a time; each is a line of OUT.jsonl, and what is there is not run again. Writes OUT.md (between two
marks) and OUT.svg. With --page nothing is run.
"""

from __future__ import annotations

import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Optional

import pictures

STRATEGIES = [
    "ssgd", "sma", "easgd", "localsgd", "lookahead", "lookahead+sma", "adpsgd", "asp", "hogwild",
]  # fmt: skip
MODELS = ["characters", "images"]
RATE = 0.004
ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- made by bench/strategies.py: begin -->", "<!-- end -->"


class Run(NamedTuple):
    """One training; what it is, not what came out."""

    model: str
    strategy: str
    phase: str  # "rate": which learning rate; "calm", "killed": the comparison; "again": S-SGD from other seeds
    rate: float
    seed: int


def lives(path: Path) -> Iterator[list[tuple[int, int]]]:
    """What a worker has noted, cut where the others went on without it and it joined again; each begins with (0, time)."""
    data = path.read_bytes()
    pairs = list(struct.iter_unpack("=QQ", data[: len(data) // 16 * 16]))
    starts = [index for index, (step, _) in enumerate(pairs) if step == 0]
    for start, end in zip(starts, [*starts[1:], len(pairs)]):
        yield pairs[start:end]


def digests(folder: Path) -> dict[str, Any]:
    """Were the agreed models the same bits after every commit? Counts of commits, of notes, and of commits that differ.

    The last commit of a worker that was killed, or cut off, may be one that it made alone, and that the others made again
    without it; that it was so is counted as `alone`, everything else that differs as `differ`.
    """
    seen: dict[int, set[int]] = {}
    last: list[tuple[int, int]] = []
    notes, began = 0, []
    for path in folder.glob("*.digests"):
        all_lives = list(lives(path))
        for index, ((_, when), *pairs) in enumerate(all_lives):
            began.append(when / 1000)
            if pairs and (index + 1 < len(all_lives) or not path.with_suffix(".json").exists()):
                last.append(pairs.pop())
            for step, digest in pairs:
                seen.setdefault(step, set()).add(digest)
            notes += len(pairs)
    ended = max((path.stat().st_mtime for path in folder.glob("*.json")), default=0.0)
    return {
        "commits": len(seen),
        "notes": notes,
        "differ": sum(len(found) > 1 for found in seen.values()),
        "alone": sum(digest not in seen.get(step, {digest}) for step, digest in last),
        "seconds": round(ended - min(began, default=ended), 1),
    }


def command(run: Run, folder: str, options: argparse.Namespace) -> list[str]:
    """What is run, as `spotnik run` takes it."""
    killed = ["--respawn", "--kill-every", options.kill_every, "--seed", str(run.seed)] if run.phase == "killed" else []
    worker = {
        "model": run.model,
        "part": "tuning" if run.phase == "rate" else "validation",
        "sync": run.strategy,
        "rate": run.rate,
        "seed": run.seed,
        "steps": options.steps,
        "batch": options.batch,
        "pause": options.pause if killed else 0,
        "text": options.text,
        "images": options.images,
        "folder": folder,
    }
    words = [f"{options.build}/cli/spotnik", "run", "-q", "-n", "2:3" if killed else "3", *killed, "--"]
    words += [sys.executable, str(ROOT / "bench" / "strategies_worker.py")]
    return words + [word for name, value in worker.items() for word in (f"--{name}", str(value))]


def do(run: Run, options: argparse.Namespace) -> dict[str, Any]:
    """Run it. Raises SystemExit when no worker comes to the end."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "python"),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    environment["SPOTNIK_LIBRARY"] = f"{options.build}/src/libspotnik.so"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = command(run, name, options)
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=options.limit)
        told = [json.loads(path.read_text()) for path in folder.glob("*.json")]
        lost = len(list(folder.glob("*.digests"))) - len(told)
        bits = digests(folder)
    if not told:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode} and no result:\n{done.stderr[-2000:]}")
    same = len({line["loss"] for line in told}) == 1
    return {**run._asdict(), "loss": told[0]["loss"], "same": same, **bits, "lost": lost,
            "steps": options.steps, "batch": options.batch}  # fmt: skip


class Ledger:
    """The runs made so far, kept in a file."""

    def __init__(self, path: Path, options: argparse.Namespace) -> None:
        self.path, self.options = path, options
        lines = path.read_text().splitlines() if path.exists() else []
        self.rows: list[dict[str, Any]] = [json.loads(line) for line in lines]

    def find(self, run: Run) -> Optional[dict[str, Any]]:
        """What came out of it, with as many steps as are asked for."""
        wanted = {**run._asdict(), "steps": self.options.steps, "batch": self.options.batch}
        return next((row for row in self.rows if wanted.items() <= row.items()), None)

    def get(self, run: Run) -> float:
        """Its loss; it is run if need be."""
        row = self.find(run)
        if row is None:
            row = do(run, self.options)
            self.rows.append(row)
            with self.path.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)
        return float(row["loss"])


def least(losses: dict[float, float]) -> float:
    """The rate with the least loss."""
    return min(losses, key=lambda rate: losses[rate])


def search(ledger: Ledger, model: str) -> float:
    """The best rate of S-SGD: on by factors of two from RATE until there are worse ones on both sides."""
    losses = {rate: ledger.get(Run(model, "ssgd", "rate", rate, 0)) for rate in (RATE, RATE * 2)}
    while True:
        best = least(losses)
        missing = [rate for rate in (best / 2, best * 2) if rate not in losses]
        if not missing:
            return best
        losses[missing[0]] = ledger.get(Run(model, "ssgd", "rate", missing[0], 0))


def best_rate(ledger: Ledger, model: str, strategy: str) -> float:
    """The best of three rates, the same ones for every strategy: S-SGD's best, half of it and twice of it."""
    middle = search(ledger, model)
    return least({rate: ledger.get(Run(model, strategy, "rate", rate, 0)) for rate in (middle / 2, middle, middle * 2)})


def all_runs(ledger: Ledger, options: argparse.Namespace) -> Iterator[None]:
    """Everything, S-SGD first; yields after each strategy."""
    for strategy in options.only:
        for model in options.models:
            rate = best_rate(ledger, model, strategy)
            for phase in ("calm", "killed"):
                ledger.get(Run(model, strategy, phase, rate, 1))
            for seed in (2, 3) if strategy == "ssgd" else ():
                ledger.get(Run(model, strategy, "again", rate, seed))
            yield


# ---- what came out ----


def picked(ledger: Ledger, model: str, strategy: str, phase: str) -> Optional[dict[str, Any]]:
    """The row of a run of the comparison, the last one where the rate has been chosen anew."""
    rows = [row for row in reversed(ledger.rows) if row["steps"] == ledger.options.steps]
    wanted = {"model": model, "strategy": strategy, "phase": phase}
    return next((row for row in rows if wanted.items() <= row.items()), None)


def line(ledger: Ledger, model: str, strategy: str, tolerance: float) -> str:
    """A line of the table; "" while a run is missing."""
    base, calm, killed = (
        picked(ledger, model, *which) for which in (("ssgd", "calm"), (strategy, "calm"), (strategy, "killed"))
    )
    if base is None or calm is None or killed is None:
        return ""
    worst = max(calm["loss"], killed["loss"]) / base["loss"] - 1
    bits = calm["differ"] + killed["differ"] == 0 and calm["same"] and killed["same"]
    words = [model, strategy, f"{calm['rate']:g}", f"{calm['loss']:.4f}", f"{killed['loss']:.4f}", f"{worst:+.1%}"]
    words += [
        "yes" if worst <= tolerance else "**no**",
        f"{killed['lost']} in {killed['seconds']:.0f} s, {killed['alone']}",
    ]
    words += [f"{'yes' if bits else '**no**'} ({calm['commits'] + killed['commits']})"]
    return "| " + " | ".join(words) + " |"


def summary(lines: list[str]) -> str:
    """What the table says, misses by name."""
    cells = [[cell.strip() for cell in one.strip("| ").split(" | ")] for one in lines]
    missed = [f"{cell[1]} on {cell[0]} ({cell[5]})" for cell in cells if cell[6] != "yes"]
    differ = [f"{cell[1]} on {cell[0]}" for cell in cells if not cell[8].startswith("yes")]
    text = f"{len(cells) - len(missed)} of {len(cells)} lines are within the tolerance"
    text += f"; not: {', '.join(missed)}." if missed else "."
    text += f" Agreed models differed in: {', '.join(differ)}." if differ else " Agreed models never differed."
    absent = len(MODELS) * len(STRATEGIES) - len(cells)
    return text + (f" {absent} lines have not been run to the end yet." if absent else "")


def table(ledger: Ledger, options: argparse.Namespace) -> str:
    """What came out, as Markdown."""
    text = [
        "| model | strategy | rate | undisturbed | workers killed | worst against S-SGD | within tolerance | lost, last commits made alone | agreed model the same bits at every commit (commits) |",
        "|---|---|---:|---:|---:|---:|---|---|---|",
    ]
    text += [line(ledger, model, strategy, options.tolerance) for model in MODELS for strategy in STRATEGIES]
    text = [part for part in text if part]
    text += ["", summary(text[2:]), ""]
    for model in MODELS:
        rows = [row for row in ledger.rows if row["steps"] == options.steps and row["model"] == model]
        again = [row["loss"] for row in rows if row["strategy"] == "ssgd" and row["phase"] in ("calm", "again")]
        if again:
            text.append(
                f"S-SGD undisturbed from {len(again)} seeds, {model}: {', '.join(f'{loss:.4f}' for loss in again)}."
            )
    text += ["", "Losses on the tuning part, by learning rate:", ""]
    rates = sorted({row["rate"] for row in ledger.rows if row["phase"] == "rate" and row["steps"] == options.steps})
    text += [
        "| model | strategy | " + " | ".join(f"{rate:g}" for rate in rates) + " |",
        "|---|---|" + "---:|" * len(rates),
    ]
    for model in MODELS:
        for strategy in STRATEGIES:
            found = [ledger.find(Run(model, strategy, "rate", rate, 0)) for rate in rates]
            if any(found):
                text.append(
                    f"| {model} | {strategy} | "
                    + " | ".join(f"{row['loss']:.4f}" if row else "" for row in found)
                    + " |"
                )
    return "\n".join(text) + "\n"


def write(ledger: Ledger, options: argparse.Namespace) -> None:
    """The page, what is written by hand in it left as it is, and the chart."""
    path = options.out.with_suffix(".md")
    page = path.read_text() if path.exists() else f"{BEGIN}\n{END}\n"
    before, rest = page.split(BEGIN, 1)
    path.write_text(f"{before}{BEGIN}\n\n{table(ledger, options)}\n{END}{rest.split(END, 1)[1]}")
    options.out.with_suffix(".svg").write_text(chart(ledger))


def chart(ledger: Ledger) -> str:
    """Bars: loss relative to undisturbed S-SGD, a pair for each strategy, a panel for each model."""
    figure, panels = pictures.stack(len(MODELS), 11.5, 2.9 * len(MODELS))
    for axes, model in zip(panels, MODELS):
        base = picked(ledger, model, "ssgd", "calm")
        series: dict[str, list[Optional[float]]] = {}
        words: dict[str, list[str]] = {}
        for phase, name in (("calm", "undisturbed"), ("killed", "workers killed")):
            rows = [picked(ledger, model, strategy, phase) for strategy in STRATEGIES]
            series[name] = [row["loss"] / base["loss"] if row and base else None for row in rows]
            words[name] = [f"{row['loss']:.3f}" if row else "" for row in rows]
        pictures.bars(axes, [name.replace("-", "-\n").replace("+", "+\n") for name in STRATEGIES], series,
                      "validation loss\n(S-SGD undisturbed = 1)", words)
        axes.axhline(1, color="#5a6570", linestyle=":", linewidth=1.2)
        axes.set_ylim(0, 1.25 * max((value for values in series.values() for value in values if value), default=1))
        axes.set_title(f"{model}: on the bars, the loss itself")
    pictures.legend(figure, panels[0])
    return pictures.text(figure)


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--text", default="")
    parser.add_argument("--images", default="", help="a folder with IDX files (MNIST)")
    parser.add_argument("--out", type=Path, default=Path("build/results/strategies"))
    parser.add_argument("--steps", type=int, default=5120)
    parser.add_argument("--batch", type=int, default=96)
    parser.add_argument(
        "--pause",
        type=float,
        default=4,
        help="milliseconds of sleep in a step of runs with kills, so that there are some",
    )
    parser.add_argument("--kill-every", default="5s")
    parser.add_argument("--tolerance", type=float, default=0.05)
    parser.add_argument("--limit", type=float, default=1200, help="seconds after which a run is given up")
    parser.add_argument("--only", nargs="*", default=STRATEGIES)
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--page", action="store_true", help="only write the page, from what has been run")
    options = parser.parse_args()
    options.build = str(Path(options.build).resolve())
    return options


def main() -> None:
    """Run what is not in OUT.jsonl yet; write the page after each strategy."""
    options = parse()
    ledger = Ledger(options.out.with_suffix(".jsonl"), options)
    for _ in () if options.page else all_runs(ledger, options):
        write(ledger, options)
    write(ledger, options)


if __name__ == "__main__":
    main()
