#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same `spotnik slurm submit` after its training is over, as an operator types it by habit. Claims: the first
array trains to the end and leaves the queue; each element of the second says that the job was done, makes no step,
ends with 0 and holds no node.

    finished.py SPOTNIK WORKER"""

import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(__file__))
from elements import Element, fail
from lab import Lab

SPOTNIK, WORKER = (os.path.abspath(path) for path in sys.argv[1:3])
STEPS = 300


def array(lab, folder):
    """The logs of an array of three that has left the queue."""
    done = lab.run(
        *(SPOTNIK, "slurm", "submit", "--nodes", "2:3", "--folder", f"{folder}/train", "-s", "--partition=spot", "--"),
        *(WORKER, "-u", "5000", "-s", str(STEPS), "-b", "96"),
        cwd=folder,
    )
    if done.returncode:
        fail(f"submit: {done}")
    job = done.stdout.split()[-1]
    lab.until("the array to end", lambda: not lab.tell("squeue", "-h").strip())
    states = lab.tell("scontrol", "-o", "show", "job", job).splitlines()
    for state in states:
        if "JobState=COMPLETED" not in state or "ExitCode=0:0" not in state:
            fail(f"an element did not complete: {state}")
    if len(states) != 3:
        fail(f"Slurm knows {len(states)} elements of {job}, not 3")
    return [Element(f"{folder}/train/element-{job}_{i}.log") for i in range(3)]


def main():
    with tempfile.TemporaryDirectory(prefix="spotnik-slurm-") as folder, Lab(folder) as lab:
        first = array(lab, folder)
        if not any(element.count(rf"done {STEPS} ") for element in first):
            fail(
                "no element trained to the end: "
                + " | ".join(line for element in first for line in element.lines()[-3:])
            )
        print(f"trained: {STEPS} steps, three elements completed")
        for i, element in enumerate(array(lab, folder)):
            if element.commits() or not element.count("came when the job was done"):
                fail(f"element {i} of the second array: " + " | ".join(element.lines()[-6:]))
        print("submitted again: each element said that the job was done, and completed")


if __name__ == "__main__":
    main()
