#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job whose only machine gets notices. Claims: all workers leave in good order, the last step is saved, and
when the notice is taken back, or its deadline passes and nothing happens, the job goes on at the next step;
risks move nobody; one process asks the cloud for all three workers; the user's command hears of each notice;
SIGUSR1 and three SIGTERM at once, as batch systems send them, are a planned leave, also where each worker gets them, too;
a member that has left is counted as left, whatever ends its process.

    job.py SPOTNIK WORKER"""

import os
import signal
import subprocess
import sys
import tempfile

from cloud import Cloud
from faults.process import Process, environment, fail

SPOTNIK, WORKER = sys.argv[1:3]
ALL_THREE = r" commit \d+ [0-9a-f]+ \d+ 3 "


def run(folder, cloud, *options, **more):
    env = environment(
        SPOTNIK_IMDS_ENDPOINT=cloud.url if cloud else "http://127.0.0.1:9",
        SPOTNIK_NOTICE_INTERVAL="50ms",
        SPOTNIK_CHECKPOINT=f"{folder}/checkpoints",
        SPOTNIK_CHECKPOINT_S="3600",
        SPOTNIK_SILENCE_MS="20000",
        **more,
    )
    return Process(SPOTNIK, "run", "-n", 3, *options, "--", WORKER, *"-u 3000 -n 100000 -b 96".split(), env=env)


def watchers(agent):
    """The processes of an agent that ask the cloud."""
    with open(f"/proc/{agent}/task/{agent}/children") as file:
        children = file.read().split()
    commands = [open(f"/proc/{pid}/cmdline").read().split("\0") for pid in children]
    return sum("spotnik-notice" in command[0] for command in commands)


def last_step(job):
    return max(int(line.split()[2]) for line in job.kept if " commit " in line)


def leaves(job):
    """All three have left; the step after which the state was saved."""
    job.until(r"left \(75\)", times=3)
    return last_step(job)


def resumes(job, after, what):
    """Lines of several workers come in any order: one may tell of a step before another tells of the one before."""
    steps = [after + 100]
    while steps[-1] < after + 20 or len(steps) == 1:
        steps.append(int(job.until(" commit ").split()[2]))
    first = min(steps)
    if first != after + 1:
        fail(f"{what}: the last step was {after}, and it went on with {first}")


def notices(folder):
    cloud = Cloud("--clouds", "aws")
    job = run(
        folder,
        cloud,
        "--notice",
        "aws",
        "--notice-patience",
        "500ms",
        "--on-notice",
        f'echo "$SPOTNIK_NOTICE_KIND $SPOTNIK_NOTICE_SOURCE $SPOTNIK_NOTICE_TEXT" >> {folder}/hook',
    )
    job.until(" commit 20 ")
    if watchers(job.process.pid) != 1:
        fail(f"{watchers(job.process.pid)} watchers for three workers")
    cloud.order("aws rebalance")
    job.until("aws: at risk")
    job.until(" commit ")
    cloud.order("aws action terminate +120")
    job.until("this machine goes in")
    step = leaves(job)
    cloud.order("aws clear")
    job.until("aws: no longer")
    resumes(job, step, "a notice was taken back")
    job.until(ALL_THREE)
    cloud.order("aws action stop +3")
    job.until("this machine goes in")
    step = leaves(job)
    if not any("still here" in line for line in job.kept):
        job.until("still here")
    resumes(job, step, "a notice lied")
    job.until(ALL_THREE)
    if job.end() != 75:
        fail("SIGTERM: not 75")
    cloud.kill()
    said = open(f"{folder}/hook").read()
    for wanted in ("risk aws rebalance", "leave aws terminate at", "over aws", "leave aws stop at"):
        if wanted not in said:
            fail(f"the user's command was not told '{wanted}': {said}")
    if any(" lost (" in line or " error " in line for line in job.kept):
        fail("somebody was lost: " + " | ".join(line for line in job.kept if " lost (" in line or " error " in line))
    print(f"one machine: left for a notice twice, saved, went on at the next step both times; {step} steps")


def signals(folder):
    for signals in ([signal.SIGUSR1], [signal.SIGTERM] * 3):
        job = run(folder, None)
        job.until(" commit ")
        for number in signals:
            job.send(number)
        if job.rest() != 75:
            fail(f"{signals}: the agent ended with {job.process.returncode}, not 75")
        if sum(" leaving " in line for line in job.kept) != 3:
            fail(f"{signals}: not all three left in good order")
    print("SIGUSR1, and SIGTERM three times at once: planned leaves")


def members(agent):
    """The workers, and what they have started."""
    found = subprocess.run(["ps", "-o", "pid=,comm=", "--ppid", str(agent)], capture_output=True, text=True).stdout
    return [int(line.split()[0]) for line in found.splitlines() if line.split()[1].startswith("e2e-worker")]


def everybody(folder):
    """Slurm and systemd signal every process: the agent, and workers that do not care about signals."""
    for number in (signal.SIGUSR1, signal.SIGTERM):
        job = run(folder, None, WORKER_DEAF="1")
        job.until(ALL_THREE)
        workers = members(job.process.pid)
        if len(workers) != 3:
            fail(f"{len(workers)} workers are there")
        for pid in workers + [job.process.pid]:
            os.kill(pid, number)
        if job.rest() != 75:
            fail(f"{number} to everybody: the agent ended with {job.process.returncode}, not 75")
        if sum(" leaving " in line for line in job.kept) != 3:
            fail(f"{number} to everybody: not all three left in good order: " + " | ".join(job.kept[-6:]))
    print("SIGUSR1 and SIGTERM to the agent and to its workers, as batch systems send them: planned leaves")


def lingers(folder):
    """Members that have left, and whose processes go on: they are killed, and nobody counts them as lost."""
    job = run(folder, None, "--grace", "600s", WORKER_LINGERS="1")
    job.until(ALL_THREE)
    workers = members(job.process.pid)
    job.process.terminate()
    job.until(" leaving ", times=len(workers))
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
    if job.rest() != 75:
        fail(f"members that had left were killed: the agent ended with {job.process.returncode}, not 75")
    if len(workers) != 3 or sum("left, and was ended by SIGKILL" in line for line in job.kept) != 3 or " 0 lost, 3 left," not in job.kept[-1]:
        fail("three have left: " + " | ".join(job.kept[-6:]))
    print("three had left, and their processes did not end: killed, they were left, not lost")


def insisted():
    """A step takes ten minutes: Ctrl-C asks the worker to leave, a second one ends it."""
    env = environment(WORKER_DEAF="1", SPOTNIK_IMDS_ENDPOINT="http://127.0.0.1:9")
    words = "run -n 1 --grace 600s -- WORKER -u 600000000 -n 100000 -b 96".replace("WORKER", WORKER).split()
    job = Process(SPOTNIK, *words, env=env)
    job.until(" joined ")
    job.send(signal.SIGINT)
    job.until("press again to insist")
    job.send(signal.SIGINT)
    job.until(r"lost \(SIGTERM\)")
    job.rest()
    print("a worker in a long step: the second Ctrl-C ends it")


insisted()
for case in (lingers, everybody, notices, signals):
    with tempfile.TemporaryDirectory(prefix="spotnik-job-") as scratch:
        case(scratch)
