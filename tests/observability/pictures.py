# SPDX-License-Identifier: Apache-2.0
"""Claims: in the pictures of docs/results, and in those that the benchmarks draw of planted data, no label lies on another and
none is cut off, matplotlib made each, every panel names both axes (bars and marks over names: the y axis), and categories are not joined by lines.

    pictures.py              in an environment with matplotlib; else and without a browser: skipped
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import browser as chromium
from lib import skip

ROOT = Path(os.environ["SPOTNIK_ROOT"])
WITHOUT_X = ("strategies", "plan_policies", "goodput", "categories")  # names stand there
PLANTED = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
folder = Path(sys.argv[2])
import batching, goodput, pictures, wire
ways = {way for way, _ in batching.WAYS}
data = {f"{name} {way}": {"compute_us": [[0, 1000 * (1 + (i % 7))] for i in range(60)]} for name, _ in batching.MIXES for way in ways}
(folder / "batching.svg").write_text(batching.plot(data))
shares = {(size, name): 0.5 + 0.1 * n for size in ("25 MiB", "100 MiB") for n, name in enumerate(wire.COLOURS)}
(folder / "wire.svg").write_text(wire.svg(shares, "Four hosts, 1 Gbit/s"))
runs = {f"{trace} {speed} {way}": {"goodput": 0.98} for trace in ("p3", "g4dn") for speed in (20, 60) for way in goodput.WAYS}
goodput.plot({"runs": runs}, folder / "goodput.svg")
figure, (axes,) = pictures.panels(1, 10, 4.6)
policies = {f"policy {n}": [100.0 + n + place for place in range(8)] for n in range(7)}
pictures.categories(axes, [f"K80\\n{n}" for n in range(8)], policies, "hours of the spot price")
assert all(line.get_linestyle() == "None" for line in axes.lines), "names are joined"
pictures.legend(figure, axes)
pictures.save(figure, folder / "categories.svg")
figure, (axes,) = pictures.panels(1, 3, 2)
pictures.lines(axes, {"a": [(0, 0), (1, 1)]}, "", "y")
axes.set_xticks([0, 0.02, 0.04], ["one long label", "another long label", "a third"])
pictures.save(figure, folder / "wrong.svg")
"""
LOOK = """(() => {
  const svg = document.documentElement, texts = [...svg.querySelectorAll("text")].filter((t) => t.textContent.trim()), found = [];
  const boxes = texts.map((t) => [t.textContent.trim(), t.getBoundingClientRect()]), all = svg.getBoundingClientRect();
  boxes.forEach(([a, p], i) => {
    if (p.left < all.left - 2 || p.right > all.right + 2 || p.top < all.top - 2 || p.bottom > all.bottom + 2) found.push("cut off: " + a);
    boxes.slice(i + 1).forEach(([b, q]) => {
      const w = Math.min(p.right, q.right) - Math.max(p.left, q.left), h = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
      if (w > 2 && h > 3.5) found.push(a + " on " + b); });
  });
  const panels = [...svg.querySelectorAll('g[id^="axes_"]')].map((panel) => ({
    x: [...panel.querySelectorAll('g[id^="matplotlib.axis_"]')].filter((_, i) => i % 2 === 0).every((axis) => [...axis.children].some((c) => c.id.startsWith("text_"))),
    y: [...panel.querySelectorAll('g[id^="matplotlib.axis_"]')].filter((_, i) => i % 2 === 1).every((axis) => [...axis.children].some((c) => c.id.startsWith("text_"))) }));
  return { found, panels, texts: texts.length };
})()"""


def main() -> None:
    python = Path(os.environ.get("SPOTNIK_VENV", "")) / "bin/python"
    program = chromium.find()
    if not program:
        skip("no browser here (Debian: chromium)")
    if not python.exists() or subprocess.run([str(python), "-c", "import matplotlib"], capture_output=True, check=False).returncode:
        skip("matplotlib is not in the environment of the tests (dev/python.sh)")
    with tempfile.TemporaryDirectory(prefix="spotnik-pictures-") as folder, chromium.Browser(program) as tab:
        subprocess.run([str(python), "-c", PLANTED, str(ROOT / "bench"), folder], check=True)
        tab.look(1400, 1200, "light")
        for path in [*sorted((ROOT / "docs/results").glob("*.svg")), *sorted(Path(folder).glob("*.svg"))]:
            tab.open(f"file://{path}")
            tab.until(f"document.readyState === 'complete' && document.documentElement.tagName === 'svg' && location.pathname.endsWith('/{path.name}')")
            seen = tab.run(LOOK)
            assert seen["texts"] > 3, f"{path.name}: only {seen['texts']} texts"
            if path.name == "wrong.svg":
                assert seen["found"] and not seen["panels"][0]["x"], "the check finds nothing wrong with anything"
                continue
            names = path.stem in WITHOUT_X
            assert not seen["found"], f"{path.name}: {seen['found'][:5]}"
            assert seen["panels"] and all(panel["y"] and (names or panel["x"]) for panel in seen["panels"]), f"{path.name}: an axis has no name: {seen['panels']}"
            print(f"{path.name}: {len(seen['panels'])} panels, {seen['texts']} texts, none on another")


if __name__ == "__main__":
    main()
