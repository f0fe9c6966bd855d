# SPDX-License-Identifier: Apache-2.0
"""Judges a run from what its members wrote (member.c), and from the list of what was done to them (faults.jsonl).
It knows nothing of Spotnik's code. Claims (docs/protocol.md promises them):

  state     a step takes every member from the same state to the same state
  lineage   two histories that part never both go on: one has made its last step before the other makes its first
  back      a member that comes again goes on from the history that it had made
  samples   every sample of an epoch of data goes into one step of that epoch, once; what a member put into a step
            that it commits is in it
  ends      a process ends because it was killed, or told to leave, or with an error that is documented for what was
            done to it
  stuck     after a storm all members make steps in one view, within the time that the run states

What section 16 of the protocol gives up is not a failure, and is counted by name: excuses.

    checker.py FOLDER"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SECOND = 10**9
Fact = dict[str, Any]
# How long before a thing its cause may lie: a process that finds no member looks for a minute, and 30 s before that.
CAUSE_NS = 180 * SECOND
DEATHS = {"kill", "poweroff", "total", "leave", "stop", "stop_long"}
NETWORK = {"cut", "one_way", "partition", "loss", "reject", "proxy", "poweroff", "stop", "stop_long"}
FOLDER = {"tear", "hide", "away"}
# Error: what must have been done for it to be documented. The numbers are those of spotnik.h.
DOCUMENTED = {
    -100: ("found nobody", DEATHS | NETWORK | FOLDER),
    -104: ("no folder", {"away"}),
    -301: ("left without agreement", {"leave", "end"}),
    -303: ("founded again without it", NETWORK | FOLDER),
}


@dataclass
class Commit:
    ns: int
    step: int
    view: int
    size: int
    replay: bool
    start: str
    to: str
    epoch: int
    taken: str
    offered: str = ""
    final: bool = False  # its process went on from here
    life: int = 0  # how often its process had been excluded before


@dataclass
class Process:
    name: str
    commits: list[Commit] = field(default_factory=list)
    breaks: set[int] = field(default_factory=set)  # indices of commits that need not follow from the one before
    end: tuple[int, int, str] | None = None
    born_ns: int = 0
    parked: bool = False


@dataclass
class Node:
    """A state that a step led to."""

    step: int
    start: str
    to: str
    epoch: int
    taken: str
    first_ns: int = 0
    last_ns: int = 0
    final: bool = False
    by: list[tuple[str, Commit]] = field(default_factory=list)
    children: list[Node] = field(default_factory=list)


@dataclass
class Verdict:
    failures: list[str] = field(default_factory=list)
    excuses: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    steps: int = 0
    recovery_s: list[float] = field(default_factory=list)


# ---- reading


def read_process(name: str, text: str) -> Process:
    process, offered, life = Process(name), ("", ""), 0
    for line in text.splitlines():
        words = line.split(" ")
        ns, what = int(words[0]), words[1]
        if what == "start":
            process.born_ns = ns
        elif what == "loaded":
            process.breaks.add(len(process.commits))
        elif what == "offer":
            offered = (words[2], words[4])
        elif what == "excluded":
            process.breaks.add(len(process.commits))
            life += 1
        elif what == "wait":
            process.parked = words[2] == "1"
        elif what == "commit":
            step, view, size, replay, start, to, epoch, taken = words[2:10]
            commit = Commit(ns, int(step), int(view), int(size), replay == "1", start, to, int(epoch), taken, life=life)
            commit.offered = offered[1] if offered[0] == step and not commit.replay else ""
            process.commits.append(commit)
            process.parked = False
        elif what == "end":
            process.end = (ns, int(words[2]), " ".join(words[3:]))
    for index, commit in enumerate(process.commits):
        left = index + 1 == len(process.commits) and process.end is not None and process.end[1] == 0
        goes_on = index + 1 < len(process.commits) and process.commits[index + 1].start == commit.to
        commit.final = (left and index + 1 not in process.breaks) or goes_on
    return process


def mask(text: str) -> tuple[int, bool]:
    """The samples as bits; False: some went in more than once, or fewer times than that."""
    bits, once = 0, True
    for word in [] if text == "-" else text.split(","):
        span, _, times = word.partition("x")
        begin, end = (int(number) for number in span.split("-"))
        once = once and times in ("", "1")
        more = ((1 << (end - begin)) - 1) << begin
        once = once and not bits & more
        bits |= more
    return bits, once


# ---- state: one result of each step


def check_processes(processes: list[Process], verdict: Verdict) -> None:
    for process in processes:
        for index, commit in enumerate(process.commits):
            before = process.commits[index - 1] if index and index not in process.breaks else None
            if before and (commit.step != before.step + 1 or commit.start != before.to):
                verdict.failures.append(
                    f"state: {process.name} went from step {before.step} ({before.to}) to step {commit.step}, "
                    f"which began at {commit.start}"
                )
            if commit.offered and mask(commit.offered)[0] & ~mask(commit.taken)[0]:
                verdict.failures.append(
                    f"samples: {process.name} put {commit.offered} into step {commit.step} and committed it, "
                    f"but {commit.taken} went in"
                )


def grow(processes: list[Process], verdict: Verdict) -> dict[tuple[int, str], Node]:
    nodes: dict[tuple[int, str], Node] = {}
    for process in processes:
        for commit in process.commits:
            new = Node(commit.step, commit.start, commit.to, commit.epoch, commit.taken)
            node = nodes.setdefault((commit.step, commit.to), new)
            node.by.append((process.name, commit))
            node.final |= commit.final
            if (node.start, node.epoch, node.taken) != (commit.start, commit.epoch, commit.taken):
                verdict.failures.append(
                    f"state: step {commit.step} led to {commit.to} at {node.by[0][0]} and {process.name}, "
                    f"from {node.start} with {node.epoch}:{node.taken} "
                    f"and from {commit.start} with {commit.epoch}:{commit.taken}"
                )
    for node in nodes.values():
        parent = nodes.get((node.step - 1, node.start))
        if parent:
            parent.children.append(node)
    return nodes


# ---- lineage: whatever parts, one side is over


def span(node: Node) -> tuple[int, int, set[str]]:
    """When the first and the last step from here on were made, and by whom. Nobody: no member went on from them."""
    first, last, who, todo = 1 << 63, 0, set(), [node]
    while todo:
        at = todo.pop()
        todo.extend(at.children)
        for name, commit in at.by:
            if not commit.replay:
                first, last = min(first, commit.ns), max(last, commit.ns)
            if commit.final and not commit.replay:
                who.add(name)
    return first, last, who


def lives(node: Node) -> list[tuple[int, int]]:
    """When steps from here on were made: processes at work at one time are one life. After a total loss a job that
    resumes an older checkpoint may come to the very states that it had before. A member that is cut off, and goes on
    from its memory when all others are over, has made no step in between."""
    spans: dict[tuple[str, int], tuple[int, int]] = {}
    todo = [node]
    while todo:
        at = todo.pop()
        todo.extend(at.children)
        for name, commit in at.by:
            if not commit.replay:
                first, last = spans.get((name, commit.life), (commit.ns, commit.ns))
                spans[name, commit.life] = (min(first, commit.ns), max(last, commit.ns))
    merged: list[tuple[int, int]] = []
    for first, last in sorted(spans.values()):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def check_pair(one: Node, two: Node, is_next: bool, verdict: Verdict) -> None:
    spans = sorted([(span(one), one), (span(two), two)], key=lambda item: item[0][0])
    (first, older), (second, younger) = spans
    if not first[2] or not second[2]:  # nobody went on from one of them
        last, other = (younger, older) if not second[2] else (older, younger)
        for name, _ in last.by:
            verdict.excuses["committed a last step that the others made again"] += 1
            note = f"{name}: step {last.step}, {last.to}: nobody went on from it; the others had {other.to}"
            verdict.notes.append(note)
        return
    if second[0] > first[1] and not is_next:
        return  # counted once, with the history right before it
    if second[0] > first[1]:
        verdict.excuses["began again" if younger.step == 1 else "went on from an earlier state, all others over"] += 1
        after_s = (second[0] - first[1]) / SECOND
        verdict.notes.append(
            f"step {younger.step}: {', '.join(sorted(second[2]))} began {after_s:.3f} s after the others' last step"
        )
        return
    if not any(a[0] <= b[1] and b[0] <= a[1] for a in lives(older) for b in lives(younger)):
        verdict.excuses["went on from an earlier state, all others over"] += 1
        return
    verdict.failures.append(
        f"lineage: step {older.step} is {older.to} for {', '.join(sorted(first[2]))} "
        f"and {younger.to} for {', '.join(sorted(second[2]))}, "
        f"and both went on, for {(min(first[1], second[1]) - second[0]) / SECOND:.3f} s beside each other"
    )


def check_lineages(nodes: dict[tuple[int, str], Node], verdict: Verdict) -> None:
    roots = [node for node in nodes.values() if (node.step - 1, node.start) not in nodes]
    families = [roots, *(node.children for node in nodes.values() if len(node.children) > 1)]
    for family in families:
        before: list[Node] = []
        for one in sorted(family, key=lambda node: span(node)[0]):
            for two in before:
                check_pair(two, one, two is before[-1], verdict)
            before.append(one)


# ---- back: nobody gives up what it had


def check_back(processes: list[Process], nodes: dict[tuple[int, str], Node], verdict: Verdict) -> None:
    for process in processes:
        had: Commit | None = None
        for index, commit in enumerate(process.commits):
            if had and index in process.breaks and not is_after(had, commit, nodes):
                if has_outlived(process, had, commit, nodes):
                    verdict.excuses["excluded, and outlived all that had gone on"] += 1
                else:
                    verdict.failures.append(
                        f"back: {process.name} had gone on from step {had.step} ({had.to}), "
                        f"and is at step {commit.step} ({commit.to}) of another history"
                    )
            had = commit if commit.final else had


def has_outlived(process: Process, had: Commit, commit: Commit, nodes: dict[tuple[int, str], Node]) -> bool:
    """Whether others went on from what it had, and their last step came before the first of the history it is in.

    Then it was no member any more, and nobody whose history it was is left: the job begins again from a checkpoint, or
    anew (design 0002). One that nobody has gone on without is a member, if a parked one, and its state is the job's."""
    old, at = nodes[had.step, had.to], nodes[commit.step, commit.to]
    while (at.step - 1, at.start) in nodes:
        at = nodes[at.step - 1, at.start]
    return has_gone_on(process, old) and span(old)[1] < span(at)[0]


