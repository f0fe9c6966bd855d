#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Traces of all members on one clock, and why a step was slow.

  spotnik trace merge DIR|FILE... [-o OUT] [--torch FILE...]   one file for ui.perfetto.dev or chrome://tracing
  spotnik trace why STEP DIR|FILE...                           what made step STEP longer than its neighbours

The files are the *.trace that members write into the folder SPOTNIK_TRACE. No viewer opens one; `merge` makes
of one or many a file that viewers open. Members of one host share a clock. Between hosts the steps that both took
bound the offset of their clocks: no member has the result of a step before every member has put something in.
`merge` takes the middle of these bounds, and prints half of their distance as the error. --torch puts a trace of
torch.profiler beside them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterable, Optional

from trace_file import Event, events_of

NEIGHBOURS = 50  # steps before and after that a step is compared with
REPORT_US = 1e6  # the death that a recovery is for may be certified a little later
NOTABLE = 0.1  # of the excess: less is not named


@dataclass
class Member:
    """What one file tells."""

    names: list[str]  # it may have been several members, one after the other
    host: str
    date_us: float  # since 1970, when its clock was at
    clock_us: float
    events: list[Event]
    offset_us: float = 0.0  # to be taken off its clock
    error_us: Optional[float] = None  # None: not known; by the wall clocks alone
    parts: dict[int, dict[str, tuple[float, float]]] = field(default_factory=dict)  # step: part: (begin, end)
    put_in: dict[tuple[int, int], float] = field(default_factory=dict)  # step and epoch: when its last bucket started

    @property
    def name(self) -> str:
        return self.names[-1]


# ---- reading ----

def member_of(path: Path) -> Optional[Member]:
    events = events_of(path)
    heads = [event["args"] for event in events if event["ph"] == "M" and event["name"] == "spotnik"]
    if not heads:
        return None
    head = heads[0]
    names = [event["args"]["member"][:8] for event in events if event["ph"] == "M" and event["name"] == "process_name"]
    member = Member(names, head["host"], head["date_us"], head["clock_us"], events)
    for event in events:
        step = event.get("args", {}).get("step", 0)
        if event.get("cat") == "step" and step:
            member.parts.setdefault(step, {})[event["name"]] = (event["ts"], event["ts"] + event["dur"])
        elif event.get("cat") == "bucket" and event["ph"] == "b":
            whole = (step, event["args"]["epoch"])
            if whole[1]:  # begun and committed in one view: so everybody's part was needed
                member.put_in[whole] = max(member.put_in.get(whole, 0.0), event["ts"])
    return member


def read(names: Iterable[str]) -> list[Member]:
    paths = []
    for name in names:
        path = Path(name)
        paths += sorted(path.glob("*.trace")) if path.is_dir() else [path]
    members = [member for member in map(member_of, paths) if member]
    if not members:
        sys.exit("spotnik trace: no trace of a member is there; run the job with SPOTNIK_TRACE=DIR, and name DIR")
    return members


# ---- one clock ----


def committed(member: Member, step: int) -> Optional[float]:
    parts = member.parts.get(step, {})
    return parts["commit"][1] if "commit" in parts else None


def bounds(of: Member, to: Member) -> Optional[tuple[float, float]]:
    """The clock of `of` is ahead of that of `to` by something between these, in microseconds."""
    low, high = float("-inf"), float("inf")
    for whole in of.put_in.keys() & to.put_in.keys():
        ended_of, ended_to = committed(of, whole[0]), committed(to, whole[0])
        if ended_of is not None and ended_to is not None:
            low = max(low, of.put_in[whole] - ended_to)
            high = min(high, ended_of - to.put_in[whole])
    return (low, high) if low > float("-inf") else None


def tie(member: Member, known: list[Member]) -> Optional[tuple[float, float]]:
    """Offset and error by the best of those that are placed already."""
    best: Optional[tuple[float, float]] = None
    for other in known:
        found = (0.0, 0.0) if other.host == member.host else bounds(member, other)
        if found and other.error_us is not None:
            error = abs(found[1] - found[0]) / 2 + other.error_us
            if best is None or error < best[1]:
                best = (other.offset_us + (found[0] + found[1]) / 2, error)
    return best


