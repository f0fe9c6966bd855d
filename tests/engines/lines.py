#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command lines of notices.md, fleet.md, operators.md and of the doctor in engines.md, cut out of the pages
and run as they stand there, in namespaces with an address for each host and one for the clouds'
metadata service. Claim: what the pages say of each line is so. Only /shared is another folder.

    lines.py BUILD GUIDE"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from place import end_all, fail, within_namespace, words

BUILD, GUIDE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
SPOTNIK, WORKER = f"{BUILD}/cli/spotnik", f"{BUILD}/tests/e2e/e2e-worker"
MOCK = str(pathlib.Path(__file__).resolve().parents[2] / "packages/notices/tests/mock_imds.py")
LIMIT_S = 120  # ends a test that hangs
TRAIN = f"exec {WORKER} -u 5000 -n 100000 -b 96"
FAKES = {
    "sbatch": 'echo "sbatch $*" >>"$CALLS"; echo 7',
    "squeue": 'echo "squeue $*" >>"$CALLS"; [ ! -e listed ] || touch spotnik/done; touch listed',
    "kubectl": """echo "kubectl $*" >>"$CALLS"
[ "$1" != patch ] || echo '{"spec":{"parallelism":3},"status":{"succeeded":1}}' >kubernetes
cat kubernetes""",
    "sky": """echo "sky $*" >>"$CALLS"
[ "$2" != launch ] || echo '[{"job_id":1,"job_name":"train","status":"SUCCEEDED"}]' >jobs
[ "$2" != queue ] || cat jobs""",
}


class Place:
    """The working directory of somebody who reads the pages."""

    def __init__(self, folder):
        self.folder, self.started = folder, 0
        for name in ("bin", "shared", "shared/job"):
            os.mkdir(f"{folder}/{name}", 0o700)
        os.symlink(SPOTNIK, f"{folder}/bin/spotnik")
        subprocess.run([SPOTNIK, "key", f"{folder}/job.key"], check=True)
        self.write("train", TRAIN)
        for name, text in FAKES.items():
            self.write(f"bin/{name}", text)
        self.env = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", "CALLS": f"{folder}/calls"}

    def write(self, name, script):
        with open(f"{self.folder}/{name}", "w") as file:
            file.write(f"#!/bin/sh\n{script}\n")
        os.chmod(f"{self.folder}/{name}", 0o755)

    def put(self, name, text):
        with open(f"{self.folder}/{name}", "w") as file:
            file.write(text)

    def command(self, text):
        return ["bash", "-c", text.replace("/shared/", f"{self.folder}/shared/")]

    def run(self, text, status=0):
        done = subprocess.run(
            self.command(text),
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        if done.returncode != status:
            fail(f"{text}: status {done.returncode}, not {status}: {done.stdout} {done.stderr}")
        return done.stdout + done.stderr

    def start(self, text):
        return Started(self, text)

    def calls(self):
        try:
            with open(f"{self.folder}/calls") as file:
                return file.read().splitlines()
        finally:
            os.unlink(f"{self.folder}/calls")


class Started:
    def __init__(self, place, text):
        place.started += 1
        self.text, self.log = text, f"{place.folder}/said-{place.started}"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                place.command(text),
                cwd=place.folder,
                env=place.env,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
            )

    def said(self):
        with open(self.log, errors="replace") as file:
            return file.read()

    def until(self, found, times=1):
        end = time.monotonic() + LIMIT_S
        while len(re.findall(found, self.said(), re.M)) < times:
            if time.monotonic() > end:
                fail(f"{self.text}: waited {LIMIT_S} s for {found}:\n{self.said()[-2000:]}")
            time.sleep(0.05)  # between two looks; nothing rests on it

    def order(self, text):
        """To the mock of the metadata service."""
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        self.until(re.escape(text))

    def all_of(self, count, times=1):
        """Wait until each of `count` members has told `times` commits, by everybody's lines."""
        self.until(rf" commit \d+ [0-9a-f]+ \d+ {count} ", times=times * 2 * count)

    def terminate(self, status=75):
        self.process.terminate()
        if self.process.wait(LIMIT_S) != status:
            fail(f"{self.text}: SIGTERM: ended with {self.process.returncode}, not {status}:\n{self.said()[-2000:]}")


