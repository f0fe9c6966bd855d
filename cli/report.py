# SPDX-License-Identifier: Apache-2.0
"""spotnik report: what a job has done, lost and cost, from its event log, as one HTML page and as Markdown.

Reads the lines that members wrote (docs/guide/observability.md); asks no member, so it works when all are gone.
"""

from __future__ import annotations

import argparse
import datetime
import glob
import html
import json
import os
import statistics
import sys
from dataclasses import dataclass, field
from typing import Any, Optional

from report_svg import RED, Plot, curve, svg, ticks

VIEW_IDS = ("S110", "S111", "S112")
PHASES = ("reconcile", "accept", "restart", "commit", "total")
COLOURS = {"lost": "#b3261e", "joined": "#1a6b34", "left": "#5a6570", "notice": "#8a5200", "strategy": "#6b3fa0",
           "checkpoint": "#1f5fa8", "parked": "#c2410c"}

Event = dict[str, Any]


@dataclass
class Process:
    """One process that was a member, perhaps under several ids."""

    ids: set[str] = field(default_factory=set)
    begun: float = 0.0
    ended: float = 0.0
    how: str = "unknown"
    price: float = 0.0
    uptime: float = 0.0  # as it last said, with what goes with it
    goodput: float = 0.0
    samples: int = 0
    steps: int = 0
    lost_s: float = 0.0
    only_started: bool = False  # it wrote no other line


@dataclass
class History:
    """All that the log says, once."""

    events: list[Event]
    samples: list[Event]
    processes: list[Process]
    bad_lines: int

    @property
    def begun(self) -> float:
        return min(process.begun for process in self.processes)

    @property
    def ended(self) -> float:
        return max(max(process.ended for process in self.processes), max((e["t"] for e in self.events), default=0.0))

    def of(self, *names: str) -> list[Event]:
        """The events of these names, by date."""
        return [event for event in self.events if event["event"] in names]


# ---- reading ----


def read_file(path: str) -> tuple[list[Event], int]:
    """The whole lines of a file; a member that was killed may have left half of one."""
    good: list[Event] = []
    bad = 0
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                event = json.loads(line)
                good.append({**event, "t": float(event["t"]), "id": str(event["id"]), "event": str(event["event"])})
            except (ValueError, KeyError, TypeError):
                bad += 1
    return good, bad


def process_of(lines: list[Event]) -> Process:
    """What one file says of its member."""
    process = Process(begun=lines[0]["t"], ended=lines[-1]["t"], only_started=all(line["event"] == "started" for line in lines))
    for line in lines:
        process.ids.add(str(line.get("member", "")))
        process.price = float(line.get("dollars_per_hour", process.price))
        if "uptime_s" in line:
            process.uptime, process.goodput = float(line["uptime_s"]), float(line["goodput"])
            process.samples, process.steps, process.lost_s = int(line["samples"]), int(line["steps"]), float(line["lost_s"])
        if line["event"] == "ended":
            process.how = str(line["text"])
    return process


def known(one: Event, other: Event) -> Event:
    """Of two lines on one change: the names, and the causes, of the one that knows more."""
    wiser = max(one, other, key=lambda event: int(event.get("ended", 0)) + int(event.get("silent", 0)))
    return {"members": one.get("members") or other.get("members", []), "ended": wiser.get("ended", 0), "silent": wiser.get("silent", 0)}


def once(events: list[Event]) -> list[Event]:
    """A change of the view is told by several members: the one that took longest to go on stands for all."""
    best: dict[tuple[str, int], Event] = {}
    rest = []
    for event in events:
        if event["id"] not in VIEW_IDS:
            rest.append(event)
            continue
        key = (event["id"], int(event.get("epoch", 0)))
        if key not in best or event.get("total_ms", 0) > best[key].get("total_ms", 0):
            best[key] = {**best.get(key, {}), **event, **known(best.get(key, {}), event)}
        else:
            best[key].update(known(best[key], event))
    return sorted(rest + list(best.values()), key=lambda event: event["t"])