def has_gone_on(process: Process, node: Node) -> bool:
    """Whether others made a step behind it, and went on from that, which this process did not make."""
    todo = [*node.children]
    while todo:
        at = todo.pop()
        if at.final and all(name != process.name for name, _ in at.by):
            return True
        todo.extend(at.children)
    return False


def is_after(had: Commit, commit: Commit, nodes: dict[tuple[int, str], Node]) -> bool:
    """Whether one history has both. A member that comes again may replay what it had made."""
    low, high = sorted([(had.step, had.to, had.start), (commit.step, commit.to, commit.start)])
    step, start = high[0] - 1, high[2]
    while step > low[0] and (step, start) in nodes:
        step, start = step - 1, nodes[step, start].start
    return low[:2] == high[:2] if low[0] == high[0] else step > low[0] or (step, start) == low[:2]


# ---- samples


def check_samples(nodes: dict[tuple[int, str], Node], samples: int, verdict: Verdict) -> None:
    seen: dict[
        tuple[int, str], tuple[int, int, bool]
    ] = {}  # data epoch, samples of it so far, whether we know all of them
    full = (1 << samples) - 1
    for key in sorted(nodes):
        node = nodes[key]
        bits, once = mask(node.taken)
        epoch, had, known = seen.get((node.step - 1, node.start), (node.epoch, 0, node.step == 1))
        if node.step > 1 and (node.step - 1, node.start) not in nodes:
            verdict.excuses["a step that nobody lived to tell of"] += 1
        if node.epoch != epoch:
            if known and had != full:
                lost = bin(full & ~had).count("1")
                verdict.failures.append(
                    f"samples: epoch {epoch} ended before step {node.step}; {lost} samples were in no step"
                )
            if node.epoch != epoch + 1:
                verdict.failures.append(f"samples: epoch {node.epoch} came after {epoch}, at step {node.step}")
            had, known = 0, True
        if not once or bits & had or bits & ~full:
            verdict.failures.append(f"samples: step {node.step} of epoch {node.epoch} took some twice: {node.taken}")
        seen[key] = (node.epoch, had | bits, known)


