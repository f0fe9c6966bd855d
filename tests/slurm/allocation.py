#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One allocation of three nodes, as docs/guide/slurm.md says it. Claims: the workers meet by the list of
nodes alone, which no DNS knows; a node that is set down costs its member and nothing else; a second job that
names the first joins it; a node that is given back (scontrol) leaves the others training; scancel ends both
jobs in good order. Without --peers a step of two tasks finds the list, too, and says so in one line. page.py runs the page's
own lines.

    allocation.py SPOTNIK WORKER"""

import os
import re
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


if __name__ == "__main__":
    main()