def close_lost(processes: list[Process], events: list[Event], last: float) -> None:
    """A member that was killed wrote no end; the others say when it went. One that nobody missed is running, or went last."""
    for process in processes:
        if process.how != "unknown":
            continue
        names = {identity[:8] for identity in process.ids}
        lost = [event for event in events if event["event"] == "lost" and names & set(event.get("members", []))]
        if lost:
            process.ended, process.how = lost[-1]["t"], "lost"
        elif process.only_started:
            process.how = "had not joined when it was last heard of"
        elif last - process.ended < 60:
            process.how = "running when the log was read, or lost last"


def read(folder: str) -> History:
    """The log in a folder, or in the folder `events` of a checkpoint directory."""
    inner = os.path.join(folder, "events")
    paths = sorted(glob.glob(os.path.join(inner if os.path.isdir(inner) else folder, "*.jsonl")))
    if not paths:
        sys.exit(f"spotnik report: no event log in {folder}. Name the folder of the checkpoints, or what SPOTNIK_EVENTS named.")
    of_member: dict[str, list[Event]] = {}
    bad = 0
    for path in paths:
        lines, wrong = read_file(path)
        bad += wrong
        if lines:  # from a bucket it comes in parts: MEMBER.NUMBER.jsonl
            of_member.setdefault(os.path.basename(path).split(".")[0], []).extend(lines)
    if not of_member:
        sys.exit(f"spotnik report: the event log in {folder} holds no whole line")
    processes = [process_of(lines) for lines in of_member.values()]
    everything = [line for lines in of_member.values() for line in lines]
    everything.sort(key=lambda event: event["t"])
    samples = [event for event in everything if event["event"] == "sample"]
    events = once([event for event in everything if event["event"] != "sample"])
    close_lost(processes, events, everything[-1]["t"])
    return History(events, samples, processes, bad)


# ---- reckoning ----


def dollars(history: History, price: Optional[float] = None) -> float:
    """What all processes cost, at their own price or at this one."""
    return sum((process.price if price is None else price) * max(0.0, process.ended - process.begun) / 3600
               for process in history.processes)


def goodput(history: History) -> Optional[float]:
    """Time that members spent on steps that count, of the time they were there, as each said of itself last."""
    told = [process for process in history.processes if process.uptime > 0]
    alive = sum(process.uptime for process in told)
    return sum(process.goodput * process.uptime for process in told) / alive if alive else None


def quantile(values: list[float], part: float) -> float:
    """By the nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(part * (len(ordered) - 1))))]


def span(seconds: float) -> str:
    """Seconds as people say them."""
    if 0 < seconds < 1:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172800 else f"{seconds / 86400:.1f} days"


def date(t: float) -> str:
    return datetime.datetime.fromtimestamp(t, datetime.timezone.utc).strftime("%Y-%m-%d %H:%M:%S")


def job_name(history: History) -> str:
    """As the members' first lines say it."""
    return next((str(event["job"]) for event in history.of("started") if event.get("job")), "–")


