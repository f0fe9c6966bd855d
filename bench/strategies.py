#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does every strategy learn as well as S-SGD, undisturbed and with a worker revoked every five seconds?

    bench/strategies.py --build build --text FILE --images FOLDER --out docs/results/strategies

For each strategy a small character model and a small image model are trained for the same number of steps by three workers
under `spotnik run`; with --kill-every 5s --respawn in the disturbed runs. What is compared is the validation loss of what the
members agree on at the end. Writes OUT.json, OUT.md and OUT.svg. --text: any text; --images: a folder with IDX files (MNIST).
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

STRATEGIES = [
    "ssgd", "sma", "easgd", "localsgd", "lookahead", "lookahead+sma", "adpsgd", "adpsgd-symmetric",
]  # fmt: skip
CONTEXT = 16


# ---- a worker ----


def characters(path: str) -> Any:
    """((contexts, next), ...) for training and validation: the last tenth of the text is kept aside."""
    import torch

    codes = torch.frombuffer(bytearray(Path(path).read_bytes()[:400_000]), dtype=torch.uint8).long()
    windows = codes.unfold(0, CONTEXT + 1, 1)
    kept = len(windows) // 10
    some = windows[-kept:][:: max(1, kept // 4000)]
    return (windows[:-kept, :-1], windows[:-kept, -1]), (some[:, :-1], some[:, -1])


def images(folder: str) -> Any:
    """The same of pictures and their classes."""
    import torch

    def idx(pattern: str) -> Any:
        path = next(iter(sorted(Path(folder).rglob(pattern))))
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        sizes = [int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(data[3])]
        return torch.frombuffer(bytearray(data[4 + 4 * len(sizes) :]), dtype=torch.uint8).view(sizes)

    x, y = idx("*images*idx3*")[:, None].float() / 255, idx("*labels*idx1*").long()
    kept = len(x) // 10
    return (x[:-kept], y[:-kept]), (x[-kept:], y[-kept:])


def work(options: argparse.Namespace) -> None:
    """Train in the job that `spotnik run` has set up, and write what was learnt."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    import spotnik.torch as spotnik
    from spotnik import Config

    torch.set_num_threads(1)
    torch.manual_seed(1)
    if options.work == "characters":
        training, validation = characters(options.text)
        layers = [nn.Embedding(256, 16), nn.Flatten(), nn.Linear(16 * CONTEXT, 128), nn.Tanh(), nn.Linear(128, 256)]
        model: nn.Module = nn.Sequential(*layers)
        optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=0.004)
    else:
        training, validation = images(options.images)
        model = nn.Sequential(
            nn.Conv2d(1, 8, 5, 2), nn.ReLU(), nn.Conv2d(8, 16, 5, 2), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10)
        )
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    config = Config(steps_max=options.steps)
    model, optimizer = spotnik.prepare(model, optimizer, sync=options.sync, config=config, seed=1)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 0.5 * (1 + math.cos(math.pi * min(1, step / options.steps)))
    )
    loader = spotnik.shard(DataLoader(TensorDataset(*training), batch_size=96, shuffle=True))
    while spotnik.job().status().step_committed < options.steps:
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            schedule.step()
    with spotnik.agreed(), torch.no_grad():
        loss = nn.functional.cross_entropy(model.eval()(validation[0]), validation[1]).item()
    told = {"loss": loss, "digest": f"{spotnik.digest():016x}", "losses": spotnik.job().status().losses}
    with open(options.result, "a") as file:
        file.write(json.dumps(told) + "\n")


# ---- all runs ----


def run(options: argparse.Namespace, kind: str, strategy: str, disturbed: bool) -> dict[str, Any]:
    """One job of three workers; returns the validation loss of what they agreed on."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result"
        command = [f"{options.build}/cli/spotnik", "run", "-q", "-n", "2:3"]
        if disturbed:
            command += ["--respawn", "--kill-every", "5s", "--seed", "1"]
        command += ["--", sys.executable, __file__, "--work", kind, "--sync", strategy, "--result", str(result)]
        command += ["--text", options.text, "--images", options.images, "--steps", str(options.steps)]
        root = Path(__file__).resolve().parent.parent
        environment = {**os.environ, "PYTHONPATH": str(root / "python"), "OMP_NUM_THREADS": "1"}
        environment["SPOTNIK_LIBRARY"] = f"{options.build}/src/libspotnik.so"
        began = time.monotonic()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=options.limit)
        took = time.monotonic() - began
        lines = [json.loads(line) for line in result.read_text().splitlines()] if result.exists() else []
    if not lines:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode} and no result:\n{done.stderr[-2000:]}")
    return {
        "model": kind,
        "strategy": strategy,
        "disturbed": disturbed,
        "loss": lines[0]["loss"],
        "agree": len({line["digest"] for line in lines}) == 1,
        "losses": max(line["losses"] for line in lines),
        "seconds": round(took, 1),
    }


