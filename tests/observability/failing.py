# SPDX-License-Identifier: Apache-2.0
"""Claim: when checkpoints begin to fail, `spotnik status` says so, in its text (the last complete one, how many were left out, why)
and in its exit status, 3; when the folder is there again, it is 0 again. The job goes on meanwhile.

    failing.py SPOTNIK CHARLM
"""

from __future__ import annotations

import os
import subprocess
import sys

from lib import Job, wait_for


def main() -> None:
    spotnik, charlm = map(os.path.abspath, sys.argv[1:3])
    settings = {"SPOTNIK_HTTP": "", "SPOTNIK_CHECKPOINT": "checkpoints", "SPOTNIK_CHECKPOINT_STEPS": "20", "SPOTNIK_EVENTS": "off"}
    with Job(spotnik, ["-n", "2"], [charlm, "--quiet", "--steps", "0", "--batch", "16"], settings) as job:

        def ask() -> tuple[int, str]:
            pids = job.workers()
            if not pids:
                return -1, ""
            with open(f"/proc/{pids[0]}/environ", "rb") as file:
                words = dict(word.split("=", 1) for word in file.read().decode(errors="replace").split("\0") if "=" in word)
            where = ["--peers", words["SPOTNIK_PEERS"], "--key-file", words["SPOTNIK_KEY_FILE"]]
            done = subprocess.run([spotnik, "status", *where], capture_output=True, text=True, check=False)
            return done.returncode, done.stdout

        def complete() -> bool:
            status, text = ask()
            if status != 0 or "checkpoint" not in text:
                return False
            return any(name.startswith("step-") for name in os.listdir(job.path("checkpoints")))  # not the lock `writer`

        wait_for("a first checkpoint", complete)
        os.rename(job.path("checkpoints"), job.path("aside"))
        with open(job.path("checkpoints"), "w", encoding="ascii") as file:
            file.write("no folder\n")
        status, text = wait_for("checkpoints that fail", lambda: (lambda one: one if one[0] == 3 else None)(ask()))
        assert "checkpoint" in text and "left out" in text, text
        assert job.process.poll() is None, "the job ended with its checkpoints"
        os.remove(job.path("checkpoints"))
        os.rename(job.path("aside"), job.path("checkpoints"))
        wait_for("checkpoints that are well again", lambda: ask()[0] == 0)
        print("checkpoints fail: exit status 3 and the reason; well again: 0")


if __name__ == "__main__":
    main()