def summary(history: History, wanted: argparse.Namespace) -> list[tuple[str, str]]:
    """The first table."""
    events, samples = history.events, history.samples
    step = max((int(event.get("step", 0)) for event in events + samples), default=0)
    started = history.of("started")
    lost = sum(int(event.get("count", 0)) for event in history.of("lost"))
    recoveries = [float(event["total_ms"]) for event in history.of("lost") if event.get("total_ms")]
    rows = [("Job", job_name(history)),
            ("From, to (UTC)", f"{date(history.begun)} – {date(history.ended)} ({span(history.ended - history.begun)})"),
            ("Last committed step", f"{step:,}"),
            ("Processes that took part", f"{len(history.processes)}, at most {max((int(e.get('size', 0)) for e in events + samples), default=0)} at once"),
            ("Lost, joined, left", ", ".join(str(sum(int(e.get("count", 0)) for e in history.of(name))) for name in ("lost", "joined", "left")))]
    part = goodput(history)
    if part is not None:
        rows.append(("Goodput", f"{100 * part:.2f} % of the members' time went into steps that count"))
    waited = sum(float(event.get("total_ms", 0)) * int(event.get("size", 0)) for event in history.of("lost")) / 1000
    if lost:
        rows.append(("Lost in recoveries", f"{span(waited)} of the survivors' time, {1000 * waited / lost:.1f} ms a loss; no step"))
    # a member that was killed, or runs, told last before some of the recoveries
    told = max(waited, sum(process.lost_s for process in history.processes))
    rows.append(("Lost in all, as far as members told", f"{span(told)}: recoveries, parking, steps made again"))
    if recoveries:
        rows.append(("Recovery", f"median {statistics.median(recoveries):.1f} ms, 90 % within {quantile(recoveries, .9):.1f} ms, longest {max(recoveries):.1f} ms"))
    data = int(max((e.get("data", 0) for e in started), default=0))
    count = drawn(history, step)
    if count and data:
        rows.append(("Data", f"{count:,} samples drawn, {count / data:.2f} passes over {data:,}"))
    cost = dollars(history)
    if cost:
        rows.append(("Cost", money(cost)))
    if wanted.budget:
        rows.append(("Against the plan", f"${wanted.budget:,.2f} were planned: {100 * cost / wanted.budget:.0f} % spent"))
    if wanted.on_demand:
        other = dollars(history, wanted.on_demand)
        saved = f": {100 * (1 - cost / other):.0f} % saved" if other and cost else ""
        rows.append(("On demand it would have cost", money(other) + saved))
    if history.bad_lines:
        rows.append(("Lines that could not be read", f"{history.bad_lines}: members that were killed while they wrote"))
    return rows


def batches(history: History) -> list[tuple[float, int, int]]:
    """Date, step and samples a step, whenever these changed. A newcomer's first line may be from before it knew the view."""
    found: list[tuple[float, int, int]] = []
    told = [e for e in history.events + history.samples if e.get("batch")]
    lines = [e for e in told if e["event"] != "started"] or told
    for event in sorted(lines, key=lambda e: (int(e.get("step", 0)), e["t"])):
        if not found or found[-1][2] != int(event["batch"]):
            found.append((event["t"], int(event.get("step", 0)), int(event["batch"])))
    return found


def drawn(history: History, step: int) -> int:
    """Samples of all steps, each with the batch that it had."""
    found = batches(history)
    ends = [begin for _, begin, _ in found[1:]] + [step]
    begins = [0] + [begin for _, begin, _ in found[1:]]
    return sum(batch * max(0, end - begin) for (_, _, batch), begin, end in zip(found, begins, ends))


def cause(event: Event) -> str:
    """What the members knew of those that were lost; "told": the view came from others, who knew."""
    ended, silent, count = (int(event.get(name, 0)) for name in ("ended", "silent", "count"))
    parts = [f"{number} {word}" if count > 1 else word for number, word in ((ended, "ended"), (silent, "fell silent")) if number]
    return ", ".join(parts) or "–"


def money(amount: float) -> str:
    return f"${amount:,.4f}" if amount < 1 else f"${amount:,.2f}"


def cost_of(event: Event, price: float) -> str:
    """Of a loss: the time that the survivors waited, and what they cost meanwhile."""
    waited = float(event.get("total_ms", 0)) * int(event.get("size", 0)) / 1000
    return f"{waited:.3f} s" + (f", ${price * waited / 3600:.2g}" if price else "")


def losses(history: History) -> list[list[str]]:
    """A row for each loss."""
    rows = []
    price = statistics.mean(process.price for process in history.processes)
    for event in history.of("lost"):
        rows.append([date(event["t"]), f"{int(event.get('step', 0)):,}", str(event.get("count", "")), ", ".join(event.get("members", [])) or "–",
                     cause(event), *(f"{float(event[name + '_ms']):.1f}" if event.get(name + "_ms") else "–" for name in PHASES), str(event.get("size", "")), cost_of(event, price)])
    return rows


