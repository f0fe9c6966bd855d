#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claim: no option changes its meaning in silence, and each model says what it asks for and what it cannot know. Usage: manners.py SPOTNIK."""
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
    windows = os.path.join(folder, "w.json")
    with open(windows, "w") as out:
        json.dump({"metadata": {"gap_seconds": 600}, "data": ([1] * 30 + [0] * 12) * 20}, out)
    backtest = ("backtest", "--windows", windows, "--policy", "spotnik", "--work", "10h", "--deadline", "16h", "--changeover", "12m")
    assert json.loads(run(*backtest))["pair_speed"] == 1.8
    assert json.loads(run(*backtest, "--pair-speed", "0"))["pair_speed"] == 0  # one machine at a time, as it says

    lives = os.path.join(folder, "l.csv")
    tables = []
    for unit, factor in (("s", 3600), ("min", 60), ("h", 1)):
        with open(lives, "w") as out:
            out.write(f"lifetime_{unit},end_kind\n" + "".join(f"{(i % 9 + 1) * factor},preempted\n" for i in range(40)))
        tables.append(run("model", "lifetime", "--fit", lives))
    assert tables[0] == tables[1] == tables[2]

    # a fit on small clusters says what it cannot know
    small, large = (os.path.join(folder, name) for name in ("small.csv", "large.csv"))
    for name, sizes in ((small, (1, 2, 4)), (large, (8,))):
        with open(name, "w") as out:
            out.write("model,workers,speed_steps_per_s\n" + "".join(f"m,{n},{3 * n}\n" for n in sizes))
    warned = subprocess.run([sys.argv[1], "model", "speed", "--fit", small, "--predict", large], capture_output=True, text=True)
    assert warned.returncode == 0 and "1 rows are beyond" in warned.stderr, warned.stderr
    # checkpoints: what is in them counts where it is known; one series cannot tell how far off it is for others
    lines = [f"m{i},{5 + 7 * i},{1 + i % 4},{4 + 6 * i},{3 + .3 * (1 + i % 4) + .02 * (4 + 6 * i)}" for i in range(12)]
    with open(small, "w") as out:
        out.write("model,size_mb,meta_mb,weights_mb,seconds\n" + "\n".join(lines) + "\n")
    done = subprocess.run([sys.argv[1], "model", "checkpoint-time", "--fit", small], capture_output=True, text=True)
    assert "meta_mb" in done.stderr and "there is no interval" in done.stderr and "low_s,high_s" in done.stdout, done

    for model in ("speed", "lifetime", "interval"):
        told = run("model", model, "--help")
        assert told.startswith(f"usage: spotnik model {model}") and "--constants" not in told and len(told.split("\n")) < 8
    # the help of a model names the columns that the model asks for
    with open(small, "w") as out:
        out.write("nothing\n1\n")
    for model in ("speed", "noise", "lifetime", "checkpoint-time", "remaining", "startup", "spotdnn"):
        asked = re.search(r"no column '?([\w-]+)", run("model", model, "--fit", small, code=1))
        assert asked and asked[1] in run("model", model, "--help"), (model, asked)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="spotnik-manners-") as scratch:
        main(scratch)
    print("ok")
