#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The nemesis for as long as asked, a seed at a time, with one cumulative record: FOLDER/record.jsonl, a line for each
seed. Broken off, it goes on with the first seed that is not in the record. Folders of runs that failed stay in FOLDER.

    soak.py MEMBER SPOTNIK FOLDER [--minutes M] [--shard-seconds S] [--first-seed N] [--limits FACTOR]
    soak.py --table FOLDER            print what the record says"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

NEMESIS = Path(__file__).with_name("nemesis.py")
BOOKKEEPING = {"killed", "together", "gave_up", "forsaken", "did_not_leave"}


def read(record: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []


def lines_of(title: str, counts: Counter[str]) -> list[str]:
    return [f"{title:<10}{count:>8}  {name}" for name, count in counts.most_common()] or [f"{title:<10}{0:>8}"]


def table(rows: list[dict[str, Any]]) -> str:
    faults, excuses = Counter[str](), Counter[str]()
    for row in rows:
        faults.update({kind: count for kind, count in row["faults"].items() if kind not in BOOKKEEPING})
        excuses.update(row["excuses"])
    failed = [row for row in rows if row["failures"]]
    lines = [
        f"seeds     {len(rows):>8}",
        f"minutes   {sum(row['minutes'] for row in rows):>8.0f}",
        f"steps     {sum(row['steps'] for row in rows):>8}",
        f"storms    {sum(row['storms'] for row in rows):>8}",
        f"killed    {sum(row['faults'].get('killed', 0) for row in rows):>8}  processes",
        f"longest   {max((row['longest_s'] for row in rows), default=0):>8.1f}  s from a storm to steps of all",
        *lines_of("fault", faults),
        *lines_of("excused", excuses),
        f"failed    {len(failed):>8}  seeds",
    ]
    lines += [f"  seed {row['seed']}: {row['failures'][0]}" for row in failed]
    return "\n".join(lines)


def soak(arguments: argparse.Namespace) -> int:
    folder = Path(arguments.folder)
    folder.mkdir(parents=True, exist_ok=True)
    record = folder / "record.jsonl"
    until, failed, seed = time.monotonic() + arguments.minutes * 60, 0, arguments.first_seed
    while time.monotonic() < until:
        done = {row["seed"] for row in read(record)}
        while seed in done:
            seed += 1
        words = [
            sys.executable,
            str(NEMESIS),
            arguments.member,
            arguments.spotnik,
            "--seed",
            str(seed),
            "--seconds",
            str(arguments.shard_seconds),
        ]
        words += ["--keep", str(folder), "--record", str(record), "--limits", str(arguments.limits)]
        status = subprocess.run(words, check=False).returncode
        if status == 77:
            return 77
        if seed not in {row["seed"] for row in read(record)}:
            print(f"soak: seed {seed} left no line in the record: the nemesis itself broke", file=sys.stderr)
            return 2
        failed += status != 0
    print(table(read(record)))
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="+", metavar="MEMBER SPOTNIK FOLDER")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--shard-seconds", type=float, default=120)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--limits", type=float, default=1, help="multiply the time that a calm may take")
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    if arguments.table:
        print(table(read(Path(arguments.words[0]) / "record.jsonl")))
        return 0
    arguments.member, arguments.spotnik, arguments.folder = arguments.words
    return soak(arguments)


if __name__ == "__main__":
    sys.exit(main())