def phases(history: History) -> list[list[str]]:
    """Recoveries by phase."""
    rows = []
    for name in PHASES:
        values = [float(event[name + "_ms"]) for event in history.of("lost") if name + "_ms" in event]
        if values:
            rows.append([name, f"{statistics.median(values):.2f}", f"{quantile(values, .9):.2f}", f"{max(values):.2f}"])
    return rows


# ---- pictures ----


def scale(history: History) -> tuple[float, str]:
    seconds = history.ended - history.begun
    return (1, "s") if seconds < 300 else (60, "min") if seconds < 7200 else (3600, "h")


class Times:
    """Dates of the log as a picture shows them."""

    def __init__(self, history: History) -> None:
        self.begun = history.begun
        self.unit, name = scale(history)
        self.range = (0.0, max((history.ended - history.begun) / self.unit, 1e-9))
        self.name = f"time since the start ({name})"

    def of(self, date: float) -> float:
        return (date - self.begun) / self.unit


def time_line(history: History) -> str:
    """Members, and a row of marks for each kind of event."""
    times = Times(history)
    sizes = [(times.of(e["t"]), float(e["size"])) for e in sorted(history.events + history.samples, key=lambda e: e["t"]) if e.get("size")]
    most = max((size for _, size in sizes), default=1.0)
    top = Plot(times.range, (0, 1.06 * most), height=150)
    if sizes:
        top.line([*sizes, (times.range[1], sizes[-1][1])], stepwise=True)
    whole = ticks(*top.y, whole=True)
    top.grid(whole, [f"{value:g}" for value in whole])
    top.name_y("members")
    kinds = [kind for kind in COLOURS if history.of(kind)]
    rows = Plot(times.range, (len(kinds) - 0.5, -0.5), height=24 * max(1, len(kinds)), top=top.top + top.height + 16)
    for row, kind in enumerate(kinds):
        for event in history.of(kind):
            rows.mark(times.of(event["t"]), row, kind, COLOURS[kind])
    rows.grid([float(row) for row in range(len(kinds))], kinds)
    rows.name_x(times.name)
    return svg([top, rows])


def over_time(history: History, points: list[tuple[float, float]], label: str) -> str:
    times = Times(history)
    return curve([(times.of(t), value) for t, value in points], times.range, times.name, label)


def steps_of_batch(history: History, changes: list[tuple[float, int, int]]) -> str:
    times = Times(history)
    points = sorted((times.of(t), float(batch)) for t, _, batch in changes)
    return curve([*points, (times.range[1], points[-1][1])], times.range, times.name, "samples a step", stepwise=True, from_zero=True)


def distribution(history: History) -> Optional[str]:
    """Which part of the recoveries was over within which time."""
    values = sorted(float(event["total_ms"]) for event in history.of("lost") if event.get("total_ms"))
    if len(values) < 3:
        return None
    log = values[-1] > 10 * values[0] > 0
    plot = Plot((values[0] / 1.2, values[-1] * 1.2) if log else (values[0], values[-1]), (0, 104), log=log)
    plot.line([(value, 100 * (number + 1) / len(values)) for number, value in enumerate(values)], RED, stepwise=True)
    plot.grid([0, 25, 50, 75, 100], ["0", "25", "50", "75", "100"])
    plot.name_y("recoveries (%)")
    plot.name_x("from the first evidence of a loss to the next commit (ms)")
    return svg([plot])


