#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The scorecard of the house, counted: one row a figure, as a table in Markdown.

    dev/scorecard.py [BUILD]                    this tree; circles of calls by what BUILD has compiled
    dev/scorecard.py BUILD --before TREE OLD    and TREE beside it, whose build is OLD
    dev/scorecard.py BUILD --before TREE OLD --folders      lines by folder, too

Lines of the tree before are counted as they stand and, in brackets, in the layout of today. Functions are found by
ctags. Complexity is 1 and one more for each if, for, while, case, &&, || and ?. Walks are counted in the tables of
docs/ARCHITECTURE.md: a border is a line whose room differs from the one above."""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PURE = ("ring", "ledger", "member", "step", "core", "vote", "route", "wire")
BRANCH = re.compile(r"\b(?:if|for|while|case)\b|&&|\|\||\?")
COMMENT_OR_STRING = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
WALKS = ("One gradient", "One death", "A joiner's first piece of state")


class Function(NamedTuple):
    """A function as ctags finds it."""

    name: str
    where: str
    lines: int
    complexity: int


class Lines(NamedTuple):
    """Lines of C of a folder."""

    code: int
    comment: int
    blank: int

    @property
    def all(self) -> int:
        """Their sum."""
        return sum(self)


def only_code(text: str) -> str:
    """The text without comments and strings, line by line as before."""
    return COMMENT_OR_STRING.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def only_comments(text: str) -> str:
    """The text of comments alone, line by line as before."""
    parts, end = [], 0
    for found in COMMENT_OR_STRING.finditer(text):
        is_comment = found.group().startswith("/")
        parts += [re.sub(r"[^\n]", " ", text[end : found.start()])]
        parts += [found.group() if is_comment else re.sub(r"[^\n]", " ", found.group())]
        end = found.end()
    return "".join(parts) + re.sub(r"[^\n]", " ", text[end:])


def split_lines(text: str) -> Lines:
    """A line with code and a comment is code."""
    code, comment = only_code(text).splitlines(), only_comments(text).splitlines()
    with_code = sum(bool(line.strip()) for line in code)
    both = [bool(a.strip()) or bool(b.strip()) for a, b in zip(code, comment, strict=True)]
    return Lines(with_code, sum(both) - with_code, len(text.splitlines()) - sum(both))


def sources(tree: Path) -> list[Path]:
    """The files of C in src/."""
    return sorted(path for path in (tree / "src").rglob("*.[ch]"))


def functions(tree: Path) -> list[Function]:
    """All of src/, with the lines from the name to the closing brace."""
    listed = subprocess.run(
        ["ctags", "-x", "--c-kinds=f", "--fields=+e", "--_xformat=%N\t%F\t%n\t%e", "-R", "src"],
        cwd=tree, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    texts: dict[str, list[str]] = {}
    found = []
    for row in listed.splitlines():
        name, where, first, last = row.split("\t")
        if not where.endswith((".c", ".h")) or not last.isdigit():
            continue
        if where not in texts:
            texts[where] = only_code((tree / where).read_text()).splitlines()
        body = texts[where][int(first) - 1 : int(last)]
        found.append(Function(name, where, len(body), 1 + len(BRANCH.findall("\n".join(body)))))
    return found


def include_circles(tree: Path) -> int:
    """Pairs of folders of which each reaches the other by includes."""
    reach: dict[str, set[str]] = {}
    for path in sources(tree):
        own = path.parent.name
        wanted = re.findall(r'^#include "(\w+)/', path.read_text(), re.MULTILINE)
        reach.setdefault(own, set()).update(set(wanted) - {own})
    for middle in reach:
        for start in reach:
            if middle in reach[start]:
                reach[start] |= reach[middle]
    return sum(a < b and b in reach[a] and a in reach.get(b, set()) for a in reach for b in reach)


def call_circles(build: Path) -> str:
    """The largest circle of each folder, as dev/circles.py finds it."""
    told = subprocess.run(
        [sys.executable, str(ROOT / "dev/circles.py"), str(build)], capture_output=True, text=True, check=True
    )
    largest = re.findall(r"^([\w+]+): .*largest: (\d+)", told.stdout, re.MULTILINE)
    rows = sorted(((int(size), folder) for folder, size in largest if "+" not in folder), reverse=True)
    return ", ".join(f"{size} ({folder})" for size, folder in rows[:6]) or "none"


def formatter() -> str | None:
    """The clang-format that laid the tree out."""
    for tool in (ROOT / "build/venv/bin/clang-format", "clang-format", "clang-format-19"):
        if found := shutil.which(str(tool)):
            told = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
            if "version 19." in told:
                return found
    return None


def unformatted(tree: Path) -> str:
    """How many files of src/ the tree's own layout would change."""
    if not (tool := formatter()):
        return "not counted: no clang-format 19"
    changed = 0
    for path in sources(tree):
        told = subprocess.run([tool, "--style=file", str(path)], capture_output=True, text=True, check=True).stdout
        changed += told != path.read_text()
    return str(changed)


