#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The batch script of docs/guide/bag.md on a Slurm of four nodes, as it is written there, but for its sizes and its
program. Claims: the elements of the array share one bag; a job of a higher priority takes nodes, their jobs are given
back and go on elsewhere; each job is done once, with the result of an undisturbed run; nothing is left in the queue.

    bag.py SPOTNIK SIM

Slurm signals every process of a job at once, so the programs end before anybody asks them to: no attempt may count as failed.
packages/bag/tests/input.py (page) runs the same script without Slurm."""

import os
import pathlib
import re
import stat
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(__file__))
sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from faults.process import fail
from lab import Lab

SPOTNIK, SIM = (os.path.abspath(path) for path in sys.argv[1:3])
GUIDE = pathlib.Path(__file__).resolve().parents[2] / "docs/guide/bag.md"
JOBS, STEPS = 24, 400


def tools(folder):
    """A folder for PATH: spotnik, and a program that understands what the guide says to lmp."""
    folder.mkdir()
    (folder / "spotnik").symlink_to(SPOTNIK)
    lmp = folder / "lmp"
    lmp.write_text(
        "#!/bin/sh\n"
        'while [ $# -gt 0 ]; do case $1 in -var) eval "$2=$3"; shift 3;; *) shift;; esac; done\n'
        f'exec {SIM} "$T" {STEPS} 20000 20 $file\n'
    )
    lmp.chmod(lmp.stat().st_mode | stat.S_IXUSR)
    return folder


def script(folder):
    """The page's, with four elements of two slots, and the log beside it."""
    text = re.search(r"```sh\n(#!/bin/bash\n.*?)```", GUIDE.read_text(), re.S)[1]
    for old, new in (("--array=1-20", "--array=1-4"), ("--cpus-per-task=4 ", ""), ("--at-once 4 ", "--at-once 2 ")):
        if old not in text:
            fail(f"the script of the guide has no {old!r} any more")
        text = text.replace(old, new)
    path = folder / "bag.sbatch"
    path.write_text(text)
    return path


def results(bag):
    return {path.name: (path / "result").read_bytes() for path in (bag / "results").iterdir()}


def names(folder):
    return os.listdir(folder) if folder.exists() else []


def main():
    with tempfile.TemporaryDirectory(prefix="spotnik-slurm-") as name, Lab(name) as lab:
        folder = pathlib.Path(name) / "home"
        folder.mkdir()
        lab.env |= {"HOME": str(folder), "PATH": f"{tools(folder / 'bin')}:{lab.env['PATH']}"}
        (folder / "jobs.csv").write_text("job,T,seed\n" + "".join(f"j{i},0.{100 + i},{i}\n" for i in range(JOBS)))
        for file in ("in.lj", "in.again"):
            (folder / file).write_text("# what the program here does not read\n")
        bag = folder / "lj.bag"
        calm = f"{SPOTNIK} bag jobs.csv -q --folder calm.bag --at-once {JOBS} -- lmp -var T {{T}}"
        with subprocess.Popen(calm.split(), cwd=folder, env=lab.env):
            submitted = lab.run("sbatch", "--parsable", str(script(folder)), cwd=folder)
            if submitted.returncode:
                fail(f"sbatch: {submitted}")
            lab.until("all elements to save", lambda: len({save.split("@")[0] for save in names(bag / "saves")}) >= 8)
            lab.run("sbatch", "-p", "prio", "-N2", "-o", "/dev/null", "--wrap", "srun sleep 5", cwd=folder)
            lab.until("jobs given back", lambda: any(end.endswith(".returned") for end in names(bag / "claims")))
            lab.until("the bag to be done", lambda: len(names(bag / "results")) == JOBS)
            lab.until("an empty queue", lambda: not lab.tell("squeue", "-h").strip())
        ends = names(bag / "claims")
        done = [end.split("@")[0] for end in ends if end.endswith(".done")]
        if len(done) != JOBS or len(set(done)) != JOBS:
            fail(f"{len(done)} ends of {len(set(done))} jobs, not one each of {JOBS}")
        if any(end.endswith(".failed") for end in ends):
            fail("an attempt failed")
        if results(bag) != results(folder / "calm.bag"):
            fail("a result differs from that of the undisturbed run")
        kinds = {kind: sum(end.endswith("." + kind) for end in ends) for kind in ("returned", "lost", "late")}
        print(f"{JOBS} jobs on four elements, two of them preempted: {kinds}, all results equal")
        print(subprocess.run([SPOTNIK, "bag", "report", bag], capture_output=True, text=True).stdout)


main()
