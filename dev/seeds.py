#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seeds of the simulator for as long as asked, with one cumulative record: FOLDER/seeds.jsonl, a line for each shard of
seeds. Broken off, it goes on with the first shard that is not in the record for the present protocol. A line names the
commit, and the protocol: a digest of the code of the folders that decide (PURE, or FOUNDING), without its comments.
Lines of other commits count while that is equal. So do the lines of docs/results/seeds.jsonl, which outlives a machine.

    seeds.py BUILD FOLDER [--world mix] [--seeds 10000] [--first 1000000000] [--jobs 2] [--shard 1000]
    seeds.py --table FOLDER           print what the record says; ends with 1 where a seed broke a promise
    seeds.py --keep FOLDER            add it to docs/results/seeds.jsonl, neighbouring shards as one line"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "docs/results/seeds.jsonl"
PURE = ["ring", "ledger", "member", "step", "core", "vote", "route", "wire"]
FOUNDING = ["peers", "member"]
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
COMMENT_OR_STRING = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'', re.DOTALL)
SUMS = ["steps", "views", "kills", "joins", "exclusions", "leaves", "orphans", "happenings"]


def git(*words: str) -> str:
    """What git says of this tree."""
    return subprocess.run(["git", "-C", str(ROOT), *words], check=True, capture_output=True, text=True).stdout.strip()


def code(text: str) -> str:
    """Without comments, blank lines and indents."""
    bare = COMMENT_OR_STRING.sub(lambda found: " " if found.group().startswith("/") else found.group(), text)
    return "\n".join(line.strip() for line in bare.splitlines() if line.strip())


def protocol(folders: list[str]) -> str:
    """A digest of the code that decides, as it is committed."""
    digest = hashlib.sha256()
    for path in git("ls-tree", "-r", "--name-only", "HEAD", *[f"src/{folder}" for folder in folders]).splitlines():
        if path.endswith((".c", ".h")):
            digest.update(f"{path}\n{code(git('show', f'HEAD:{path}'))}\n".encode())
    return digest.hexdigest()[:12]


def read(record: Path) -> list[dict[str, Any]]:
    """All lines of the record."""
    return [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []


def joined(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    """Two shards as one: numbers and counts are added, lists are appended to."""
    row = {**left, "seconds": round(left["seconds"] + right["seconds"], 1)}
    for name in ["seeds", "done", *SUMS, "calm", "broken"]:
        if name in left:
            row[name] = left[name] + right[name]
    for name in ["excuses", "calm_excuses"]:
        if name in left:
            row[name] = Counter(left[name]) + Counter(right[name])
    return row


def compact(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Neighbouring shards of one world and one protocol as one line, which keeps the commit of the first. A shard
    that is there twice counts once."""
    kept: list[dict[str, Any]] = []
    for row in sorted(rows, key=lambda row: (row["protocol"], row["world"], row["first"], -row["seeds"])):
        last = kept[-1] if kept else {}
        if (last.get("protocol"), last.get("world")) != (row["protocol"], row["world"]):
            kept.append(row)
        elif last["first"] + last["seeds"] == row["first"]:
            kept[-1] = joined(last, row)
        elif last["first"] + last["seeds"] < row["first"]:
            kept.append(row)
    return kept


def is_done(rows: list[dict[str, Any]], world: str, first: int, count: int) -> bool:
    """Does one line have all of these seeds?"""
    mine = (row for row in rows if row["world"] == world)
    return any(row["first"] <= first and first + count <= row["first"] + row["seeds"] for row in mine)


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
    record, commit = folder / "seeds.jsonl", git("rev-parse", "--short", "HEAD")
    rules = protocol(FOUNDING if arguments.world == "founding" else PURE)
    if git("status", "--porcelain", "--", "src", "sim"):
        print("seeds: src or sim differ from the commit; a record of them says nothing", file=sys.stderr)
        return 2
    done = [row for row in read(record) + read(KEPT) if row["protocol"] == rules]
    last = arguments.first + arguments.seeds
    shards = [(at, min(arguments.shard, last - at)) for at in range(arguments.first, last, arguments.shard)]
    due = [shard for shard in shards if not is_done(done, arguments.world, *shard)]
    with ThreadPoolExecutor(arguments.jobs) as pool, record.open("a") as out:
        for future in as_completed([pool.submit(run, Path(arguments.build), arguments.world, *shard) for shard in due]):
            row = {"commit": commit, "protocol": rules, **future.result()}
            out.write(json.dumps(row) + "\n")
            out.flush()
            for seed, why in row["broken"]:
                print(f"seeds: {row['world']} {seed}: {why}", flush=True)
    rows = compact(read(record) + read(KEPT))
    print(table(rows))
    return any(row["broken"] for row in rows if row["protocol"] == rules)


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
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    if arguments.table or arguments.keep:
        rows = compact(read(Path(arguments.words[0]) / "seeds.jsonl") + read(KEPT))
        if arguments.keep:
            KEPT.write_text("".join(json.dumps(row) + "\n" for row in rows))
        print(table(rows))
        return any(row["broken"] for row in rows)
    arguments.build, arguments.folder = arguments.words
    return sweep(arguments)


if __name__ == "__main__":
    sys.exit(main())
