# SPDX-License-Identifier: Apache-2.0
"""Machines that are short of processors, files, ports or rights. Part of network_faults.py. Claims:

  suspended     all members are stopped for longer than T, as a batch system suspends a job, and continued one after
                the other: they are one view again, and nobody has ended
  starved       one of four gets a processor for a fifth of the time: the others go on meanwhile, and all are
                one view afterwards
  files         a member may open no more files, and another dies: the others go on; when it may again, a
                newcomer comes in
  connections   a firewall lets one connection pass from one host of three, or of two, to another, which is the
                control link: the others go on, and all are one view when it lets more pass
  egress        of four hosts one is told at once that it may not dial one other, which may dial it; or it has no port
                to dial from: steps go on, without a view for each try
  ports         a host has no free port to dial from, and another dies: the same"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from jobs_on_hosts import PORT, STALE_MS, Worker, World
from network_faults_hostile import one_job
from network_faults_mistaken import PRETEND

STALE_S = STALE_MS / 1000
TURN_S, RUNS_S, STARVED_S = 0.25, 0.05, 10


def suspended(world: World) -> None:
    members = [world.start(host) for host in range(4)]
    world.go_on(members)
    for worker in members:
        worker.process.send_signal(signal.SIGSTOP)
    time.sleep(2 * STALE_S)  # all stand for longer than others wait: this standstill is the fault that is tried
    for worker in members:
        worker.process.send_signal(signal.SIGCONT)
        time.sleep(0.3)  # members wake one after the other, as when a batch system continues a job
    took = world.go_on(members)
    print(f"    one view again after {took:.1f} s, {world.exclusions()} excluded")
    one_job(world, "suspended")


def starved(world: World) -> None:
    members = [world.start(host) for host in range(4)]
    world.go_on(members)
    poor, others = members[1], [members[0], *members[2:]]
    before, begun = max(w.step for w in others), time.monotonic()
    while time.monotonic() < begun + STARVED_S:
        poor.process.send_signal(signal.SIGSTOP)
        time.sleep(TURN_S - RUNS_S)  # it stands for four fifths of the time: the fault that is tried
        poor.process.send_signal(signal.SIGCONT)
        time.sleep(RUNS_S)  # and runs for one
    steps, excluded = min(w.step for w in others) - before, poor.exclusions
    others_out = world.exclusions() - excluded
    took = world.go_on(members)
    print(f"    {steps} steps in {STARVED_S} s, it was excluded {excluded} times; one view {took:.1f} s afterwards")
    if steps < STARVED_S or others_out:
        world.fail(f"the others made {steps} steps, and {others_out} of them were excluded")
    one_job(world, "starved")


def one_dies_meanwhile(world: World, members: list[Worker], short: int, what: str) -> None:
    """Neither stops the others; the one that is short may be left out, and a newcomer may not come in."""
    members[3].process.kill()
    members[3].rest()
    others = [w for number, w in enumerate(members[:3]) if number != short]
    step = max(w.step for w in others)
    took = world.until("the others to go on", lambda: all(w.step > step + 50 for w in others))
    members[3] = world.start(3)
    begun, step = time.monotonic(), max(w.step for w in others)
    world.until(
        "the others to go on beside a newcomer",
        lambda: time.monotonic() > begun + STALE_S and all(w.step > step + 20 for w in others),
    )
    steps = min(w.step for w in others) - step
    print(f"    {what}: others go on after {took:.2f} s, and make {steps} in {time.monotonic() - begun:.0f} s")


def files(world: World) -> None:
    members = [world.start(host) for host in range(4)]
    world.go_on(members)
    for number in (0, 1):
        pid = members[number].process.pid
        least = 1 + max(int(name) for name in os.listdir(f"/proc/{pid}/fd"))
        subprocess.run(["prlimit", "--pid", str(pid), f"--nofile={least}:"], check=True)
        one_dies_meanwhile(world, members, number, f"member {number} may have {least} files")
        subprocess.run(["prlimit", "--pid", str(pid), "--nofile=1024:"], check=True)
        back = world.go_on(members)
        print(f"    all are one view {back:.1f} s after it may again")
    one_job(world, "no files")


def left_out(job: World, one: Worker) -> float:
    """Wait until somebody has been left out, and another has made steps since. A ring of all may commit nothing."""
    took = job.until("somebody to be left out", lambda: job.exclusions() > 0)
    step = one.step
    return took + job.until("others to go on", lambda: one.step > step + 100)


def connections(world: World) -> None:
    """Heartbeats pass and no data do. Of three each is everybody's neighbour, so no ring goes round it."""
    for count in (3, 2):
        job = World(world.hosts, world.root, f"connections-{count}")
        members = [job.start(host) for host in range(count - 1)]
        job.go_on(members)
        one = ["-m", "connlimit", "--connlimit-above", "1", "--connlimit-mask", "32", "-j", "DROP"]
        words = ["-p", "tcp", "--syn", "-s", job.hosts.address(0), "--dport", str(PORT), *one]
        rules = [job.hosts.rule(count - 1, "INPUT", *words)]
        newcomer = job.start(count - 1)
        members.append(newcomer)
        job.until("the newcomer's state", lambda w=newcomer: w.step > 0)  # type: ignore[misc]
        took = left_out(job, members[0])
        job.hosts.undo(rules)
        back = job.go_on(members)
        print(f"    {count} hosts: the others go on after {took:.1f} s, all are one view {back:.1f} s after it is over")
        one_job(job, "one connection")
        job.end()


