# SPDX-License-Identifier: Apache-2.0
"""Pictures for the benchmarks, by matplotlib: one look for all. Axes have names, legends stand beside what they explain, and
what has no order (files, strategies) is never joined by lines. dev/python.sh installs matplotlib."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any, Optional, Union

COLOURS = ("#0b6e75", "#c23b22", "#8a56ac", "#b07400", "#1f6fb2", "#5a6570", "#2a8f4d")
MARKS = "osD^vP*"

Points = list[tuple[float, float]]


def _plt() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("pictures need matplotlib: pip install matplotlib, or run this with build/venv/bin/python") from None
    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "spotnik", "font.size": 10, "axes.titlesize": 11, "axes.titlelocation": "left",
                         "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": "#dfe4e8",
                         "grid.linewidth": 0.7, "axes.axisbelow": True, "legend.frameon": False, "savefig.facecolor": "white"})
    return plt


def panels(count: int, width: float, height: float, **more: Any) -> tuple[Any, list[Any]]:
    """A figure of `count` panels side by side; sizes in inches."""
    figure, axes = _plt().subplots(1, count, figsize=(width, height), layout="constrained", squeeze=False, **more)
    return figure, list(axes[0])


def stack(count: int, width: float, height: float, **more: Any) -> tuple[Any, list[Any]]:
    """The same, one below the other."""
    figure, axes = _plt().subplots(count, 1, figsize=(width, height), layout="constrained", squeeze=False, **more)
    return figure, [row[0] for row in axes]


def lines(axes: Any, series: dict[str, Points], x: str, y: str, marks: bool = True, dashed: tuple[str, ...] = (),
          colours: Optional[dict[str, str]] = None) -> None:
    """Curves over a quantity."""
    order = list(colours or series)  # a series looks the same in every panel
    for name, points in series.items():
        number = order.index(name)
        axes.plot([at for at, _ in points], [value for _, value in points], label=name, linewidth=1.7, markersize=4,
                  color=colours[name] if colours else COLOURS[number % len(COLOURS)], linestyle="--" if name in dashed else "-",
                  marker=MARKS[number % len(MARKS)] if marks and name not in dashed else "")
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def logarithmic(axes: Any, least: float, most: float) -> None:
    """A logarithmic y axis whose ticks are numbers, also where it spans less than a decade or two."""
    axes.set_yscale("log")
    steps = (1,) if most / least > 1000 else (1, 2, 5)
    ticks = [step * 10.0**power for power in range(-6, 9) for step in steps if least / 1.6 <= step * 10.0**power <= most * 1.6]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def points(axes: Any, series: dict[str, Points], x: str, y: str) -> None:
    """Single measurements: not joined."""
    for number, (name, found) in enumerate(series.items()):
        axes.plot([at for at, _ in found], [value for _, value in found], label=name, linestyle="none", markersize=6,
                  color=COLOURS[number % len(COLOURS)], marker=MARKS[number % len(MARKS)])
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def categories(axes: Any, names: list[str], series: dict[str, list[Optional[float]]], y: str) -> None:
    """A mark for each series over each name; names have no order, so nothing is joined."""
    for number, (name, values) in enumerate(series.items()):
        at = [place + 0.09 * (number - (len(series) - 1) / 2) for place, value in enumerate(values) if value is not None]
        axes.plot(at, [value for value in values if value is not None], label=name, linestyle="none", markersize=6,
                  color=COLOURS[number % len(COLOURS)], marker=MARKS[number % len(MARKS)])
    axes.set_xticks(range(len(names)), names)
    axes.grid(axis="x", visible=False)
    axes.set_ylabel(y)


def bars(axes: Any, names: list[str], series: dict[str, list[Optional[float]]], y: str, words: Optional[dict[str, list[str]]] = None) -> None:
    """A group of bars for each name, each with its number on it."""
    width = 0.84 / len(series)
    for number, (name, values) in enumerate(series.items()):
        at = [place + width * (number - (len(series) - 1) / 2) for place in range(len(names))]
        drawn = axes.bar(at, [0 if value is None else value for value in values], width * 0.94, label=name, color=COLOURS[number % len(COLOURS)])
        labels = words[name] if words else ["" if value is None else f"{value:.3g}" for value in values]
        axes.bar_label(drawn, labels, fontsize=8, padding=2)
    axes.set_xticks(range(len(names)), names)
    axes.grid(axis="x", visible=False)
    axes.set_ylabel(y)


def legend(figure: Any, axes: Any) -> None:
    """One for all panels, beside them."""
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right upper")


def text(figure: Any) -> str:
    """The SVG, the same for the same data."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    _plt().close(figure)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def save(figure: Any, path: Union[str, os.PathLike[str]]) -> None:
    Path(path).write_text(text(figure), encoding="utf-8")
