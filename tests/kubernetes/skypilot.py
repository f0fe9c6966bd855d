#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The task of examples/skypilot as SkyPilot reads it. Claims: SkyPilot accepts it, and understands four spot nodes and the exit code; a misspelt field
is refused; and what its `run` says starts a job of two nodes, with the variables that SkyPilot sets.

    skypilot.py FILE SPOTNIK WORKER"""
import os
import re
import subprocess
import sys
import tempfile

try:
    os.environ["SKYPILOT_DISABLE_USAGE_COLLECTION"] = "1"
    import sky
    import yaml
except ImportError as error:
    print(f"SKIPPED: {error}; pip install skypilot into the environment of the Python tests to have it")
    sys.exit(77)

FILE, SPOTNIK, WORKER = (os.path.abspath(path) for path in sys.argv[1:4])


def fail(what):
    sys.exit(f"FAILED: {what}")


def read():
    with open(FILE) as file:
        return yaml.safe_load(file)


def parse():
    document = read()
    document.pop("file_mounts")  # a bucket would be asked for at the cloud
    document["secrets"] = {"SPOTNIK_KEY": "0" * 64}
    task = sky.Task.from_yaml_config(document)
    resources = list(task.resources)
    if task.num_nodes != 4 or not all(one.use_spot for one in resources):
        fail(f"SkyPilot understood {task.num_nodes} nodes, {resources}")
    if any(one.job_recovery.get("recover_on_exit_codes") != [75] for one in resources):
        fail(f"job_recovery: {[one.job_recovery for one in resources]}")
    document["num_nods"] = 4
    try:
        sky.Task.from_yaml_config(document)
    except ValueError:
        print(f"SkyPilot {sky.__version__} understands {task.num_nodes} spot nodes and exit code 75; a misspelt field is refused")
        return
    fail("a misspelt field was not refused")


def run(folder):
    key = subprocess.run([SPOTNIK, "key"], check=True, capture_output=True, text=True).stdout.strip()
    text = read()["run"].replace("/checkpoints/", f"{folder}/").replace("python train.py", f"{WORKER} -u 5000 -n 10000 -b 96 -s 200")
    text = re.sub(r"\bspotnik run", f"{SPOTNIK} run", text)
    nodes = []
    for rank, ip in enumerate(("127.0.0.2", "127.0.0.3")):
        os.mkdir(f"{folder}/home-{rank}")
        env = {**os.environ, "HOME": f"{folder}/home-{rank}", "SPOTNIK_KEY": key, "SKYPILOT_NODE_IPS": "127.0.0.2\n127.0.0.3",
               "SKYPILOT_NODE_RANK": str(rank), "SKYPILOT_NUM_NODES": "2", "SKYPILOT_TASK_ID": f"sky-{os.getpid()}"}
        nodes.append(subprocess.Popen(["bash", "-c", text], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    said = [node.communicate(timeout=60)[0] for node in nodes]
    ends = {line.split("] ")[1] for text in said for line in text.splitlines() if "] done " in line}
    if any(node.returncode for node in nodes) or len(ends) != 1 or " 2 0 " not in said[0]:
        fail(f"two nodes: {[node.returncode for node in nodes]} {ends}\n" + "\n".join(text[-800:] for text in said))
    print(f"its run, on two nodes: both ended with {ends.pop()}")


parse()
with tempfile.TemporaryDirectory(prefix="spotnik-sky-") as scratch:
    run(scratch)
