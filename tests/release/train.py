# SPDX-License-Identifier: Apache-2.0
"""A job that needs nothing but the wheel. Its state counts the committed steps.

train.py STEPS        train until step STEPS; print how many the state has counted, and the first of this process
train.py STEPS kill   once a checkpoint is complete, print the step and end with SIGKILL
"""

import array
import os
import signal
import sys

import spotnik

counted = array.array("d", [0.0])
first = 0
with spotnik.Job(spotnik.Config(steps_max=int(sys.argv[1]))) as job:
    job.state_add("counted", counted.buffer_info()[0], 1, spotnik.Dtype.F64, counted)
    for step in job:
        first = first or step.number
        sum(range(30_000))  # as much work as half a millisecond
        one = array.array("d", [1.0])
        job.allreduce_start(0, one.buffer_info()[0], 1, spotnik.Dtype.F64, spotnik.Op.MEAN, one)
        if job.step_commit():
            counted[0] += one[0]
        if "kill" in sys.argv and job.checkpoint.complete_step:
            print(step.number, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
print(f"{counted[0]:.0f} steps counted, the first here was {first}")
