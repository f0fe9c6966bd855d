#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Do stated chances come true? Tables, and a picture of each in FOLDER; plan_results.py prints them too.
Usage: SPOTNIK_DATA=... research/figures/plan_calibration.py SPOTNIK [FOLDER, default build/results]"""
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "tests"), os.path.join(HERE, "..", "..", "bench"), HERE]
import acceptance as a  # noqa: E402
import pictures  # noqa: E402

TITLE = "## Stated chances, and what came true"


DECILE = re.compile(r"^\| \d+ to \d+ % \| \d+ \| ([\d.]+) % \| ([\d.]+) % \| ([\d.]+) to ([\d.]+) % \|", re.M)


def reliability(table, path):
    """What came true, with its interval, over what was stated: a mark for each decile of the table."""
    rows = [tuple(map(float, found)) for found in DECILE.findall(table)]
    figure, (axes,) = pictures.panels(1, 7, 4.4)
    axes.plot([0, 100], [0, 100], linestyle=":", color="#5a6570", label="as stated")
    stated, true = [row[0] for row in rows], [row[1] for row in rows]
    errors = [[row[1] - row[2] for row in rows], [row[3] - row[1] for row in rows]]
    axes.errorbar(stated, true, yerr=errors, linestyle="none", marker="o", markersize=5, color=pictures.COLOURS[0], label="came true, 95 % interval")
    axes.set_xlabel("chance stated (%)")
    axes.set_ylabel("came true (%)")
    pictures.legend(figure, axes)
    pictures.save(figure, path)


def section(p, out, folder):
    """Appends the section to the list of lines `out`."""
    sets = a.months(p)
    out += [TITLE, "", """A chance is stated for many starts. It is what `spotnik plan` would print then and there, for four spot machines with a
start-up of six minutes. There are 16 jobs: 4, 8, 16 and 36 h to a deadline, with work for 25, 45, 65 and 85 % of that. It rests on regimes learned
from other places in other months, and on what was seen of the place until the start (a day at least). What came is the same job
replayed on the trace itself. An interval is the middle 95 % of 1 000 draws of whole blocks: three days of one place. A decile holds
when the mean stated chance lies in the interval, and within 10 points of what came true.
""".replace("\n", " ").strip(), ""]
    for tested, learned, stride, extra, what in (
            ("2023", "2022", "17h", (), "nine places of February 2023 (V100), by regimes of October 2022 (K80 and V100)"),
            ("2022", "2023", "17h", (), "eight places of October 2022, by regimes of February 2023"),
            ("april", "2022 2023", "5h", (), "four places of April 2023 (V100; one week), by regimes of October 2022 and February 2023"),
            ("april", "2022", "5h", (), "the same week, by regimes of October 2022 alone"),
            ("2023", "2022", "17h", ("--unknown",), "February 2023 as if nothing had been seen of any place"),
            ("2023", "2022", "24h", (), "February 2023, all starts at the same hour of the day")):
        months = learned.split()
        words = a.calibration_words(sets[tested], [name for month in months for name in sets[month]], "--stride", stride, *extra)
        drawn = not (extra or stride == "24h" or (tested, learned) == ("april", "2022"))
        shown = (f"spotnik backtest --calibration --windows {tested}... --learn-from {' '.join(f'{month}...' for month in months)} --stride {stride}"
                 + "".join(f" {word}" for word in extra))
        out += [f"### {what[0].upper() + what[1:]}", "", f"`{shown}`", "", *(table := p.run(*words).stdout.strip()).split("\n"), ""]
        if drawn:
            reliability(table, os.path.join(folder, f"plan_calibration_{tested}.svg"))
            out += [f"![reliability, {tested}](plan_calibration_{tested}.svg)", ""]
    return out


if __name__ == "__main__":
    where = sys.argv[2] if len(sys.argv) > 2 else "build/results"
    os.makedirs(where, exist_ok=True)
    print("\n".join(section(a.Planner(sys.argv[1], os.environ["SPOTNIK_DATA"]), [], where)))
