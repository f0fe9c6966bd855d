# SPDX-License-Identifier: Apache-2.0
"""Claims: every kind of mark that a member writes is the event of Chrome's format that it stands for, to the letter; a file may end
anywhere; what follows a gap does not begin before it; a file that is no trace, or of another format, is refused by name.

    trace_marks.py SPOTNIK
"""

from __future__ import annotations

import importlib
import json
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SPOTNIK = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.dirname(SPOTNIK))
trace_file = importlib.import_module("trace_file")

HEAD = {"spotnik_trace": 1, "order": "little", "version": "v", "member": "0000000a00000000", "host": "0" * 16, "process": 4,
        "date_us": 9, "clock_us": 1.5}
SELF = {"pid": 5}  # half of the member's first word


def cell(kind: int, which: int, at_ns: int, step: int = 0) -> bytes:
    return struct.pack("<QQ", at_ns, step << 16 | which << 4 | kind)


def mark(kind: int, which: int, *numbers: int) -> bytes:
    at_ns, rest = numbers[0], (*numbers[1:], 0, 0, 0, 0)[:4]
    return cell(kind, which, at_ns) + struct.pack("<QQQQ", *rest)


def event(at_ns: int, name: bytes, peer: int) -> bytes:
    return cell(trace_file.EVENT, 0, at_ns) + name.ljust(24, b"\0") + struct.pack("<Q", peer)


def told(data: bytes, **head: Any) -> list[dict[str, Any]]:
    """The events of a file with these marks, without those of its head."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.trace"
        path.write_bytes(json.dumps({**HEAD, **head}).encode() + b"\n" + data)
        return list(trace_file.events_of(path)[4:])


def bucket(which: str, phase: str, ts: float) -> dict[str, Any]:
    return {**SELF, "ph": phase, "tid": 1, "ts": ts, "id": "18.3", "name": which, "cat": "bucket",
            "args": {"step": 18, "epoch": 2, "bytes": 4096}}


def instant(row: int, name: str, **args: str) -> dict[str, Any]:
    return {**SELF, "ph": "i", "s": "p", "tid": row, "ts": 0.01, "cat": "event", "name": name, "args": args}


def kinds() -> None:
    turns = cell(trace_file.START, 0, 1_234_567, 18) + cell(trace_file.TURN, 2, 2_000_007, 18)
    assert told(turns) == [{**SELF, "ph": "X", "tid": 1, "ts": 1234.567, "dur": 765.44, "name": "compute", "cat": "step",
                            "args": {"step": 18}}]
    assert told(mark(trace_file.BUCKET, 3, 1000, 3001, 18, 4096, 2)) == [bucket("bucket 3", "b", 1.0), bucket("bucket 3", "e", 3.001)]
    assert told(mark(trace_file.BUCKET, 257, 1, 2, 18))[0]["name"] == "spotnik's own 257"
    changes = 3 << 32 | 2 << 16 | 1
    assert told(mark(trace_file.PHASE, 2, 1000, 2500, 7, changes)) == [
        {**SELF, "ph": "X", "tid": 2, "ts": 1.0, "dur": 1.5, "name": "restart", "cat": "view",
         "args": {"epoch": 7, "lost": 3, "joined": 2, "left": 1}}]
    assert told(event(10, b"death", 0xABC)) == [instant(2, "death", peer="0000000000000abc")]
    assert told(event(10, b"parked", 0)) == [instant(2, "parked")]
    assert told(mark(trace_file.LOST, 0, 10, 0, 0, 77)) == [instant(1, "77 marks lost")]
    assert told(mark(trace_file.NAME, 0, 10, 0, 0, 0, 0x123456789ABCDEF0)) == [
        {**SELF, "ph": "M", "name": "process_name", "args": {"name": "member 12345678", "member": "123456789abcdef0"}}]


def gaps() -> None:
    begin, end = cell(trace_file.START, 0, 1000), cell(trace_file.TURN, 1, 2000, 4)
    later = cell(trace_file.TURN, 2, 9000, 4)
    spans = [(0.0 + found["ts"], found["dur"]) for found in told(begin + end + later)]
    assert spans == [(1.0, 1.0), (2.0, 7.0)]
    assert [found["ph"] for found in told(begin + end + mark(trace_file.LOST, 1, 3000, 0, 0, 5) + later)] == ["X", "i"]
    whole = begin + end + mark(trace_file.BUCKET, 3, 1000, 3001, 18, 4096, 2)
    counts = [len(told(whole[:size])) for size in range(len(whole) + 1)]
    assert counts == sorted(counts) and counts[0] == 0 and counts[-2:] == [1, 3], counts


def refusals() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.trace"
        for data, words in ((b"[\n{}\n", "is not a trace"), (b"\x7fELF\n", "is not a trace"),
                            (json.dumps({**HEAD, "spotnik_trace": 2}).encode() + b"\n", "is of format 2"),
                            (json.dumps(HEAD).encode() + b"\n" + cell(9, 0, 1), "kind 9")):
            path.write_bytes(data)
            done = subprocess.run([SPOTNIK, "trace", "merge", folder, "-o", os.devnull], capture_output=True, text=True, timeout=60)
            assert done.returncode == 1 and words in done.stderr and "Traceback" not in done.stderr, (done.stderr, words)


if __name__ == "__main__":
    kinds()
    gaps()
    refusals()
