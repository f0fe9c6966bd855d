#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""spotnik fleet with engines that record what they are asked. Claims: a Kubernetes job is patched when, and
only when, its parallelism is not what the plan wants, and the fleet ends when a pod has succeeded; SkyPilot is
asked for one job of one machine for each that is missing, and those that wait are cancelled before those that run; a command
is told the number each time; an engine that fails, or talks nonsense, changes nothing; a plan that is
missing, damaged or says that there is none leaves the one before; a command is told the kinds of machines, tells which are there, and a
new plan is told both; how sure the plan is, is said; words of other users and of paths are never run, and files are not written
through planted links; wrong command lines are refused.

    fakes.py SPOTNIK"""

import json
import os
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../tests"))
from faults.process import fail

SPOTNIK = os.path.abspath(sys.argv[1])

KUBECTL = """#!/bin/sh
echo "$*" >> "$FAKE/calls"
case $1 in
get) cat "$FAKE/job" ;;
patch) printf '{"spec":{"parallelism":%s},"status":{"active":2}}' "$(echo "$*" | sed 's/.*parallelism":\\([0-9]*\\).*/\\1/')" > "$FAKE/job" ;;
esac
"""

SKY = """#!/bin/sh
echo "$*" >> "$FAKE/calls"
[ "$2" != queue ] || cat "$FAKE/jobs"
"""


def fleet(folder, *words, once=True):
    env = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", "FAKE": folder}
    return subprocess.run(
        [SPOTNIK, "fleet", *words, "--folder", folder, "--every", "20ms", *(["--once"] if once else [])],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )


def calls(folder):
    try:
        with open(f"{folder}/calls") as file:
            lines = file.read().splitlines()
        os.unlink(f"{folder}/calls")
        return lines
    except FileNotFoundError:
        return []


def write(path, text):
    with open(path, "w") as file:
        file.write(text if isinstance(text, str) else json.dumps(text))


def kubernetes(folder):
    os.mkdir(f"{folder}/bin")
    write(f"{folder}/bin/kubectl", KUBECTL)
    os.chmod(f"{folder}/bin/kubectl", 0o755)
    words = ("--engine", "kubernetes", "--name", "train", "--plan", f"{folder}/plan")
    write(f"{folder}/job", {"spec": {"parallelism": 4}, "status": {"active": 4}})
    write(f"{folder}/plan", "4")
    fleet(folder, *words)
    if calls(folder) != ["get job train -o json"]:
        fail("4 of 4 were there, and something was done")
    write(f"{folder}/plan", {"plan": {"machines": [{"count": 5}, {"count": 2}]}, "found": True})
    said = fleet(folder, *words).stdout
    if (
        calls(folder) != ["get job train -o json", 'patch job train -p {"spec":{"parallelism":7,"completions":7}}']
        or "asking for 3 more" not in said
    ):
        fail(f"7 of 4 were wanted: {said}")
    for wrong in (
        "",
        "{",
        "0",
        "-3",
        "99999999",
        {"found": False, "plan": None, "binding": "no budget"},
        {"plan": {}},
        None,
    ):
        if wrong is None:
            os.unlink(f"{folder}/plan")
        else:
            write(f"{folder}/plan", wrong)
        fleet(folder, *words)
        if any(call.startswith("patch") for call in calls(folder)):
            fail(f"a plan that says {wrong!r} was followed")
    write(f"{folder}/plan", "2")
    for nonsense in ("", "error: no such job", "{}", "[1]"):
        write(f"{folder}/job", nonsense)
        fleet(folder, *words)
        if any(call.startswith("patch") for call in calls(folder)):
            fail(f"the engine said {nonsense!r}, and something was done")
    write(f"{folder}/job", {"spec": {"parallelism": 2}, "status": {"active": 1, "succeeded": 1}})
    done = fleet(folder, *words, once=False)
    if done.returncode or "the training is done" not in done.stdout:
        fail(f"a pod has succeeded: {done}")
    calls(folder)
    print(
        "kubernetes: patched when the number differs, and only then; nonsense changes nothing; ends with the training"
    )


def sky_jobs(*states):
    """As sky jobs queue -o json says them, the newest first; the last one is another training's."""
    jobs = [{"job_id": 40 + i, "job_name": "train", "status": state} for i, state in enumerate(states)]
    return list(reversed(jobs)) + [{"job_id": 9, "job_name": "other", "status": "SUCCEEDED"}]