def pictures(history: History) -> list[tuple[str, str, str]]:
    """Name, title and SVG of each."""
    made = [("timeline", "Time line", time_line(history))]
    speeds = [(e["t"], float(e["steps_per_s"])) for e in history.samples if e.get("steps_per_s")]
    losses_seen = [(e["t"], float(e["observed"]["loss"])) for e in history.samples if "loss" in e.get("observed", {})]
    if speeds:
        made.append(("speed", "Speed", over_time(history, speeds, "steps a second")))
    if losses_seen:
        made.append(("loss", "Loss", over_time(history, losses_seen, "loss, as members told it")))
    changes = batches(history)
    if len(changes) > 1:
        made.append(("batch", "Batch", steps_of_batch(history, changes)))
    spread = distribution(history)
    if spread:
        made.append(("recovery", "Recoveries", spread))
    return made


# ---- writing ----

STYLE = """:root{color-scheme:light}body{font:15px/1.5 system-ui,sans-serif;color:#16202a;background:#fff;max-width:1020px;margin:24px auto;padding:0 16px}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2em}table{border-collapse:collapse;font-variant-numeric:tabular-nums}.short{white-space:nowrap}
th,td{border-bottom:1px solid #d5dbe1;padding:3px 12px 3px 0;text-align:left;vertical-align:top}th{font-weight:600}
svg{width:100%;max-width:900px;height:auto}.scroll{overflow-x:auto}
@media(max-width:640px){thead{display:none}table,tbody,tr{display:block}tr{padding:6px 0;border-bottom:1px solid #d5dbe1}
td,td.short{display:flex;gap:12px;padding:1px 0;border:0;white-space:normal;overflow-wrap:anywhere}td::before{content:attr(data-name);flex:0 0 9em;color:#4d5b68}
td[data-name=""]{font-weight:600}td[data-name=""]::before{display:none}td[data-name=""]+td{font-weight:400}}"""
LOSS_HEAD = ["When (UTC)", "Step", "Lost", "Who", "Cause", "Reconcile ms", "Accept ms", "Restart ms", "Commit ms", "Total ms", "Members after", "Cost"]
PHASE_HEAD = ["Phase", "Median ms", "90 % within ms", "Longest ms"]


def cell_html(name: str, cell: str) -> str:
    """On a telephone its column's name stands beside it."""
    short = " class=short" if len(cell) < 30 else ""
    return f'<td{short} data-name="{html.escape(name)}">{html.escape(cell)}</td>'


def table_html(head: list[str], rows: list[list[str]]) -> str:
    cells = "".join(f"<th scope=col>{html.escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(cell_html(name, cell) for name, cell in zip(head, row)) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table></div>'


def table_markdown(head: list[str], rows: list[list[str]]) -> str:
    escaped = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(row) + " |" for row in escaped)])


def changes_of_batch(history: History) -> list[list[str]]:
    found = batches(history)
    return [[date(t), f"{step:,}", f"{before:,}", f"{batch:,}"] for (_, _, before), (t, step, batch) in zip(found, found[1:])]


def words(history: History) -> list[list[str]]:
    """All other events, but for the many that are pictures enough."""
    return [[date(event["t"]), event["id"], event["event"], str(event.get("text", ""))] for event in history.events
            if event["event"] not in ("lost", "joined", "left", "started", "ended", "checkpoint")]


def sections(history: History, wanted: argparse.Namespace) -> list[tuple[str, list[str], list[list[str]]]]:
    """Title, head and rows of every table."""
    ends = [[process_name(process), date(process.begun), span(process.ended - process.begun), process.how, f"{process.samples:,}",
             f"{100 * process.goodput:.1f} %", f"${process.price * (process.ended - process.begun) / 3600:,.4f}" if process.price else "–"]
            for process in sorted(history.processes, key=lambda process: process.begun)]
    return [("Summary", ["", ""], [list(row) for row in summary(history, wanted)]),
            ("Recoveries by phase", PHASE_HEAD, phases(history)),
            ("Every loss", LOSS_HEAD, losses(history)),
            ("Changes of the batch", ["When (UTC)", "After step", "From", "To"], changes_of_batch(history)),
            ("Strategies, checkpoints' troubles, and whatever else was told", ["When (UTC)", "Id", "Event", "What"], words(history)),
            ("Every process", ["Member", "From (UTC)", "For", "End", "Samples", "Goodput", "Cost"], ends)]