def in_layout_of_today(tree: Path) -> int | None:
    """Lines of C of src/, laid out by the rules of this tree."""
    if not (tool := formatter()):
        return None
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(tree / "src", Path(folder) / "src")
        shutil.copy(ROOT / ".clang-format", folder)
        files = sources(Path(folder))
        subprocess.run([tool, "-i", "--style=file", *map(str, files)], check=True)
        return sum(len(path.read_text().splitlines()) for path in files)


def by_folder(tree: Path) -> dict[str, Lines]:
    """Lines of C of each folder of src/."""
    sums: dict[str, Lines] = {}
    for path in sources(tree):
        old = sums.get(path.parent.name, Lines(0, 0, 0))
        sums[path.parent.name] = Lines(*map(sum, zip(old, split_lines(path.read_text()), strict=True)))
    return sums


def asserts(tree: Path, folders: tuple[str, ...] | None, known: list[Function]) -> str:
    """Assertions for each function."""
    made = [one for one in known if folders is None or Path(one.where).parent.name in folders]
    text = "".join(only_code(p.read_text()) for p in sources(tree) if folders is None or p.parent.name in folders)
    count = len(re.findall(r"\bSPOTNIK_ASSERT\(", text)) - len(re.findall(r"#define SPOTNIK_ASSERT\(", text))
    return f"{count / len(made):.2f}" if made else "-"


def public(tree: Path) -> str:
    """Functions of the headers, fields of the configuration, variables that src/ names."""
    headers = "".join(only_code(path.read_text()) for path in sorted((tree / "include/spotnik").glob("*.h")))
    calls = len(re.findall(r"^SPOTNIK_API\b(?! __attribute__)", headers, re.MULTILINE))
    config = re.search(r"typedef struct spotnik_config\s*\{(.*?)\n\}", headers, re.DOTALL)
    fields = len(re.findall(r";", config.group(1))) if config else 0
    text = "".join(path.read_text() for path in sources(tree))
    variables = set(re.findall(r'"(SPOTNIK_[A-Z_]+)"', text))
    return f"{calls} / {fields} / {len(variables)}"


def walks(tree: Path) -> str:
    """Borders of the walks, counted in the tables of the page."""
    page = (tree / "docs/ARCHITECTURE.md").read_text()
    counts = []
    for title in WALKS:
        section = re.search(rf"^## {title}\n(.*?)(?=^## )", page, re.MULTILINE | re.DOTALL)
        if not section:
            return "-"
        rooms = re.findall(r"^\| `(\w+)` \|", section.group(1), re.MULTILINE)
        counts.append(sum(a != b for a, b in zip(rooms, rooms[1:], strict=False)))
    return " / ".join(map(str, counts))


def spread(values: list[int]) -> str:
    """Median, the value that nine tenths do not exceed, and the largest."""
    ordered = sorted(values)
    return f"{statistics.median_low(ordered)} / {ordered[int(0.9 * len(ordered))]} / {ordered[-1]}"


