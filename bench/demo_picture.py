#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Record the demo's run with revocations in a terminal, and write it as a picture that moves: README's first screen.

    DEMO_SECONDS=12 bench/demo_picture.py BUILD docs/guide/pictures/demo.svg

A viewer that plays nothing shows the last screen. Needs nothing but Python."""

from __future__ import annotations

import html
import os
import pty
import re
import sys
import time
from pathlib import Path

BEGINS, LIVE, ENDS = "workers train a character model", "samples/s", "The same samples again"
TABLE_BEGINS, TABLE_ENDS = "  steps committed", "What the job did"
EVERY_S, END_S = 0.25, 8  # between two pictures of the live line; the last screen stays
ROW, COLUMN, MARGIN = 19, 8.43, 14
CODES = {"1": 'fill="#fff"', "31": 'fill="#ff6b68"', "32": 'fill="#5fd787"', "0": ""}

Line = tuple[float, str]  # when it came, and its words


def record(words: list[str]) -> list[Line]:
    """What the demo writes on a terminal, line by line; a live line comes again and again."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", COLUMNS="100", LINES="40")
        os.execv(words[0], words)
    begun, lines = time.monotonic(), []
    while True:
        try:
            said = os.read(terminal, 65536).decode(errors="replace")
        except OSError:
            break
        said = re.sub(r"\x1b\[(\?7[lh]|K)", "", said)
        lines += [(time.monotonic() - begun, line) for line in re.split(r"[\r\n]+", said) if line]
    if os.waitpid(pid, 0)[1]:
        sys.exit("the demo failed")
    return lines


def part(lines: list[Line], begins: str, ends: str) -> list[Line]:
    """From the line that has the one words to before the next that has the others."""
    at = next(i for i, (_, line) in enumerate(lines) if begins in line)
    end = next(i for i in range(at, len(lines)) if ends in lines[i][1])
    return [(when - lines[at][0], line) for when, line in lines[at:end]]


def screens(run: list[Line], table: list[str]) -> tuple[list[tuple[int, str, float, float]], float]:
    """Each line with its row, and from when to when it is seen; and when all is over."""
    rows, row, live = [], 0, None
    for when, line in run:
        if LIVE not in line:
            rows.append([row, line, when, None])
            row += 1
        elif live is None or when - live[2] >= EVERY_S or live[0] != row:
            if live is not None:
                live[3] = when
            live = [row, line, when, None]
            rows.append(live)
    over, end = run[-1][0], run[-1][0] + END_S
    rows += [[row + 2 + i, line, over, None] for i, line in enumerate(table)]
    return [(at, line, since, end if until is None else until) for at, line, since, until in rows], end


def spans(line: str) -> str:
    """Words with their colours."""
    parts = re.split(r"\x1b\[(\d+)m", "\x1b[0m" + line.replace(" ", "\u00a0"))
    return "".join(
        f"<tspan {CODES[code]}>{html.escape(words)}</tspan>" if CODES[code] else html.escape(words)
        for code, words in zip(parts[1::2], parts[2::2])
        if words
    )


def picture(run: list[Line], table: list[str]) -> str:
    """One text for each line and time, which is there from its time on."""
    shown, end = screens(run, table)
    width = 2 * MARGIN + COLUMN * max(len(re.sub(r"\x1b\[\d+m", "", line)) for _, line, _, _ in shown)
    height = 2 * MARGIN + ROW * (1 + max(row for row, _, _, _ in shown))
    texts = []
    for row, line, since, until in shown:
        times = [(0.0, 0), (since / end, 1)] + ([(until / end, 0)] if until < end else [])
        times = times[1:] if since == 0 else times
        play = (
            f'<animate attributeName="opacity" calcMode="discrete" dur="{end:.1f}s" repeatCount="indefinite" '
            f'keyTimes="{";".join(f"{at:.4f}" for at, _ in times)}" values="{";".join(str(seen) for _, seen in times)}"/>'
        )
        texts.append(
            f'<text x="{MARGIN}" y="{MARGIN + ROW * (row + 0.75):.0f}" opacity="{int(until == end)}">{spans(line)}{play}</text>'
        )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}">',
            "<title>spotnik: workers are killed and replaced while a model trains</title>",
            f'<rect width="{width:.0f}" height="{height}" rx="8" fill="#1b1f27"/>',
            '<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14" fill="#b9c0cc">',
            *texts,
            "</g></svg>\n",
        ]
    )


def main() -> None:
    build, to = sys.argv[1:3]
    os.environ["DEMO_REPORT"] = f"{build}/demo-report"
    lines = record(["examples/demo.sh", f"{build}/examples", f"{build}/cli/spotnik"])
    table = [line for _, line in part(lines, TABLE_BEGINS, TABLE_ENDS)]
    Path(to).write_text(picture(part(lines, BEGINS, ENDS), table))


main()
