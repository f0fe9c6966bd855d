#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Commands of docs/guide/engines.md as they stand there, on hosts that are addresses of one network namespace. Claims:
pages: workers of one machine meet; hosts meet by a folder, by names alone, and by a command that prints them; such a
command that hangs ends with its agent; a node of Slurm is known by an address that others can reach.
ssh: hosts of a file meet; one that is added to the file later joins; one that is killed is lost, and joins when it is
started again.
torchrun on each host: a worker that is killed takes the others of its host with it, torchrun starts them again, they
join; the other host's workers train on in the same processes.
mpirun: the ranks meet; one that is killed costs the others nothing.

    starters.py pages|ssh|torchrun|mpirun BUILD PAGE"""

import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

from place import end_all, fail, kill, skip, within_namespace, words

WHICH, BUILD, PAGE = sys.argv[1], os.path.abspath(sys.argv[2]), os.path.abspath(sys.argv[3])
SPOTNIK = f"{BUILD}/cli/spotnik"
NETWORK = "10.98.7"  # of a namespace that nobody else sees
LIMIT_S = 180  # ends a test that hangs

# A member of any kind of start: it tells who started it and where it is, and trains until it is ended.
TRAIN = """#!/bin/sh
cd {folder}
exec {build}/tests/e2e/e2e-worker -u 5000 -n 100000 -b 96 >lives/$$ 2>&1
"""
TRAIN_PYTHON = """
import os, sys, time
import numpy as np
import spotnik
lives = open(f"{folder}/lives/{{os.getpid()}}", "w", buffering=1)
w, g = np.zeros(1), np.zeros(1)
with spotnik.init(samples=100_000, batch=96) as job:
    spotnik.register("w", w)
    for step in job:
        g[:] = sum(map(len, step.ranges))
        spotnik.start(g, op="sum")
        time.sleep(0.005)
        if job.step_commit():
            w += g
            print(f"commit {{step.number}} {{int(w[0])}} 0 {{step.size}} 0 {{time.monotonic_ns()}}", file=lives)
