#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The watcher against the clouds of mock_imds.py. Claims: every notice is heard, with its deadline, and told
once; tokens that expire, services that fail, hang or break a long poll, and bad dates lose none; an event for
another machine is none, and no event is ever acknowledged; a proxy in the environment is not used; where
there is no cloud, nothing is said and nothing is left running. Commands that hang or never stop to print keep nobody
waiting.

    watch.py SPOTNIK"""

import json
import os
import select
import subprocess
import sys
import tempfile
import time

from cloud import Cloud
from faults.process import LIMIT_S, Process, environment, fail

SPOTNIK = sys.argv[1]
PATIENCE_S = 20


class Watch(Process):
    def __init__(self, *args, env, pass_fds=()):
        words = (SPOTNIK, "notice", "--watch", "--json", *args)
        super().__init__(*words, stderr=None, env=environment(**env), pass_fds=pass_fds)

    def expect(self, kind, source, text="", within_s=None):
        """The very next thing told."""
        line = json.loads(self.until(""))
        if line["kind"] != kind or line["source"] != source or text not in line["text"]:
            fail(f"expected {kind} of {source} ({text}), was told {line}")
        if within_s is not None:
            left_s = line["deadline_ms"] / 1000 - time.time()
            if not within_s[0] <= left_s <= within_s[1]:
                fail(f"{line}: {left_s:.1f} s are left, expected {within_s}")


def aws():
    cloud = Cloud("--clouds", "aws")
    # A proxy that cannot be reached: a watcher that used it would hear nothing.
    watch = Watch(
        env=cloud.env(http_proxy="http://127.0.0.1:9", HTTP_PROXY="http://127.0.0.1:9", ALL_PROXY="http://127.0.0.1:9")
    )
    cloud.order("aws rebalance")
    watch.expect("risk", "aws", "rebalance")
    cloud.order("aws action terminate +120")
    watch.expect("leave", "aws", "terminate", (60, 121))
    cloud.order("aws expire-tokens")
    cloud.order("aws clear")
    watch.expect("over", "aws")
    cloud.order("aws action hibernate +0")
    watch.expect("leave", "aws", "hibernate", (-PATIENCE_S, 1))
    cloud.order("all fail 503")  # a notice that stands goes on standing: nothing may be told of it
    cloud.until_asked(3)
    cloud.order("all well")
    cloud.order("aws action stop nonsense")
    watch.expect("leave", "aws", "stop at nonsense", (60, 121))
    cloud.order("aws clear")
    watch.expect("over", "aws")
    cloud.order("all fail 401")  # no token is good any more
    cloud.until_asked(5)
    cloud.order("all well")
    cloud.order("aws action terminate +60")
    watch.expect("leave", "aws", "terminate", (20, 61))
    watch.end()
    cloud.end()
    print("aws: notice, rebalance, expired and refused tokens, failures, bad dates; no proxy used")


def gcp():
    cloud = Cloud("--clouds", "gcp")
    watch = Watch(env=cloud.env())
    cloud.order("gcp preempted")
    watch.expect("leave", "gcp", "preempted", (5, 31))
    cloud.order("gcp clear")
    watch.expect("over", "gcp")
    for break_by in ("all fail 503", "all hang"):  # the long poll breaks, or its answer never comes
        cloud.order(break_by)
        cloud.order("gcp preempted")
        if break_by != "all hang":
            cloud.until_asked(3)
        cloud.order("all well")
        watch.expect("leave", "gcp", "preempted")
        cloud.order("gcp clear")
        watch.expect("over", "gcp")
    cloud.order("gcp maintenance MIGRATE_ON_HOST_MAINTENANCE")
    watch.expect("risk", "gcp-2", "MIGRATE")
    cloud.order("gcp maintenance TERMINATE_ON_HOST_MAINTENANCE")
    watch.expect("leave", "gcp-2", "TERMINATE", (20, 61))
    watch.end()
    cloud.end()
    print("gcp: preemption and maintenance by long poll, broken and hanging polls")


def azure():
    cloud = Cloud("--clouds", "azure", "--name", "vmss_7")
    watch = Watch(env=cloud.env())
    cloud.order("azure event Preempt vmss_8 +30")
    cloud.until_asked(2)
    cloud.order("azure event Freeze vmss_7 +900")
    watch.expect("risk", "azure", "Freeze")
    cloud.order("azure event Preempt VMSS_7 +30")
    watch.expect("leave", "azure", "Preempt Scheduled", (5, 31))
    cloud.order("azure clear")
    watch.expect("over", "azure")
    cloud.order(
        "azure event Preempt vmss_7 +30 Started"
    )  # a failure of hardware skips Scheduled, and its date is blank
    watch.expect("leave", "azure", "Preempt Started", (-PATIENCE_S, 1))
    if cloud.seen()["acknowledged"] != 0:
        fail("an event was acknowledged")
    watch.end()
    cloud.end()
    print("azure: own events only, blank dates, nothing acknowledged")


def own_sources(folder):
    path = os.path.join(folder, "going")
    watch = Watch(
        "--from",
        f"file:{path}",
        "--from",
        f"exec:cat {path}.more 2>/dev/null || true",
        env={"SPOTNIK_NOTICE_INTERVAL": "50ms"},
    )
    with open(path + ".new", "w") as file:
        file.write("+30 the fan has stopped\n")
    os.rename(path + ".new", path)
    watch.expect("leave", "file", "the fan has stopped", (5, 31))
    os.rename(path, path + ".more")
    said = {json.loads(watch.until(""))["kind"] for _ in range(2)}
    if said != {"over", "leave"}:
        fail(f"a file went and a command spoke: told {said}")
    os.unlink(path + ".more")
    watch.expect("over", "exec", "the fan has stopped")
    watch.end()
    print("file and command: told, and taken back")


def endless():
    """A command that never stops to print keeps no other source waiting, and one that hangs does not, either. Neither
    outlives the watcher."""
    cloud = Cloud("--clouds", "aws")
    hangs, held = os.pipe()  # it is at its end when nobody holds its other end any more
    watch = Watch(
        *("--from", "exec:yes", "--from", "exec:sleep 600", "--from", "aws"), env=cloud.env(), pass_fds=[held]
    )
    os.close(held)
    watch.expect("leave", "exec", "y")
    cloud.order("aws action terminate +120")
    watch.expect("leave", "aws", "terminate", (60, 121))
    watch.end()
    if not select.select([hangs], [], [], LIMIT_S)[0]:
        fail("the watcher has ended, and a command that hangs has not")
    os.close(hangs)
    cloud.end()
    print("a command that never stops, and one that hangs: the cloud was heard, and both ended with the watcher")


def nowhere():
    """Nobody listens, nobody answers, or what answers has no tokens, as OpenStack and old metadata services: the first
    look takes 300 ms at most for each cloud, and all look at once."""
    cloud = Cloud()
    for order in ("all well", "all fail 404", "all fail 403", "all hang"):
        endpoint = "http://127.0.0.1:9" if order == "all well" else cloud.url
        cloud.order(order)
        begun = time.monotonic()
        done = subprocess.run(
            [SPOTNIK, "notice"], capture_output=True, text=True, env={**os.environ, "SPOTNIK_IMDS_ENDPOINT": endpoint}
        )
        took = time.monotonic() - begun
        if done.returncode != 0 or "no cloud" not in done.stdout or done.stderr:
            fail(f"in no cloud: {done}")
        print(
            f"no cloud ({'nobody listens' if endpoint.endswith(':9') else order}): said after {took * 1000:.0f} ms"
        )
    quiet = subprocess.run(
        [SPOTNIK, "run", "-n", "1", "--", "true"],
        capture_output=True,
        text=True,
        env={**os.environ, "SPOTNIK_IMDS_ENDPOINT": "http://127.0.0.1:9"},
    )
    if quiet.returncode != 0 or "aws" in quiet.stderr or "cloud" in quiet.stderr or "notice" in quiet.stderr:
        fail(f"spotnik run in no cloud: {quiet}")
    cloud.end()


def main():
    nowhere()
    aws()
    gcp()
    azure()
    endless()
    with tempfile.TemporaryDirectory() as folder:
        own_sources(folder)


if __name__ == "__main__":
    main()
