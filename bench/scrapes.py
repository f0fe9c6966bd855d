#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What being watched costs: the length of a step while a member is scraped 100 times a second.

    bench/scrapes.py BUILD [--rounds 12] [--seconds 8] [--rate 100] [--workers 2]

Each round runs the same job three times, in an order that turns: left alone; scraped; and left alone while the same scraper asks a
server of nobody's that gives as many bytes, so that the processor time of the scraper itself is taken out. Prints the ratios of
step times, round by round paired, with 95 % of the bootstrap. On a machine that is busy with other things it says nothing.
"""

from __future__ import annotations

import argparse
import http.client
import http.server
import json
import multiprocessing
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

MODES = ("alone", "scraped", "control")


def dummy(connection: multiprocessing.connection.Connection, size: int) -> None:
    """A server that gives `size` bytes, in a process of its own."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(size))
            self.end_headers()
            self.wfile.write(b"x" * size)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    connection.send(server.server_address[1])
    server.serve_forever()


def scrape(port: int, rate: float, stop: threading.Event, asked: list[int]) -> None:
    """At an even pace on one connection, as Prometheus does."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    due = time.monotonic()
    while not stop.is_set():
        connection.request("GET", "/metrics")
        connection.getresponse().read()
        asked[0] += 1
        due = max(due + 1 / rate, time.monotonic() - 1)
        stop.wait(max(0.0, due - time.monotonic()))
    connection.close()


def read(port: int, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path)
    body = connection.getresponse().read()
    connection.close()
    return body


def page_of(folder: Path, limit_s: float = 60) -> int:
    """The port of the first member's page, from the event log."""
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        for path in folder.glob("*.jsonl"):
            text = path.read_text()
            if "its page is http://127.0.0.1:" in text:
                return int(text.split("its page is http://127.0.0.1:")[1].split('"')[0])
        time.sleep(0.02)
    raise SystemExit("scrapes: no member served a page")


def run(mode: str, options: argparse.Namespace, other: int) -> tuple[float, int]:
    """Milliseconds a step, and how often the member was asked."""
    with tempfile.TemporaryDirectory(prefix="spotnik-scrapes-") as folder:
        environment = {**os.environ, "SPOTNIK_HTTP": "127.0.0.1:0", "SPOTNIK_EVENTS": folder + "/events"}
        job = subprocess.Popen([str(options.build / "cli/spotnik"), "run", "-q", "-n", str(options.workers), "--", str(options.build / "examples/charlm"),
                                "--quiet", "--steps", "0", "--batch", "64"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        stop, asked = threading.Event(), [0]
        try:
            port = page_of(Path(folder) / "events")
            while json.loads(read(port, "/status.json") or b"{}").get("step_committed", 0) < 50:
                time.sleep(0.05)
            target = {"alone": 0, "scraped": port, "control": other}[mode]
            scraper = threading.Thread(target=scrape, args=(target, options.rate, stop, asked))
            if target:
                scraper.start()
            first = json.loads(read(port, "/status.json"))
            time.sleep(options.seconds)
            last = json.loads(read(port, "/status.json"))
            stop.set()
            if target:
                scraper.join()
        finally:
            stop.set()
            job.terminate()
            job.wait(30)
    return (last["now_ns"] - first["now_ns"]) / 1e6 / (last["step_committed"] - first["step_committed"]), asked[0]


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """Median and 95 % of its bootstrap."""
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(4000))
    return statistics.median(ratios), medians[100], medians[-101]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rate", type=float, default=100)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    options.build = options.build.resolve()
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=dummy, args=(theirs, 12000), daemon=True)
    server.start()
    other = ours.recv()
    times: dict[str, list[float]] = {mode: [] for mode in MODES}
    for number in range(options.rounds):
        for place in range(3):
            mode = MODES[(number + place) % 3]
            took, asked = run(mode, options, other)
            times[mode].append(took)
            print(f"round {number + 1}: {mode} {took:.3f} ms a step, asked {asked} times", file=sys.stderr)
    for mode, of in (("scraped", "control"), ("scraped", "alone"), ("control", "alone")):
        middle, low, high = interval([a / b for a, b in zip(times[mode], times[of])])
        print(f"step {mode} / {of}: {middle:.4f} (95 %: {low:.4f} to {high:.4f})")
    print(f"load average: {' '.join(f'{value:.1f}' for value in os.getloadavg())}")
    server.terminate()


if __name__ == "__main__":
    main()