def views_meanwhile(world: World, members: list[Worker], what: str) -> None:
    """A view for each refusal makes thousands in that many steps."""
    step, epoch, begun = max(w.step for w in members), max(w.epoch for w in members), time.monotonic()
    world.until("200 steps of the others", lambda: max(w.step for w in members) > step + 200)
    views, took = max(w.epoch for w in members) - epoch, time.monotonic() - begun
    print(f"    {what}: 200 steps in {took:.1f} s, {views} views")
    if views > 200:
        world.fail(f"{views} views in 200 steps")


def egress(world: World) -> None:
    none = world.root / "no-ports"
    short = {"LD_PRELOAD": PRETEND, "ASAN_OPTIONS": "verify_asan_link_order=0", "PRETEND_PORTS": str(none)}
    members = [world.start(host, **(short if host == 1 else {})) for host in range(4)]
    world.go_on(members)
    to = ["OUTPUT", "-p", "tcp", "--syn", "-d", world.hosts.address(3), "-j", "REJECT", "--reject-with"]
    for how in ("tcp-reset", "icmp-admin-prohibited", "no port"):
        rules = [world.hosts.rule(1, *to, how)] if how != "no port" else none.touch() or []
        breaks = ["INPUT", "-p", "tcp", "-s", world.hosts.address(3), "-j", "REJECT", "--reject-with", "tcp-reset"]
        links = [world.hosts.rule(1, *breaks)]
        world.until("one of the two to be left out", lambda: any(w.size == 3 for w in members))
        world.hosts.undo(links)  # host 3 dials host 1 from now on, and is not dialled back
        views_meanwhile(world, members, how)
        world.hosts.undo(rules)
        none.unlink(missing_ok=True)
        world.go_on(members)
    one_job(world, "egress")


def ports(world: World) -> None:
    members = [world.start(host) for host in range(4)]
    world.go_on(members)
    for number in (0, 1):
        range_of = Path("/proc/sys/net/ipv4/ip_local_port_range")
        enter = world.hosts.on(number, "sh", "-c")
        taken = "ss -Htan | awk '{split($4, a, \":\"); print a[2]}' | sort -n | tail -1"
        last = subprocess.run([*enter, taken], check=True, capture_output=True, text=True).stdout.strip()
        subprocess.run([*enter, f"echo {last} {last} >{range_of}"], check=True)
        one_dies_meanwhile(world, members, number, f"host {number} has port {last} alone to dial from")
        subprocess.run([*enter, f"echo 32768 60999 >{range_of}"], check=True)
        back = world.go_on(members)
        print(f"    all are one view {back:.1f} s after it has more")
    one_job(world, "no ports")


SHORT = (suspended, starved, files, connections, egress, ports)