def block(page, first):
    """The lines of the block that begins so, without what stands behind them."""
    text = words(f"{GUIDE}/{page}.md", rf"^```sh\n({re.escape(first)}.*?)^```$")
    return [re.sub(r" +#.*", "", line) for line in text.splitlines()]


# ---- notices.md ----


def metadata(place):
    return place.start(f"exec {MOCK} --listen 169.254.169.254:80 --clouds aws")


def notices(place):
    shown = words(f"{GUIDE}/notices.md", r"^\$ spotnik notice\n(.*?)\n```$")
    if place.run("spotnik notice") != shown + "\n":
        fail(f"spotnik notice says {place.run('spotnik notice')!r}, the page {shown!r}")
    print(f"spotnik notice: {shown}")
    clouds, by_file, by_command, hook = block("notices", "spotnik run -n 4 -- ./train")
    cloud = metadata(place)
    cloud.until("^http")
    job = place.start("exec " + clouds)
    job.all_of(4)
    cloud.order("aws action terminate +120")
    job.until("aws: this machine goes in")
    job.until(r"left \(75\)", times=4)
    cloud.order("aws clear")
    job.until(" no longer")
    job.terminate()
    print(f"{clouds}: at the address that clouds have, a notice was heard, and all four left")
    place.write("order-another-machine", 'echo "$SPOTNIK_NOTICE_KIND $SPOTNIK_NOTICE_SOURCE" >ordered')
    job = place.start("exec " + hook)
    job.all_of(4)
    cloud.order("aws action terminate +120")
    job.until(r"left \(75\)", times=4)
    ordered = pathlib.Path(place.folder) / "ordered"
    wait(lambda: ordered.exists() and ordered.read_text() == "leave aws\n", hook)
    job.terminate()
    print(f"{hook}: the command was run, told of a notice of aws to leave")
    cloud.order("aws clear")
    cloud.process.kill()
    place.write("ask-my-cloud", "cat /run/going-down 2>/dev/null || true")
    for line in (by_file, by_command):
        job = place.start("exec " + line)
        job.all_of(4)
        with open("/run/going-down.new", "w") as file:
            file.write("+90 the fan has stopped\n")
        os.rename("/run/going-down.new", "/run/going-down")
        job.until(r"left \(75\)", times=4)
        os.unlink("/run/going-down")
        job.until(" no longer")
        job.all_of(4, times=2)
        job.terminate()
        print(f"{line}: all four left, and came back")


def wait(is_true, what):
    end = time.monotonic() + LIMIT_S
    while not is_true():
        if time.monotonic() > end:
            fail(f"{what}: waited {LIMIT_S} s")
        time.sleep(0.05)  # between two looks; nothing rests on it


def at_home(place):
    run, appear, go = block("notices", "spotnik run -n 3 --notice")
    job = place.start("exec " + run.removesuffix(" &"))
    job.all_of(3)
    place.run(appear)
    job.until("file: this machine goes in")
    job.until(r"left \(75\)", times=3)
    place.run(go)
    job.until(" no longer")
    job.all_of(3, times=2)
    job.terminate()
    print("Try it at home: three left for the notice, and came back when it was taken back")


# ---- the doctor of engines.md ----


def doctor(place):
    text = words(f"{GUIDE}/engines.md", r"^```sh\n(host1\$ .*?)^```$")
    first, second = (re.sub(r"^host\d\$ ", "", line) for line in text.splitlines())
    server = place.start("exec " + first)
    server.until("^waiting")
    said = place.run(second)
    for found in (
        "way, key, name and version are right",
        "sees a new, a changed and a removed file",
        "large packets pass both ways",
    ):
        if found not in said:
            fail(f"{second}: not said: {found}\n{said}")
    server.terminate(0)
    print("the two lines of the doctor: all is well between the hosts")


# ---- fleet.md ----


