#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `spotnik plan -o slurm` writes, submitted as it is. Claims: two nodes meet in one training job, which writes checkpoints; after
scancel the same file goes on from them, with the same key.

    planned.py SPOTNIK WORKER"""

import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(__file__))
from elements import fail
from lab import Lab

SPOTNIK, WORKER = (os.path.abspath(path) for path in sys.argv[1:3])


def sizes(log):
    """Of the views in which each worker has committed last, by the worker's line."""
    if not os.path.exists(log):
        return []
    with open(log) as file:
        return [int(word[5]) for word in map(str.split, file) if len(word) == 8 and word[1] == "commit"]


def main():
    with tempfile.TemporaryDirectory(prefix="spotnik-slurm-") as folder, Lab(folder) as lab:
        os.mkdir(f"{folder}/bin")
        os.symlink(SPOTNIK, f"{folder}/bin/spotnik")
        lab.env["PATH"] = f"{folder}/bin:{lab.env['PATH']}"
        lab.env["SPOTNIK_CHECKPOINT_S"] = "1"
        plan = ["plan", "--prices", "builtin", "--type", "p3.2xlarge", "--machines", "4", "--only", "spot", "--target", "epochs=4"]
        text = subprocess.run(
            [SPOTNIK, *plan, "--deadline", "20h", "-o", "slurm", "--", WORKER, "-u", "20000", "-n", "100000", "-b", "96"],
            check=True, capture_output=True, text=True).stdout
        if "--nodes=2" not in text:
            fail(f"two nodes are what this plan wants: {text}")
        with open(f"{folder}/job.sh", "w") as file:
            file.write(text)
        for life in range(2):
            log = f"{folder}/log-{life}"
            job = lab.run("sbatch", "--parsable", "-o", log, "job.sh", cwd=folder).stdout.strip()
            lab.until("two in one view", lambda: sizes(log)[-2:] == [2, 2])
            lab.until("a checkpoint", lambda: any(name.startswith("step-") for name in os.listdir(f"{folder}/checkpoints")))
            lab.run("scancel", job)
            lab.until("the job to end", lambda: not lab.tell("squeue", "-h").strip())
            with open(log) as file:
                steps = [int(word[2]) for word in map(str.split, file) if len(word) == 8 and word[1] == "commit"]
            if life and min(steps) <= last:
                fail(f"it began at step {min(steps)}, and step {last} had been saved")
            last = max(steps) - 1
            print(f"job {job}: two nodes met as the plan says, from step {min(steps)} to {max(steps)}")


if __name__ == "__main__":
    main()
