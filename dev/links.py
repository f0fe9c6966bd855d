#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check what documents point at, over the tree named as argument (default: this one).

Prints each breach as FILE:LINE: what is wrong, and ends with 1 if there was one. In every Markdown page it checks

    links     a relative link names a file or folder of the tree; its #anchor is a heading or an <a id> of that page
    files     a path in backquotes, `src/core/core.c` or `core/core.c`, is there; `FILE: NAME`: the file has NAME
    names     a name in backquotes, `spotnik_step_begin` or `SPOTNIK_PEERS`, stands somewhere outside of the documents
    options   an option of spotnik on a command line, `spotnik run --min`, stands in the sources
    glossary  each page of the guide and of the reference links to the glossary

and in every other file of text: a path below docs/ is there, and so is a file of C that a comment names. Of fenced
blocks it checks only options. Rules of the protocol and their files name each other:

    rules     a file of membership/ or allreduce/ cites the sections of docs/protocol.md that name it, as in
              "docs/protocol.md 5 and 6", or its first comment states that it holds none; each section names its tests
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"(?:[\w.-]+/)+[\w.-]*\.(?:c|h|py|sh|md|pml|build|json|yaml|yml|svg)")
PLACED = re.compile(rf"({FILE.pattern}): ([\w]+)")
NAME = re.compile(r"\b(?:spotnik_[a-z0-9_]+[a-z0-9]|SPOTNIK_[A-Z0-9_]+[A-Z0-9])\b(?![_*{])")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+[a-z]")
BARE = re.compile(r"[a-z_0-9]+\.(?:c|h|py|sh|pml)")
IN_COMMENT = re.compile(r"(?<![\w./<*-])((?:[a-z_0-9]+/)*[a-z_0-9]+\.[ch])\b(?!\()")
SECTION = re.compile(r"^## (\d+)\. .*?(?=^## |\Z)", re.M | re.S)
CITATION = re.compile(r"docs/protocol\.md (\d+(?:, \d+)*(?: and \d+)?)")
RULE_FILE = re.compile(r"(?:membership|allreduce)/\w+\.c\b")
NO_RULE = "No rule of the protocol is here"
DOCUMENT = re.compile(r"(?<![\w/$])docs/[\w./-]+\.(?:md|svg|png|json|jsonl)\b")
TEXT = {
    ".c",
    ".h",
    ".py",
    ".sh",
    ".md",
    ".build",
    ".toml",
    ".yml",
    ".yaml",
    ".pml",
    ".1",
    ".txt",
    "",
}
CODE_FOLDERS = [
    "src",
    "include",
    "cli",
    "common",
    "packages",
    "research",
    "python",
    "sim",
]
CODE_FOLDERS += ["tests", "bench", "examples"]
FOLDERS = [*CODE_FOLDERS, "dev", "docs", "model", "packaging"]
PROTOCOL = "docs/protocol.md"
GLOSSARY = "glossary.md"
EXPLAINED = (
    "docs/guide/",
    "docs/reference/",
)  # pages of which each links to the glossary
SEARCHED = (*(f"{folder}/" for folder in CODE_FOLDERS), "meson")


