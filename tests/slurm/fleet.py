#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""spotnik fleet on a Slurm of four nodes. Claims: it asks for what the plan wants beyond what there is, and
for no more; an element that is taken away for good is replaced, after the plan was made anew; fewer wanted
means planned leaves; killed and started again it goes on where it was; of two that run one acts; with the
training it ends.

    fleet.py SPOTNIK WORKER"""

import glob
import json
import os
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(__file__))
from elements import WRONG, Element, fail
from lab import Lab

SPOTNIK, WORKER = (os.path.abspath(path) for path in sys.argv[1:3])


def main():
    with tempfile.TemporaryDirectory(prefix="spotnik-slurm-") as folder, Lab(folder) as lab:
        os.mkdir(f"{folder}/out")
        train, plan = f"{folder}/train", f"{folder}/plan.json"
        fleets = []

        def want(count):
            """As spotnik plan -o json says it: two kinds of machines."""
            with open(plan + ".new", "w") as file:
                json.dump(
                    {
                        "found": True,
                        "plan": {"machines": [{"instance": "a", "count": 1}, {"instance": "b", "count": count - 1}]},
                    },
                    file,
                )
            os.rename(plan + ".new", plan)

        def elements():
            return [Element(path) for path in sorted(glob.glob(f"{train}/element-*.log"))]

        def queued():
            return len([line for line in lab.tell("squeue", "-h", "-r", "-o", "%T").split() if line != "COMPLETING"])

        def sizes():
            """What the members that commit now say of the view: all elements' logs, the newest lines."""
            found = [element.commits()[-1] for element in elements() if element.commits()]
            newest = max(at for _, _, at in found) if found else 0
            return [size for _, size, at in found if at > newest - 1]

        def whole(count):
            return sizes() == [count] * count

        def start_fleet():
            log = open(f"{folder}/out/fleet-{len(fleets)}.log", "w")
            fleets.append(
                subprocess.Popen(
                    lab.inside(
                        SPOTNIK,
                        "fleet",
                        "--engine",
                        "slurm",
                        "--folder",
                        train,
                        "--plan",
                        plan,
                        "--every",
                        "300ms",
                        "--replan",
                        f"echo replanned >> {folder}/out/replans",
                    ),
                    env=lab.env,
                    stdout=log,
                    stderr=log,
                )
            )
            return f"{folder}/out/fleet-{len(fleets) - 1}.log"

        def said(log):
            with open(log) as file:
                return file.read()

        lab.run(
            SPOTNIK,
            "slurm",
            "submit",
            "--nodes",
            "1:2",
            "--folder",
            train,
            "--write",
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
        want(2)
        first = start_fleet()
        lab.until("two elements", lambda: whole(2))
        second = start_fleet()
        lab.until("the second fleet to stand by", lambda: "another fleet acts" in said(second))
        print("two wanted, two there; a second fleet stands by")

        # One element is taken away for good: its place is asked for again, and nothing else.
        replans = len(Element(f"{folder}/out/replans").lines())
        victim = lab.tell("squeue", "-h", "-r", "-o", "%i").split()[0]
        lab.run("scancel", victim)
        lab.until("the loss to be told", lambda: "1 of 2 machines are gone" in said(first))
        lab.until("its replacement", lambda: queued() == 2 and whole(2))
        if len(elements()) != 3:
            fail(f"three elements have {len(elements())} logs: {elements()}")
        if len(Element(f"{folder}/out/replans").lines()) <= replans:
            fail("the plan was not made anew after a loss")
        print("one was taken away: the plan was made anew, one more was asked for")

        # The fleet dies; the other one takes over, and follows a new plan.
        fleets[0].send_signal(signal.SIGKILL)
        fleets[0].wait()
        want(3)
        lab.until("the second fleet to act", lambda: "asking for 1 more" in said(second))
        lab.until("three elements", lambda: queued() == 3 and any(size == 3 for size in sizes()))
        if queued() != 3:
            fail(f"{queued()} elements for a plan of 3")
        print("the fleet was killed: the other one acted, three wanted, three there")
        want(1)
        lab.until("two to leave", lambda: queued() == 1)
        lab.until(
            "the leaves of the one before, and of these, to be told",
            lambda: sum(element.count(r"leaving \d+") for element in elements()) == 3,
        )
        print("one wanted: two left in good order")
        fleets[1].terminate()
        if fleets[1].wait(60) or queued() != 1:
            fail(f"SIGTERM: the fleet ended with {fleets[1].returncode}, {queued()} elements are left of 1")
        lab.run("scancel", "--user=root")

        # A short training: the fleet ends with it.
        lab.run(
            SPOTNIK,
            "slurm",
            "submit",
            "--folder",
            f"{folder}/short",
            "--write",
            "--",
            WORKER,
            "-u",
            "5000",
            "-n",
            "10000",
            "-b",
            "96",
            "-s",
            "100",
        )
        done = lab.run(
            SPOTNIK,
            "fleet",
            "--engine",
            "slurm",
            "--folder",
            f"{folder}/short",
            "--machines",
            "1",
            "--every",
            "300ms",
            timeout=120,
        )
        if (
            done.returncode
            or "the training is done" not in done.stdout
            or not Element(glob.glob(f"{folder}/short/element-*_0.log")[0]).count("done 100 ")
        ):
            fail(f"the fleet of a short training: {done}")
        for element in elements():
            if element.count(WRONG):
                fail(" | ".join(element.lines()[-5:]))
        print("the training is done: the fleet ended")


if __name__ == "__main__":
    main()