def skypilot(folder):
    write(f"{folder}/bin/sky", SKY)
    os.chmod(f"{folder}/bin/sky", 0o755)
    words, queue = ("--engine", "skypilot", "--machines", "4"), "jobs queue --all --output json"
    launch = f"jobs launch --yes --detach-run --num-nodes 1 --name train {folder}/task.yaml"
    if "has no task.yaml" not in fleet(folder, *words).stderr or calls(folder):
        fail("without a task, something was done")
    write(f"{folder}/task.yaml", "run: true\n")
    for states, wanted in (
        (("RUNNING", "RUNNING", "STARTING", "RECOVERING"), []),
        (("RUNNING", "CANCELLED", "CANCELLING", "PENDING"), [launch, launch]),
        ((), [launch] * 4),
        (("RUNNING", "PENDING", "RUNNING", "RUNNING", "RUNNING", "RECOVERING"), ["jobs cancel --yes 41", "jobs cancel --yes 45"]),
        (("RUNNING", "RUNNING", "RUNNING", "RUNNING", "RUNNING"), ["jobs cancel --yes 40"]),
    ):
        write(f"{folder}/jobs", sky_jobs(*states))
        fleet(folder, *words)
        told = calls(folder)
        if told[:1] != [queue] or sorted(told[1:]) != wanted:
            fail(f"4 wanted, {states}: {told}")
    for nonsense in ("", "No managed jobs found.", '{"job_id": 1}'):
        write(f"{folder}/jobs", nonsense)
        if "sky jobs queue" not in fleet(folder, *words).stderr or calls(folder) != [queue]:
            fail(f"sky said {nonsense!r}, and something was done")
    write(f"{folder}/jobs", sky_jobs("RUNNING", "SUCCEEDED"))
    done = fleet(folder, *words, once=False)
    if done.returncode or "the training is done" not in done.stdout or calls(folder) != [queue]:
        fail(f"a job has succeeded: {done}")
    print("skypilot: a job for each machine that is missing, those that wait are cancelled first; ends with the training")


def command(folder):
    write(f"{folder}/engine", 'echo "$SPOTNIK_FLEET_WANTED" >> "$FAKE/calls"; echo "$(cat "$FAKE/have") a storm"\n')
    write(f"{folder}/have", "3")
    words = ("--engine", f"exec:sh {folder}/engine", "--machines", "3")
    fleet(folder, *words)
    if calls(folder) != ["3"]:
        fail("the command was not told the number")
    write(
        f"{folder}/engine",
        'echo x >> "$FAKE/calls"; n=$(wc -l < "$FAKE/calls"); case $n in 1) echo 3 fine;; 2) echo "1 a storm";; 3) echo 3;; *) echo done;; esac\n',
    )
    done = fleet(folder, *words, once=False)
    if (
        done.returncode
        or "2 of 3 machines are gone: a storm" not in done.stdout
        or "the training is done" not in done.stdout
    ):
        fail(f"a loss and the end: {done}")
    write(f"{folder}/engine", "exit 3\n")
    if "exec:" not in fleet(folder, *words).stderr:
        fail("a command that fails is not told of")
    print("command: told the number, its losses and its end understood")


def kinds(folder):
    """A plan of two kinds; of the spot machines two are there, and one of a kind that nobody wants any more."""
    plan = {"plan": {"chance": 0.93, "machines": [{"instance": "box", "zone": "here-a", "capacity": "spot", "count": 4},
                                                  {"instance": "box", "zone": "here-b", "capacity": "on-demand", "count": 1}]}, "found": True}
    calls(folder)  # of before
    write(f"{folder}/kinds.json", plan)
    write(f"{folder}/engine", 'echo "$SPOTNIK_FLEET_KINDS" >> "$FAKE/calls"; echo "4 box@here-a=spot:2 box=on-demand:1 old=spot:1 a storm"\n')
    write(f"{folder}/replan", 'echo "$SPOTNIK_FLEET_RUNNING" >> "$FAKE/calls"; sed "s/0.93/0.41/" "$FAKE/kinds.json" > "$FAKE/new" && mv "$FAKE/new" "$FAKE/kinds.json"\n')
    words = ("--engine", f"exec:sh {folder}/engine", "--plan", f"{folder}/kinds.json")
    said = fleet(folder, *words).stdout
    if calls(folder) != ["box@here-a=spot:4 box=on-demand:1"] or "93 % sure" not in said:
        fail(f"the engine was not told the kinds, or the chance was not said: {said}")
    said = fleet(folder, *words, "--replan", f"sh {folder}/replan").stdout
    told = calls(folder)
    if "--running box@here-a=spot:2/4 --running box=on-demand:1/1 --running old=spot:1/1" not in told or "41 % sure" not in said:
        fail(f"the new plan was not told what runs: {told}, {said}")
    write(f"{folder}/engine", 'echo "3 fine"\n')  # it does not know kinds: on-demand machines are counted first
    fleet(folder, *words, "--replan", f"sh {folder}/replan")
    if calls(folder) != ["--running box@here-a=spot:2/4 --running box=on-demand:1/1"]:
        fail("an engine that does not know kinds")
    print("kinds: told to the engine and to the new plan; how sure the plan is, is said")


