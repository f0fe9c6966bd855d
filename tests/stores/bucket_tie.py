# SPDX-License-Identifier: Apache-2.0
"""Two members on two hosts that share nothing but a bucket: bucket_tie.py SCHEME WORKER SPOTNIK

Each host in turn vanishes, from the other one and from the bucket, without a word. The other one goes on alone
within T. Without a tie-breaker one of the two would wait for ever. It also goes on to write checkpoints into the
bucket, and after its own loss a new process there resumes. Then the same while the bucket is away: the
survivor waits, and goes on when the bucket is back; the other one never goes on alone. Needs root and the program `ip`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

from bucket_checkpoints import EVERY, Saved
from bucket_jobs import Case, Member, key_make
from stand_in import Bucket
from stand_ins import SERVICES, stand_in

SERVER, HOSTS, NET, PORT, STALE_S = "spotnik-bucket", ("spotnik-left", "spotnik-right"), "10.79.41", 9000, 20


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextlib.contextmanager
def network() -> Iterator[None]:
    """Each host has a cable to the server, which is a switch, too."""
    try:
        for space in (SERVER, *HOSTS):
            ip("netns", "add", space)
            ip("-n", space, "link", "set", "lo", "up")
        ip("-n", SERVER, "link", "add", "br0", "type", "bridge")
        ip("-n", SERVER, "addr", "add", f"{NET}.254/24", "dev", "br0")
        ip("-n", SERVER, "link", "set", "br0", "up")
        for number, host in enumerate(HOSTS, 1):
            ip("-n", SERVER, "link", "add", host, "type", "veth", "peer", "name", "eth0", "netns", host)
            ip("-n", SERVER, "link", "set", host, "master", "br0", "up")
            ip("-n", host, "addr", "add", f"{NET}.{number}/24", "dev", "eth0")
            ip("-n", host, "link", "set", "eth0", "up")
        yield
    finally:
        for space in (SERVER, *HOSTS):
            subprocess.run(["ip", "netns", "delete", space], check=False, capture_output=True)


class Tie(Saved):
    """A job of two, one on each host. Questions are asked on the server's."""

    def start_on(self, host: str) -> None:
        bind = f"{NET}.{HOSTS.index(host) + 1}"
        own = {"SPOTNIK_BIND": bind, "SPOTNIK_HOST": host, "SPOTNIK_STALE_MS": f"{STALE_S}000", "SPOTNIK_MIN": "1"}
        self.members.append(Member(self.worker, {**self.environment, **own}, ["ip", "netns", "exec", host]))

    def command(self, *words: str) -> list[str]:
        return ["ip", "netns", "exec", SERVER, *super().command(*words)]


def vanish(worker: str, spotnik: str, key: str, gone: int) -> None:
    finding = SERVICES[Case.scheme][1](f"{NET}.254", PORT)
    case = Tie(worker, spotnik, Bucket(), finding, key, f"tie-{gone}")
    try:
        for host in HOSTS:
            case.start_on(host)
        case.until_together()
        ip("-n", SERVER, "link", "set", HOSTS[gone], "down")
        begun = time.monotonic()
        survivor = case.members[1 - gone]
        case.until("alone", lambda: survivor.size == 1)
        took = time.monotonic() - begun
        print(f"{HOSTS[gone]} vanished: the other one went on after {took:.1f} s", flush=True)
        if took >= STALE_S:
            raise SystemExit(f"that is not within {STALE_S} s")
        case.until_saved(survivor.step + EVERY)
        saved = case.lose_all()
        case.start_on(HOSTS[1 - gone])
        case.until("on its feet again", lambda: case.members[0].step > saved + 1)
        case.expect_resumed(saved)
    finally:
        ip("-n", SERVER, "link", "set", HOSTS[gone], "up")
        case.end(signal.SIGKILL)


def vanish_while_away(worker: str, spotnik: str, key: str, tell: Callable[[str], None]) -> None:
    """With the hosts' cables down, nothing is asked of the bucket, which then comes back."""
    finding = SERVICES[Case.scheme][1](f"{NET}.254", PORT)
    case = Tie(worker, spotnik, Bucket(), finding, key, "tie-away")
    try:
        for host in HOSTS:
            case.start_on(host)
        case.until_together()
        vanished, survivor = case.members
        vanished.alone = False  # it was, before the other one joined
        tell("away")
        ip("-n", SERVER, "link", "set", HOSTS[0], "down")
        begun = time.monotonic()
        case.until("silent for 2 T", lambda: time.monotonic() > begun + 2 * STALE_S)
        if survivor.size != 2 or survivor.error:
            raise SystemExit(f"tie-away: decided without the bucket: {survivor.size} {survivor.error}")
        tell("back")
        case.until("alone", lambda: survivor.size == 1)
        step = survivor.step
        ip("-n", SERVER, "link", "set", HOSTS[0], "up")
        case.until("the other one ended, or in the job", lambda: vanished.error != "" or vanished.step > step)
        if vanished.alone:
            raise SystemExit("tie-away: both went on alone")
        print(f"the bucket was away: the tie waited, and is decided once ({vanished.error or 'joined'})", flush=True)
    finally:
        ip("-n", SERVER, "link", "set", HOSTS[0], "up")
        case.end(signal.SIGKILL)


def serve() -> None:
    server = stand_in(Case.scheme, f"{NET}.254", PORT)
    print("ready", flush=True)
    for word in sys.stdin:
        server.bucket.away = "" if word.strip() == "away" else None
        print("done", flush=True)
    server.close()


def main(worker: str, spotnik: str) -> None:
    with network(), tempfile.TemporaryDirectory() as folder:
        key = key_make(folder)
        command = ["ip", "netns", "exec", SERVER, sys.executable, __file__, Case.scheme, "--serve"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdout.readline()

            def tell(word: str) -> None:
                process.stdin.write(f"{word}\n".encode())
                process.stdin.flush()
                process.stdout.readline()

            for gone in range(len(HOSTS)):
                vanish(worker, spotnik, key, gone)
            vanish_while_away(worker, spotnik, key, tell)
            process.stdin.close()


if __name__ == "__main__":
    Case.scheme, *given = sys.argv[1:]
    if given == ["--serve"]:
        serve()
    elif os.geteuid() != 0 or shutil.which("ip") is None:
        print("skipped: network namespaces need root and the program ip")
        sys.exit(77)
    else:
        main(*given)
