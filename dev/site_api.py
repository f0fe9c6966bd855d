# SPDX-License-Identifier: Apache-2.0
"""For mkdocs.yml: pages of the API. Each public header becomes a page, its comments text and its declarations code.

Each public Python module becomes a page that mkdocstrings fills from the docstrings, without importing it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
HEADERS = ROOT / "include" / "spotnik"
PARTS = ("torch", "keras", "jax", "tensorflow", "p2p", "sync")
# A documented declaration, at the left margin: its comment, then all up to a line that ends it.
DECLARATION = re.compile(r"^/\*\*(.*?)\*/\n(.*?)(?=\n\n|\n/\*\*|\Z)", re.S | re.M)
NAMES = (r"(spotnik_\w+)\(", r"(?:enum|struct) (spotnik_\w+) \{", r"typedef .*?(spotnik_\w+)\)?[;(]", r"#define (\w+)")
NAME = re.compile("|".join(NAMES), re.S)
# Doxygen's commands that the headers use, as Markdown.
COMMANDS = [(r"@file .*", ""), (r"@p (\w+)", r"`\1`"), (r"^@param(?:\[\w+\])? +(\w+) +", r"\n* `\1`: ")]
COMMANDS += [(r"^@returns? +", r"\n* returns ")]


def prose(comment: str) -> str:
    """A comment as Markdown: what is indented is code already; names become code."""
    lines = [re.sub(r"^ \* ?", "", line).rstrip(" /") for line in comment.strip("*\n").splitlines()]
    text = "\n".join(lines).strip()
    for command, markdown in COMMANDS:
        text = re.sub(command, markdown, text, flags=re.M)
    parts = re.split(r"((?:^ {4}.*\n?)+|`[^`]*`)", text, flags=re.M)
    for index in range(0, len(parts), 2):
        escaped = parts[index].replace("<", "&lt;")
        parts[index] = re.sub(r"\b(?:spotnik_\w+(?:\(\))?|SPOTNIK_[A-Z0-9_]+\*?)", r"`\g<0>`", escaped)
    return "".join(parts)


def page_of(header: Path) -> str:
    """The page of a header."""
    text = header.read_text(encoding="utf-8")
    first, *rest = DECLARATION.finditer(text)
    page = [f"# {header.name}\n", prose(first[1]), ""]
    for found in rest:
        named = NAME.search(found[2])
        name = next((word for word in named.groups() if word), "") if named else ""
        page += [f"## {name}\n"] if name else []
        page += [prose(found[1]), f"\n```c\n{found[2]}\n```\n"]
    return "\n".join(page)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages."""
    pages = {f"reference/c/{header.stem}.md": page_of(header) for header in sorted(HEADERS.glob("*.h"))}
    for module in ("spotnik", *(f"spotnik.{part}" for part in PARTS)):
        pages[f"reference/python/{module}.md"] = f"# {module}\n\n::: {module}\n"
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files