# ---- ends


def check_ends(processes: list[Process], faults: list[Fact], verdict: Verdict) -> None:
    exits = {fault["member"]: fault for fault in faults if fault["kind"] == "exit"}
    killed = {fault["member"] for fault in faults if fault["kind"] == "killed"}
    for process in processes:
        gone = exits.get(process.name)
        if process.end is None:
            if gone and process.name not in killed:
                status = gone["status"]
                verdict.failures.append(
                    f"ends: {process.name} ended with status {status} and no word; nobody had killed it"
                )
            continue
        ns, code, text = process.end
        if code == 0:
            continue
        name, causes = DOCUMENTED.get(code, ("", set()))
        done = {fault["kind"] for fault in faults if ns - CAUSE_NS < fault["ns"] <= ns}
        if done & causes:
            verdict.excuses[f"{name} ({code})"] += 1
            verdict.notes.append(f"{process.name}: {code} {text}")
        else:
            verdict.failures.append(f"ends: {process.name} ended with {code} {text}; nothing was done that excuses it")


# ---- stuck


def check_calms(processes: list[Process], faults: list[Fact], world: Fact, verdict: Verdict) -> None:
    named = {process.name: process for process in processes}
    running: set[str] = set()
    calm_ns = 0
    for fault in faults:
        if fault["kind"] == "started":
            running.add(fault["member"])
        elif fault["kind"] == "exit":
            running.discard(fault["member"])
        elif fault["kind"] == "calm":
            calm_ns = fault["ns"]
        elif fault["kind"] in ("together", "gave_up", "forsaken"):
            judge_calm(named, running, calm_ns, fault, world, verdict)