def align(members: list[Member]) -> None:
    """Sets offset and error of each, on the clock of the one with most steps."""
    rest = sorted(members, key=lambda member: -len(member.parts))
    first = rest.pop(0)
    first.error_us = 0.0
    known = [first]
    while rest:
        ties = [(found[1], i, found) for i, found in enumerate(tie(member, known) for member in rest) if found]
        if not ties:
            break
        _, index, found = min(ties)
        member = rest.pop(index)
        member.offset_us, member.error_us = found
        known.append(member)
    for member in rest:  # no step in common with anybody: the wall clocks are all there is
        member.offset_us = (member.clock_us - member.date_us) - (first.clock_us - first.date_us)
    for member in members:
        member.parts = {
            step: {name: (span[0] - member.offset_us, span[1] - member.offset_us) for name, span in parts.items()}
            for step, parts in member.parts.items()
        }


# ---- merge ----


def deaths(members: list[Member]) -> dict[str, float]:
    """When a member that others call dead was last heard of in its own file, on the common clock."""
    last = {}
    for member in members:
        stamps = [event["ts"] + event.get("dur", 0.0) for event in member.events if "ts" in event]
        if stamps:
            last[member.name] = max(stamps) - member.offset_us  # those it was before have not died
    return last


def recoveries(member: Member) -> list[Event]:
    """The first phase that it saw of each: one whose own ballot another one overtook has no reconcile."""
    first: dict[int, Event] = {}
    for event in member.events:
        if event.get("cat") == "view" and event["args"]["lost"]:
            first.setdefault(event["args"]["epoch"], event)
    return list(first.values())


def witnessed(member: Member, last: dict[str, float]) -> dict[str, Event]:
    """The dead whose end this member has heard itself, each with the recovery that followed from it."""
    found: dict[str, Event] = {}  # a death may be certified, and then heard of
    for event in member.events:
        dead = event["args"]["peer"][:8] if event.get("cat") == "event" and event["name"] == "death" else ""
        after = [span for span in recoveries(member) if span["ts"] + span["dur"] >= event.get("ts", 0.0) - REPORT_US]
        if dead in last and dead not in found and after:
            found[dead] = min(after, key=lambda span: float(span["ts"]))
    return found


def told(member: Member, own: dict[str, Event], dead_of: dict[int, set[str]]) -> dict[str, Event]:
    """The dead of whom others told it, in a recovery that it was through before it heard their end."""
    known = {span["args"]["epoch"] for span in own.values()}
    late = [span for span in recoveries(member) if span["args"]["epoch"] not in known]
    return {dead: span for span in late for dead in dead_of.get(span["args"]["epoch"], set()) - set(own)}


def arrows(members: list[Member], number: dict[str, int], last: dict[str, float]) -> list[Event]:
    """From the end of a dead member's row to each recovery that followed from it, on the common clock."""
    found: list[Event] = []
    seen = {member.name: witnessed(member, last) for member in members}
    dead_of: dict[int, set[str]] = defaultdict(set)
    for own in seen.values():
        for dead, span in own.items():
            dead_of[span["args"]["epoch"]].add(dead)
    for member in members:
        own, pid = seen[member.name], number[member.name]
        for dead, span in {**told(member, own, dead_of), **own}.items():
            same = {"name": "death", "cat": "death", "id": f"{dead}.{pid}"}
            at = span["ts"] - member.offset_us
            found.append({**same, "ph": "s", "pid": number[dead], "tid": 1, "ts": min(last[dead], at)})
            found.append({**same, "ph": "f", "bp": "e", "pid": pid, "tid": 2, "ts": at})
    return found


def torch_events(path: str, base_us: float, first: Member) -> list[Event]:
    """torch.profiler's dates are microseconds after baseTimeNanoseconds, or since 1970."""
    with open(path, encoding="utf-8") as file:
        told = json.load(file)
    shift = told.get("baseTimeNanoseconds", 0) / 1e3 + (first.clock_us - first.date_us) - base_us
    return [{**event, "ts": event["ts"] + shift} if "ts" in event else event for event in told["traceEvents"]]


def placed(event: Event, member: Member, pid: int) -> Event:
    """The event in its member's row, on the common clock. Ids of spans are one for all processes in chrome://tracing."""
    found = {**event, "pid": pid}
    if "ts" in event:
        found["ts"] = event["ts"] - member.offset_us
    if "id" in event:
        found["id"] = f"{pid}.{event['id']}"
    return found


def merged(members: list[Member], torch: list[str]) -> tuple[list[Event], float]:
    """All events on the common clock, and what that clock showed at their beginning."""
    first = max(members, key=lambda member: len(member.parts))
    number = {member.name: i + 1 for i, member in enumerate(members)}
    last = deaths(members)
    events = [placed(event, member, number[member.name]) for member in members for event in member.events]
    events += arrows(members, number, last)
    base = min((event["ts"] for event in events if "ts" in event), default=0.0)
    moved = [{**event, "ts": round(event["ts"] - base, 3)} if "ts" in event else event for event in events]
    return moved + [event for path in torch for event in torch_events(path, base, first)], base