def card(tree: Path, build: Path) -> dict[str, str]:
    """All figures of a tree."""
    files, known, folders = sources(tree), functions(tree), by_folder(tree)
    length = {path: len(path.read_text().splitlines()) for path in files}
    lines = Lines(*map(sum, zip(*folders.values(), strict=True)))
    others = sum(len(p.read_text().splitlines()) for p in (tree / "src").rglob("*") if p.is_file() and p not in length)
    of_c = [size for path, size in length.items() if path.suffix == ".c"]
    complexity = sorted(one.complexity for one in known)
    wide = sum(len(line) > 110 for path in files for line in path.read_text().splitlines())
    readme = (tree / "README.md").read_text()
    return {
        "`src`, files of C / lines": f"{len(files)} / {lines.all:,}",
        "lines of all files of `src`": f"{lines.all + others:,}",
        "of C: code / comments alone / blank": f"{lines.code:,} / {lines.comment:,} / {lines.blank:,}",
        "a `.c`, lines: median / longest": f"{statistics.median_low(of_c)} / {max(of_c)}",
        "a function, lines: median / p90 / longest": spread([one.lines for one in known]),
        "complexity: p90 / highest / above 15": f"{complexity[int(0.9 * len(complexity))]} / {complexity[-1]} / "
        + str(sum(value > 15 for value in complexity)),
        "share of comments": f"{100 * lines.comment / lines.all:.1f} %",
        "assertions a function: `src` / pure folders": f"{asserts(tree, None, known)} / {asserts(tree, PURE, known)}",
        "the same: `vote` / `route`": f"{asserts(tree, ('vote',), known)} / {asserts(tree, ('route',), known)}",
        "pairs of folders that include each other": str(include_circles(tree)),
        "largest circles of calls inside folders": call_circles(build),
        "files the layout would change / lines over 110 columns": f"{unformatted(tree)} / {wide:,}",
        "README, lines / characters": f"{len(readme.splitlines())} / {len(readme):,}",
        "public functions / fields of the configuration / variables": public(tree),
        "rooms of a gradient / a death / a first piece": walks(tree),
    }


GOALS = {
    "`src`, files of C / lines": "fewer",
    "a function, lines: median / p90 / longest": "longest 70",
    "complexity: p90 / highest / above 15": "above 15 switches only",
    "share of comments": "about 10 %",
    "the same: `vote` / `route`": "0.7",
    "pairs of folders that include each other": "0",
    "largest circles of calls inside folders": "6",
    "files the layout would change / lines over 110 columns": "0 / 0",
    "README, lines / characters": "120 lines",
    "public functions / fields of the configuration / variables": "none without a reader",
    "rooms of a gradient / a death / a first piece": "14 / 20 / 15 (the table of a death leaves out ten)",
}


def print_folders(now: dict[str, Lines], before: dict[str, Lines]) -> None:
    """Code, comments and blank lines of each folder."""
    print("\n| folder | before: code / comments / all | now: code / comments / all |\n|---|---|---|")
    for name in sorted(now | before):
        rows = [
            f"{one.code:,} / {one.comment:,} / {one.all:,}" if (one := side.get(name)) else "-"
            for side in (before, now)
        ]
        print(f"| `{name}` | {' | '.join(rows)} |")


def main() -> None:
    """Print the card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build", type=Path)
    parser.add_argument("--before", nargs=2, type=Path, metavar=("TREE", "OLD"))
    parser.add_argument("--folders", action="store_true")
    args = parser.parse_args()
    now = card(ROOT, args.build)
    before = card(args.before[0], args.before[1]) if args.before else {}
    if before and (lines := in_layout_of_today(args.before[0])):
        before["`src`, files of C / lines"] += f" ({lines:,})"
    print("| what | before | now | goal |\n|---|---|---|---|")
    for what, figure in now.items():
        print(f"| {what} | {before.get(what, '')} | {figure} | {GOALS.get(what, '')} |")
    if args.folders:
        print_folders(by_folder(ROOT), by_folder(args.before[0]) if args.before else {})


if __name__ == "__main__":
    main()
