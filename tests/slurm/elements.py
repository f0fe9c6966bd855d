#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""spotnik slurm submit on a Slurm of four nodes. Claims: the elements of the array meet in one training job;
a job of a higher priority takes one node, its element leaves and the others' next commit follows within a
second of their last; the element is requeued and joins, and nobody else was started again; when all nodes are
taken away at once the requeued elements go on at the next step; scancel ends all of them in good order, and
nobody comes back.

    elements.py SPOTNIK WORKER"""

import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.dirname(__file__))
sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from faults.process import fail
from lab import Lab

WRONG = r" lost \(| failed \(| error -| excluded "
SPOTNIK, WORKER = (os.path.abspath(path) for path in sys.argv[1:3])


class Element:
    """What the log of one element says."""

    def __init__(self, path):
        self.path = path

    def lines(self):
        try:
            with open(self.path) as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def commits(self):
        """(step, size of the view, instant in s) of each."""
        found = []
        for line in self.lines():
            word = line.split()
            if len(word) == 8 and word[1] == "commit" and word[7].isdigit():
                found.append((int(word[2]), int(word[5]), int(word[7]) / 1e9))
        return found

    def born(self):
        """The lines at which its workers appear; a joiner tells twice in a row that it has joined."""
        lines = self.lines()
        found = [i for i, line in enumerate(lines) if "] joined " in line and (i == 0 or "] joined " not in lines[i - 1])]
        return found or [0]

    def lives(self):
        return len(self.born())

    def steps_of(self, lines):
        return [int(line.split()[2]) for line in lines if " commit " in line and len(line.split()) == 8]

    def steps_before(self, lives):
        return self.steps_of(self.lines()[: self.born()[lives]])

    def steps_after(self, lives):
        return self.steps_of(self.lines()[self.born()[lives] :])

    def left_last(self):
        """In its last life. What it said at the end of an earlier one may have come through, or not: srun was gone."""
        return sum(bool(re.search(r"leaving \d+", line)) for line in self.lines()[self.born()[-1] :])

    def size(self):
        commits = self.commits()
        return commits[-1][1] if commits else 0

    def starts(self):
        return len({line.split()[0] for line in self.lines() if "] joined " in line}), sum(
            "spotnik: peers" in line for line in self.lines()
        )

    def count(self, pattern):
        return sum(bool(re.search(pattern, line)) for line in self.lines())


def longest_pause(element, after, before):
    instants = [at for _, _, at in element.commits() if after <= at <= before]
    return max((b - a for a, b in zip(instants, instants[1:])), default=0)


def main():
    with tempfile.TemporaryDirectory(prefix="spotnik-slurm-") as folder, Lab(folder) as lab:
        os.mkdir(f"{folder}/out")
        done = lab.run(
            SPOTNIK,
            "slurm",
            "submit",
            "--nodes",
            "2:4",
            "--folder",
            f"{folder}/train",
            "-s",
            "--partition=spot",
            "--",
            WORKER,
            "-u",
            "20000",
            "-n",
            "100000",
            "-b",
            "96",
            cwd=folder,
        )
        if done.returncode:
            fail(f"submit: {done}")
        job = done.stdout.split()[-1]
        elements = [Element(f"{folder}/train/element-{job}_{i}.log") for i in range(4)]
        lab.until("four elements in one view", lambda: all(element.size() == 4 for element in elements))
        print(f"submitted: array {job}, four elements in one view")

        # A priority job takes one node.
        prio = lab.run(
            "sbatch",
            "--parsable",
            "-p",
            "prio",
            "-N1",
            "-o",
            f"{folder}/out/prio.log",
            "--wrap",
            "echo taken; sleep 600",
        ).stdout.strip()
        lab.until("one element to leave", lambda: sum(element.count(r"left \(75\)") for element in elements) == 1)
        victim = next(i for i, element in enumerate(elements) if element.count(r"left \(75\)"))
        others = [element for i, element in enumerate(elements) if i != victim]
        lab.until("the others to go on", lambda: all(element.size() == 3 for element in others))
        if elements[victim].count(r"leaving \d+") != 1:
            fail("the preempted element did not leave in good order: " + " | ".join(elements[victim].lines()[-5:]))
        lab.until("the priority job to run", lambda: "taken" in Element(f"{folder}/out/prio.log").lines())
        left_at = max(at for _, _, at in elements[victim].commits())
        lab.until(
            "commits of the survivors after it",
            lambda: all(element.commits()[-1][2] > left_at + 1 for element in others),
        )
        pauses = [longest_pause(element, left_at - 0.5, left_at + 1) for element in others]
        if max(pauses) > 1:
            fail(f"a survivor's next commit came after {max(pauses):.2f} s")
        print(
            f"preempted: element {victim} left in good order; the others' longest pause around it: {max(pauses) * 1000:.0f} ms"
        )

        # The node is free again: the element is requeued and joins.
        lab.run("scancel", prio)
        lab.until("the requeued element to join", lambda: all(element.size() == 4 for element in elements))
        for i, element in enumerate(elements):
            if element.count(WRONG):
                fail(f"element {i}: " + " | ".join(line for line in element.lines() if re.search(WRONG, line)))
            if element.starts()[0] != 1 and i != victim:
                fail(f"element {i} was started again")
        print("requeued: the element joined again; the others were not touched")

        # All nodes are taken out of service at once: Slurm ends what runs there and requeues the elements. The step that they reached is
        # saved, though srun is gone and forwards no output any more.
        def newest():
            whole = [name for name in os.listdir(saved) if os.path.exists(f"{saved}/{name}/manifest.json")]
            return max((int(name.split("-")[1]) for name in whole), default=0)

        saved = f"{folder}/train/checkpoints"
        lives = [element.lives() for element in elements]
        lab.run("scontrol", "update", "nodename=n[0-3]", "state=down", "reason=power")
        lab.until(
            "the elements to be requeued",
            lambda: all(
                element.lives() > had and element.size() == 4 and element.steps_after(had) for element, had in zip(elements, lives)
            ),
        )
        reached = max(max(element.steps_before(had)) for element, had in zip(elements, lives))
        kept = newest()  # the next one is due in ten minutes
        again = min(element.steps_after(had)[0] for element, had in zip(elements, lives))
        if again != kept + 1 or kept < reached:
            fail(f"step {reached} was told, step {kept} was saved, and they went on with {again}")
        print(f"all nodes out of service: step {kept} was saved, and after the requeue they went on with {again}")

        # scancel, as people do.
        lab.run("scancel", job)
        lab.until("all elements to end", lambda: not lab.tell("squeue", "-h").strip())
        for i, element in enumerate(elements):
            if element.left_last() != 1:
                fail(f"element {i} did not leave in good order: " + " | ".join(element.lines()[-5:]))
        last = max(element.commits()[-1][0] for element in elements)
        if not os.path.exists(f"{folder}/train/checkpoints") or not any(
            name.startswith(f"step-{last:012d}-") for name in os.listdir(f"{folder}/train/checkpoints")
        ):
            fail(f"step {last} was not saved: {os.listdir(folder + '/train/checkpoints')}")
        print(f"scancel: all left in good order, nobody was requeued; step {last}, the last, was saved")


if __name__ == "__main__":
    main()
