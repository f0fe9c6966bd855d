#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seeds of the simulator for as long as asked, with one cumulative record: FOLDER/seeds.jsonl, a line for each shard of
seeds. Broken off, it goes on with the first shard that is not in the record for the present protocol. A line names the
commit, and the protocol: a digest of the folders that decide (PURE). Lines of other commits count while that is equal.

    seeds.py BUILD FOLDER [--world mix] [--seeds 10000] [--first 1000000000] [--jobs 2] [--shard 1000]
    seeds.py --table FOLDER           print what the record says; ends with 1 where a seed broke a promise"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PURE = ["ring", "ledger", "member", "step", "core", "vote", "route", "wire"]
SIM = ["cli/spotnik", "sim", "--keep-going", "--json"]
WORLDS = {
    "mix": SIM,
    "brief": [*SIM, "--brief", "0"],  # messages say only what differs, as in views of more than 64 members
    "tree": [*SIM, "--tree", "3", "--brief", "0"],  # passes by a tree, as in views of more than 256 members
    "near": [*SIM, "--near", "1"],  # results larger than all buffers
    "two": [*SIM, "--workers", "2"],  # most of what they decide are ties
    "three": [*SIM, "--workers", "3"],
    "founding": ["sim/founding/founding", "--keep-going"],  # folders, lists, cuts that stay, firewalls, total loss
}
SUMS = ["steps", "views", "kills", "joins", "exclusions", "leaves", "orphans", "happenings"]


def git(*words: str) -> str:
    """What git says of this tree."""
    return subprocess.run(["git", "-C", str(ROOT), *words], check=True, capture_output=True, text=True).stdout.strip()


def protocol() -> str:
    """A digest of the folders that decide, as they are committed."""
    trees = git("rev-parse", *[f"HEAD:src/{folder}" for folder in PURE])
    return hashlib.sha256(trees.encode()).hexdigest()[:12]


def read(record: Path) -> list[dict[str, Any]]:
    """All lines of the record."""
    return [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []


def of_simulator(out: str) -> dict[str, Any]:
    """One line of JSON for each seed."""
    runs = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    row: dict[str, Any] = {name: sum(run[name] for run in runs) for name in SUMS}
    row["done"] = len(runs)
    row["broken"] = [[run["seed"], run["promise"]] for run in runs if not run["ok"]]
    row["excuses"] = Counter(run["excuse"] for run in runs if run["excused"])
    row["calm"] = sum(run["calm"] for run in runs)
    row["calm_excuses"] = Counter(run["excuse"] for run in runs if run["excused"] and run["calm"])
    return row


def of_founding(out: str, count: int, status: int) -> dict[str, Any]:
    """A line for each seed that broke something."""
    broken = [line for line in out.splitlines() if line.startswith("seed ")] if status else []
    return {"done": count, "broken": [[line, "founding"] for line in broken]}


def run(build: Path, world: str, first: int, count: int) -> dict[str, Any]:
    """One shard, and its line."""
    words = [str(build / WORLDS[world][0]), *WORLDS[world][1:], "--seed", str(first), "--seeds", str(count)]
    begun = time.monotonic()
    ended = subprocess.run(words, check=False, capture_output=True, text=True)
    is_sim = WORLDS[world] is not WORLDS["founding"]
    row = of_simulator(ended.stdout) if is_sim else of_founding(ended.stdout, count, ended.returncode)
    if row["done"] != count or (ended.returncode != 0) != bool(row["broken"]):
        said = (ended.stderr or ended.stdout)[-300:]
        row["broken"].append([first + row["done"], f"the run ended with {ended.returncode}: {said}"])
    return {"world": world, "first": first, "seeds": count, "seconds": round(time.monotonic() - begun, 1), **row}


def table(rows: list[dict[str, Any]]) -> str:
    """A line for each world, and then the seeds that broke something."""
    lines = ["protocol      world        seeds   minutes      steps     kills  excused  of calm  broken"]
    for key in sorted({(row["protocol"], row["world"]) for row in rows}):
        mine = [row for row in rows if (row["protocol"], row["world"]) == key]
        lines.append(
            f"{key[0]}  {key[1]:<8}{sum(row['done'] for row in mine):>10}"
            f"{sum(row['seconds'] for row in mine) / 60:>10.0f}"
            f"{sum(row.get('steps', 0) for row in mine):>11}{sum(row.get('kills', 0) for row in mine):>10}"
            f"{sum(sum(row.get('excuses', {}).values()) for row in mine):>9}"
            f"{sum(sum(row.get('calm_excuses', {}).values()) for row in mine):>9}"
            f"{sum(len(row['broken']) for row in mine):>8}"
        )
    lines += [f"  {row['world']} {seed}: {why}" for row in rows for seed, why in row["broken"]]
    return "\n".join(lines)


def sweep(arguments: argparse.Namespace) -> int:
    """All shards that are not in the record yet."""
    folder = Path(arguments.folder)
    folder.mkdir(parents=True, exist_ok=True)
    record, commit, rules = folder / "seeds.jsonl", git("rev-parse", "--short", "HEAD"), protocol()
    if git("status", "--porcelain", "--", "src", "sim"):
        print("seeds: src or sim differ from the commit; a record of them says nothing", file=sys.stderr)
        return 2
    done = {(row["world"], row["first"], row["seeds"]) for row in read(record) if row["protocol"] == rules}
    last = arguments.first + arguments.seeds
    shards = [(at, min(arguments.shard, last - at)) for at in range(arguments.first, last, arguments.shard)]
    due = [shard for shard in shards if (arguments.world, *shard) not in done]
    with ThreadPoolExecutor(arguments.jobs) as pool, record.open("a") as out:
        for future in as_completed([pool.submit(run, Path(arguments.build), arguments.world, *shard) for shard in due]):
            row = {"commit": commit, "protocol": rules, **future.result()}
            out.write(json.dumps(row) + "\n")
            out.flush()
            for seed, why in row["broken"]:
                print(f"seeds: {row['world']} {seed}: {why}", flush=True)
    print(table(read(record)))
    return any(row["broken"] for row in read(record) if row["protocol"] == rules)


def main() -> int:
    """Read the words, and do it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="+", metavar="BUILD FOLDER")
    parser.add_argument("--world", choices=WORLDS, default="mix")
    parser.add_argument("--seeds", type=int, default=10000)
    parser.add_argument("--first", type=int, default=1_000_000_000)
    parser.add_argument("--shard", type=int, default=1000, help="seeds in a line of the record")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    if arguments.table:
        rows = read(Path(arguments.words[0]) / "seeds.jsonl")
        print(table(rows))
        return any(row["broken"] for row in rows)
    arguments.build, arguments.folder = arguments.words
    return sweep(arguments)


if __name__ == "__main__":
    sys.exit(main())