"""


SCONTROL = """#!/bin/sh
for node; do :; done
case $node in own) address=$OWN ;; *) address=$OTHER ;; esac
echo "NodeName=$node NodeAddr=$address Port=1"
"""


class Lives:
    """The members of all hosts by their processes; each writes a file of its own."""

    def __init__(self, folder):
        self.folder = folder
        os.mkdir(f"{folder}/lives")

    def commits(self, pid):
        """(step, size of the view) of each."""
        with open(f"{self.folder}/lives/{pid}") as file:
            words = [line.split() for line in file if line.endswith("\n")]
        return [(int(word[1]), int(word[4])) for word in words if len(word) == 7 and word[0] == "commit"]

    def newest(self):
        return {int(pid): self.commits(pid)[-1] for pid in os.listdir(f"{self.folder}/lives") if self.commits(pid)}

    def wait(self, count, after=0):
        """The processes of a view of `count`, once each has come 20 steps beyond `after`."""
        end = time.monotonic() + LIMIT_S
        while True:
            there = self.newest()
            last = max((step for step, _ in there.values()), default=0)
            from_step = max(last - 20, after + 20)
            members = {pid for pid, (step, size) in there.items() if size == count and step > from_step}
            if len(members) == count:
                return members, last
            if time.monotonic() > end:
                fail(f"waited {LIMIT_S} s for a view of {count}: {there}\n{self.said()}")
            time.sleep(0.05)  # between two looks; nothing rests on it

    def said(self):
        text = []
        for name in sorted(os.listdir(self.folder)):
            if name.startswith("said"):
                with open(f"{self.folder}/{name}", errors="replace") as file:
                    text += [name, *file.read().splitlines()[-8:]]
        return "\n".join(text)


def page(pattern):
    return words(PAGE, pattern)


class Bench:
    """A folder that all hosts see, with a key, and what was started there."""

    def __init__(self, folder):
        self.folder, self.started = folder, 0
        self.lives = Lives(folder)
        self.write("train", TRAIN.format(folder=folder, build=BUILD), 0o755)
        self.write("train.py", TRAIN_PYTHON.format(folder=folder))
        os.makedirs(f"{folder}/shared/job")
        os.mkdir(f"{folder}/bin")
        os.symlink(SPOTNIK, f"{folder}/bin/spotnik")
        subprocess.run([SPOTNIK, "key", f"{folder}/job.key"], check=True)
        self.env = {
            **os.environ,
            "PATH": f"{folder}/bin:{os.environ['PATH']}:/usr/sbin:{BUILD}/venv/bin",
            "PYTHONPATH": f"{os.path.dirname(PAGE)}/../../python",
            "SPOTNIK_LIBRARY": f"{BUILD}/src/libspotnik.so",
            "OMP_NUM_THREADS": "1",
        }

    def write(self, name, text, mode=0o600):
        with open(f"{self.folder}/{name}", "w") as file:
            file.write(text)
        os.chmod(f"{self.folder}/{name}", mode)

    def start(self, command, **env):
        self.started += 1
        command = command.replace("/shared/", f"{self.folder}/shared/")
        with open(f"{self.folder}/said-{self.started}", "w") as log:
            subprocess.Popen(["bash", "-c", command], cwd=self.folder, env={**self.env, **env}, stdout=log, stderr=log)


    def end(self):
        """Every worker of before has ended and is forgotten."""
        end_all()
        shutil.rmtree(f"{self.folder}/lives")
        os.mkdir(f"{self.folder}/lives")


def parent(pid):
    """The `spotnik run` above a worker, 0: there is none."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            above = int(file.read().rsplit(")", 1)[1].split()[1])
        with open(f"/proc/{above}/cmdline") as file:
            return above if "spotnik\0run" in file.read() else 0
    except (FileNotFoundError, ProcessLookupError):
        return 0


def host_lost(bench, pid):
    """A host goes: its agent and its worker at once."""
    above = parent(pid)
    if not above:
        fail(f"{pid} has no agent")
    kill(above)
    kill(pid)


def where(pid):
    with open(f"/proc/{pid}/environ") as file:
        return re.search(r"SPOTNIK_BIND=([\d.]+)", file.read()).group(1)


def on_each(bench, command, count):
    """The command on each host, until all are in one view. `auto` finds the first address, which is one host here."""
    for host in range(1, count + 1):
        address = f"{NETWORK}.{host}"
        line = command.replace("auto", address) if "--bind" in command else f"SPOTNIK_BIND={address} {command}"
        bench.start(line.replace("ADDRESS", address))
    members, _ = bench.lives.wait(count)
    if len({where(pid) for pid in members}) != count:
        fail(f"{command}: not one on each host")


def pages(bench):
    """Rows of the table, each in a folder and with hosts of its own."""
    hosts = "".join(f"{NETWORK}.{host} host-{host}.example.org\n" for host in range(1, 5))
    bench.write("hosts", "127.0.0.1 localhost\n" + hosts, 0o644)
    subprocess.run(["mount", "--bind", f"{bench.folder}/hosts", "/etc/hosts"], check=True)
    bench.write("hosts.sh", f"#!/bin/sh\nprintf '{NETWORK}.1\\n{NETWORK}.2\\n{NETWORK}.3\\n'\n", 0o755)
    bench.start(page(r"^\| one machine \| `([^`]*)` \|$"))
    bench.lives.wait(4)
    print("one machine: four workers met")
    file_of_hosts = page(r"^\| a file with a host on each line \| on each: `([^`]*)`")
    rows = {
        "a folder": (page(r"^\| a folder that all hosts see \| on each: `([^`]*)` \|$"), 2),
        "names": (page(r"^\| host names, nothing shared \| on each: `([^`]*)` \|$"), 4),
        "a command": (file_of_hosts.replace("hosts:hosts.txt", page(r"the same with `--peers '(exec:[^']*)'`")), 3),
    }
    for row, (command, count) in rows.items():
        bench.end()
        on_each(bench, command, count)
        print(f"{row}: {count} hosts met")
    hanging(bench)
    own_names(bench)


