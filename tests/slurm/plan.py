#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A plan followed under Slurm while nodes come and go: the short form of bench/plan_slurm.py, without its claim about times and cost. Claims:
two elements are asked for where the plan wants two; a node that is killed without notice is asked for again, once; the training comes to its
end on what is left and what comes back; the fleet ends with it.

    plan.py BUILD"""

import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, ".."), os.path.join(HERE, "..", "..", "bench")]
from faults.process import fail
from lab import Lab
from plan_slurm import Trial, play, write

CLOCK = 1000
STEPS = 400  # of a minute each for one machine: far longer than Slurm takes to see a node go


class Events:
    """Both nodes at once; one goes when both train, so that a slow host changes nothing; another comes when it was asked for again."""

    def __init__(self, trial):
        self.trial, self.next = trial, 0
        self.due = (lambda: True, lambda: True, self.both_train, lambda: trial.elements() == 2)
        self.events = ((0, 1, 0), (0, 1, 1), (0, -1, 1), (0, 1, 2))

    def both_train(self):
        return len(os.listdir(self.trial.path("pids"))) == 2

    def __len__(self):
        return len(self.events) - self.next

    def __getitem__(self, _):
        return self.events[self.next] if self.due[self.next]() else (float("inf"), 0, 0)

    def popleft(self):
        self.next += 1
        return self.events[self.next - 1]


def main():
    with tempfile.TemporaryDirectory(prefix="spotnik-slurm-") as folder, Lab(folder) as lab:
        trial = Trial(lab, os.path.abspath(sys.argv[1]), os.path.join(folder, "trial"), STEPS, CLOCK)
        write(trial.path("plan.json"), json.dumps({"found": True, "plan": {"machines": [{"instance": "a", "count": 2}]}}))
        events = Events(trial)
        row = play(trial, events, 100, False)
        if not row["done"] or len(events):
            fail(f"not done, or {len(events)} events are left: {row}")
        if row["killed"] != 1 or row["said"].count("asking for 2 more") != 1 or row["said"].count("asking for 1 more") != 1:
            fail(f"one node was killed: {row['said']}")
        print(f"two wanted: one was killed and asked for again, the training went on to its end; it cost ${row['cost_usd']:.2f}")


if __name__ == "__main__":
    main()
