# SPDX-License-Identifier: Apache-2.0
"""Claims, in a real Chromium while workers are killed: the page shows ring, figures, curves, events and the last recovery;
the console has no errors but those of a member that is gone; when the member that tells is killed, the page leads to another
one; it fits a telephone; texts have contrast, pictures and fields have names, all can be reached by keyboard.

    page.py SPOTNIK CHARLM [FOLDER for screenshots]
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import browser as chromium
from lib import Job, get, port_of, skip, wait_for

# What axe-core calls color-contrast, svg-img-alt, label, link-name, scrollable-region-focusable, heading-order and
# html-has-lang: for each breach a line.
AUDIT = """(() => {
  const breaches = [], seen = (e) => e.getClientRects().length && getComputedStyle(e).visibility !== "hidden";
  const parse = (c) => { const m = c.match(/[\\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
  const light = (c) => { const f = c.slice(0, 3).map((v) => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * f[0] + .7152 * f[1] + .0722 * f[2]; };
  const ground = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] > 0) return c; } return [255, 255, 255, 1]; };
  let texts = 0;
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || ["SCRIPT", "STYLE", "TITLE", "title"].includes(e.tagName) || !seen(e)) continue;
    const style = getComputedStyle(e), ink = parse(e instanceof SVGElement ? style.fill : style.color), a = light(ink), b = light(ground(e));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05), large = parseFloat(style.fontSize) >= 24;
    texts++;
    if (e.getBoundingClientRect().height < 9) breaches.push(`too small to read: ${walk.currentNode.data.trim().slice(0, 40)}`);
    for (let box = e.ownerSVGElement; box; box = null) { const o = box.getBoundingClientRect(), i = e.getBoundingClientRect(); if (i.left < o.left - 1 || i.right > o.right + 1) breaches.push(`cut off: ${walk.currentNode.data.trim()}`); }
    if (ratio < (large ? 3 : 4.5)) breaches.push(`contrast ${ratio.toFixed(2)}: ${walk.currentNode.data.trim().slice(0, 40)}`);
  }
  for (const svg of document.querySelectorAll("svg")) if (svg.getAttribute("aria-hidden") !== "true" && !(svg.getAttribute("role") === "img" && svg.getAttribute("aria-label"))) breaches.push("picture without a name");
  for (const field of document.querySelectorAll("input,progress,select")) if (!field.labels?.length && !field.getAttribute("aria-label")) breaches.push("field without a label");
  for (const link of document.querySelectorAll("a,button")) if (!link.textContent.trim() && !link.getAttribute("aria-label")) breaches.push("link without a name");
  for (const area of document.querySelectorAll("ol,.scroll")) if (area.scrollHeight > area.clientHeight && area.tabIndex < 0) breaches.push("cannot be scrolled by keyboard: " + area.tagName);
  for (const section of document.querySelectorAll("section")) if (!document.getElementById(section.getAttribute("aria-labelledby"))) breaches.push("section without a name");
  for (const figure of document.querySelectorAll(".figures div")) if (figure.scrollWidth > figure.clientWidth + 1) breaches.push("runs into its neighbour: " + figure.textContent);
  const levels = [...document.querySelectorAll("h1,h2,h3")].map((h) => +h.tagName[1]);
  levels.forEach((level, i) => { if (i && level > levels[i - 1] + 1) breaches.push("a level of headings is skipped"); });
  if (!document.documentElement.lang) breaches.push("no language");
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  if (new Set(ids).size !== ids.length) breaches.push("an id twice");
  return { breaches, texts };
})()"""
# Texts of one picture that lie on one another.
OVERLAPS = """(() => { const found = [];
  for (const svg of document.querySelectorAll("#ring svg, #past svg, #recovery svg")) {
    const boxes = [...svg.querySelectorAll("text")].map((t) => [t.textContent, t.getBoundingClientRect()]);
    boxes.forEach(([a, p], i) => boxes.slice(i + 1).forEach(([b, q]) => {
      const w = Math.min(p.right, q.right) - Math.max(p.left, q.left), h = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
      if (w > 1.5 && h > 3) found.push(a + " on " + b); })); }
  return found; })()"""

# What the table says of the next step's samples, of the members that are in.
SHARES = """(() => { const at = [...document.querySelectorAll("#members thead th")].findIndex((th) => th.textContent === "Share");
  return at < 0 ? [] : [...document.querySelectorAll("#members tbody tr:not(.off)")].map((row) => row.children[at].textContent); })()"""


def audit(tab: chromium.Browser, what: str) -> None:
    found: dict[str, Any] = tab.run(AUDIT)
    assert found["texts"] > 40, f"{what}: the audit saw only {found['texts']} texts"
    assert not found["breaches"], f"{what}: {found['breaches'][:10]}"
    overlaps = tab.run(OVERLAPS)
    assert not overlaps, f"{what}: {overlaps[:10]}"


def audit_can_fail(tab: chromium.Browser) -> None:
    tab.run("document.body.insertAdjacentHTML('beforeend', '<p id=planted style=\"color:#999;background:#fff\">faint</p><input id=planted2>')")
    found = tab.run(AUDIT)["breaches"]
    tab.run("document.getElementById('planted').remove(), document.getElementById('planted2').remove()")
    assert any("faint" in breach for breach in found) and "field without a label" in found, found


def looks(tab: chromium.Browser, folder: str) -> None:
    for name, width, height, scheme, mobile in (("wide-light", 1280, 900, "light", False), ("wide-dark", 1280, 900, "dark", False),
                                                ("telephone", 390, 844, "light", True)):
        tab.look(width, height, scheme, mobile)
        tab.until("story !== null")
        tab.run("show(story)")
        audit(tab, name)
        assert tab.run("document.documentElement.scrollWidth") <= width, f"{name}: wider than the window"
        if folder:
            tab.picture(os.path.join(folder, f"page-{name}.png"))
    tab.look(1280, 900, "light")


# A story with what a lying member could say; where it says it is, and what the page makes of that.
LIE = """(() => { const s = structuredClone(story), bad = '<img src=x onerror="window.bitten = 1">', other = s.others.find((o) => o.in_view);
  token = "secret"; Object.assign(other, { http: HTTP, http_at_member: AT });
  for (const event of [{ t: s.date, id: bad, event: bad, step: bad, text: bad }, { t: 1e300, id: "S1", event: "lost", step: 1, text: "" },
    { t: s.date, id: "S1", event: "constructor", step: 1, text: "" }]) s.events.push(event);
  const true_story = story; show(s); const links = [...document.querySelectorAll("#members a")].map((a) => a.href); token = ""; show(true_story);
  return { bitten: window.bitten === 1 || !!document.querySelector("main img"), links }; })()"""


def lies(tab: chromium.Browser) -> None:
    for http, at, token in (("10.9.8.7:9640", "true", True), ("10.9.8.7:9640", "false", False)):
        seen = tab.run(LIE.replace("HTTP", f"'{http}'").replace("AT }", at + " }"))
        assert not seen["bitten"], "a member's words became part of the page"
        assert any(http in link and ("secret" in link) == token for link in seen["links"]), seen
    seen = tab.run(LIE.replace("HTTP", "'evil.example/x\"><b>'").replace("AT }", "true }"))
    assert not any("evil" in link for link in seen["links"]), seen
    refused = tab.run("new Promise((done) => { window.bite = () => done('it ran'); addEventListener('securitypolicyviolation', "
                      "(e) => e.effectiveDirective.startsWith('script-src') && done('')); "
                      "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.bite()\">'); })")
    assert not refused, f"a script that is not the page's: {refused}"
    assert tab.run("fetch('http://127.0.0.2:1/').then(() => '', (error) => String(error))"), "the page reaches elsewhere"
    assert any("Content Security Policy" in line for line in tab.console), tab.console
    tab.console.clear()
    print("a lying member: its words are words, its page gets no token, and no foreign script runs")


def watch(spotnik: str, charlm: str, program: str, folder: str) -> None:
    with Job(spotnik, ["-n", "2:4", "--respawn"], [charlm, "--quiet", "--steps", "1000000", "--batch", "64"],
             {"SPOTNIK_EVENTS": "events", "SPOTNIK_PRICE": "0.25", "SPOTNIK_BUDGET": "5", "SPOTNIK_CHECKPOINT": "checkpoints", "SPOTNIK_CHECKPOINT_S": "1"}) as job, chromium.Browser(program) as tab:
        pages = wait_for("four pages", lambda: len(found := port_of(job, job.path("events"))) >= 4 and found)
        page = f"http://{pages[0]}"
        told = json.loads(wait_for("the status", lambda: get(page + "/status.json")[1]))["pid"]
        tab.look(1280, 900, "light")
        tab.open(page + "/")
        tab.until("story && story.status.size === 4 && story.others.filter((o) => o.known && o.in_view).length === 3")
        tab.until("document.querySelectorAll('#members tbody tr').length >= 4")
        audit_can_fail(tab)
        os.kill(next(pid for pid in job.workers() if pid != told), signal.SIGKILL)
        tab.until("story.last_recovery && story.events.some((e) => e.id === 'S112')")
        tab.until("document.querySelector('#phases svg') && document.querySelector('#events').textContent.includes('lost 1 member')")
        tab.until("story.strip.length > 5 && story.strip.some((p) => p[4] !== null) && story.status.observed.loss > 0")
        tab.until("story.events.some((e) => e.event === 'checkpoint')")
        tab.until("story.others.some((o) => !o.in_view && o.gone_s > 0)")
        tab.until("document.querySelector('#figures').textContent.includes('of 1,000,000')")
        tab.until(SHARES + ".length === 4")
        assert sum(map(float, tab.run(SHARES))) == 64, "the shares of the members are the batch"
        assert not tab.console, tab.console
        looks(tab, folder)
        print("ring, curves, events, last recovery: shown; contrast, names, keyboard: well")

        lies(tab)

        before = tab.run("location.host")
        os.kill(told, signal.SIGKILL)
        tab.until("!!document.querySelector('#banner a')")
        tab.run("document.querySelector('#banner a').click()")
        tab.until(f"location.host !== '{before}' && typeof story === 'object' && story && story.status.size >= 3")
        assert tab.run("story.events.some((e) => e.id === 'S112')"), "the past came along"
        others = [line for line in tab.console if before not in line and "ERR_" not in line]
        assert not others, others
        print(f"the member that told was killed: the page led from {before} to {tab.run('location.host')}")


def main() -> None:
    spotnik, charlm = map(os.path.abspath, sys.argv[1:3])
    program = chromium.find()
    if os.environ.get("SPOTNIK_TEST_HAVE_HTTP") == "0":
        skip("built without libmicrohttpd's header (Debian: libmicrohttpd-dev)")
    if not program:
        skip("no browser here (Debian: chromium)")
    watch(spotnik, charlm, program, sys.argv[3] if len(sys.argv) > 3 else "")


if __name__ == "__main__":
    main()
