#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tasks of examples/skypilot as SkyPilot reads them. Claims: SkyPilot accepts them, and understands four spot
nodes, or one, and the exit code; a misspelt field is refused; what `run` of either says starts a job of two nodes, with
the variables that SkyPilot sets. SkyPilot's own command line takes what `spotnik fleet --engine skypilot` calls, and the fleet
counts jobs in every state that SkyPilot has as SkyPilot prints them. It takes the launch lines of the pages, too, and they give it
each secret that their task asks for.

    skypilot.py FOLDER SPOTNIK WORKER"""

import json
import os
import shlex
import re
import subprocess
import sys
import tempfile

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from faults.process import fail

try:
    os.environ["SKYPILOT_DISABLE_USAGE_COLLECTION"] = "1"
    import sky
    import yaml
    from sky.client.cli import command as sky_command
    from sky.jobs.state import ManagedJobStatus
    from sky.schemas.api.responses import ManagedJobRecord
except ImportError as error:
    print(f"SKIPPED: {error}; pip install skypilot into the environment of the Python tests to have it")
    sys.exit(77)

FOLDER, SPOTNIK, WORKER = (os.path.abspath(path) for path in sys.argv[1:4])


def read(name):
    with open(f"{FOLDER}/{name}") as file:
        return yaml.safe_load(file)


def parse(name, nodes):
    document = read(name)
    document.pop("file_mounts", None)  # a bucket would be asked for at the cloud
    document["secrets"] = {"SPOTNIK_KEY": "0" * 64}
    task = sky.Task.from_yaml_config(document)
    resources = list(task.resources)
    if task.num_nodes != nodes or not all(one.use_spot for one in resources):
        fail(f"SkyPilot understood {task.num_nodes} nodes, {resources}")
    if any(one.job_recovery.get("recover_on_exit_codes") != [75] for one in resources):
        fail(f"job_recovery: {[one.job_recovery for one in resources]}")
    document["num_nods"] = 4
    try:
        sky.Task.from_yaml_config(document)
    except ValueError:
        print(f"SkyPilot {sky.__version__} understands {name}: spot nodes: {task.num_nodes}, exit code 75; a misspelt field is refused")
        return
    fail("a misspelt field was not refused")


def run(name, folder, more):
    """What SkyPilot would run on two machines: two nodes of one task, or one node each of two."""
    os.mkdir(folder)
    key = subprocess.run([SPOTNIK, "key"], check=True, capture_output=True, text=True).stdout.strip()
    text = read(name)["run"].replace("/checkpoints/", f"{folder}/").replace("/shared/", f"{folder}/")
    text = text.replace("python train.py", f"{WORKER} -u 5000 -n 10000 -b 96 -s 200")
    text = re.sub(r"\bspotnik run", f"{SPOTNIK} run", text)
    nodes = []
    for rank in range(2):
        os.mkdir(f"{folder}/home-{rank}")
        env = {**os.environ, "HOME": f"{folder}/home-{rank}", "SPOTNIK_KEY": key, "SKYPILOT_TASK_ID": f"sky-{os.getpid()}", **more(rank)}
        nodes.append(
            subprocess.Popen(["bash", "-c", text], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        )
    said = [node.communicate(timeout=60)[0] for node in nodes]
    ends = {line.split("] ")[1] for text in said for line in text.splitlines() if "] done " in line}
    if any(node.returncode for node in nodes) or len(ends) != 1 or " 2 0 " not in said[0]:
        fail(f"two nodes: {[node.returncode for node in nodes]} {ends}\n" + "\n".join(text[-800:] for text in said))
    print(f"{name}, its run, on two nodes: both ended with {ends.pop()}")


def fleet(folder):
    """The fleet calls a `sky` that records its words and answers what SkyPilot itself would print; SkyPilot's own parser reads the words."""
    os.makedirs(f"{folder}/bin")
    with open(f"{folder}/bin/sky", "w") as file:
        file.write(f'#!/bin/sh\necho "$*" >>{folder}/calls\n[ "$2" != queue ] || cat {folder}/jobs\n')
    os.chmod(f"{folder}/bin/sky", 0o755)
    with open(f"{folder}/task.yaml", "w") as file:
        yaml.safe_dump(read("one-machine.yaml"), file)
    env = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", "SPOTNIK_KEY": "0" * 64}
    states = [state for state in ManagedJobStatus if state is not ManagedJobStatus.SUCCEEDED]
    alive = sum(not state.is_terminal() and state.value not in ("CANCELLING", "WINDING_DOWN") for state in states)
    for count in (alive + 2, alive, alive - 2):
        with open(f"{folder}/jobs", "w") as file:
            records = [ManagedJobRecord(job_id=i + 1, job_name="train", status=state) for i, state in enumerate(states)]
            json.dump([record.model_dump(mode="json") for record in records], file)
        done = subprocess.run([SPOTNIK, "fleet", "--engine", "skypilot", "--folder", folder, "--machines", str(count), "--once"],
                              env=env, capture_output=True, text=True, timeout=60)
        with open(f"{folder}/calls") as file:
            told = [shlex.split(line) for line in file]
        os.unlink(f"{folder}/calls")
        if done.returncode or len(told) != 1 + abs(count - alive):
            fail(f"{alive} jobs, {count} wanted: {told} {done}")
        for words in told:
            sky_command.cli.commands["jobs"].commands[words[1]].make_context(words[1], words[2:])
    print(f"the fleet's calls: SkyPilot's command line takes them; {alive} of {len(states)} states hold a machine or wait for one")


