#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/guide/slurm.md word by word, on a Slurm of eight nodes: `spotnik` and `python` are found by the PATH, and where logs go is
said by the environment. Claims: the submit line starts eight elements in one view, and the status line tells of them; the
allocation's workers meet; after a notice to all nodes the batch script ends with 75 and requeues its job, which goes on at
the next step; with B: in --signal the job fails as the page says. With `limit` Slurm sends that notice itself, before a time
limit of two minutes.

    page.py SPOTNIK WORKER [limit]"""

import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.dirname(__file__))
from elements import Element, fail
from lab import Lab

SPOTNIK, WORKER = (os.path.abspath(path) for path in sys.argv[1:3])
LIMIT = sys.argv[3:] == ["limit"]
GUIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/guide/slurm.md")
NODES = 8


def blocks():
    """The page's commands, by headings: an array; nodes with GPUs, which this Slurm has not; one allocation."""
    with open(GUIDE) as file:
        return re.findall(r"^```sh\n(.*?)^```$", file.read(), re.M | re.S)


def tools(folder):
    """What the page calls spotnik, and python train.py."""
    os.mkdir(folder)
    os.symlink(SPOTNIK, f"{folder}/spotnik")
    with open(f"{folder}/python", "w") as file:
        file.write(f'#!/bin/sh\n[ "$*" = train.py ] && exec {WORKER} -u 20000 -n 100000 -b 96\n')
    os.chmod(f"{folder}/python", 0o755)
    return folder


def ended(lab, job):
    lab.run("scancel", job)
    lab.until(f"job {job} to end", lambda: not lab.tell("squeue", "-h").strip())


def submitted(lab, block, folder):
    submit, tail, status = block.splitlines()
    done = lab.run("bash", "-ec", submit, cwd=folder)
    if done.returncode or not tail.startswith("tail -f spotnik/element-*.log"):
        fail(f"{submit}: {done}")
    elements = [Element(f"{folder}/spotnik/element-{done.stdout.split()[-1]}_{i}.log") for i in range(NODES)]
    lab.until("eight elements in one view", lambda: all(element.size() == NODES for element in elements))
    told = lab.run("bash", "-ec", status, cwd=folder)
    if told.returncode or not re.search(rf"\b{NODES} members\b", told.stdout):
        fail(f"{status}: {told}")
    ended(lab, done.stdout.split()[-1])
    print("the submit line of the page: eight elements in one view; its status line told so")


def allocation(lab, block, folder):
    out = f"{folder}/out"
    os.mkdir(out)
    lab.env |= {"SLURM_STDOUTMODE": f"{out}/%j-%n.log", "SBATCH_OPEN_MODE": "append", "SLURM_OPEN_MODE": "a"}
    if LIMIT:
        lab.env["SBATCH_TIMELIMIT"] = "2"
    job = lab.run("bash", "-ec", block, cwd=folder).stdout.split()[-1]
    nodes = [Element(f"{out}/{job}-{i}.log") for i in range(NODES)]
    lab.until("eight in one view", lambda: all(node.size() == NODES for node in nodes))
    lives = [node.lives() for node in nodes]
    if not LIMIT:
        lab.run("scancel", "--signal=USR1", job)
    lab.until("the job to be requeued", lambda: all(node.lives() > had for node, had in zip(nodes, lives)), 240)
    lab.until("it to go on", lambda: all(node.steps_after(had) for node, had in zip(nodes, lives)))
    last = max(max(node.steps_before(had)) for node, had in zip(nodes, lives))
    again = min(node.steps_after(had)[0] for node, had in zip(nodes, lives))
    if again != last + 1 or any(node.count(r"left \(75\)") != 1 for node in nodes):
        fail(f"step {last} was the last, and they went on with {again}: " + " | ".join(nodes[0].lines()[-5:]))
    what = "the notice before the time limit" if LIMIT else "a notice to all nodes"
    print(f"the allocation of the page: eight nodes met; {what}: 75, requeued as job {job}, and on with step {again} after {last}")
    ended(lab, job)


def batch_shell(lab, block, folder):
    """The failure that the page names: with B: the signal ends the batch shell, and so the job; its members leave."""
    block = "\n".join(line for line in block.splitlines() if not line.startswith("spotnik key"))
    out = lab.env["SLURM_STDOUTMODE"].split("%")[0]
    block = block.replace("-N 8", "-N 2").replace("--min 4", "--min 2").replace("--signal=USR1@60", "--signal=B:USR1@60")
    job = lab.run("bash", "-ec", block, cwd=folder).stdout.split()[-1]
    nodes = [Element(f"{out}{job}-{i}.log") for i in range(2)]
    lab.until("two in one view", lambda: all(node.size() == 2 for node in nodes))
    lab.run("scancel", "--batch", "--signal=USR1", job)
    lab.until("the job to end", lambda: not lab.tell("squeue", "-h").strip())
    told = lab.tell("scontrol", "-o", "show", "job", job)
    if "JobState=FAILED" not in told or "ExitCode=0:10" not in told or any(node.count(r"left \(75\)") != 1 for node in nodes):
        fail(f"B:USR1: {told}: {nodes[0].lines()[-3:]}")
    print("with --signal=B:USR1 the job was FAILED with 0:10, and both members had left in good order")


def main():
    submit, _, allocate = blocks()
    with tempfile.TemporaryDirectory(prefix="spotnik-slurm-") as folder, Lab(folder, NODES) as lab:
        lab.env["PATH"] = f"{tools(folder + '/tools')}:{lab.env['PATH']}"
        if not LIMIT:
            submitted(lab, submit, folder)
        allocation(lab, allocate, folder)
        if not LIMIT:
            batch_shell(lab, allocate, folder)


if __name__ == "__main__":
    main()
