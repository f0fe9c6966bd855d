# SPDX-License-Identifier: Apache-2.0
"""Jobs of real processes that meet in a bucket: bucket_jobs.py SCHEME WORKER SPOTNIK [ROUNDS|acts|calm MEMBERS SECONDS]

many           16 processes that start at once found one job, ROUNDS times
lost_answers   the same of 4, where every other answer to a write is lost
away           the bucket is away: training goes on, and a process joins when it is back
total_loss     all are killed at once: those that start anew found generation 2
acts           alone: the founder is killed at its first request, its second, and so on. The request is carried out, or
               is not. Others found the job: no generation twice, and none left out
calm           alone: MEMBERS train, and ask the bucket no more than 2,000 times an hour, counted for SECONDS
unconditional  a store that ignores conditions is refused
doctor         `spotnik doctor` tells a bucket that is fit for a job from one that is not
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

from stand_in import Bucket, StandIn
from stand_ins import stand_in

PATIENCE_S = 100
REQUESTS_PER_H = 2000


class Member:
    """A worker: its size and step are those of the last commit that it reported."""

    def __init__(
        self, worker: str, environment: dict[str, str], within: Sequence[str] = (), options: Sequence[str] = ()
    ) -> None:
        self.events, end = os.pipe()
        os.set_blocking(self.events, False)
        command = [*within, worker, "-e", str(end), "-s", "1000000", "-n", "100000", "-b", "64", "-u", "2000", *options]
        self.digests: dict[int, str] = {}  # by step
        self.process = subprocess.Popen(command, env=environment, pass_fds=[end], stderr=subprocess.DEVNULL)
        os.close(end)
        self.text, self.size, self.step, self.error, self.alone = "", 0, 0, "", False

    def read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.events, 65536):
                self.text += data.decode()
        *lines, self.text = self.text.split("\n")
        for line in lines:
            word, _, rest = line.partition(" ")
            if word == "commit":
                step, digest, _, size, replay, *_ = rest.split()
                self.step, self.size = int(step), int(size)
                self.alone |= size == "1" and replay == "0"  # a newcomer replays what others did alone
                self.digests[self.step] = digest
            elif word == "error":
                self.error = rest

    def end(self, number: int) -> None:
        self.process.send_signal(number)
        self.process.wait()
        os.close(self.events)


class Case:
    """Members of one job in one place of the bucket."""

    scheme: ClassVar[str] = "s3"  # of the service

    def __init__(self, worker: str, bucket: Bucket, finding: dict[str, str], key: str, place: str) -> None:
        self.worker, self.bucket, self.place = worker, bucket, place
        self.environment = {
            **os.environ,
            **finding,
            "SPOTNIK_PEERS": f"{self.scheme}://bucket/{place}",
            "SPOTNIK_KEY_FILE": key,
            "SPOTNIK_STALE_MS": "3000",
        }
        self.options: list[str] = []
        self.members: list[Member] = []

    def start(self, count: int) -> None:
        self.members += [Member(self.worker, self.environment, (), self.options) for _ in range(count)]

    def read_all(self) -> None:
        for member in self.members:
            member.read()

    def until(self, what: str, holds: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
        end = time.monotonic() + patience_s
        while time.monotonic() < end:
            self.read_all()
            if holds():
                return
            time.sleep(0.05)
        told = [(member.size, member.step, member.error) for member in self.members]
        raise SystemExit(f"{self.place}: not {what} within {patience_s} s: {told}")

    def until_together(self) -> None:
        """All have committed a step in a view of all."""
        count = len(self.members)
        self.until("all in one view", lambda: all(member.size == count for member in self.members))

    def foundings(self) -> list[str]:
        with self.bucket.lock:
            return sorted(key.rsplit("/", 1)[1] for key in self.bucket.objects if f"{self.place}/genesis-" in key)

    def expect_foundings(self, *names: str) -> None:
        if self.foundings() != list(names):
            raise SystemExit(f"{self.place}: {self.foundings()} in place of {names}")

    def end(self, number: int) -> None:
        for member in self.members:
            member.end(number)
        self.members.clear()


def many(case: Case) -> None:
    case.start(16)
    case.until_together()
    case.expect_foundings("genesis-1")


def lost_answers(case: Case) -> None:
    case.start(4)
    case.until_together()
    case.expect_foundings("genesis-1")


def away(case: Case) -> None:
    case.start(2)
    case.until_together()
    case.bucket.away = ""
    before = case.members[0].step
    case.until("further by 500 steps", lambda: case.members[0].step > before + 500)
    case.bucket.away = None
    case.start(1)
    case.until_together()
    case.expect_foundings("genesis-1")


def total_loss(case: Case) -> None:
    case.start(3)
    case.until_together()
    case.end(signal.SIGKILL)
    case.start(2)
    case.until_together()
    case.expect_foundings("genesis-1", "genesis-2")


def act_is_last(case: Case, number: int, done: bool) -> bool:
    """Kills a founder at its request of that number. True: it had founded before."""
    seen = 0

    def watched() -> bool:
        nonlocal seen
        seen += 1
        if seen == number:
            case.members[0].process.kill()
        return done or seen < number

    case.bucket.watched = watched
    case.start(1)
    case.until("dead, or in a view", lambda: case.members[0].process.poll() is not None or case.members[0].size == 1)
    case.bucket.watched = None
    last = case.members[0].size == 1
    case.end(signal.SIGKILL)
    case.start(2)
    case.until_together()
    names = [f"genesis-{n + 1}" for n in range(len(case.foundings()))]
    if case.foundings() != names or len(names) > 2:
        raise SystemExit(f"{case.place}: {case.foundings()}")
    return last


def acts(worker: str, server: StandIn) -> None:
    for done in (False, True):
        number, last = 0, False
        while not last:
            number += 1
            with case_of(worker, server, f"acts-{done}-{number}") as case:
                last = act_is_last(case, number, done)
        print(f"acts: well, {number - 1} requests, {'carried out' if done else 'not carried out'}", flush=True)


def calm(worker: str, server: StandIn, members: int, lasts_s: float) -> None:
    with case_of(worker, server, "calm") as case:
        del case.environment["SPOTNIK_STALE_MS"]
        case.options = ["-u", "200000"]
        case.start(members)
        case.until_together()
        before, end = server.bucket.requests, time.monotonic() + lasts_s
        case.until("at the end", lambda: time.monotonic() > end, 2 * lasts_s)
        rate = (server.bucket.requests - before) * 3600 / lasts_s
    print(f"calm: {members} members ask {rate:.0f} times an hour", flush=True)
    if rate > REQUESTS_PER_H * 1.1:  # a part of an interval more or less
        raise SystemExit(f"calm: that is more than {REQUESTS_PER_H}")


def unconditional(case: Case) -> None:
    case.start(1)
    case.until("refused", lambda: "so two processes could found one job" in case.members[0].error)
    case.expect_foundings()


def doctor(spotnik: str, server: StandIn) -> None:
    for place, word, line in (
        ("fit", "fine", "can be written, honours conditional writes, and has 0 records"),
        ("unconditional", "BAD", "so two processes could found one job"),
    ):
        with tempfile.TemporaryDirectory() as folder:
            command = [spotnik, "doctor", "--peers", f"{Case.scheme}://bucket/{place}", "--key-file", key_make(folder)]
            told = subprocess.run(
                command, env={**os.environ, **server.environment}, capture_output=True, text=True, check=False
            ).stdout
        if not any(each.startswith(word) and line in each for each in told.splitlines()):
            raise SystemExit(f"doctor of {place}: {told}")
    print("doctor: well", flush=True)


def key_make(folder: str) -> str:
    """The path of a new job key there."""
    path = os.path.join(folder, "key")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        file.write("5a" * 32 + "\n")
    return path


@contextlib.contextmanager
def case_of(worker: str, server: StandIn, place: str) -> Iterator[Case]:
    with tempfile.TemporaryDirectory() as folder:
        case = Case(worker, server.bucket, server.environment, key_make(folder), place)
        try:
            yield case
        finally:
            case.bucket.away = case.bucket.watched = None
            case.end(signal.SIGKILL)


def main(worker: str, spotnik: str, rounds: int) -> None:
    server = stand_in(Case.scheme)
    cases = [(many, f"many-{i}") for i in range(rounds)]
    cases += [(lost_answers, "lost/job"), (away, "away"), (total_loss, "total")]
    cases += [(unconditional, "unconditional/job")]
    for run, place in cases:
        with case_of(worker, server, place) as case:
            run(case)
        print(f"{place}: well", flush=True)
    doctor(spotnik, server)
    server.close()


if __name__ == "__main__":
    Case.scheme = sys.argv[1]
    if sys.argv[4:] == ["acts"]:
        acts(sys.argv[2], stand_in(Case.scheme))
    elif sys.argv[4:5] == ["calm"]:
        calm(sys.argv[2], stand_in(Case.scheme), int(sys.argv[5]), float(sys.argv[6]))
    else:
        main(sys.argv[2], sys.argv[3], int(sys.argv[4]) if len(sys.argv) > 4 else 1)