def slug(heading: str) -> str:
    """The anchor that a heading gets, as GitHub and MkDocs make it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    text = re.sub(r"[^\w\- ]", "", text.strip().lower())
    return text.replace(" ", "-")


def listed(root: Path) -> list[str]:
    """The files of the tree: those that git knows or would take; without git, all but build folders."""
    if (root / ".git").exists():
        command = ["git", "ls-files", "-co", "--exclude-standard"]
        told = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
        return [name for name in told.splitlines() if (root / name).is_file()]
    names = (str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    return sorted(name for name in names if not name.startswith(("build", ".")))


class Page:
    """A page of Markdown, its lines apart from its fenced blocks."""

    def __init__(self, path: Path) -> None:
        self.prose: list[tuple[int, str]] = []
        self.fenced: list[tuple[int, str]] = []
        self.anchors: set[str] = set()
        inside = False
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.lstrip().startswith("```"):
                inside = not inside
            elif inside:
                self.fenced.append((number, line))
            else:
                self.prose.append((number, line))
                self.anchors.update(re.findall(r'<a id="([^"]+)"', line))
                if heading := re.match(r"#+ (.*)", line):
                    self.anchors.add(self.fresh(slug(heading.group(1))))

    def fresh(self, anchor: str) -> str:
        """The anchor itself, or with the number that tells equal headings of a page apart."""
        number = 1
        name = anchor
        while name in self.anchors:
            name = f"{anchor}-{number}"
            number += 1
        return name


class Tree:
    """What git knows, and the breaches found in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = listed(root)
        self.pages = {name: Page(root / name) for name in self.files if name.endswith(".md")}
        text = [name for name in self.files if name.startswith(SEARCHED) and Path(name).suffix in TEXT]
        code = [name for name in text if not name.endswith(".md")]
        self.code = "\n".join((root / name).read_text(errors="replace") for name in code)
        self.words = set(re.findall(r"\w+", self.code))
        self.options = set(re.findall(r"[a-z][a-z-]+[a-z]", self.code))
        self.names = {Path(name).name for name in self.files}
        self.breaches = 0

    def breach(self, name: str, line: int, what: str) -> None:
        """Print one and count it."""
        print(f"{name}:{line}: {what}")
        self.breaches += 1

    def link(self, name: str, line: int, target: str) -> None:
        """One link of a page."""
        if re.match(r"[a-z]+:", target):
            return
        path, _, anchor = target.partition("#")
        there = (self.root / name).parent / path if path else self.root / name
        if not there.exists():
            self.breach(name, line, f"{path} is not there")
            return
        page = self.pages.get(str(there.resolve().relative_to(self.root.resolve())))
        if anchor and page and anchor not in page.anchors:
            self.breach(name, line, f"{target}: that page has no such heading")

    def file(self, name: str, line: int, path: str) -> Path | None:
        """The file that a path means: from the root, in src, or beside the page."""
        here = (self.root / name).parent
        for base in (
            self.root,
            here,
            *(self.root / folder for folder in ("src", "docs", "include", "python")),
        ):
            if (base / path).is_file():
                return base / path
        if path.split("/")[0] in (
            *FOLDERS,
            *(folder.name for folder in (self.root / "src").iterdir()),
        ):
            self.breach(name, line, f"{path} is not there")
        return None

    def mentions(self, name: str, line: int, code: str) -> None:
        """What one piece of code within prose names."""
        placed = PLACED.match(code)
        if placed:
            there = self.file(name, line, placed.group(1))
            if there and not re.search(rf"\b{placed.group(2)}\b", there.read_text()):
                self.breach(name, line, f"{placed.group(1)} has no {placed.group(2)}")
        elif FILE.fullmatch(code):
            self.file(name, line, code)
        elif BARE.fullmatch(code) and code not in self.names:
            self.breach(name, line, f"no file is called {code}")
        for found in NAME.findall(code):
            short = found.removeprefix("spotnik_") if name.endswith("/metrics.md") else found
            if found not in self.words and short not in self.words:
                self.breach(name, line, f"{found} stands in no source")

    def option(self, name: str, line: int, code: str) -> None:
        """The options of spotnik on a command line; what follows a bare -- is another program's."""
        for command in re.findall(r"\bspotnik [a-z].*", code.split(" -- ")[0]):
            for option in OPTION.findall(command):
                if option[2:] not in self.options:
                    self.breach(name, line, f"{option} is no option in the sources")

    def page(self, name: str, page: Page) -> None:
        """One page of Markdown."""
        for line, text in page.prose:
            for target in LINK.findall(re.sub(r"`[^`]*`", "", text)):
                self.link(name, line, target)
            for code in CODE.findall(text):
                self.mentions(name, line, code)
                self.option(name, line, code)
        for line, text in page.fenced:
            self.option(name, line, text)
        linked = name.endswith(GLOSSARY) or any(GLOSSARY in text for _, text in page.prose)
        if name.startswith(EXPLAINED) and not linked:
            self.breach(name, 1, f"no link to {GLOSSARY}")

    def source(self, name: str) -> None:
        """Any file of text: the documents and the files of C that it mentions."""
        for number, line in enumerate((self.root / name).read_text(errors="replace").splitlines(), 1):
            for path in DOCUMENT.findall(line):
                if not (self.root / path).exists():
                    self.breach(name, number, f"{path} is not there")
            if name.endswith((".c", ".h")) and name.startswith(SEARCHED) and "#" not in line:
                for path in IN_COMMENT.findall(line.partition('"')[0]):
                    if not any(f"/{known}".endswith(f"/{path}") for known in self.files):
                        self.breach(name, number, f"no file is called {path}")

    def cites(self, path: str, named_by: set[str]) -> None:
        """A file of membership/ or allreduce/, and the sections of the protocol that name it."""
        text = re.sub(r"\n \* ?", " ", (self.root / "src" / path).read_text())
        cited = {number for found in CITATION.findall(text) for number in re.findall(r"\d+", found)}
        for number in sorted(cited - named_by, key=int):
            self.breach(
                f"src/{path}",
                1,
                f"cites section {number} of docs/protocol.md, which does not name it",
            )
        for number in sorted(named_by - cited, key=int):
            self.breach(
                f"src/{path}",
                1,
                f"does not cite section {number} of docs/protocol.md, which names it",
            )
        if not cited and not named_by and NO_RULE not in text:
            self.breach(
                f"src/{path}",
                1,
                f"cites no section of docs/protocol.md, nor says: {NO_RULE}",
            )

    def rules(self) -> None:
        """The sections of the protocol, and the files that hold their rules."""
        text = (self.root / PROTOCOL).read_text()
        named: dict[str, set[str]] = {}
        for section in SECTION.finditer(text):
            files = RULE_FILE.findall(section[0])
            for path in files:
                named.setdefault(path, set()).add(section[1])
            if files and "tests/" not in section[0]:
                line = text.count("\n", 0, section.start()) + 1
                self.breach(PROTOCOL, line, f"section {section[1]} names no test of its rules")
        for name in self.files:
            path = name.removeprefix("src/")
            if RULE_FILE.fullmatch(path):
                self.cites(path, named.get(path, set()))


def main() -> int:
    """Check the tree; the exit status."""
    tree = Tree(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent))
    if not tree.pages:
        print("links: there is no page of Markdown to check")
        return 1
    for name, page in tree.pages.items():
        tree.page(name, page)
    for name in tree.files:
        if Path(name).suffix in TEXT:
            tree.source(name)
    if PROTOCOL in tree.files:
        tree.rules()
    if not tree.breaches:
        print(f"links: {len(tree.pages)} pages, {len(tree.files)} files, nothing wrong")
    return tree.breaches > 0


sys.exit(main())
