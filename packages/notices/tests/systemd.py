#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The unit of docs/guide/notices.md under a systemd of its own, which is the first process of a few namespaces. Workers do
not care about signals. Claims: when the unit is stopped all workers leave in good order, the last step is saved, and systemd
starts nothing again; a signal to all processes of the unit, as a notice, ends it with 75, systemd starts it again, and it
goes on at the next step; one that ends with an error is not started again. The unit has no word that systemd does not know.

    systemd.py SPOTNIK WORKER PAGE"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../tests"))
from faults.process import fail, skip

SPOTNIK, WORKER, PAGE = (os.path.abspath(path) for path in sys.argv[1:4])
SYSTEMD = "/lib/systemd/systemd"
PATIENCE_S = 90
BOOT = """
mount -t tmpfs none /run && mkdir -p /run/systemd/system && cp {folder}/train.service /run/systemd/system/ &&
mount -t cgroup2 none /sys/fs/cgroup && exec env container=docker {systemd} --system --unit=train.service \\
    --log-target=console --show-status=0
"""


def unit(folder):
    with open(PAGE) as file:
        text = re.search(r"```ini\n(.*?)```", file.read(), re.S).group(1)
    for theirs, ours in (
        ("/usr/bin/spotnik", SPOTNIK),
        ("/usr/bin/python3 /shared/train.py", f"{WORKER} -u 10000 -n 100000 -b 96"),
        ("/shared/", f"{folder}/"),
        ("--bind auto", "--bind 127.0.0.1"),  # there is no other address
        ("Wants=network-online.target\nAfter=network-online.target", "DefaultDependencies=no"),  # nothing else of a machine is started
        ("[Install]\nWantedBy=multi-user.target\n", ""),
    ):
        if theirs not in text:
            fail(f"the page's unit has no {theirs}")
        text = text.replace(theirs, ours)
    text += f"StandardOutput=append:{folder}/log\nStandardError=append:{folder}/log\n"
    text += "Environment=WORKER_DEAF=1 SPOTNIK_CHECKPOINT_S=3600\n"
    return text


class Machine:
    def __init__(self, folder):
        self.folder = folder

    def __enter__(self):
        spaces = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--cgroup", "--uts", "--ipc", "--net"]
        self.console = open(f"{self.folder}/console", "w+")
        boot = BOOT.format(folder=self.folder, systemd=SYSTEMD)
        self.process = subprocess.Popen(
            ["unshare", *spaces, "sh", "-c", boot], stdin=subprocess.DEVNULL, stdout=self.console, stderr=self.console
        )
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.console.close()

    def first(self):
        """The number of systemd out here."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as file:
            return file.read().split()[0]

    def inside(self, *words):
        spaces = ["nsenter", "-t", self.first(), "--mount", "--pid", "--net", "--ipc", "--uts", "--cgroup"]
        return subprocess.run([*spaces, *words], capture_output=True, text=True).stdout.strip()

    def systemctl(self, *words):
        return self.inside("systemctl", *words)

    def lines(self):
        try:
            with open(f"{self.folder}/log") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def count(self, pattern):
        return sum(bool(re.search(pattern, line)) for line in self.lines())

    def steps(self):
        return [int(line.split()[2]) for line in self.lines() if " commit " in line and len(line.split()) == 8]

    def until(self, what, is_true):
        end = time.monotonic() + PATIENCE_S
        while not is_true():
            if self.process.poll() is not None:
                skip("no systemd can be the first process here: " + " | ".join(self.said()))
            if time.monotonic() > end:
                fail(f"waited {PATIENCE_S} s for {what}: " + " | ".join(self.said() + self.lines()[-6:]))
            time.sleep(0.05)  # between two looks; nothing rests on it

    def said(self):
        with open(f"{self.folder}/console") as file:
            return file.read().splitlines()[-4:]


def live(machine):
    machine.until("four workers to train", lambda: machine.count(r" commit \d+ \w+ \d+ 4 ") > 20)
    machine.systemctl("kill", "--signal=USR1", "train.service")
    machine.until("four leaves", lambda: machine.count(r"left \(75\)") == 4)
    last = max(machine.steps())
    machine.until("systemd to start it again", lambda: len(machine.steps()) and max(machine.steps()) > last + 20)
    again = min(step for step in machine.steps() if step > last)
    if again != last + 1:
        fail(f"the last step was {last}, and it went on with {again}")
    print(f"a signal to all processes of the unit: four leaves, started again, and on with step {again} after {last}")

    machine.systemctl("stop", "train.service")
    state = machine.systemctl("is-active", "train.service")
    if state not in ("inactive", "failed") or machine.count(r"left \(75\)") != 8 or machine.count(r" lost \("):
        fail(f"the unit was stopped, and is {state}: " + " | ".join(machine.lines()[-8:]))
    last = max(machine.steps())
    names = os.listdir(f"{machine.folder}/checkpoints")
    if not any(name.startswith(f"step-{last:012d}-") for name in names):
        fail(f"step {last} was not saved: {names}")
    print(f"systemctl stop: four leaves in good order, and step {last}, the last, was saved")


def failing(machine):
    """What ends with an error would end so again."""
    machine.inside("sh", "-c", "mkdir $0.d && printf '[Service]\nExecStart=\nExecStart=/bin/sh -c \"exit 74\"\n' >$0.d/74.conf", "/run/systemd/system/train.service")
    machine.systemctl("daemon-reload")
    machine.systemctl("start", "train.service")
    machine.until("the unit to fail", lambda: machine.systemctl("is-active", "train.service") == "failed")
    said = machine.systemctl("show", "-p", "ExecMainStatus,NRestarts", "train.service").split()
    if sorted(said) != ["ExecMainStatus=74", "NRestarts=0"]:
        fail(f"a unit that ends with 74: {said}")
    print("the unit ends with 74: systemd leaves it")


def main():
    for tool in ("unshare", "nsenter", "systemctl"):
        if not shutil.which(tool):
            skip(f"there is no {tool}")
    if os.geteuid() != 0 or not os.path.exists(SYSTEMD):
        skip("this needs root, and systemd")
    with tempfile.TemporaryDirectory(prefix="spotnik-systemd-", dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        for name in ("job", "checkpoints"):
            os.mkdir(f"{folder}/{name}", 0o700)
        subprocess.run([SPOTNIK, "key", f"{folder}/job.key"], check=True)
        with open(f"{folder}/train.service", "w") as file:
            file.write(unit(folder))
        said = subprocess.run(["systemd-analyze", "verify", file.name], capture_output=True, text=True)
        if said.returncode or said.stderr:
            fail(f"systemd-analyze verify: {said.stderr}")
        with Machine(folder) as machine:
            live(machine)
            failing(machine)


main()
