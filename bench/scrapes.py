#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What being watched costs: the length of a step while a member is scraped 100 times a second.

    bench/scrapes.py BUILD [--jobs 4] [--rounds 40] [--seconds 1] [--rate 100] [--workers 2]

A job runs without a break. Each round of it has three phases, in an order that turns: the member is left alone; it is scraped; and
it is left alone while the same scraper asks a server of nobody's that gives as many bytes, so that the processor time of the
scraper itself is taken out. That server takes processor time of its own, which the last line tells: the scraped job has to pay for
the answers of the member instead. Prints the ratios of step times, round by round paired, with 95 % of the bootstrap. On a machine
that is busy with other things it says nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import multiprocessing
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

MODES = ("alone", "scraped", "control")


def dummy(connection: multiprocessing.connection.Connection, size: int) -> None:
    """A server that gives `size` bytes to one asker after the other, in one piece; told "how much", it tells its processor time."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (size, b"x" * size)
    listener = socket.create_server(("127.0.0.1", 0))
    connection.send(listener.getsockname()[1])

    def serve() -> None:
        while True:
            asker = listener.accept()[0]
            while asker.recv(4096):
                asker.sendall(answer)
            asker.close()

    threading.Thread(target=serve, daemon=True).start()
    while connection.recv() == "how much":
        connection.send(time.process_time())


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


@contextlib.contextmanager
def job(options: argparse.Namespace) -> Iterator[int]:
    """A job that trains until the end of the block; the port of its first member's page."""
    with tempfile.TemporaryDirectory(prefix="spotnik-scrapes-") as folder:
        environment = {**os.environ, "SPOTNIK_HTTP": "127.0.0.1:0", "SPOTNIK_EVENTS": folder + "/events"}
        process = subprocess.Popen([str(options.build / "cli/spotnik"), "run", "-q", "-n", str(options.workers), "--", str(options.build / "examples/charlm"),
                                    "--quiet", "--steps", "0", "--batch", "64"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            port = page_of(Path(folder) / "events")
            while json.loads(read(port, "/status.json") or b"{}").get("step_committed", 0) < 500:
                time.sleep(0.05)
            yield port
        finally:
            process.terminate()
            process.wait(30)


def phase(port: int, target: int, options: argparse.Namespace) -> tuple[float, int]:
    """Milliseconds a step while `target` is asked (0: nobody is), and how often it was."""
    stop, asked = threading.Event(), [0]
    scraper = threading.Thread(target=scrape, args=(target, options.rate, stop, asked))
    if target:
        scraper.start()
    first = json.loads(read(port, "/status.json"))
    time.sleep(options.seconds)
    last = json.loads(read(port, "/status.json"))
    stop.set()
    if target:
        scraper.join()
    return (last["now_ns"] - first["now_ns"]) / 1e6 / (last["step_committed"] - first["step_committed"]), asked[0]


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """Median and 95 % of its bootstrap."""
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(4000))
    return statistics.median(ratios), medians[100], medians[-101]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--rate", type=float, default=100)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    options.build = options.build.resolve()
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=dummy, args=(theirs, 12000), daemon=True)
    server.start()
    other = ours.recv()
    times: dict[str, list[float]] = {mode: [] for mode in MODES}
    asked = dict.fromkeys(MODES, 0)
    for number in range(options.jobs):
        with job(options) as port:
            targets = {"alone": 0, "scraped": port, "control": other}
            for place in range(3 * options.rounds):
                mode = MODES[(place // 3 + place) % 3]
                took, times_asked = phase(port, targets[mode], options)
                times[mode].append(took)
                asked[mode] += times_asked
        told = ", ".join(f"{mode} {statistics.median(times[mode][-options.rounds:]):.3f} ms" for mode in MODES)
        print(f"job {number + 1}: {told} a step (medians)", file=sys.stderr)
    for mode, of in (("scraped", "control"), ("scraped", "alone"), ("control", "alone")):
        middle, low, high = interval([a / b for a, b in zip(times[mode], times[of])])
        print(f"step {mode} / {of}: {middle:.4f} (95 %: {low:.4f} to {high:.4f})")
    watched = options.jobs * options.rounds * options.seconds
    print(f"asked {asked['scraped'] / watched:.0f} times a second when scraped, {asked['control'] / watched:.0f} in the control")
    ours.send("how much")
    print(f"the control's server took {100 * ours.recv() / watched:.2f} % of a processor; load average: {os.getloadavg()[0]:.1f}")
    server.terminate()


if __name__ == "__main__":
    main()
