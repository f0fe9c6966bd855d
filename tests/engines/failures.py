#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tables "you see, why, do" of the guide. Network, key, name, version, folder, notice and
fleet are made wrong on purpose. Claim: what a row quotes is said word for word, but for its
numbers and its names in capitals. A row that nobody provokes fails the test, unless SHOWN names
the test that shows it, or says that the words are not ours.

    failures.py BUILD GUIDE"""

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from place import end_all, fail, within_namespace

BUILD, GUIDE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
SPOTNIK, WORKER = f"{BUILD}/cli/spotnik", f"{BUILD}/tests/e2e/e2e-worker"
PAGES = ("engines", "slurm", "kubernetes", "ray", "notices", "fleet")
LIMIT_S = 180  # ends a test that hangs
TRAIN = ["--", WORKER, "-u", "5000", "-n", "100000", "-b", "96"]

# Rows without a message of ours, by the first words of the row.
SHOWN = {
    "elements join one by one": "Slurm's own delay; tests/slurm/lab.py sets cred_expire",
    "the batch shell ends with 75": "tests/slurm/elements.py (scancel: none is requeued)",
    "a job with `--signal=B:USR1@60`": "Slurm's words; tests/slurm/page.py (batch_shell)",
    "no cloud, on a cloud's machine": "packages/notices/tests/watch.py (nowhere): what is said in no cloud",
    "workers are killed before": "packages/notices/tests/job.py (insisted)",
    "workers leave again and again": "packages/notices/tests/job.py (notices), packages/notices/tests/thousand.py",
    "a worker is pending": "Ray's words",
    "steps wait": "Ray's dashboard; tests/e2e/run.sh has what spotnik run says",
}


def rows():
    """(page, first cell) of each row of the tables."""
    for name in PAGES:
        with open(f"{GUIDE}/{name}.md") as file:
            for table in re.findall(r"^\| you see \| why \| do \|\n\|[-|]+\n((?:\|.*\n)+)", file.read(), re.M):
                for line in table.splitlines():
                    yield name, line.split(" | ")[0].lstrip("| ")


def quoted(cell):
    """What we say, of what is seen: in italics where the row also quotes a command."""
    return re.findall(r"\*([^*]+)\*", cell) or re.findall(r"`([^`]+)`", cell)


def pattern(message):
    if message.isdigit():
        return message
    parts = re.split(r"(\d+|\b(?:X|DIR)\b)", message)
    return "".join(
        re.escape(part) if i % 2 == 0 else r"\d+" if part.isdigit() else r"\S+" for i, part in enumerate(parts)
    )


class Case:
    """A folder, and the processes that were started in it; what they say is in one file each."""

    def __init__(self, folder):
        self.folder, self.started = folder, []
        os.mkdir(f"{folder}/bin")
        self.key, self.other_key = self.make_key("job.key"), self.make_key("other.key")

    def make_key(self, name):
        subprocess.run([SPOTNIK, "key", f"{self.folder}/{name}"], check=True)
        return f"{self.folder}/{name}"

    def env(self, **more):
        return {**os.environ, "SPOTNIK_IMDS_ENDPOINT": "http://127.0.0.1:9", **more}

    def start(self, *command, **more):
        log = f"{self.folder}/said-{len(self.started)}"
        with open(log, "w") as file:
            process = subprocess.Popen(
                list(command), cwd=self.folder, env=self.env(**more), stdout=file, stderr=file, start_new_session=True
            )
        self.started.append((process, log))
        return process

    def run(self, *command, **more):
        done = subprocess.run(
            list(command),
            cwd=self.folder,
            env=self.env(**more),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        return done.stdout + done.stderr

    def member(self, address, peers, *options, key=None, train=(), **more):
        words = [
            SPOTNIK,
            "run",
            "-n",
            "1",
            "--bind",
            address,
            "--peers",
            peers,
            "--key-file",
            key or self.key,
            *options,
        ]
        return self.start(*words, *(train or TRAIN), **more)

    def said(self):
        text = ""
        for _, log in self.started:
            with open(log, errors="replace") as file:
                text += file.read()
        return text

    def until(self, found, what="", times=1):
        """All that was said, once the pattern, or each of several, is among it."""
        end = time.monotonic() + LIMIT_S
        while True:
            said = self.said()
            if all(len(re.findall(one, said)) >= times for one in ([found] if isinstance(found, str) else found)):
                return said
            if time.monotonic() > end:
                fail(f"waited {LIMIT_S} s for {what or found}:\n{said[-3000:]}")
            time.sleep(0.05)  # between two looks; nothing rests on it

    def end(self):
        for process, _ in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


COMMIT = r" commit \d+ "


def founded(case, at):
    """A job of one member, at work."""
    case.member(at, at)
    case.until(COMMIT)


def another_key(case, message):
    founded(case, "127.0.2.1:7001")
    case.member("127.0.2.2:7001", "127.0.2.1:7001", key=case.other_key)
    return case.until(message)


def another_name(case, message):
    founded(case, "127.0.2.3:7001")
    case.member("127.0.2.4:7001", "127.0.2.3:7001", SPOTNIK_JOB="another")
    return case.until(message)


def pump(source, sink, change):
    """All bytes; where `change`, the version in the first ones is another."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data[:8] + bytes([data[8] + 40]) + data[9:] if change else data)
            change = False
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def between(door, address):
    """What a caller of the door says is said to the address in another wire version."""
    while True:
        caller = door.accept()[0]
        member = socket.create_connection(address)
        threading.Thread(target=pump, args=(member, caller, False), daemon=True).start()
        threading.Thread(target=pump, args=(caller, member, True), daemon=True).start()


