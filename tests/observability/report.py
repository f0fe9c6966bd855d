# SPDX-License-Identifier: Apache-2.0
"""Claims: the report's figures are those of the log, each change of the view counts once whoever told it, half lines of
killed members do no harm, a member that was killed ends when the others say so; pictures have named axes and need no package; tables and
pictures fit a telephone; what one member knows of a loss stands beside it; a real job's log is read, and names the job.

    report.py SPOTNIK CHARLM [FOLDER for a screenshot]
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from xml.etree import ElementTree

import browser as chromium
from lib import Job

T = 1795000000.0


def line(t: float, event: str, identity: str, **more: object) -> str:
    ids = {"started": "S100", "ended": "S101", "joined": "S110", "lost": "S112", "sample": "S180", "checkpoint": "S150", "parked": "S120"}
    return json.dumps({"t": T + t, "id": ids[event], "event": event, "member": identity * 4, "step": int(10 * t), "epoch": 1, "size": 2, "text": f"{event} <b>&|", **more})


def planted(folder: str) -> None:
    """Two members for an hour; the third is lost after half of it, with half a line."""
    loss = {"epoch": 7, "count": 1, "members": ["cccccccc"], "reconcile_ms": 1, "accept_ms": 2, "restart_ms": 0, "commit_ms": 1}
    numbers = {"uptime_s": 3600.0, "goodput": 0.5, "samples": 1000, "steps": 36000, "lost_s": 1.5}
    os.mkdir(os.path.join(folder, "events"))
    files = {
        "a": [line(0, "started", "aaaaaaaa", job="planted", dollars_per_hour=2.0, batch=10, data=90000), line(10, "joined", "aaaaaaaa", epoch=2, count=1),
              line(1800, "lost", "aaaaaaaa", total_ms=4.0, ended=1, silent=0, batch=20, **loss), line(1900, "checkpoint", "aaaaaaaa"),
              line(2000, "parked", "aaaaaaaa"), line(3600, "ended", "aaaaaaaa", **numbers)],
        "b": [line(0, "started", "bbbbbbbb", dollars_per_hour=2.0, batch=10, data=90000), line(10, "joined", "bbbbbbbb", epoch=2, count=1),
              line(1800.1, "lost", "bbbbbbbb", total_ms=9.0, **loss), line(3600, "ended", "bbbbbbbb", **{**numbers, "goodput": 1.0})],
        "c": [line(0, "started", "cccccccc", dollars_per_hour=2.0, batch=10, data=90000),
              line(900, "sample", "cccccccc", uptime_s=900.0, goodput=0.75, samples=100, steps=9000, lost_s=0.0, steps_per_s=10.0, batch=10, observed={"loss": 2.5}),
              line(950, "sample", "cccccccc", uptime_s=900.0, goodput=0.75, samples=100, steps=9000, lost_s=0.0, steps_per_s=11.0, observed={"loss": 2.0}),
              '{"t":17950018'],
        "d": [line(1000, "started", "dddddddd", batch=0, data=90000)],
    }
    for name, lines in files.items():
        with open(os.path.join(folder, "events", f"{name}.jsonl"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + ("" if name == "c" else "\n"))


def report(spotnik: str, folder: str, where: str, *options: str) -> str:
    subprocess.run([spotnik, "report", where, "-o", os.path.join(folder, "r"), *options], check=True, capture_output=True)
    with open(os.path.join(folder, "r.html"), encoding="utf-8") as file:
        page = file.read()
    assert "<b>&|" not in page, "text of the log is no markup"
    assert not re.search(r"(src|href)=\"?https?:", page), "the page needs nothing from elsewhere"
    with open(os.path.join(folder, "r.md"), encoding="utf-8") as file:
        return file.read()


def check_planted(spotnik: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        planted(folder)
        text = report(spotnik, folder, folder, "--on-demand", "6", "--budget", "10")
        for words in ("| Last committed step | 36,000 |", "| Processes that took part | 4, at most 2 at once |", "| Lost, joined, left | 1, 1, 0 |",
                      "| Goodput | 75.00 %", "# What job planted did", "| Job | planted |", "| Lost in recoveries | 18 ms of the survivors' time, 18.0 ms a loss; no step |", "members told | 3.0 s:", "median 9.0 ms, 90 % within 9.0 ms, longest 9.0 ms",
                      "539,990 samples drawn, 6.00 passes over 90,000", "| Cost | $5.00 |", "$10.00 were planned: 50 % spent", "$15.00: 67 % saved",
                      "| Lines that could not be read | 1:", "cccccccc | ended | 1.0 | 2.0 | – | 1.0 | 9.0 | 2 | 0.018 s, $7.5e-06 |",
                      "| 18,001 | 10 | 20 |", "dddddddd | 2026-11-18", "had not joined when it was last heard of | 0 | 0.0 % | – |", "| 30.0 min | lost |", "S120 | parked"):
            assert words in text, f"{words!r} is not in:\n{text}"
        drawn = sorted(name for name in os.listdir(folder) if name.endswith(".svg"))
        assert drawn == ["r-batch.svg", "r-loss.svg", "r-speed.svg", "r-timeline.svg"], drawn
        labels = {"r-batch.svg": "samples a step", "r-loss.svg": "loss, as members told it", "r-speed.svg": "steps a second", "r-timeline.svg": "members"}
        for name in drawn:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                svg = file.read()
            assert labels[name] in svg and "time since the start (min)" in svg, name
            ElementTree.fromstring(svg.encode())
    print("a planted log: every figure is right, and so are the pictures")


def check_short_lived(spotnik: str) -> None:
    """Members that were killed told last before the loss: what is lost in all is no less than what recoveries took."""
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "events"))
        numbers = {"uptime_s": 10.0, "goodput": 1.0, "samples": 1, "steps": 10, "lost_s": 0.0}
        with open(os.path.join(folder, "events", "a.jsonl"), "w", encoding="utf-8") as file:
            file.write("\n".join([line(0, "started", "aaaaaaaa"), line(10, "sample", "aaaaaaaa", **numbers),
                                  line(20, "lost", "aaaaaaaa", count=1, total_ms=250.0, members=["bbbbbbbb"])]) + "\n")
        text = report(spotnik, folder, folder)
        assert "| Lost in recoveries | 500 ms " in text and "members told | 500 ms:" in text, text
    print("members that were killed: lost in all is no less than lost in recoveries")


def look_at(tab: chromium.Browser, page: str, pictures: str) -> None:
    """It fits a desk and a telephone, and the console is silent."""
    for name, width, mobile in (("report", 1100, False), ("report-telephone", 390, True)):
        tab.look(width, 900, "light", mobile)
        tab.open("file://" + page)
        tab.until("document.readyState === 'complete' && document.querySelectorAll('table').length > 2")
        assert tab.run("document.documentElement.scrollWidth") <= width, f"the report is wider than {width}"
        cut = tab.run("[...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth + 1).length")
        assert not (mobile and cut), f"{cut} tables run off the edge of a telephone"
        if pictures:
            tab.picture(os.path.join(pictures, f"{name}.png"))
    assert not tab.console, tab.console


def check_real(spotnik: str, charlm: str, pictures: str) -> None:
    with Job(spotnik, ["-n", "2:3", "--respawn", "--kill-every", "1500ms", "--seed", "3"],
             [charlm, "--quiet", "--steps", "1500", "--batch", "64"], {"SPOTNIK_HTTP": "", "SPOTNIK_CHECKPOINT": "checkpoints", "SPOTNIK_JOB": "real"}) as job:
        assert job.process.wait(300) == 0, job.said()
        killed = job.said().count("lost (SIGKILL)")
        text = report(spotnik, job.folder, job.path("checkpoints"))
        assert "| Job | real |" in text, text
        assert "| Last committed step | 1,500 |" in text, text
        lost = int(re.search(r"Lost, joined, left \| (\d+),", text).group(1))  # type: ignore[union-attr]
        # A worker may be killed before it is a member: then nobody loses it.
        assert 0 < lost <= killed, f"{lost} lost in the report, {killed} were killed"
        known = re.search(r"\| (\d+ )?ended \|", text)
        assert known, f"nobody's end is known, although processes of this host were killed:\n{text}"
        program = chromium.find()
        if program:
            with chromium.Browser(program) as tab:
                look_at(tab, os.path.join(job.folder, "r.html"), pictures)
        print(f"a real job: {killed} workers killed, {lost} members lost, and all of the job in the report")


def main() -> None:
    spotnik, charlm = map(os.path.abspath, sys.argv[1:3])
    check_planted(spotnik)
    check_short_lived(spotnik)
    check_real(spotnik, charlm, sys.argv[3] if len(sys.argv) > 3 else "")


if __name__ == "__main__":
    main()