def fleet(place):
    submit, slurm, kubernetes, skypilot, command = block("fleet", "spotnik slurm submit")
    place.run("spotnik slurm submit --write --name grouped --group auto -- python train.py")
    if " run -n 1 --group auto --respawn " not in words(f"{place.folder}/grouped/job.sbatch", "(.*)"):
        fail("the script of an element does not start a group")
    said = place.run(submit)
    if "element-%A_%a.log" not in words(f"{place.folder}/spotnik/job.sbatch", "(.*)"):
        fail("elements of two arrays write to one log")
    if "--array=0-3" not in words(f"{place.folder}/spotnik/job.sbatch", "(.*)") or "7" not in said:
        fail(f"{submit}: {said}")
    expect(place, submit, r"sbatch .*/spotnik/job\.sbatch")
    expect(place, slurm, r"squeue", r"sbatch --array=0-3 ")
    os.unlink(f"{place.folder}/spotnik/done")
    place.put("plan.json", "3\n")
    place.write("replan.sh", "echo replan >>$CALLS")
    place.put("kubernetes", '{"spec":{"parallelism":2},"status":{"active":2}}')
    expect(place, kubernetes, r"replan", r"kubectl get job train", r"""kubectl patch job train .*"parallelism":3""")
    place.put("spotnik/task.yaml", "run: true\n")
    place.put("jobs", "[]")
    expect(place, skypilot, r"sky jobs queue", r"sky jobs launch .*task\.yaml")
    place.write(
        "my-cloud", 'echo "wanted $SPOTNIK_FLEET_WANTED" >>$CALLS; [ -e asked ] && echo done || echo 4; touch asked'
    )
    expect(place, command, r"wanted 4")
    print(
        "the five lines of fleet.md: asked scripts of ours for what was missing, and ended with the training"
    )


# ---- operators.md ----


def operators(place):
    """Run the third recipe. Two of the three stand in pages that other tests run (slurm_page, kubernetes_schemas)."""
    for page, first in (("slurm", "spotnik slurm submit"), ("kubernetes", "spotnik key job.key")):
        if block("operators", first) != block(page, first):
            fail(f"operators.md and {page}.md differ in their first block")
    key, run = block("operators", "mkdir -p /shared/")
    place.write("bin/python", f'[ "$*" = train.py ] && {TRAIN}')
    place.run(key)
    machines = [place.start("exec " + run.replace("--bind auto", "--bind 10.0.0.1"))]
    machines[0].until(" commit ")  # the founder: it tells of all that join
    machines.append(place.start("exec " + run.replace("--bind auto", "--bind 10.0.0.2")))
    for machine in machines:
        machine.until(r"commit \d+ [0-9a-f]+ \d+ 2 ")
    subprocess.run(["pkill", "-KILL", "-P", str(machines[1].process.pid)], check=True)
    machines[0].until("^spotnik: S112: lost 1 member")
    machines[1].process.kill()
    machines[1].process.wait(LIMIT_S)
    machines[1] = place.start("exec " + run.replace("--bind auto", "--bind 10.0.0.2"))
    machines[0].until("^spotnik: S110: 1 member joined", times=2)
    for machine in machines:
        machine.terminate()
    machine = place.start("exec " + run.replace("--bind auto", "--bind 10.0.0.1"))
    machine.until("^spotnik: S102: the job goes on from the checkpoint after step")
    machine.terminate()
    print(f"{run}: two machines met, one was lost and came again, and both went on from the checkpoint")


def expect(place, line, *patterns):
    """The line ends by itself; the engine's commands were called so. A fleet looks every 10 s: told to look sooner."""
    if line.startswith("spotnik fleet"):
        said = place.run(line + " --every 20ms")
        if "the training is done" not in said:
            fail(f"{line}: {said}")
    calls = place.calls()
    for pattern in patterns:
        if not any(re.search(pattern, call) for call in calls):
            fail(f"{line}: nobody called {pattern}: {calls}")


def main():
    addresses = " && ".join(f"ip addr add {one}/32 dev lo" for one in ("10.0.0.1", "10.0.0.2", "169.254.169.254"))
    within_namespace(f"ip link set lo up && {addresses} && mount -t tmpfs none /run")
    with tempfile.TemporaryDirectory(prefix="spotnik-lines-") as folder:
        try:
            place = Place(folder)
            for part in (operators, notices, at_home, doctor, fleet):
                part(place)
        finally:
            end_all()


if __name__ == "__main__":
    main()