def another_version(case, message):
    founded(case, "127.0.2.5:7001")
    door = socket.create_server(("127.0.2.6", 7001))
    threading.Thread(target=between, args=(door, ("127.0.2.5", 7001)), daemon=True).start()
    case.member("127.0.2.7:7001", "127.0.2.6:7001")
    return case.until(message)


def some_of_eight(case, message):
    listed = ",".join(f"127.0.3.{i}:7001" for i in range(1, 9))
    for i in range(1, 7):
        case.member(f"127.0.3.{i}:7001", listed)
    return case.until(message)


def some_of_four(case, message):
    """Pods by their names, of which one has no address: /etc/hosts is the name server."""
    for i in (0, 1, 3):
        words = [SPOTNIK, "run", "-n", "1", "--respawn", "--min", "2", "--peers", "dns://train-[0-3].train"]
        case.start(*words, "--key-file", case.key, *TRAIN, POD_IP=f"127.0.4.{i + 1}")
    return case.until(message)


def no_address_of_own(case, message):
    return case.run(SPOTNIK, "run", "-n", "1", "--peers", "dns://train-[0-3].train", "--key-file", case.key, *TRAIN)


def array(case, message):
    slurm = {"SLURM_JOB_ID": "8", "SLURM_ARRAY_JOB_ID": "7", "SLURM_JOB_NODELIST": "n1"}
    return case.run(SPOTNIK, "run", "-n", "1", "--peers", "slurm", "--key-file", case.key, *TRAIN, **slurm)


def node_without_address(case, message):
    slurm = {
        "SLURM_JOB_ID": "8",
        "SLURM_JOB_NODELIST": "far-1",
        "SLURMD_NODENAME": "far-1",
        "PATH": f"{case.folder}/bin",
    }
    return case.run(SPOTNIK, "run", "-n", "1", "--peers", "slurm", "--key-file", case.key, *TRAIN, **slurm)


def no_folder(case, message):
    return case.run(SPOTNIK, "run", "-n", "1", "--peers", f"file:{case.folder}/nowhere", "--key-file", case.key, *TRAIN)


def folder_of_another_key(case, message):
    os.mkdir(f"{case.folder}/peers", 0o700)
    case.member("127.0.2.8:7001", f"file:{case.folder}/peers")
    case.until(COMMIT)
    case.member("127.0.2.9:7001", f"file:{case.folder}/peers", key=case.other_key)
    return case.until(message)


# ---- Kubernetes, notices ----


def long_step(case, message):
    """A step of ten minutes, in a program that does not care about signals."""
    train = ["--", WORKER, "-u", "600000000", "-n", "100000", "-b", "96"]
    agent = case.member("127.0.5.1:7001", "127.0.5.1:7001", "--grace", "100ms", train=train, WORKER_DEAF="1")
    case.until(" joined ")
    agent.terminate()
    said = case.until(message)
    if agent.wait(LIMIT_S) != 75:
        fail(f"the agent of a worker that had not left ended with {agent.returncode}")
    return said


def shell_first(case, message):
    """A shell is the first process of a container. It does not hear of SIGTERM; after exec spotnik does."""
    run = f"{SPOTNIK} run -n 1 --key-file {case.key} {' '.join(TRAIN)}"
    for line in (f"{run}; true", f"exec {run}"):
        space = case.start("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", line)
        before = len(re.findall(COMMIT, case.said()))
        case.until(COMMIT, times=before + 1)
        with open(f"/proc/{space.pid}/task/{space.pid}/children") as file:
            first = int(file.read())
        os.kill(first, signal.SIGTERM)
        if line.startswith("exec"):
            if space.wait(LIMIT_S) != 75:
                fail(f"with exec: {space.returncode}")
            continue
        before = len(re.findall(COMMIT, case.said()))
        case.until(COMMIT, "steps after SIGTERM", times=before + 20)
        os.kill(first, signal.SIGKILL)  # as after its grace: the kubelet calls that 137
        space.wait(LIMIT_S)
    return "137: the shell's job went on after SIGTERM, the one with exec left"


