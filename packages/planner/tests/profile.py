#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job measured, planned for, run, and planned for again from its own status.
Usage: profile.py SPOTNIK CHARLM. Looks at shapes and at what must hold on any machine, not at speeds."""
import json
import os
import subprocess
import sys
import tempfile
import time

spotnik, charlm = sys.argv[1:3]
PRICES = ("instance_type,region,zone,accelerator,accelerator_count,vcpus,on_demand_usd_per_h,spot_usd_per_h\n"
          "box,here,,,0,1,3.60,1.20\n")


def ask(*words):
    done = subprocess.run([spotnik, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def measured(folder):
    profile = ask("profile", "--batches", "16,64", "--workers", "1,2", "--seconds", "0.5", "--samples-per-epoch", "6400",
                  "--", charlm, "--batch", "{batch}", "--steps", "0", "--quiet")
    points = {(n, b): s for _, n, b, s in profile["measured"]}
    assert sorted(points) == [(1, 16), (1, 64), (2, 16), (2, 64)] and min(points.values()) > 0, points
    assert profile["gradient_mb"] in (0.542736, 1.085456), profile  # in single or in double precision
    assert profile["recover_s"] > 0 and profile["startup_s"] > 0, profile
    assert profile["error"] >= 0.01, profile  # three rounds say how far they are apart
    kept = os.path.join(folder, "run.json")
    with open(kept, "w") as out:
        json.dump(profile, out)
    return kept


def alone():
    """A worker that is left alone takes its own batch and samples of the lost one: more than the batch that it was told."""
    done = subprocess.run([spotnik, "run", "-q", "-n", "1:2", "--respawn", "--kill-every", "300ms", "--", charlm, "--batch",
                           "64", "--steps", "300", "--quiet"], capture_output=True, text=True)
    assert done.returncode == 0 and "share" not in done.stderr, done.stderr


def strangers():
    """A command that is no member is told so, not to take more steps of a job that it is not."""
    done = subprocess.run([spotnik, "profile", "--batches", "16", "--", "sleep", "0.5"], capture_output=True, text=True)
    assert done.returncode == 1 and "no worker was seen to join" in done.stderr and not done.stdout, done


def status(folder):
    """What a job of two says once it has done some steps."""
    peers, key = "file:" + os.path.join(folder, "peers"), os.path.join(folder, "key")
    os.mkdir(os.path.join(folder, "peers"))
    open(os.path.join(folder, "peers", "fresh"), "x").close()  # nobody was here before
    subprocess.run([spotnik, "key", key], check=True)
    with subprocess.Popen([spotnik, "run", "-q", "-n", "2:2", "--peers", peers, "--key-file", key, "--", charlm, "--batch",
                           "64", "--steps", "0", "--quiet"]) as job:
        try:
            while job.poll() is None:
                done = subprocess.run([spotnik, "status", "--json", "--peers", peers, "--key-file", key],
                                      capture_output=True, text=True)
                if done.returncode == 0 and json.loads(done.stdout)["step_committed"] >= 10:
                    return done.stdout
                time.sleep(0.05)
            raise AssertionError("the job ended by itself")
        finally:
            job.terminate()


alone()
strangers()
with tempfile.TemporaryDirectory() as place:
    def file(name, text):
        path = os.path.join(place, name)
        with open(path, "w") as out:
            out.write(text)
        return path

    common = ["plan", "--profile", measured(place), "--prices", file("prices.csv", PRICES), "--target", "epochs=1000",
              "--deadline", "10h"]
    plan = ask(*common, "-o", "json")
    assert plan["found"] and plan["example_profile"] is False, plan
    now = file("now.json", status(place))
    again = ask(*common, "--from-status", now, "--running", "box=spot", "--batch", "64", "-o", "json")
    assert again["epochs"] < 1000 and again["plan"]["machines"][0]["kept"], again
    assert again["plan"]["machines"][0]["count"] == 2, again
    for words, said in ([], "--running"), (["--running", "box=spot:3"], "at most the 2 members"):
        refused = subprocess.run([spotnik, *common, "--from-status", now, *words], capture_output=True, text=True)
        assert refused.returncode == 1 and said in refused.stderr, refused.stderr
