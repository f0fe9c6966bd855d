# SPDX-License-Identifier: Apache-2.0
"""Claims: with SPOTNIK_TRACE every member leaves a trace, also one that was killed; merged they are JSON with a row for each, and an
arrow goes from a death to the recoveries that followed; a clock that is off is found within the error that is stated; `spotnik trace
why` names the loss, and the member that was held up.

    traces.py SPOTNIK CHARLM
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lib import Job, wait_for

SPOTNIK, CHARLM = map(os.path.abspath, sys.argv[1:3])
sys.path.insert(0, os.path.dirname(SPOTNIK))
trace_file = importlib.import_module("trace_file")  # of `spotnik trace`, beside the command
OFF_NS = 5_000_000_000


def ask(*command: str) -> str:
    done = subprocess.run([SPOTNIK, "trace", *command], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout


def events(path: Path) -> list[dict[str, Any]]:
    return trace_file.events_of(path)


def spans(path: Path, name: str) -> list[dict[str, Any]]:
    return [event for event in events(path) if event["name"] == name and event["ph"] == "X"]


def names(path: Path) -> list[str]:
    """Of the members that the process was, one after the other."""
    return [event["args"]["member"][:8] for event in events(path) if event["name"] == "process_name"]


def run(folder: Path) -> str:
    """Three workers; one is held up for a moment, another one is killed. Returns the name of the first."""
    with Job(SPOTNIK, ["-n", "1:3"], [CHARLM, "--steps", "0", "--quiet"], {"SPOTNIK_TRACE": str(folder), "SPOTNIK_HTTP": ""}) as job:
        wait_for("three traces with steps", lambda: len([path for path in folder.glob("*.trace") if len(spans(path, "commit")) > 60]) == 3)
        held, killed = job.workers()[:2]
        os.kill(held, signal.SIGSTOP)
        time.sleep(0.15)  # this is what is measured, not a wait for something
        os.kill(held, signal.SIGCONT)
        others = [path for path in folder.glob("*.trace") if f"-{killed}." not in path.name]
        before = len(spans(others[0], "commit"))
        wait_for("steps after it", lambda: len(spans(others[0], "commit")) > before + 60)
        os.kill(killed, signal.SIGKILL)
        wait_for("the recovery", lambda: all(any(span["args"]["lost"] for span in spans(path, "first commit")) for path in others))
        before = len(spans(others[0], "commit"))
        wait_for("steps after the loss", lambda: len(spans(others[0], "commit")) > before + 60)
    path = next(folder.glob(f"*-{held}.trace"))
    return names(path)[-1]


def merge(folder: Path) -> None:
    out = folder / "all"
    said = ask("merge", str(folder), "-o", str(out))
    assert said.count("± 0.000 ms") == 3, said
    told = json.loads(out.read_text())["traceEvents"]
    assert len({event["pid"] for event in told}) == 3
    kinds = Counter(event["ph"] for event in told)
    assert kinds["s"] == kinds["f"] == 2, kinds  # one death, two who saw it
    assert kinds["b"] == kinds["e"] > 0 and all(event["ts"] >= 0 for event in told if "ts" in event)
    spans_of = Counter((event["id"], event["ph"]) for event in told if event["ph"] in "be")
    assert set(spans_of.values()) == {1}, "two members have a span of one id: chrome://tracing would join them"


def untold(folder: Path) -> None:
    """One of the two did not hear the end itself, since the others' token was faster: its recovery has an arrow all the same."""
    path = next(path for path in folder.glob("*.trace") if b"death\0" in path.read_bytes())
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"death\0", b"ended\0"))
    merge(folder)
    path.write_bytes(whole)


def marks(data: bytes) -> Iterator[bytearray]:
    """As src/record/tracer_file.h has them."""
    at = 0
    while at + 16 <= len(data):
        kind = data[at + 8] & 15
        size = 16 if kind in (trace_file.START, trace_file.TURN) else 48
        yield bytearray(data[at : at + size])
        at += size


def later(mark: bytearray) -> bytearray:
    """With every time moved."""
    kind = mark[8] & 15
    struct.pack_into("=Q", mark, 0, struct.unpack_from("=Q", mark)[0] + OFF_NS)
    if kind in (trace_file.BUCKET, trace_file.PHASE):
        struct.pack_into("=Q", mark, 16, struct.unpack_from("=Q", mark, 16)[0] + OFF_NS)
    return mark


def overtaken(folder: Path) -> None:
    """One had begun a ballot of its own when it was told the outcome of the other's: no reconcile of it has an end."""
    path = next(path for path in folder.glob("*.trace") if b"death\0" in path.read_bytes())
    whole = path.read_bytes()
    head, _, data = whole.partition(b"\n")
    path.write_bytes(head + b"\n" + b"".join(mark for mark in marks(data) if mark[8] != trace_file.PHASE))  # the phase of number 0
    assert spans(path, "accept") and not spans(path, "reconcile")
    merge(folder)
    path.write_bytes(whole)


def shifted(folder: Path) -> None:
    """One member says that it is of another host, whose clock is ahead."""
    path = max(folder.glob("*.trace"), key=lambda path: len(spans(path, "commit")))
    line, _, data = path.read_bytes().partition(b"\n")
    head = {**json.loads(line), "host": "0" * 16}
    path.write_bytes(json.dumps(head).encode() + b"\n" + b"".join(later(mark) for mark in marks(data)))
    said = ask("merge", str(folder), "-o", str(folder / "all"))
    found = [(abs(float(at)), float(error)) for at, error in re.findall(r"clock ([+-][\d.]+) ms ± ([\d.]+) ms", said)]
    off = [(at, error) for at, error in found if error > 0]
    assert off and all(abs(at - OFF_NS / 1e6) <= error < 1000 for at, error in off), said