def table(rows: list[dict[str, Any]], options: argparse.Namespace) -> str:
    """What came out, as Markdown."""
    base = {row["model"]: row["loss"] for row in rows if row["strategy"] == "ssgd" and not row["disturbed"]}
    text = [
        "# Strategies: the same validation loss as S-SGD?",
        "",
        f"Made by `bench/strategies.py`: three workers on one machine, {options.steps} steps of 96 samples, cosine schedule, no",
        "setting tuned for a strategy. Loss is that of the model the members agree on. *Disturbed*: `spotnik run --kill-every 5s",
        f"--respawn`. Tolerance: {options.tolerance:.0%} of undisturbed S-SGD's loss.",
        "",
        "| model | strategy | undisturbed | disturbed | members lost | worst against S-SGD | within tolerance | all agree |",
        "|---|---|---:|---:|---:|---:|---|---|",
    ]
    for kind in base:
        for strategy in STRATEGIES:
            pair = [row for row in rows if row["model"] == kind and row["strategy"] == strategy]
            calm = next((row for row in pair if not row["disturbed"]), None)
            rough = next((row for row in pair if row["disturbed"]), None)
            if calm is None or rough is None:
                continue
            worst = max(calm["loss"], rough["loss"]) / base[kind] - 1
            words = [kind, strategy, f"{calm['loss']:.3f}", f"{rough['loss']:.3f}", str(rough["losses"]), f"{worst:+.1%}"]
            words += ["yes" if worst <= options.tolerance else "**no**"]
            words += ["yes" if calm["agree"] and rough["agree"] else "**no**"]
            text.append("| " + " | ".join(words) + " |")
    return "\n".join(text) + "\n"


def chart(rows: list[dict[str, Any]]) -> str:
    """Bars: loss relative to undisturbed S-SGD, a pair for each strategy, a row for each model."""
    base = {row["model"]: row["loss"] for row in rows if row["strategy"] == "ssgd" and not row["disturbed"]}
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" width="900" height="420" font-family="sans-serif" font-size="12">']
    parts.append('<rect width="900" height="420" fill="white"/>')
    for line, kind in enumerate(base):
        floor = 180 + 200 * line
        parts.append(f'<text x="10" y="{floor - 150}" font-weight="bold">{kind}: validation loss / S-SGD undisturbed</text>')
        parts.append(f'<line x1="60" x2="890" y1="{floor - 100}" y2="{floor - 100}" stroke="#999" stroke-dasharray="4"/>')
        parts.append(f'<text x="30" y="{floor - 96}">1.0</text>')
        for row in (row for row in rows if row["model"] == kind):
            at = 70 + 102 * STRATEGIES.index(row["strategy"]) + 40 * row["disturbed"]
            height = min(140.0, 100 * row["loss"] / base[kind])
            colour = "#d95f02" if row["disturbed"] else "#1b9e77"
            parts.append(f'<rect x="{at}" y="{floor - height:.1f}" width="36" height="{height:.1f}" fill="{colour}"/>')
            parts.append(f'<text x="{at}" y="{floor - height - 3:.1f}" font-size="10">{row["loss"]:.3f}</text>')
            if not row["disturbed"]:
                parts.append(f'<text x="{at}" y="{floor + 14}" font-size="11">{row["strategy"]}</text>')
    parts.append('<rect x="560" y="22" width="10" height="10" fill="#1b9e77"/><text x="575" y="31">undisturbed</text>')
    parts.append('<rect x="660" y="22" width="10" height="10" fill="#d95f02"/><text x="675" y="31">one killed every 5 s</text>')
    return "\n".join([*parts, "</svg>", ""])


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--text", default="")
    parser.add_argument("--images", default="")
    parser.add_argument("--out", type=Path, default=Path("docs/results/strategies"))
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--tolerance", type=float, default=0.1)
    parser.add_argument("--limit", type=float, default=180, help="seconds after which a run is given up")
    parser.add_argument("--only", nargs="*", default=STRATEGIES)
    parser.add_argument("--work", help="for a worker: which model")
    parser.add_argument("--sync")
    parser.add_argument("--result")
    options = parser.parse_args()
    options.build = str(Path(options.build).resolve())
    return options


def main() -> None:
    """Run everything that is not in OUT.json yet."""
    options = parse()
    if options.work:
        work(options)
        return
    store = options.out.with_suffix(".json")
    rows: list[dict[str, Any]] = json.loads(store.read_text()) if store.exists() else []
    kinds = [kind for kind, given in (("characters", options.text), ("images", options.images)) if given]
    for disturbed in (False, True):
        for kind in kinds:
            for strategy in options.only:
                key = (kind, strategy, disturbed)
                if any((row["model"], row["strategy"], row["disturbed"]) == key for row in rows):
                    continue
                rows.append(run(options, kind, strategy, disturbed))
                print(json.dumps(rows[-1]), flush=True)
                store.write_text(json.dumps(rows, indent=1) + "\n")
    options.out.with_suffix(".md").write_text(table(rows, options))
    options.out.with_suffix(".svg").write_text(chart(rows))


if __name__ == "__main__":
    main()
