# SPDX-License-Identifier: Apache-2.0
"""One member's trace, which src/record/tracer_file.h describes, as events of Chrome's format."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any, Optional

Event = dict[str, Any]
FORMAT = 1
START, TURN, BUCKET, PHASE, EVENT, NAME, LOST = range(7)
CELL, MARK = "QQ", "QQQQQQ"
PARTS = ("apply", "begin", "compute", "commit")
PHASES = ("reconcile", "accept", "restart", "first commit")
STEP_ROW, VIEW_ROW = 1, 2
OWN_BUCKETS = 250  # from there on they are Spotnik's own


def us(ns: int) -> float:
    return ns / 1e3


def span(row: int, name: str, category: str, begin_ns: int, end_ns: int, args: dict[str, Any]) -> Event:
    return {"ph": "X", "tid": row, "ts": us(begin_ns), "dur": us(end_ns - begin_ns), "name": name, "cat": category, "args": args}


def instant(row: int, name: str, at_ns: int, args: dict[str, Any]) -> Event:
    return {"ph": "i", "s": "p", "tid": row, "ts": us(at_ns), "cat": "event", "name": name, "args": args}


def bucket_events(which: int, begin_ns: int, end_ns: int, step: int, bytes_of: int, epoch: int) -> list[Event]:
    """They overlap, so they are no spans of a row: Chrome calls them asynchronous."""
    name = f"bucket {which}" if which < OWN_BUCKETS else f"spotnik's own {which}"
    same = {"tid": STEP_ROW, "id": f"{step}.{which}", "name": name, "cat": "bucket", "args": {"step": step, "epoch": epoch, "bytes": bytes_of}}
    return [{**same, "ph": "b", "ts": us(begin_ns)}, {**same, "ph": "e", "ts": us(end_ns)}]


def phase_event(which: int, begin_ns: int, end_ns: int, epoch: int, changes: int) -> Event:
    args = {"epoch": epoch, "lost": changes >> 32, "joined": changes >> 16 & 0xFFFF, "left": changes & 0xFFFF}
    return span(VIEW_ROW, PHASES[which], "view", begin_ns, end_ns, args)


def name_event(member: int) -> Event:
    return {"ph": "M", "name": "process_name", "args": {"name": f"member {member >> 32:08x}", "member": f"{member:016x}"}}


def mark_events(kind: int, which: int, mark: tuple[int, ...], name: bytes) -> list[Event]:
    """Of one mark of three cells."""
    at_ns, _, to_ns, step, more, peer = mark
    if kind == BUCKET:
        return bucket_events(which, at_ns, to_ns, step, more, peer)
    if kind == PHASE:
        return [phase_event(which, at_ns, to_ns, step, more)]
    if kind == EVENT:
        return [instant(VIEW_ROW, name.rstrip(b"\0").decode(), at_ns, {"peer": f"{peer:016x}"} if peer else {})]
    if kind == NAME:
        return [name_event(peer)]
    return [instant(STEP_ROW, f"{more} marks lost", at_ns, {})]


def marks_of(data: bytes, at: int, order: str) -> list[Event]:
    """A file may end anywhere, within a mark too: its writer may have been killed."""
    events: list[Event] = []
    cell, whole = struct.Struct(order + CELL), struct.Struct(order + MARK)
    since: Optional[int] = None  # the caller's part runs; None: its beginning is not known
    while at + cell.size <= len(data):
        at_ns, what = cell.unpack_from(data, at)
        kind, which, step = what & 15, what >> 4 & 0xFFF, what >> 16
        if kind in (START, TURN):
            if kind == TURN and since is not None:
                events.append(span(STEP_ROW, PARTS[which], "step", since, at_ns, {"step": step}))
            since, at = at_ns, at + cell.size
        elif kind > LOST:
            raise ValueError(f"no mark is of kind {kind}")
        elif at + whole.size <= len(data):
            events += mark_events(kind, which, whole.unpack_from(data, at), data[at + cell.size : at + cell.size + 24])
            since, at = None if kind == LOST and which else since, at + whole.size
        else:
            break
    return events


def head_events(head: dict[str, Any]) -> list[Event]:
    told = {key: head[key] for key in ("version", "member", "host", "process", "date_us", "clock_us")}
    rows = [{"ph": "M", "tid": tid, "name": "thread_name", "args": {"name": name}} for tid, name in ((STEP_ROW, "step"), (VIEW_ROW, "view"))]
    return [name_event(int(head["member"], 16)), {"ph": "M", "name": "spotnik", "args": told}, *rows]


def events_of(path: Path) -> list[Event]:
    """What one member's file says, in Chrome's terms; nothing of a file that is being begun."""
    data = path.read_bytes()
    line, newline, _ = data.partition(b"\n")
    if not newline:
        return []
    try:
        head = json.loads(line)
        if head["spotnik_trace"] != FORMAT:
            sys.exit(f"spotnik trace: {path} is of format {head['spotnik_trace']}, and this command reads {FORMAT}: use that of Spotnik {head['version']}")
        events = head_events(head) + marks_of(data, len(line) + 1, "<" if head["order"] == "little" else ">")
    except (ValueError, KeyError, TypeError) as error:
        sys.exit(f"spotnik trace: {path} is not a trace that a member has written: {error}")
    pid = int(head["member"], 16) >> 33  # positive for readers that take it for an int
    return [{**event, "pid": pid} for event in events]