def launches():
    """Where they stand, and the launch lines of the pages and of the examples."""
    root = f"{FOLDER}/../.."
    for where in ("docs/guide", "examples/skypilot"):
        for name in sorted(name for name in os.listdir(f"{root}/{where}") if name.endswith((".md", ".yaml"))):
            with open(f"{root}/{where}/{name}") as file:
                text = file.read()
            spans = re.findall(r"`sky jobs launch ([^`]*)`", text)  # prose may wrap them
            for line in spans + re.findall(r"^[ #]*sky jobs launch (.*)$", text, re.MULTILINE):
                yield f"{where}/{name}", " ".join(line.split("\n"))


def pages(folder):
    os.mkdir(folder)
    with open(f"{folder}/job.key", "w") as file:
        file.write("1" * 64 + "\n")
    launch, count = sky_command.cli.commands["jobs"].commands["launch"], 0
    for where, line in launches():
        said = subprocess.run(["bash", "-c", f"printf '%s\\n' {line}"], cwd=folder, check=True, capture_output=True, text=True)
        given = launch.make_context("launch", said.stdout.splitlines()).params
        name = os.path.basename(given["entrypoint"][0])
        wanted = read("one-machine.yaml" if name == "task.yaml" else name)["secrets"]
        missing = wanted.keys() - dict(given["secret"]).keys()
        if missing or not all(dict(given["secret"]).values()):
            fail(f"{where}: the task has no {missing}: {line}")
        count += 1
    if count < 3:
        fail(f"{count} launch lines were found")
    print(f"{count} launch lines of the pages: SkyPilot's command line takes them, and the tasks get their secrets")


def two_nodes(rank):
    return {"SKYPILOT_NODE_IPS": "127.0.0.2\n127.0.0.3", "SKYPILOT_NODE_RANK": str(rank), "SKYPILOT_NUM_NODES": "2"}


parse("train.yaml", 4)
parse("one-machine.yaml", 1)
with tempfile.TemporaryDirectory(prefix="spotnik-sky-") as scratch:
    run("train.yaml", f"{scratch}/two", two_nodes)
    run("one-machine.yaml", f"{scratch}/one", lambda _: {})
    os.environ["SPOTNIK_KEY"] = "0" * 64
    fleet(f"{scratch}/fleet")
    pages(f"{scratch}/pages")
