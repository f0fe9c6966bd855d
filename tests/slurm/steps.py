#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Steps as people write them. Claims: several tasks on each node find ports of their own, and meet; a step that has only
some of its job's nodes meets by those, says which, and two such steps are two jobs; the components of a heterogeneous job
meet in one; a second step, which overlaps the first and names it, joins it; a process whose environment was cleared of the
node's name joins.

    steps.py SPOTNIK WORKER"""

import glob
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(__file__))
from elements import Element, fail
from lab import Lab

SPOTNIK, WORKER = (os.path.abspath(path) for path in sys.argv[1:3])


class Steps:
    def __init__(self, lab, folder):
        self.lab, self.folder, self.started = lab, folder, 0
        os.mkdir(f"{folder}/out")
        subprocess.run([SPOTNIK, "key", f"{folder}/job.key"], check=True)

    def agent(self, peers):
        """What srun starts."""
        return f"{SPOTNIK} run -n 1 --min 1 {peers} --key-file {self.folder}/job.key -- {WORKER} -u 20000 -n 100000 -b 96"

    def submit(self, script, *options):
        """Its number."""
        self.started += 1
        path = f"{self.folder}/script-{self.started}"
        with open(path, "w") as file:
            file.write(f"#!/bin/bash\n{script}\nwait\n")
        done = self.lab.run("sbatch", "--parsable", "--exclusive", "-o", f"{path}.log", *options, path)
        if done.returncode:
            fail(f"sbatch: {done}")
        return done.stdout.strip()

    def log(self, name):
        return f"-o {self.folder}/out/{name}-%t.log"

    def tasks(self, name, count):
        return [Element(f"{self.folder}/out/{name}-{i}.log") for i in range(count)]

    def until_met(self, what, tasks, size):
        self.lab.until(what, lambda: all(task.size() == size for task in tasks))

    def end(self, *jobs):
        self.lab.run("scancel", *jobs)
        self.lab.until("the jobs to end", lambda: not self.lab.tell("squeue", "-h").strip())


def several_on_a_node(steps):
    job = steps.submit(f"srun {steps.log('many')} {steps.agent('')}", "-N2", "--ntasks-per-node=2")
    many = steps.tasks("many", 4)
    steps.until_met("four tasks on two nodes", many, 4)
    if sum(task.count(r"agent 2 of this host, from port \d+ on") for task in many) != 2:
        fail("the second task of a node does not say so: " + " | ".join(many[1].lines()[:2]))
    print("two nodes, two tasks each: all four met")
    steps.end(job)


def parts(steps):
    both = "\n".join(
        f"srun -N2 -n2 --relative={at} {steps.log(name)} {steps.agent('')} &" for name, at in (("low", 0), ("high", 2))
    )
    job = steps.submit(both, "-N4", "--ntasks-per-node=1")
    low, high = steps.tasks("low", 2), steps.tasks("high", 2)
    steps.until_met("two steps of two nodes each", low + high, 2)
    for tasks, nodes in ((low, r"n\[0-1\]"), (high, r"n\[2-3\]")):
        if not all(task.count(rf"peers: Slurm step {job}\.\d, 2 nodes \({nodes}\)") for task in tasks):
            fail("a step does not say its nodes: " + " | ".join(tasks[0].lines()[:2]))
    print("two steps in one allocation of four nodes: two jobs of two members")
    steps.end(job)


def heterogeneous(steps):
    job = steps.submit(
        f"srun --het-group=0,1 {steps.log('het')} {steps.agent('--peers slurm')}", "-N1", "-n1", ":", "-N2", "-n2"
    )

    def sizes():
        """Slurm numbers these files as it likes."""
        return [Element(path).size() for path in glob.glob(f"{steps.folder}/out/het-*.log")]

    steps.lab.until("the components of a heterogeneous job", lambda: sizes() == [3, 3, 3])
    print("a heterogeneous job of one and two nodes: its three tasks met")
    steps.end(job)


def overlap(steps):
    first = f"srun -N2 -n2 {steps.log('first')} {steps.agent('--peers slurm')} &"
    more = f"srun --overlap -N1 -n1 {steps.log('more')} {steps.agent('--peers slurm:$SLURM_JOB_ID.0')}"
    job = steps.submit(
        f"{first.replace('--peers slurm', '--peers slurm:step')}\nuntil [ -e {steps.folder}/go ]; do sleep 0.1; done\n{more}",
        "-N2",
        "--ntasks-per-node=1",
    )
    met = steps.tasks("first", 2)
    steps.until_met("the first step", met, 2)
    open(f"{steps.folder}/go", "w").close()
    steps.until_met("a second step, which names the first", met + steps.tasks("more", 1), 3)
    print("srun --overlap, a second step that names the first: it joined")
    outside = steps.submit(
        f"srun {steps.log('bare')} env -u SLURMD_NODENAME {steps.agent(f'--peers slurm:{job}.0')}", "-N1", "-n1"
    )
    steps.until_met("a job of another node", met + steps.tasks("bare", 1), 4)
    print("without SLURMD_NODENAME, from another job: it joined")
    steps.end(job, outside)


def main():
    with tempfile.TemporaryDirectory(prefix="spotnik-slurm-") as folder, Lab(folder) as lab:
        steps = Steps(lab, folder)
        several_on_a_node(steps)
        parts(steps)
        heterogeneous(steps)
        overlap(steps)


if __name__ == "__main__":
    main()
