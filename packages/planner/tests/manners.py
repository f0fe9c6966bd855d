#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claim: options that say nothing are refused, none changes its meaning in silence, and times are told as people read them.
Usage: manners.py SPOTNIK."""
import json
import os
import re
import subprocess
import sys
import tempfile


def run(*words, code=0):
    done = subprocess.run([sys.argv[1], *words], capture_output=True, text=True,
                          env={**os.environ, "SPOTNIK_PRICES": "/nowhere/prices.csv"})
    assert done.returncode == code, (words, done.returncode, done.stderr)
    return done.stderr if code else done.stdout


def main(folder):
    plan = ("plan", "--deadline", "40h", "--target")
    assert "spotnik plan: spotnik plan --help" in run("plan", "--nonsense", code=2)
    # members without a job
    assert "--from-status" in run(*plan, "epochs=9", "--running", "p3.2xlarge=spot", code=1)
    for words, why in (((), "how much work"), (("--target", "epochs=9", "6h", "--deadline", "1s"), "what is '6h'"),
                       (("--target", "epochs=9", "--elapsed", "2h"), "--from-status"), (("--target", "epochs=9", "--batch", "7"), "--from-status"),
                       (("--target", "epochs=9", "--follow", "5m", "--only", "spot"), "leave --only spot out")):
        assert why in run("plan", *words, code=2), words
    for words, why, code in ((("--quota", "p9.*=2"), "no type of the catalog", 1), (("--speedup", "3"), "--churn", 2)):
        assert why in run(*plan, "epochs=9", *words, code=code), words
    assert "the last to go were offers by --region" in run(*plan, "epochs=9", "--region", "moon", code=1)
    # the first plan of a script that gives machines back later: taken, and explained
    done = subprocess.run([sys.argv[1], *plan, "epochs=9", "--release", "-o", "json"], capture_output=True, text=True, env={**os.environ, "SPOTNIK_PRICES": "/nowhere/prices.csv"})
    assert done.returncode == 0 and json.loads(done.stdout)["plan"] and "note: --release says nothing" in done.stderr, done
    # a target without an end is refused at once, with what it would take
    assert re.search(r"needs .* years", run("plan", "--target", "epochs=1e30", code=1))
    # columns stay under their heads, however long a fleet is called
    table = run(*plan, "epochs=90", "--budget", "60")
    rows = [line for line in table.splitlines() if re.search(r"\d \[ *[\d.]+, *[\d.]+\] ", line)]
    assert len(rows) > 5 and len({(line.index("["), line.rindex("]")) for line in rows}) == 1, table
    # the answer comes first, then how sure it is, then what was left out
    order = [table.index(word) for word in ("> ", "steps of the first fleet are extrapolated", "prices: ", "left out: ")]
    assert order == sorted(order) and "\n" in table[:order[0]] and table.count("\n", 0, order[0]) == 1, table
    # a dozen options in the help, every one behind --help-all
    brief, whole = run("plan", "--help"), run("plan", "--help-all")
    assert whole.startswith(brief) and len(re.findall(r"^  -", brief, re.M)) <= 12, brief
    listed = set(re.findall(r"--[a-z-]+", whole)) - {"--replan-every"}
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "spotnik-plan.1")) as page:
        options = page.read().split(".Ss Options of plan")[1].split(".Ss Options of profile")[0]
    described = {"--" + name for name in re.findall(r"Fl -([a-z-]+)", options)}
    assert described <= listed and listed - described <= {"--help-all", "--target", "--deadline", "--budget"}, listed ^ described
    # hours are hours: no difference of more than 90 minutes is told in minutes
    told = [int(n) for n in re.findall(r"(\d+) min (?:faster|slower)", run(*plan, "epochs=500", "--budget", "3000"))]
    assert all(n <= 90 for n in told), told


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="spotnik-manners-") as scratch:
        main(scratch)
    print("ok")