def own_names(bench):
    """Debian gives a host's own name the address 127.0.1.1, on that host alone: other nodes must not be told it."""
    bench.write("bin/scontrol", SCONTROL, 0o755)
    run = f"{SPOTNIK} run -n 1 --peers slurm --key-file {bench.folder}/job.key -- env"
    many = f"own,other-[{','.join(str(i) for i in range(1, 5000, 2))}]"
    cases = (
        ("own,other", "127.0.1.1", f"{NETWORK}.2", NETWORK),
        ("own,other", "127.0.1.1", "127.0.0.2", "127.0.1.1"),
        (many, f"{NETWORK}.1", f"{NETWORK}.2", f"{NETWORK}.1"),  # longer than we read
    )
    for nodes, own, other, wanted in cases:
        env = {**bench.env, "PATH": f"{bench.folder}/bin:{bench.env['PATH']}", "OWN": own, "OTHER": other}
        env |= {"SLURM_JOB_ID": "8", "SLURM_JOB_NODELIST": nodes, "SLURMD_NODENAME": "own"}
        done = subprocess.run(run.split(), env=env, capture_output=True, text=True, check=False)
        bind = re.search(r"SPOTNIK_BIND=(\S+)", done.stdout)
        peers = re.search(r"SPOTNIK_PEERS=([^\s,]+),\S+", done.stdout)
        if not bind or not peers or peers.group().count(",") != (63 if nodes == many else 1):
            fail(f"{nodes[:80]}: {done}")
        if bind.group(1) != peers.group(1) or not bind.group(1).startswith(f"{wanted}"):
            fail(f"{own}, {other}: {done}")
    print("Slurm: a node whose own name is a loopback is known by one that others reach, unless all are one host")


def hanging(bench):
    """A command for --peers that hangs ends with the agent. The pipe is at its end when nobody holds its other end."""
    begun = f"{bench.folder}/hangs"
    hangs, held = os.pipe()
    peers, key = f"exec:touch {begun}; sleep 600", f"{bench.folder}/job.key"
    command = [SPOTNIK, "run", "-n", "1", "--peers", peers, "--key-file", key, "--", "true"]
    agent = subprocess.Popen(command, pass_fds=[held], env=bench.env)
    os.close(held)
    end = time.monotonic() + LIMIT_S
    while not os.path.exists(begun):
        if agent.poll() is not None or time.monotonic() > end:
            fail(f"{peers} was not run: {agent.returncode}")
        time.sleep(0.01)  # between two looks; nothing rests on it
    agent.terminate()
    if agent.wait(LIMIT_S) == 0 or not select.select([hangs], [], [], LIMIT_S)[0]:
        fail("a command that hangs has outlived its agent")
    os.close(hangs)
    print("a command that hangs: ended with its agent")


SSHD = """Port 22
ListenAddress 0.0.0.0
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
SetEnv PATH={folder}/bin:/usr/bin:/bin
"""
SSH = """User root
IdentityFile {folder}/user_key
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
"""


