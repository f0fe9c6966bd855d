# SPDX-License-Identifier: Apache-2.0
"""The event log of a job in a bucket where every other answer to a write is lost: bucket_events.py SCHEME WORKER SPOTNIK

A loss is in the bucket long before samples would be sent. While the bucket is away training goes on, and what happened
meanwhile is there when it is back. No line comes twice, and none is missing. `spotnik report` reads the bucket, and
copies it to a folder, each part once.
"""

from __future__ import annotations

import collections
import json
import re
import signal
import subprocess
import sys
import tempfile
from typing import Any

from bucket_jobs import Case, case_of
from stand_ins import stand_in


def events_of(case: Case) -> list[dict[str, Any]]:
    """All lines, of which none is there twice, and no part is missing."""
    with case.bucket.lock:
        parts = sorted((key, data) for key, data in case.bucket.objects.items() if key.startswith("lost/events/"))
    numbers = collections.Counter(key.split(".")[0] for key, _ in parts)
    expected = sorted(f"{member}.{number:06}.jsonl" for member, count in numbers.items() for number in range(count))
    lines = [line for _, data in parts for line in data.decode().splitlines()]
    if [key for key, _ in parts] != expected or len(set(lines)) != len(lines):
        raise SystemExit(f"parts are missing, or lines come twice: {parts}")
    return [json.loads(line) for line in lines]


def count(case: Case, name: str) -> int:
    """How many members told of how many events."""
    return len({(event["epoch"], event["member"]) for event in events_of(case) if event["event"] == name})


def lose_one(case: Case) -> None:
    member = case.members.pop()
    member.end(signal.SIGKILL)
    case.until_together()


def live(case: Case) -> None:
    case.start(3)
    case.until_together()
    case.until("three starts in the log", lambda: count(case, "started") == 3)
    lose_one(case)
    case.until("the loss in the log of both", lambda: count(case, "lost") == 2)
    case.bucket.away = "lost/events"
    lose_one(case)
    before = case.members[0].step
    case.until("further by 500 steps", lambda: case.members[0].step > before + 500)
    if count(case, "lost") != 2:
        raise SystemExit("it was away, and took an event")
    case.bucket.away = None
    case.until("the second loss in the log", lambda: count(case, "lost") == 3)
    case.end(signal.SIGTERM)
    if count(case, "ended") != 1:
        raise SystemExit("the last part was not sent")


def read(case: Case, spotnik: str, where: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [spotnik, "report", where, "-o", f"{folder}/r"]
        subprocess.run(command, env=case.environment, check=True, stdout=subprocess.DEVNULL)
        with open(f"{folder}/r.md", encoding="utf-8") as file:
            text = file.read()
        if "| Processes that took part | 3, at most 3 at once |" not in text or not re.search("left . 2, ", text):
            raise SystemExit(f"the report says\n{text}")
        parts = sum(key.startswith("lost/events/") for key in case.bucket.objects)
        for requests in (parts + 1, 1):  # one lists
            before = case.bucket.requests
            subprocess.run([spotnik, "report", "--save", f"{folder}/kept", where], env=case.environment, check=True)
            if case.bucket.requests - before != requests:
                raise SystemExit(f"{case.bucket.requests - before} requests to copy what takes {requests}")


def refused(case: Case) -> None:
    case.environment["SPOTNIK_EVENTS"] = "ftp://bucket/events"
    case.start(1)
    case.until("refused", lambda: "no folder and no bucket" in case.members[0].error)


if __name__ == "__main__":
    Case.scheme, worker, spotnik = sys.argv[1:]
    server = stand_in(Case.scheme)
    with case_of(worker, server, "job") as case:
        where = case.environment["SPOTNIK_EVENTS"] = f"{Case.scheme}://bucket/lost/events"
        live(case)
        read(case, spotnik, where)
        refused(case)
        case.end(signal.SIGKILL)
    server.close()
    print("events: well")
