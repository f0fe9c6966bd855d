# SPDX-License-Identifier: Apache-2.0
"""For mkdocs.yml: pages link to files of the tree outside of docs/. Take those into the site, as text, below source/.

A link to a folder becomes plain text: the site has no listing of it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

LINK = re.compile(r"\[([^\]]*)\]\((\.\./[^)#\s]+)(#[^)\s]*)?\)")
ROOT = Path(__file__).resolve().parent.parent


def outside(page: str, target: str) -> str:
    """The path from the root that a link of docs/PAGE names; "" if that lies in docs/."""
    path = os.path.normpath(os.path.join("docs", os.path.dirname(page), target))
    return "" if path.startswith("docs/") else path


def on_files(files: Any, config: Any) -> Any:
    """Take along what any page links to."""
    for page in files.documentation_pages():
        for _, target, _ in LINK.findall(page.content_string):
            path = outside(page.src_uri, target)
            name = f"source/{path}.txt"
            if path and (ROOT / path).is_file() and not files.get_file_from_path(name):
                files.append(File.generated(config, name, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links that leave docs/ point there."""

    def moved(link: re.Match[str]) -> str:
        label, target, _ = link.groups()
        path = outside(page.file.src_uri, target)
        if not path:
            return link.group(0)
        if not (ROOT / path).is_file():
            return label
        here = os.path.relpath(f"source/{path}.txt", os.path.dirname(page.file.src_uri) or ".")
        return f"[{label}]({here})"

    return LINK.sub(moved, markdown)