def ssh(bench):
    for tool in ("sshd", "ssh", "ssh-keygen"):
        if not shutil.which(tool, path=bench.env["PATH"]):
            skip(f"there is no {tool} (Debian: openssh-server, openssh-client)")
    folder, lives = bench.folder, bench.lives
    for name in ("host_key", "user_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/{name}"], check=True)
    bench.write("sshd_config", SSHD.format(folder=folder))
    bench.write("ssh_config", SSH.format(folder=folder))
    bench.write("bin/ssh", f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/ssh_config "$@"\n', 0o755)
    os.makedirs("/run/sshd", exist_ok=True)
    bench.start(f"exec {shutil.which('sshd', path=bench.env['PATH'])} -D -e -f {folder}/sshd_config")
    loop = page(r"^(for h in \$\(cat hosts\.txt\).*?wait)$")
    one = re.search(r"(ssh \$h .*?) &$", loop, re.M).group(1)
    end = time.monotonic() + LIMIT_S
    while subprocess.run([f"{folder}/bin/ssh", f"{NETWORK}.2", "true"], capture_output=True).returncode:
        if time.monotonic() > end:
            fail(f"sshd does not listen: {lives.said()}")
        time.sleep(0.05)
    bench.write("hosts.txt", f"{NETWORK}.2\n{NETWORK}.3\n")
    bench.start(loop)
    first, step = lives.wait(2)
    print("ssh: two hosts of a file met")
    bench.write("hosts.txt", f"{NETWORK}.2\n{NETWORK}.3\n{NETWORK}.4\n")
    bench.start(one, h=f"{NETWORK}.4")
    members, step = lives.wait(3, step)
    if not first < members:
        fail(f"{first} were there, {members} are")
    print("ssh: a host that was added to the file joined")
    victim = next(pid for pid in members if pid not in first)
    host_lost(bench, victim)
    left, step = lives.wait(2, step)
    bench.start(one, h=f"{NETWORK}.4")
    again, _ = lives.wait(3, step)
    if left != first or not first < again:
        fail(f"{first} were there, {left} and {again} are")
    print("ssh: it was killed, and joined again when it was started again; the others were the same processes")


def torchrun(bench):
    if not shutil.which("torchrun", path=bench.env["PATH"]):
        skip("there is no torchrun (pip install torch)")
    command = page(r"`(SPOTNIK_PEERS=\S+ SPOTNIK_KEY_FILE=\S+ SPOTNIK_BIND=ADDRESS torchrun [^`]*)`")
    for host in (2, 3):
        bench.start(command.replace("ADDRESS", f"{NETWORK}.{host}"))
    first, step = bench.lives.wait(4)
    print("torchrun on each host: two times two workers met")
    victim = min(first)
    same, other = ({pid for pid in first if (where(pid) == where(victim)) is here} for here in (True, False))
    kill(victim)
    members, _ = bench.lives.wait(4, step)
    if len(other) != 2 or not other < members or same & members:
        fail(f"{victim} was killed beside {same}: {first} were there, {members} are")
    print("torchrun on each host: a worker was killed; torchrun started both of its host again, they joined;")
    print("the other host's two trained on")


def mpirun(bench):
    if not shutil.which("mpirun"):
        skip("there is no mpirun (Debian: openmpi-bin)")
    command = page(r"`(mpirun [^`]*)`")
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    bench.start(command, OMPI_MCA_rmaps_base_oversubscribe="1", **as_root)
    first, step = bench.lives.wait(4)
    print("mpirun: four ranks met")
    victim = min(first)
    host_lost(bench, victim)
    members, _ = bench.lives.wait(3, step)
    if members != first - {victim}:
        fail(f"{victim} of {first} was killed: {members} are there")
    print("mpirun: one was killed, the other three trained on; none was started in its place")


def main():
    hosts = "".join(f" && ip addr add {NETWORK}.{host}/24 dev d0" for host in range(1, 6))
    devices = "ip link add d0 type veth peer name d1 && ip link set d0 up && ip link set d1 up"
    within_namespace(f"ip link set lo up && {devices}{hosts} && ip route add default dev d0")
    with tempfile.TemporaryDirectory(prefix="spotnik-start-") as folder:
        try:
            {"pages": pages, "ssh": ssh, "torchrun": torchrun, "mpirun": mpirun}[WHICH](Bench(folder))
        finally:
            end_all()


if __name__ == "__main__":
    main()