def script_around(case, message):
    """Slurm and systemd signal every process."""
    with open(f"{case.folder}/train.sh", "w") as file:
        file.write(f"#!/bin/sh\n{' '.join(TRAIN[1:])}\n")
    os.chmod(f"{case.folder}/train.sh", 0o755)
    agent = case.start(SPOTNIK, "run", "-n", "1", "--key-file", case.key, "--", f"{case.folder}/train.sh")
    case.until(COMMIT)
    with open(f"/proc/{agent.pid}/task/{agent.pid}/children") as file:
        children = [int(pid) for pid in file.read().split()]
    for pid in children:
        with open(f"/proc/{pid}/cmdline") as file:
            if "train.sh" in file.read():
                os.kill(pid, signal.SIGTERM)
    return case.until(message)


def no_libcurl(case, message):
    open(f"{case.folder}/libcurl.so.4", "x").close()
    return case.run(SPOTNIK, "notice", "--from", "aws", LD_LIBRARY_PATH=case.folder)


def no_watcher(case, message):
    """The command alone, as it is installed without the package."""
    shutil.copy(SPOTNIK, case.folder)
    words = [f"{case.folder}/spotnik", "run", "-n", "1", "--key-file", case.key, "--", "true"]
    return case.run(*words, PATH="/usr/bin:/bin")


def from_the_start(case, message):
    """All leave for a notice which is then taken back; there is no checkpoint."""
    job = case.start(SPOTNIK, "run", "-n", "2", "--notice", f"file:{case.folder}/going", "--key-file", case.key, *TRAIN)
    case.until(" commit 20 ")
    with open(f"{case.folder}/going", "x") as file:
        file.write("+60\n")
    case.until(r"left \(75\)", times=2)
    os.unlink(f"{case.folder}/going")
    said = case.until(r"\[w[23]\] commit 1 ")
    job.terminate()
    return "the job starts at step 1: its second workers did" if "no longer" in said else said


# ---- Ray's actors are Python programs ----


def python(case, peers, key):
    program = f"import spotnik\nspotnik.init(peers={peers!r}, key_file={key!r}, samples=10, batch=1).join()\n"
    return case.run(
        f"{BUILD}/venv/bin/python",
        "-c",
        program,
        PYTHONPATH=f"{GUIDE}/../../python",
        SPOTNIK_LIBRARY=f"{BUILD}/src/libspotnik.so",
    )


def python_without_folder(case, message):
    return python(case, f"file:{case.folder}/nowhere", case.key)


def python_with_another_key(case, message):
    os.mkdir(f"{case.folder}/peers", 0o700)
    case.member("127.0.6.1:7001", f"file:{case.folder}/peers")
    case.until(COMMIT)
    return python(case, f"file:{case.folder}/peers", case.other_key)


def python_with_an_open_key(case, message):
    os.chmod(case.other_key, 0o644)
    return python(case, "127.0.6.2:7001", case.other_key)


# ---- fleets ----


def fleet(case, *words, **more):
    return case.run(SPOTNIK, "fleet", *words, "--folder", case.folder, "--once", **more)


def no_batch_script(case, message):
    return fleet(case, "--engine", "slurm", "--machines", "4")


def no_task(case, message):
    return fleet(case, "--engine", "skypilot", "--machines", "4")


