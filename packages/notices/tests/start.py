#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the start of the watcher costs, beside a command of the same program that does nothing (spotnik --version), in turns. Claims: where
there is no cloud libcurl is not even loaded, and the processor time is at most LIMIT times that of the other command; where
packets vanish the patience is that of a service that says nothing; where there is a cloud, a notice that stands is told. It prints a table of the times, which are those of a quiet machine only on a quiet machine.

An answer that is complete before the watcher waits is taken at once (prompt.c says how that is made so).

    start.py SPOTNIK PROMPT [RUNS]"""

import contextlib
import os
import resource
import socket
import statistics
import subprocess
import sys
import time

from cloud import Cloud
from faults.process import fail

SPOTNIK = os.path.abspath(sys.argv[1])
PROMPT = os.path.abspath(sys.argv[2])
RUNS = int(sys.argv[3]) if len(sys.argv) > 3 else 15
LIMIT = 3  # libcurl with what it needs made it 4 to 6


@contextlib.contextmanager
def silent_port():
    """Connections to it are neither made nor refused, as where packets to a metadata service vanish: its queue is full."""
    with socket.socket() as door, contextlib.ExitStack() as waiting:
        door.bind(("127.0.0.1", 0))
        door.listen(0)
        while True:
            caller = waiting.enter_context(socket.socket())
            caller.settimeout(0.2)
            try:
                caller.connect(door.getsockname())
            except TimeoutError:
                break
        yield f"http://127.0.0.1:{door.getsockname()[1]}"


def run(words, endpoint, **more):
    """(what it said, its status, seconds, seconds of the processor)."""
    env = {**os.environ, "SPOTNIK_IMDS_ENDPOINT": endpoint, **more}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.monotonic()
    done = subprocess.run([SPOTNIK, *words], capture_output=True, text=True, env=env, check=False)
    took = time.monotonic() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done, took, cpu


def loads_libcurl(words, endpoint):
    return "libcurl" in run(words, endpoint, LD_DEBUG="files")[0].stderr


def prompt(cloud):
    more = {"LD_PRELOAD": PROMPT, "ASAN_OPTIONS": "verify_asan_link_order=0"}
    done, _, _ = run(["notice", "--from", "aws"], cloud.url, **more)
    if done.returncode != 3 or "this machine goes in" not in done.stdout or "in vain" in done.stderr:
        fail(f"answers that come before the watcher waits: {done}")
    print("an answer that is there before the watcher waits is taken at once")


def main():
    cloud, hanging = Cloud("--clouds", "aws"), Cloud()
    cloud.order("aws action terminate +120")
    hanging.order("all hang")
    prompt(cloud)
    with silent_port() as silent:
        cases = {
            "spotnik --version": (["--version"], silent, "spotnik"),
            "no cloud: nobody listens": (["notice"], "http://127.0.0.1:9", "no cloud"),
            "no cloud: packets vanish": (["notice"], silent, "no cloud"),
            "no cloud: somebody listens, and says nothing": (["notice"], hanging.url, "no cloud"),
            "a cloud, and a notice": (["notice"], cloud.url, "this machine goes in"),
        }
        for name, (words, endpoint, _) in cases.items():
            wanted = name.startswith("a cloud")
            if not name.startswith("no cloud: somebody") and loads_libcurl(words, endpoint) != wanted:
                fail(f"{name}: libcurl is {'not ' if wanted else ''}loaded")
        took = {name: [] for name in cases}
        for _ in range(RUNS):
            for name, (words, endpoint, said) in cases.items():
                done, *seconds = run(words, endpoint)
                if said not in done.stdout or done.stderr:
                    fail(f"{name}: {done}")
                took[name].append(seconds)
    print(f"{RUNS} runs each, in turns: ms to the end of the process, and ms of the processor (least)")
    for name, seconds in took.items():
        whole = sorted(1000 * one for one, _ in seconds)
        cpu = min(1000 * one for _, one in seconds)
        print(
            f"{name:46} least {whole[0]:4.0f}  median {statistics.median(whole):4.0f}  most {whole[-1]:4.0f}   processor {cpu:5.1f}"
        )
    base = min(cpu for _, cpu in took["spotnik --version"])
    for name in ("no cloud: nobody listens", "no cloud: packets vanish"):
        cpu = min(cpu for _, cpu in took[name])
        if cpu > LIMIT * base:
            fail(
                f"{name}: {1000 * cpu:.1f} ms of the processor, {LIMIT} times those of spotnik --version are {1000 * LIMIT * base:.1f}"
            )
    vanish, hang = (
        min(one for one, _ in took[f"no cloud: {name}"])
        for name in ("packets vanish", "somebody listens, and says nothing")
    )
    if vanish > 1.5 * hang:  # both wait for the patience of a first look
        fail(
            f"packets vanish: {1000 * vanish:.0f} ms at least, and {1000 * hang:.0f} ms where somebody listens and says nothing"
        )
    for one in (cloud, hanging):
        one.end()


main()