def why(folder: Path, held: str) -> None:
    path = next(path for path in folder.glob("*.trace") if held in names(path))
    slow = max((span for span in spans(path, "compute") + spans(path, "commit")), key=lambda span: span["dur"] if span["dur"] < 1e6 else 0)
    said = ask("why", str(slow["args"]["step"]), str(folder))
    if before := re.search(r"ask about step (\d+)", said):  # on a busy machine one had the step before late, and that is the slow one
        said = ask("why", before[1], str(folder))
    assert "because" in said and (held in said or slow["name"] == "commit"), said
    losses = [span for path in folder.glob("*.trace") for span in spans(path, "first commit") if span["args"]["lost"]]
    after = losses[0]["ts"] + losses[0]["dur"]
    other = next(path for path in folder.glob("*.trace") if losses[0] in spans(path, "first commit"))
    step = min((span for span in spans(other, "commit")), key=lambda span: abs(span["ts"] + span["dur"] - after))["args"]["step"]
    told = ask("why", str(step), str(folder))
    assert "1 lost" in told, told
    assert re.search(r"apply before \d", told), told


def tool_load() -> Any:
    spec = importlib.util.spec_from_file_location("spotnik_trace", Path(SPOTNIK).parent / "trace.py")
    assert spec and spec.loader
    tool = sys.modules["spotnik_trace"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


def planted(tool: Any) -> None:
    """A step of which a recovery took half, and which was no longer than its neighbours."""
    lost = {"name": "first commit", "cat": "view", "ts": 42e3, "dur": 5e3, "args": {"epoch": 7, "lost": 1, "joined": 0, "left": 0}}
    member = tool.Member(["one"], "host", 0.0, 0.0, [lost])
    member.parts = {step: {"commit": (10e3 * step - 5e3, 10e3 * step)} for step in range(1, 9)}
    said = tool.verdict([member], 5, (40e3, 50e3), 10.0)
    assert said == ["It was no slower than others, although the view changed (1 lost; epoch 7): first commit 5.0 ms"], said
    assert tool.verdict([member], 7, (60e3, 70e3), 10.0) == ["It was no slower than others."]


def late_before(tool: Any) -> None:
    """The result of step 4 came late to one: the other waited for it in step 5, and 4 is the step to ask about."""
    prompt, slow = (tool.Member([name], "host", 0.0, 0.0, []) for name in ("prompt", "slow"))
    for member, late in ((prompt, 0.0), (slow, 200e3)):
        ends = {step: 10e3 * step + (late if step == 4 else 0.0) + (200e3 if step > 4 else 0.0) for step in range(1, 9)}
        member.parts = {step: {"commit": (ends[step] - 5e3, ends[step])} for step in ends}
    assert tool.late_before([prompt, slow], 5) == (200.0, "slow"), tool.late_before([prompt, slow], 5)
    assert tool.late_before([prompt, slow], 7)[0] == 0


PROFILED = """
import time, numpy, spotnik, torch
from torch.profiler import ProfilerActivity, profile, record_function
w = numpy.zeros(10, numpy.float32)
with spotnik.Job() as job, profile(activities=[ProfilerActivity.CPU]) as profiler:
    job.state_add("w", w.ctypes.data, 10, spotnik.Dtype.F32, w)
    for step in job:
        with record_function(f"work {step.number}"):
            time.sleep(0.02)
        job.step_commit()
        if step.number == 10:
            break
profiler.export_chrome_trace("torch.json")
"""


def torch_lines_up(folder: Path) -> None:
    """What PyTorch's profiler calls the work of a step lies within our span of it; or the test's environment has no PyTorch."""
    python = Path(os.environ.get("SPOTNIK_VENV", "")) / "bin/python"
    if not python.exists() or subprocess.run([python, "-c", "import torch"], capture_output=True, timeout=120).returncode:
        print("without PyTorch: its traces were not looked at")
        return
    build = Path(SPOTNIK).parent.parent
    settings = {**os.environ, "SPOTNIK_TRACE": str(folder), "SPOTNIK_LIBRARY": str(build / "src/libspotnik.so"),
                "PYTHONPATH": os.environ["SPOTNIK_ROOT"] + "/python"}
    subprocess.run([python, "-c", PROFILED], env=settings, cwd=folder.parent, check=True, timeout=120, capture_output=True)
    ask("merge", str(folder), "-o", str(folder / "all"), "--torch", str(folder.parent / "torch.json"))
    told = json.loads((folder / "all").read_text())["traceEvents"]
    work = {int(event["name"].split()[1]): event for event in told if event["name"].startswith("work ") and event["ph"] == "X"}
    ours = {event["args"]["step"]: event for event in told if event["name"] == "compute"}
    assert len(work) == 10
    for step, event in work.items():
        begin, end = ours[step]["ts"], ours[step]["ts"] + ours[step]["dur"]
        assert begin - 5000 < event["ts"] and event["ts"] + event["dur"] < end + 5000, (step, event, ours[step])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as top:
        where = Path(top) / "traces"
        where.mkdir()
        name = run(where)
        merge(where)
        untold(where)
        overtaken(where)
        why(where, name)
        shifted(where)
        planted(tool_load())
        late_before(tool_load())
        torch_lines_up(Path(top) / "alone")