def merge(arguments: argparse.Namespace) -> int:
    members = read(arguments.files)
    align(members)
    first = max(members, key=lambda member: len(member.parts))
    events, base = merged(members, arguments.torch)
    whole = {"baseTimeNanoseconds": int((base + first.date_us - first.clock_us) * 1e3), "displayTimeUnit": "ms", "traceEvents": events}
    Path(arguments.out).write_text(json.dumps(whole), encoding="utf-8")
    for member in members:
        error = "by the wall clocks alone" if member.error_us is None else f"± {member.error_us / 1e3:.3f} ms"
        print(f"member {member.name}: clock {member.offset_us / 1e3:+.3f} ms {error}, {len(member.parts)} steps")
    print(f"{arguments.out}: {len(events)} events; open it in https://ui.perfetto.dev or chrome://tracing")
    return 0


# ---- why ----


def length(span: Optional[tuple[float, float]]) -> float:
    return (span[1] - span[0]) / 1e3 if span else 0.0


def usual(member: Member, step: int, part: str) -> float:
    """Milliseconds, the median of its neighbours."""
    near = [length(parts[part]) for other, parts in member.parts.items() if other != step and abs(other - step) <= NEIGHBOURS and part in parts]
    return statistics.median(near) if near else 0.0


def window(members: list[Member], step: int) -> tuple[float, float]:
    """From the first that had the step before to the last that has this one."""
    ends = [end for end in (committed(member, step) for member in members) if end is not None]
    before = [end for end in (committed(member, step - 1) for member in members) if end is not None]
    begins = [span[0] for member in members for span in member.parts.get(step, {}).values()]
    return max(before) if before else min(begins), max(ends) if ends else max(begins)


def late_before(members: list[Member], step: int) -> tuple[float, str]:
    """By how many milliseconds the last of them had the step before later than the first, and who that was."""
    ends = [(end, member.name) for member in members if (end := committed(member, step - 1)) is not None]
    return ((max(ends)[0] - min(ends)[0]) / 1e3, max(ends)[1]) if ends else (0.0, "")


def durations(members: list[Member], step: int) -> list[float]:
    steps = sorted({other for member in members for other in member.parts if abs(other - step) <= NEIGHBOURS and other != step})
    return [(end - begin) / 1e3 for begin, end in (window(members, other) for other in steps)]


def view_changes(members: list[Member], begin: float, end: float) -> dict[int, dict[str, Any]]:
    """By epoch: what changed, and how long the longest each phase took, in the window."""
    found: dict[int, dict[str, Any]] = {}
    for member in members:
        for event in member.events:
            at = event.get("ts", 0.0) - member.offset_us
            if event.get("cat") == "view" and at < end and at + event["dur"] > begin:
                change = found.setdefault(event["args"]["epoch"], {**event["args"], "phases": defaultdict(float)})
                change["phases"][event["name"]] = max(change["phases"][event["name"]], event["dur"] / 1e3)
    return found


def changes_text(change: dict[str, Any]) -> str:
    what = ", ".join(f"{change[name]} {name}" for name in ("lost", "joined", "left") if change[name])
    phases = ", ".join(f"{name} {ms:.1f} ms" for name, ms in change["phases"].items())
    return f"the view changed ({what or 'the same members'}; epoch {change['epoch']}): {phases}"


def slowest_bucket(members: list[Member], step: int) -> str:
    spans: dict[tuple[str, str], list[float]] = defaultdict(list)
    for member in members:
        for event in member.events:
            if event.get("cat") == "bucket" and event["args"]["step"] == step:
                spans[(member.name, event["name"])].append(event["ts"])
    whole = {key: (max(times) - min(times)) / 1e3 for key, times in spans.items() if len(times) > 1}
    if not whole:
        return ""
    (name, bucket), ms = max(whole.items(), key=lambda item: item[1])
    return f"; the longest was {bucket} of {name}, {ms:.1f} ms"


def latecomers(members: list[Member], step: int, excess: float) -> list[tuple[float, str]]:
    """Members that came out of step_commit late, when others did not."""
    found = []
    for member in members:
        now, normal = length(member.parts[step].get("commit")), usual(member, step, "commit")
        if now - normal > max(NOTABLE * excess, 0.01):
            text = f"member {member.name} was in step_commit for {now:.1f} ms, usually {normal:.1f}, and others were not: its process had no processor, or the result came late to it"
            found.append((now - normal, text))
    return found


