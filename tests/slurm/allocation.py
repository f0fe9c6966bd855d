#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One allocation of three nodes, as docs/guide/slurm.md says it. Claims: the workers meet by the list of
nodes alone, which no DNS knows; a node that is set down costs its member and nothing else; a second job that
names the first joins it; a node that is given back (scontrol) leaves the others training; scancel ends both
jobs in good order. Without --peers a step of two tasks finds the list, too, and says so in one line. After a notice to
all nodes the batch script ends with 75 and requeues its job, which goes on at the next step.

    allocation.py SPOTNIK WORKER"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(__file__))
from elements import Element, fail
from lab import Lab

SPOTNIK, WORKER = (os.path.abspath(path) for path in sys.argv[1:3])
WRONG = r" failed \(| error -"
GUIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/guide/slurm.md")
FOUND = r"spotnik: peers: Slurm {}, {} nodes \(n\[[\d,-]+\]\)"


def page(out, work, nodes):
    """The guide's commands, with fewer nodes and what the test trains; the last one prints the job's number."""
    with open(GUIDE) as file:
        text = re.search(r"^cat >job\.sh.*?^sbatch job\.sh$", file.read(), re.M | re.S).group(0)
    for theirs, ours in (
        ("sbatch job.sh", "sbatch --parsable job.sh"),
        ("-N 8 ", f"--exclusive -N {nodes} -o {out}/batch-%j.log "),
        ("srun ", f"srun --open-mode=append -o {out}/%j-%n.log "),
        ("spotnik run", f"{SPOTNIK} run"),
        ("--min 4", "--min 1"),
        ("python train.py", work),
    ):
        if text.count(theirs) != 1:
            fail(f"the guide's allocation has {text.count(theirs)} times '{theirs}': {text}")
        text = text.replace(theirs, ours)
    return text


def total_loss(lab, out, train, folder):
    """All nodes get a notice, as before the end of the time limit; the same job goes on when Slurm has requeued it."""
    job = lab.run("bash", "-c", page(out, train, 2), cwd=folder).stdout.strip()
    both = [Element(f"{out}/{job}-{i}.log") for i in range(2)]
    lab.until("two in one view", lambda: all(element.size() == 2 for element in both))
    lives = [element.lives() for element in both]
    lab.run("scancel", "--signal=USR1", job)
    lab.until("the job to be requeued", lambda: all(element.lives() > had for element, had in zip(both, lives)))
    lab.until("it to go on", lambda: all(element.steps_after(had) for element, had in zip(both, lives)))
    last = max(max(element.steps_before(had)) for element, had in zip(both, lives))
    again = min(element.steps_after(had)[0] for element, had in zip(both, lives))
    if again != last + 1 or any(element.count(r"left \(75\)") != 1 for element in both):
        fail(f"step {last} was the last, and they went on with {again}: " + " | ".join(both[0].lines()[-5:]))
    print(f"a notice to all nodes: 75, requeued as job {job}, and on with step {again} after {last}")
    lab.run("scancel", job)
    lab.until("the last job to end", lambda: not lab.tell("squeue", "-h").strip())


def main():
    with tempfile.TemporaryDirectory(prefix="spotnik-slurm-") as folder, Lab(folder) as lab:
        out = f"{folder}/out"
        os.mkdir(out)
        subprocess.run([SPOTNIK, "key", f"{folder}/job.key"], check=True)
        train = f"{WORKER} -u 20000 -n 100000 -b 96"
        work = f"--key-file {folder}/job.key -- {train}"

        def submit(nodes, command):
            return lab.run(
                "sbatch",
                "--parsable",
                "--no-kill",
                "--exclusive",
                f"-N{nodes}",
                "--ntasks-per-node=1",
                "-o",
                f"{out}/batch-%j.log",
                "--wrap",
                f"srun --no-kill --kill-on-bad-exit=0 -o {out}/%j-%n.log {command}",
            ).stdout.strip()

        def element(job, node):
            return Element(f"{out}/{job}-{node}.log")

        job = lab.run("bash", "-c", page(out, train, 3), cwd=folder).stdout.strip()
        lab.until("three in one view", lambda: all(element(job, i).size() == 3 for i in range(3)))
        if not element(job, 0).count(FOUND.format(rf"job {job}", 3)):
            fail("it was not said what was found: " + " | ".join(element(job, 0).lines()[:3]))
        print(f"job {job}: three nodes met by Slurm's list of nodes")

        second = submit(1, f"{SPOTNIK} run -n 1 --min 1 --peers slurm:{job} {work}")
        lab.until("the second job to join the first", lambda: all(element(job, i).size() == 4 for i in range(3)))
        lab.until("the second job to train", lambda: element(second, 0).size() == 4)
        print(f"job {second}, which names job {job}, joined it")

        lab.run("scontrol", "update", f"jobid={job}", "nodelist=n0,n1")
        lab.until("the others to go on without node 2", lambda: all(element(job, i).size() == 3 for i in range(2)))
        print("a node was given back: the others go on")

        lab.run("scontrol", "update", "nodename=n1", "state=down", "reason=spot")
        lab.until(
            "the others to go on without node 1", lambda: element(job, 0).size() == 2 and element(second, 0).size() == 2
        )
        print("a node was set down: the others go on")

        lab.run("scancel", job, second)
        lab.until("both jobs to end", lambda: not lab.tell("squeue", "-h").strip())
        for last in (element(job, 0), element(second, 0)):
            if last.count(r"leaving \d+") != 1 or last.count(WRONG):
                fail("no planned leave: " + " | ".join(last.lines()[-5:]))
        print("scancel: planned leaves")

        lab.run("scontrol", "update", "nodename=n1", "state=resume")
        auto = submit(2, f"{SPOTNIK} run -n 1 {work}")
        lab.until("two in one view", lambda: all(element(auto, i).size() == 2 for i in range(2)))
        if sum(element(auto, i).count(FOUND.format(rf"step {auto}\.0", 2)) for i in range(2)) != 2:
            fail("it was not said what was found: " + " | ".join(element(auto, 0).lines()[:3]))
        print(f"job {auto}: without --peers the two nodes met by Slurm's list, and said so in a line each")
        lab.run("scancel", auto)
        lab.until("that job to end", lambda: not lab.tell("squeue", "-h").strip())
        shutil.rmtree(f"{folder}/checkpoints")  # of the first job
        total_loss(lab, out, train, folder)


if __name__ == "__main__":
    main()