def process_name(process: Process) -> str:
    return ", ".join(sorted(identity[:8] for identity in process.ids))


def write_html(history: History, wanted: argparse.Namespace, drawn: list[tuple[str, str, str]]) -> str:
    parts = [f"<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width'><title>{html.escape(wanted.title)}</title><style>{STYLE}</style></head><body>",
             f"<h1>{html.escape(wanted.title)}</h1>"]
    tables = sections(history, wanted)
    parts.append(table_html(tables[0][1], tables[0][2]))
    for _, title, picture in drawn:
        parts.append(f'<h2>{title}</h2><div role="img" aria-label="{title}; the numbers are in the tables">{picture}</div>')
    for title, head, rows in tables[1:]:
        parts.append(f"<h2>{title}</h2>" + (table_html(head, rows) if rows else "<p>None.</p>"))
    return "\n".join(parts) + "\n</body></html>\n"


def write_markdown(history: History, wanted: argparse.Namespace, drawn: list[tuple[str, str, str]], stem: str) -> str:
    parts = [f"# {wanted.title}"]
    for title, head, rows in sections(history, wanted):
        parts.append(f"## {title}")
        parts.append(table_markdown(head, rows) if rows else "None.")
        if title == "Summary":
            parts += [f"![{name}]({stem}-{key}.svg)" for key, name, _ in drawn]
    return "\n\n".join(parts) + "\n"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="spotnik report", description="Tell what a job has done, lost and cost, from its event log.",
                                     epilog="The log is in the folder `events` beside the checkpoints, or where SPOTNIK_EVENTS says, a bucket or a folder. "
                                            "spotnik report --save FOLDER s3://BUCKET/NAME copies what is new from a bucket to a folder.")
    parser.add_argument("folder", nargs="?", default=os.environ.get("SPOTNIK_CHECKPOINT"), help="folder of the checkpoints, or folder or bucket of the log [SPOTNIK_CHECKPOINT]")
    parser.add_argument("-o", "--output", metavar="STEM", default="spotnik-report", help="write STEM.html, STEM.md and STEM-*.svg [spotnik-report]")
    parser.add_argument("--title", help="the heading [What job NAME did]")
    parser.add_argument("--budget", type=float, metavar="DOLLARS", help="what was planned [SPOTNIK_BUDGET]")
    parser.add_argument("--on-demand", type=float, metavar="DOLLARS", help="price of a member per hour on demand, to compare with")
    wanted = parser.parse_args()
    if wanted.budget is None and os.environ.get("SPOTNIK_BUDGET"):
        try:
            wanted.budget = float(os.environ["SPOTNIK_BUDGET"])
        except ValueError:
            parser.error(f"SPOTNIK_BUDGET is {os.environ['SPOTNIK_BUDGET']!r}; it must be the job's budget in dollars")
    if not wanted.folder:
        parser.error("which job? Name the folder of its checkpoints")
    return wanted


def main() -> None:
    wanted = arguments()
    history = read(wanted.folder)
    name = job_name(history)
    wanted.title = wanted.title or ("What the job did" if name == "–" else f"What job {name} did")
    drawn = pictures(history)
    with open(wanted.output + ".html", "w", encoding="utf-8") as file:
        file.write(write_html(history, wanted, drawn))
    with open(wanted.output + ".md", "w", encoding="utf-8") as file:
        file.write(write_markdown(history, wanted, drawn, os.path.basename(wanted.output)))
    for key, _, picture in drawn:
        with open(f"{wanted.output}-{key}.svg", "w", encoding="utf-8") as file:
            file.write('<?xml version="1.0" encoding="utf-8"?>\n' + picture)
    print(f"{wanted.output}.html and {wanted.output}.md")


if __name__ == "__main__":
    main()
