# SPDX-License-Identifier: Apache-2.0
"""Pictures of `spotnik report`: steps, curves and marks over time as SVG, without any package."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass, field

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 640, 96, 14, 10, 46
GREEN, RED, GRID = "#0b6e75", "#b3261e", "#d5dbe1"
# Around their middle, 10 wide.
SHAPES = {
    "lost": "M-5-4H5L0 5Z",
    "joined": "M-5 4H5L0-5Z",
    "left": "M4-5V5L-5 0Z",
    "notice": "M0-6L2-2L6-2L3 1L4 6L0 3L-4 6L-3 1L-6-2L-2-2Z",
    "strategy": "M0-5L5 0L0 5L-5 0Z",
    "checkpoint": "M-4-4H4V4H-4Z",
    "parked": "M-2-5H2V-2H5V2H2V5H-2V2H-5V-2H-2Z",
}
Point = tuple[float, float]


def ticks(low: float, high: float, whole: bool = False) -> list[float]:
    """At most seven round numbers from low to high."""
    span = high - low or 1.0
    unit = 10.0 ** math.floor(math.log10(span / 6))
    step = next(unit * factor for factor in (1, 2, 5, 10) if span / (unit * factor) <= 6)
    step = max(1.0, step) if whole else step
    return [step * number for number in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def powers(low: float, high: float) -> list[float]:
    """Round numbers of a logarithmic axis."""
    factors = (1, 2, 5) if high < 1000 * low else (1,)
    return [factor * 10.0**power for power in range(-3, 7) for factor in factors if low <= factor * 10.0**power <= high]


@dataclass
class Plot:
    """One panel: its ranges, where it stands, and what is drawn in it."""

    x: Point
    y: Point
    height: float = 200.0
    top: float = TOP
    log: bool = False  # of x
    parts: list[str] = field(default_factory=list)

    def at(self, x: float, y: float) -> Point:
        """Of a point in the picture, in pixels."""
        low, high, value = (math.log10(max(number, 1e-9)) for number in (*self.x, x)) if self.log else (*self.x, x)
        across = (value - low) / (high - low or 1.0)
        up = (y - self.y[0]) / (self.y[1] - self.y[0] or 1.0)
        return round(LEFT + across * (WIDTH - LEFT - RIGHT), 1), round(self.top + (1 - up) * self.height, 1)

    def text(self, x: float, y: float, words: str, anchor: str = "middle", more: str = "") -> None:
        self.parts.append(f'<text x="{x}" y="{y}" text-anchor="{anchor}"{more}>{html.escape(words)}</text>')

    def line(self, points: list[Point], colour: str = GREEN, stepwise: bool = False) -> None:
        """Through the points, or from each one level to the next. Few points are marked."""
        at = [self.at(x, y) for x, y in points]
        path = "".join(f"H{x}V{y}" if stepwise else f"L{x} {y}" for x, y in at[1:])
        self.parts.append(f'<path d="M{at[0][0]} {at[0][1]}{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        for x, y in at if len(at) < 60 and not stepwise else []:
            self.parts.append(f'<circle cx="{x}" cy="{y}" r="2.5" fill="{colour}"/>')

    def mark(self, x: float, y: float, kind: str, colour: str) -> None:
        across, down = self.at(x, y)
        self.parts.append(f'<path transform="translate({across} {down})" d="{SHAPES[kind]}" fill="{colour}"/>')

    def grid(self, values: list[float], names: list[str]) -> None:
        """Lines at these values of y, with what stands beside them."""
        for value, name in zip(values, names):
            left, down = self.at(self.x[0], value)
            self.parts.insert(0, f'<path d="M{left} {down}H{WIDTH - RIGHT}" stroke="{GRID}"/>')
            self.text(left - 8, down + 4, name, "end")

    def name_y(self, words: str) -> None:
        middle = self.top + self.height / 2
        self.text(14, middle, words, more=f' transform="rotate(-90 14 {middle})"')

    def name_x(self, words: str) -> None:
        foot = self.top + self.height
        self.parts.append(f'<path d="M{LEFT} {foot}H{WIDTH - RIGHT}" stroke="#16202a"/>')
        for value in powers(*self.x) if self.log else ticks(*self.x):
            across = self.at(value, self.y[0])[0]
            self.parts.append(f'<path d="M{across} {foot}v4" stroke="#16202a"/>')
            self.text(across, foot + 18, f"{value:g}")
        self.text((LEFT + WIDTH - RIGHT) / 2, foot + 38, words)


def svg(plots: list[Plot]) -> str:
    """The panels, one below the other."""
    height = plots[-1].top + plots[-1].height + BOTTOM
    inner = "\n".join(part for plot in plots for part in plot.parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" font-family="system-ui,sans-serif" font-size="13" fill="#16202a">\n{inner}\n</svg>\n'


def curve(points: list[Point], x: Point, x_name: str, y_name: str, stepwise: bool = False, from_zero: bool = False) -> str:
    """One line over time."""
    values = [y for _, y in points if math.isfinite(y)]
    points = [point for point in points if math.isfinite(point[1])]
    if not points:
        return svg([Plot(x, (0, 1))])
    low, high = 0.0 if from_zero else min(values), max(values)
    edge = (high - low or abs(high) or 1.0) * 0.06
    plot = Plot(x, (low if from_zero else low - edge, high + edge))
    plot.line(points, stepwise=stepwise)
    round_ones = ticks(*plot.y)
    plot.grid(round_ones, [f"{value:g}" for value in round_ones])
    plot.name_y(y_name)
    plot.name_x(x_name)
    return svg([plot])