def judge_calm(
    named: dict[str, Process], running: set[str], calm_ns: int, fault: Fact, world: Fact, verdict: Verdict
) -> None:
    limit_s = world["calm_s"]
    took_s = (fault["ns"] - calm_ns) / SECOND
    stuck = []
    for name in sorted(running):
        commits = named[name].commits if name in named else []
        inside = [commit for commit in commits if calm_ns < commit.ns <= fault["ns"] and not commit.replay]
        if not inside:
            stuck.append(f"{name} made no step")
        elif inside[-1].size != len(running):
            stuck.append(f"{name} is in a view of {inside[-1].size}")
    parked = any(named[name].parked for name in running if name in named)
    if fault["kind"] == "forsaken" and world["peers"] == "list" and parked:
        verdict.excuses["parked for good, with a list (section 16)"] += 1
    elif stuck or took_s > limit_s or not running:
        who = "; ".join(stuck) or "all are late"
        verdict.failures.append(
            f"stuck: {took_s:.1f} s after the storm (at most {limit_s:.0f} s) of {len(running)} members {who}"
        )
    else:
        verdict.recovery_s.append(took_s)


# ---- all of it


def judge(processes: list[Process], faults: list[Fact], world: Fact) -> Verdict:
    verdict = Verdict()
    check_processes(processes, verdict)
    nodes = grow(processes, verdict)
    check_lineages(nodes, verdict)
    check_back(processes, nodes, verdict)
    check_samples(nodes, world["samples"], verdict)
    check_ends(processes, faults, verdict)
    check_calms(processes, faults, world, verdict)
    verdict.steps = len(nodes)
    return verdict


def read(folder: Path) -> tuple[list[Process], list[Fact], Fact]:
    processes = [read_process(path.stem, path.read_text()) for path in sorted(folder.glob("m-*.log"))]
    faults = [json.loads(line) for line in (folder / "faults.jsonl").read_text().splitlines()]
    return processes, faults, json.loads((folder / "world.json").read_text())


def report(verdict: Verdict) -> str:
    longest_s = max(verdict.recovery_s, default=0)
    lines = [f"{verdict.steps} steps, {len(verdict.recovery_s)} calms, the longest back after {longest_s:.1f} s"]
    lines += [f"excused: {count} x {name}" for name, count in sorted(verdict.excuses.items())]
    shown: Counter[str] = Counter()
    for failure in verdict.failures:
        shown[failure.split(":")[0]] += 1
        if shown[failure.split(":")[0]] <= 5:
            lines.append(f"FAILED {failure}")
    lines += [f"FAILED {name}: {count - 5} more" for name, count in shown.items() if count > 5]
    return "\n".join(lines)


if __name__ == "__main__":
    verdict_ = judge(*read(Path(sys.argv[1])))
    print("\n".join(verdict_.notes))
    print(report(verdict_))
    sys.exit(1 if verdict_.failures else 0)