def two_fleets(case, message):
    with open(f"{case.folder}/fleet.lock", "w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        return fleet(case, "--engine", "exec:echo 4", "--machines", "4")


def no_plan(case, message):
    with open(f"{case.folder}/plan", "w") as file:
        json.dump({"found": False, "plan": None, "binding": "the budget"}, file)
    return fleet(case, "--engine", "exec:echo 4", "--plan", f"{case.folder}/plan")


def failed_setup(case, message):
    """SkyPilot's list has two machines, and then one."""

    def jobs(*states):
        with open(f"{case.folder}/jobs.new", "w") as file:
            json.dump(
                [{"job_id": 11 + i, "job_name": "train", "status": state} for i, state in enumerate(states)], file
            )
        os.rename(f"{case.folder}/jobs.new", f"{case.folder}/jobs")

    jobs("RUNNING", "RUNNING")
    open(f"{case.folder}/task.yaml", "x").close()
    with open(f"{case.folder}/bin/sky", "w") as file:
        file.write(f'#!/bin/sh\necho "$*" >>{case.folder}/said-by-sky\n[ "$2" != queue ] || cat {case.folder}/jobs\n')
    os.chmod(f"{case.folder}/bin/sky", 0o755)
    words = [SPOTNIK, "fleet", "--engine", "skypilot", "--machines", "2", "--folder", case.folder, "--every", "20ms"]
    case.start(*words, PATH=f"{case.folder}/bin:{os.environ['PATH']}")
    end = time.monotonic() + LIMIT_S
    while not os.path.exists(f"{case.folder}/said-by-sky"):
        if time.monotonic() > end:
            fail("the fleet asks nobody")
        time.sleep(0.02)  # between two looks; nothing rests on it
    with open(f"{case.folder}/said-by-sky") as file:
        before = len(file.readlines())
    while before < 3:  # a look has ended when the one after the next has begun
        with open(f"{case.folder}/said-by-sky") as file:
            before = len(file.readlines())
        time.sleep(0.02)  # the same
    jobs("RUNNING", "FAILED_SETUP")
    return case.until(message)


# By page, and the words that the row quotes.
PROVOKED = {
    ("engines", "has another job key"): another_key,
    ("engines", "belongs to another job"): another_name,
    ("engines", "speaks wire version"): another_version,
    ("engines", "6 of 8 listed"): some_of_eight,
    ("engines", "cannot write this member's record to"): no_folder,
    ("engines", "is signed with another job key"): folder_of_another_key,
    ("slurm", "the elements of an array"): array,
    ("slurm", "6 of 8 listed"): some_of_eight,
    ("slurm", "node X has no address"): node_without_address,
    ("slurm", "cannot write this member's record to"): no_folder,
    ("kubernetes", "train-2.train has no address now"): some_of_four,
    ("kubernetes", "3 of 4 listed"): some_of_four,
    ("kubernetes", "has another job key"): another_key,
    ("kubernetes", "lost (SIGTERM)"): long_step,
    ("kubernetes", "this host's address is not known"): no_address_of_own,
    ("ray", "SystemCallError"): python_without_folder,
    ("ray", "KeyFileError"): python_with_another_key,
    ("ray", "can be read by others"): python_with_an_open_key,
    ("notices", "libcurl.so.4 is not there"): no_libcurl,
    ("notices", "spotnik-notice is not installed"): no_watcher,
    ("notices", "137"): shell_first,
    ("notices", "lost (SIGTERM)"): script_around,
    ("notices", "the job starts at step 1"): from_the_start,
    ("fleet", "another fleet acts"): two_fleets,
    ("fleet", "has no job.sbatch"): no_batch_script,
    ("fleet", "has no task.yaml"): no_task,
    ("fleet", "job 12 is FAILED_SETUP"): failed_setup,
    ("fleet", "there is no plan"): no_plan,
}


def act_of(page, cell):
    """(what provokes the row, the patterns of what it quotes)."""
    found = [(words, act) for (of, words), act in PROVOKED.items() if of == page and words in cell]
    if len(found) != 1:
        fail(f"{page}: {cell}: provoked by {len(found)} of this test")
    words, act = found[0]
    return act, [pattern(message) for message in quoted(cell) or [words]]


def provoke(act, wanted):
    """Once, whatever the number of rows that have it."""
    with tempfile.TemporaryDirectory(prefix="spotnik-failure-") as folder:
        case = Case(folder)
        try:
            return act(case, sorted(wanted)) or ""
        finally:
            case.end()


def check(page, cell, wanted, said):
    for message in wanted:
        if not re.search(message, said):
            fail(f"{page}: {cell}: not said word for word ({message}):\n{said[-3000:]}")
    line = next(line for line in said.splitlines() if re.search(wanted[-1], line))
    print(f"{page}: {cell}: {line.strip()[:200]}", flush=True)


def look_at_all():
    acts, plan = {}, []
    for page, cell in rows():
        where = next((where for start, where in SHOWN.items() if cell.startswith(start)), None)
        if where:
            print(f"{page}: {cell}: not here: {where}")
            continue
        act, wanted = act_of(page, cell)
        acts.setdefault(act, set()).update(wanted)
        plan.append((page, cell, wanted, act))
    with ThreadPoolExecutor(4) as several:
        said = {act: several.submit(provoke, act, wanted) for act, wanted in acts.items()}
        for page, cell, wanted, act in plan:
            check(page, cell, wanted, said[act].result())
    unused = set(PROVOKED.values()) - set(acts)
    if unused:
        fail(f"no row of the pages needs {unused}")


def main():
    within_namespace("ip link set lo up && hostname nameless.invalid")
    with tempfile.TemporaryDirectory(prefix="spotnik-names-") as folder:
        with open(f"{folder}/hosts", "w") as file:
            file.write("127.0.0.1 localhost\n" + "".join(f"127.0.4.{i + 1} train-{i}.train\n" for i in (0, 1, 3)))
        subprocess.run(["mount", "--bind", f"{folder}/hosts", "/etc/hosts"], check=True)
        try:
            look_at_all()
        finally:
            end_all()


if __name__ == "__main__":
    if not shutil.which("hostname"):
        fail("there is no hostname")
    main()