SQUEUE = """#!/bin/sh
[ "${0##*/}" = squeue ] && cat "$FAKE/queue" || echo "${0##*/} $*" >> "$FAKE/calls"
"""


def slurm(folder):
    """Other users' jobs are in the queue, too, and so are their words; a path is one word of a shell, or none."""
    for name in ("squeue", "scancel"):
        write(f"{folder}/bin/{name}", SQUEUE)
        os.chmod(f"{folder}/bin/{name}", 0o755)
    write(f"{folder}/job.sbatch", "")
    theirs = f"0';touch${{IFS}}$FAKE/bitten;' RUNNING spotnik:{folder}\n"
    write(f"{folder}/queue", f"7_0 RUNNING spotnik:{folder}\n{theirs}7_1 PENDING spotnik:{folder}\n")
    fleet(folder, "--engine", "slurm", "--machines", "1")
    if calls(folder) != ["scancel 7_1"] or os.path.exists(f"{folder}/bitten"):
        fail(f"a word of the queue was run: {os.listdir(folder)}")
    for path in ("a$(touch bitten)", "a`touch bitten`", "a'b", 'a"b', "a b", "a\\b", "a\tb", "a;b"):
        command = [SPOTNIK, "slurm", "submit", "--nodes", "2", "--write", "--folder", path, "--", "true"]
        said = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
        if said.returncode != 1 or "name a folder" not in said.stderr or os.path.exists(f"{folder}/{path}/job.sbatch"):
            fail(f"a script was written in {path!r}: {said}")
    os.mkdir(f"{folder}/it's")
    if fleet(f"{folder}/it's", "--engine", "slurm", "--machines", "1").returncode != 2:
        fail("a folder with a quote was taken")
    print("slurm: no word of another user is run, nor what stands in a path")


PLANT = """for file in "$TMPDIR"/spotnik-hosts-*; do ln -s "$FAKE/victim" "$file.new"; done
while [ "$(wc -l < "$FAKE/calls")" -lt 2 ]; do sleep 0.1; done
"""


def hosts(folder):
    """A command that prints hosts is asked again every five seconds, and what it says goes into a file in TMPDIR, where
    others may write: not through a link that they planted."""
    shared, key = f"{folder}/shared", f"{folder}/key"
    os.mkdir(shared)
    write(f"{folder}/hosts", 'echo run >> "$FAKE/calls"; echo 127.0.0.1:21999\n')
    write(f"{folder}/victim", "untouched")
    subprocess.run([SPOTNIK, "key", key], check=True)
    run = [SPOTNIK, "run", "-n", "1", "--peers", f"exec:sh {folder}/hosts", "--key-file", key, "--", "sh", "-c", PLANT]
    env = {**os.environ, "TMPDIR": shared, "FAKE": folder}
    ended = subprocess.run(run, env=env, capture_output=True, text=True, timeout=50)
    with open(f"{folder}/victim") as file:
        if ended.returncode or file.read() != "untouched":
            fail(f"hosts went through a planted link, or the run failed: {ended}")
    calls(folder)
    print("hosts: written through no link")


def refused(folder):
    for words in (
        (),
        ("--engine", "slurm"),
        ("--engine", "x", "--machines", "2"),
        ("--engine", "kubernetes", "--machines", "2", "--plan", "p"),
        ("--engine", "slurm", "--machines", "0"),
        ("--engine", "kubernetes", "--name", "a;b", "--machines", "1"),
        ("--engine", "exec:", "--machines", "1"),
        ("--engine", "slurm", "--machines", "1", "--replan", "true"),
    ):
        if fleet(folder, *words).returncode != 2:
            fail(f"{words} was not refused")
    print("wrong command lines are refused")


with tempfile.TemporaryDirectory(prefix="spotnik-fleet-") as scratch:
    kubernetes(scratch)
    skypilot(scratch)
    command(scratch)
    kinds(scratch)
    slurm(scratch)
    hosts(scratch)
    refused(scratch)