def causes(members: list[Member], step: int, excess: float, begin: float, end: float) -> list[tuple[float, str]]:
    """What was longer than usual, and by how many milliseconds."""
    found: list[tuple[float, str]] = []
    for change in view_changes(members, begin, end).values():
        found.append((sum(change["phases"].values()), changes_text(change)))
    for part, words in (
        ("compute", "computed for {now:.1f} ms, usually {usual:.1f}"),
        ("begin", "waited in step_begin for {now:.1f} ms, usually {usual:.1f}: for members, or for a joiner"),
    ):
        over = [(length(member.parts[step][part]) - usual(member, step, part), member) for member in members if part in member.parts.get(step, {})]
        for more, member in sorted(over, key=lambda pair: -pair[0])[:3]:
            if more > max(NOTABLE * excess, 0.01):
                now = length(member.parts[step][part])
                found.append((more, f"member {member.name} " + words.format(now=now, usual=usual(member, step, part))))
    for member in members:
        more = length(member.parts.get(step - 1, {}).get("apply")) - usual(member, step - 1, "apply")
        if more > max(NOTABLE * excess, 0.01):
            found.append((more, f"member {member.name} took {more:.1f} ms more than usual between the steps: its optimiser, its input"))
    waits = [length(member.parts[step]["commit"]) - usual(member, step, "commit") for member in members if "commit" in member.parts.get(step, {})]
    if waits and min(waits) > max(NOTABLE * excess, 0.01):
        found.append((min(waits), f"all waited in step_commit {min(waits):.1f} ms more than usual: the all-reduce was slow" + slowest_bucket(members, step)))
    if not found:  # who waits for a slow member waits long, too: only where nothing else tells
        found = latecomers(members, step, excess)
    return sorted(found, key=lambda pair: -pair[0])


def verdict(members: list[Member], step: int, span: tuple[float, float], median: float) -> list[str]:
    """Why the step took its time, compared with the median of its neighbours, in sentences."""
    took = (span[1] - span[0]) / 1e3
    if took > 1.2 * median:
        found = causes(members, step, took - median, *span)
        none = ["No part of it was longer than usual by itself: the members began it at different times."]
        return [f"because {text}" for _, text in found] or none
    changes = [changes_text(change) for change in view_changes(members, *span).values() if change["lost"]]
    if changes:
        return [f"It was no slower than others, although {text}" for text in changes]
    late, name = late_before(members, step)
    if late <= 0.2 * median:
        return ["It was no slower than others."]
    return [f"It was no slower than others. Member {name} ended the step before {late:.1f} ms after the first, who waited for it: ask about step {step - 1}."]


def why(arguments: argparse.Namespace) -> int:
    members = read(arguments.files)
    align(members)
    step = arguments.step
    there = [member for member in members if step in member.parts]
    if not there:
        known = sorted({other for member in members for other in member.parts})
        print(f"spotnik trace: nobody tells of step {step}" + (f"; there are steps {known[0]} to {known[-1]}" if known else ""), file=sys.stderr)
        return 1
    begin, end = window(there, step)
    took, others = (end - begin) / 1e3, durations(members, step)
    median = statistics.median(others) if others else took
    print(f"step {step} took {took:.1f} ms; the median of the steps around it is {median:.1f} ms")
    for member in there:
        parts = {**member.parts[step], "apply before": member.parts.get(step - 1, {}).get("apply")}
        told = ", ".join(f"{name} {length(parts[name]):.1f}" for name in ("apply before", "begin", "compute", "commit") if parts.get(name))
        print(f"  member {member.name}: {told} ms")
    print("\n".join(verdict(there, step, (begin, end), median)))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="spotnik trace", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("merge", help="put all members on one clock")
    one.add_argument("files", nargs="+", metavar="DIR|FILE")
    one.add_argument("-o", "--out", default="trace.json")
    one.add_argument("--torch", nargs="+", default=[], metavar="FILE", help="traces of torch.profiler, made on the same hosts")
    two = commands.add_parser("why", help="why was a step slow?")
    two.add_argument("step", type=int)
    two.add_argument("files", nargs="+", metavar="DIR|FILE")
    arguments = parser.parse_args()
    return merge(arguments) if arguments.command == "merge" else why(arguments)


if __name__ == "__main__":
    sys.exit(main())
