# SPDX-License-Identifier: Apache-2.0
"""What the tests of `spotnik bag` share: a folder for one test, workers, and waiting for what is to come."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../tests"))
from faults.process import fail, wait_for

__all__ = ["ENDS", "Case", "check", "run", "wait_for"]
PATIENCE_S = 120  # only a limit: everything is waited for
ENDS = ("done", "returned", "failed", "lost", "late")


class Case:
    """One bag in a folder of its own."""

    def __init__(self, spotnik, sim):
        self.spotnik, self.sim = spotnik, sim
        self.keep = tempfile.TemporaryDirectory(prefix="spotnik-bag-")
        self.dir = pathlib.Path(self.keep.name)
        self.bag = self.dir / "jobs.bag"
        self.workers = []
        self.more = {}  # environment

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for worker in self.workers:
            if worker.poll() is None:
                worker.send_signal(signal.SIGCONT)
                worker.kill()
                worker.wait()
        self.keep.cleanup()

    def environment(self, host=None, stale_ms=1000):
        env = dict(os.environ, SPOTNIK_STALE_MS=str(stale_ms), **self.more)
        if host is not None:
            env["SPOTNIK_HOST"] = host  # one machine of several, to the eyes of the others
        return env

    def jobs(self, rows, header="x0", name="jobs.csv"):
        path = self.dir / name
        path.write_text("\n".join([header] + [str(row) for row in rows]) + "\n")
        return path

    def command(self, *words):
        """Run to the end."""
        return subprocess.run(
            [self.spotnik, "bag", *map(str, words)],
            env=self.environment(),
            text=True,
            capture_output=True,
            timeout=PATIENCE_S,
            cwd=self.dir,
        )

    def start(self, *words, host=None, stale_ms=1000):
        with open(self.dir / f"worker-{len(self.workers)}.log", "w") as log:
            worker = subprocess.Popen(
                [self.spotnik, "bag", *map(str, words)],
                env=self.environment(host, stale_ms),
                stderr=log,
                stdout=log,
                cwd=self.dir,
            )
        self.workers.append(worker)
        return worker

    def is_made(self):
        return (self.bag / "bag.json").exists()

    def text(self, part, name):
        return (self.bag / part / name).read_text()

    def away(self):
        """The folder's host is gone for a while."""
        gone = self.bag.with_suffix(".gone")
        os.rename(self.bag, gone)
        time.sleep(1.5)  # the length of the outage, not a wait for anything
        os.rename(gone, self.bag)

    def names(self, part):
        try:
            return sorted(name for name in os.listdir(self.bag / part) if not name.startswith("."))
        except FileNotFoundError:
            return []

    def records(self, pid):
        """The names of the worker with this pid; none: its record is not there yet."""
        texts = {name: self.text("workers", name) for name in self.names("workers")}
        return [name for name, text in texts.items() if f" {pid} " in text.split("process ")[1].split("\n")[0]]

    def held(self, pid):
        """The claims of the worker with this pid that have not ended."""
        own, names = self.records(pid), self.names("claims")
        claims = [name for name in names if "." not in name and not any(name + "." + end in names for end in ENDS)]
        return [name for name in claims if own and own[0] in self.text("claims", name)]

    def results(self, bag=None):
        bag = bag or self.bag
        return {
            path.name: [
                (path / name).read_bytes() for name in ("result", "trajectory", "sum") if (path / name).exists()
            ]
            for path in sorted((bag / "results").iterdir())
        }

    def report(self):
        return json.loads(self.command("report", self.bag, "--json").stdout)

    def logs(self):
        return "".join(f"--- {path.name}\n{path.read_text()}" for path in sorted(self.dir.glob("worker-*.log")))


def check(fine, what):
    if not fine:
        fail(what)


def run(tests, made=Case):
    """SPOTNIK SIM [NAME...]"""
    spotnik, sim, wanted = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3:]
    for test in tests:
        if wanted and test.__name__ not in wanted:
            continue
        begun = time.monotonic()
        with made(spotnik, sim) as case:
            try:
                said = test(case)
            except BaseException:
                print(case.logs())
                raise
        print(f"{test.__name__}: {said or 'fine'} ({time.monotonic() - begun:.1f} s)", flush=True)
