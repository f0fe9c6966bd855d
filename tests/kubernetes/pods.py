#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command of examples/kubernetes/indexed-job.yaml in pods that are network namespaces, with a dnsmasq for
the names of the headless service. Claims: pods meet by names alone, which have no address at first (the
server says REFUSED, or that there is no such name), and then one of each family; one that is preempted leaves within its grace and comes back under its name with another address; one that vanishes
without a word costs its member and comes back; a name server that is away disturbs nobody; all pods deleted
and made anew go on at the very next step.

Pods run the container's command, environment and paths as the manifest has them: the secret is mounted at /etc/spotnik, the claim at
/data, and `python train.py` is a worker of the tests. Those of a file that `spotnik plan` has written,
and of those that `spotnik kubernetes` prints, meet, too, and leave when they are deleted. Those of bag.yaml share one bag; one that is deleted gives its jobs back, and its successor goes on.

    pods.py SPOTNIK WORKER SIM FOLDER"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from faults.process import fail, skip

SPOTNIK, WORKER, SIM, FOLDER = (os.path.abspath(path) for path in sys.argv[1:5])
PATIENCE_S = 60
PODS = 4


MOUNTS = {"/etc/spotnik": "secret", "/data": "data"}  # as the manifests have them; folders of the cluster
TRAIN = [WORKER, "-u", "10000", "-n", "100000", "-b", "96", "-c", "500"]
LMP = f"""while [ $# -gt 0 ]; do case $1 in -var) eval "$2=$3"; shift 3;; *) shift;; esac; done
exec {SIM} "$T" 400 20000 20 $file"""


class Manifest:
    """What a container of it runs, and in which environment."""

    def __init__(self, name):
        with open(os.path.join(FOLDER, name)) as file:
            text = file.read()
        self.name, self.jobset, self.service = name, "train", "train"
        self.words = self.list_of(text, "command") + (self.list_of(text, "args") if "$(JOBSET)" in text else [])
        self.env = dict(re.findall(r"^ *- name: (\w+)\n *value: (\S+)$", text, re.M))
        self.host = "train-node-0-{}" if "replicatedJobs" in text else "train-{}"
        if "planned by spotnik" in text:
            self.service = re.findall(r"^ *subdomain: (\S+)$", text, re.M)[0]
            self.host = f"{self.service}-0-{{}}"
        self.folder = "".join(re.findall(r"^ *workingDir: (\S+)$", text, re.M)) or "/"

    def list_of(self, text, field):
        found = re.search(rf"^ *{field}: (\[.*?\])$", text, re.M | re.S)
        return [word.replace("$(JOBSET)", self.jobset) for word in json.loads(found[1])]


def second_address(address):
    """The cluster has both families. A name then has two addresses; a pod binds POD_IP alone."""
    return "fd00:88::" + address.rsplit(".", 1)[1]


class Pod:
    def __init__(self, cluster, index):
        self.cluster, self.index, self.netns = cluster, index, f"{cluster.name}-{index}"
        self.process = None
        self.address = None
        self.logs = []

    def ip(self, text):
        subprocess.run(["ip", "-n", self.netns, *text.split()], check=True, capture_output=True)

    def start(self):
        """A new pod under the same name: with an address of its own, which then gets into the DNS."""
        self.address = self.cluster.new_address()
        self.ip("addr flush dev eth0")
        self.ip(f"addr add {self.address}/16 dev eth0")
        self.ip(f"addr add {second_address(self.address)}/64 dev eth0 nodad")
        self.ip("link set eth0 up")
        self.logs.append(f"{self.cluster.folder}/pod-{self.index}-{len(self.logs)}.log")
        manifest = self.cluster.manifest
        words = manifest.words
        mounts = " && ".join(f"mount --bind {self.cluster.folder}/{folder} {point}" for point, folder in MOUNTS.items())
        env = {
            **os.environ,
            **manifest.env,
            "PATH": f"{self.cluster.folder}/bin:{os.environ['PATH']}",
            "POD_IP": self.address,
            "SPOTNIK_CHECKPOINT_S": "3600",
            "KUBERNETES_SERVICE_HOST": "10.96.0.1",
        }
        shell = ["sh", "-c", f'{mounts} && cd {manifest.folder} && exec "$@"', "sh"]
        with open(self.logs[-1], "w") as log:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", self.netns, *shell, *words], stdout=log, stderr=log, env=env
            )
        self.cluster.publish()

    def delete(self, grace_s=25):
        """As the kubelet does it: the name goes, SIGTERM, and SIGKILL after the grace."""
        address, self.address = self.address, None
        self.cluster.publish()
        begun = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(grace_s)
        except subprocess.TimeoutExpired:
            fail(f"pod {self.index} ({address}) was still there after {grace_s} s of grace: " + self.tail())
        if status != 75:
            fail(f"pod {self.index} ended with {status}, not 75: " + self.tail())
        self.process = None
        return time.monotonic() - begun

    def vanish(self):
        """The node is gone: no packet leaves it any more."""
        self.address = None
        self.ip("link set eth0 down")
        for pid in subprocess.run(["ip", "netns", "pids", self.netns], capture_output=True, text=True).stdout.split():
            with contextlib.suppress(ProcessLookupError):  # it has ended since
                os.kill(int(pid), signal.SIGKILL)
        self.process.wait(PATIENCE_S)
        self.process = None
        self.cluster.publish()

    def commits(self, log=-1):
        with open(self.logs[log]) as file:
            words = [line.split() for line in file.read().splitlines()]
        return [(int(word[2]), int(word[5])) for word in words if len(word) == 8 and word[1] == "commit"]

    def size(self):
        commits = self.commits() if self.process else []
        return commits[-1][1] if commits else 0

    def tail(self):
        with open(self.logs[-1]) as file:
            return " | ".join(file.read().splitlines()[-4:])


class Cluster:
    """A bridge in a namespace of its own, on which the name server listens, and a namespace for each pod."""

    def __init__(self, folder, missing, manifest="indexed-job.yaml"):
        self.folder, self.missing = folder, missing
        self.manifest, self.made = Manifest(manifest), []
        self.name = f"spotnik-k8s-{os.getpid()}"
        self.switch = f"{self.name}-sw"
        self.pods = [Pod(self, i) for i in range(PODS)]
        self.given, self.server = 10, None

    def new_address(self):
        self.given += 1
        return f"10.88.0.{self.given}"

    def __enter__(self):
        for tool in ("ip", "dnsmasq"):
            if not shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
                skip(f"there is no {tool} (Debian: iproute2, dnsmasq-base)")
        if os.geteuid() != 0:
            skip("only root can make network namespaces")
        try:
            self.furnish()
            self.network()
        except subprocess.CalledProcessError as error:
            self.__exit__()
            skip(f"no network namespaces here: {error} {error.stderr}")
        return self

    def furnish(self):
        """The secret, the claim, and what the image has. Each pod mounts them where nobody else sees it."""
        for point, folder in MOUNTS.items():
            os.mkdir(f"{self.folder}/{folder}")
            if not os.path.isdir(point):
                os.mkdir(point)
                self.made.append(point)
        subprocess.run([SPOTNIK, "key", f"{self.folder}/secret/key"], check=True)
        os.mkdir(f"{self.folder}/data/checkpoints")
        os.mkdir(f"{self.folder}/bin")
        os.symlink(SPOTNIK, f"{self.folder}/bin/spotnik")
        self.tool("python", f'[ "$*" = train.py ] && exec {" ".join(TRAIN)}')
        self.tool("lmp", LMP)

    def tool(self, name, text):
        with open(f"{self.folder}/bin/{name}", "w") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(f"{self.folder}/bin/{name}", 0o755)

    def network(self):
        commands = [
            f"ip netns add {self.switch}",
            f"ip -n {self.switch} link set lo up",
            f"ip -n {self.switch} link add br0 type bridge",
            f"ip -n {self.switch} addr add 10.88.0.1/16 dev br0",
            f"ip -n {self.switch} link set br0 up",
        ]
        for pod in self.pods:
            commands += [
                f"ip netns add {pod.netns}",
                f"ip -n {pod.netns} link set lo up",
                f"ip -n {pod.netns} link add eth0 type veth peer name p{pod.index} netns {self.switch}",
                f"ip -n {self.switch} link set p{pod.index} master br0",
                f"ip -n {self.switch} link set p{pod.index} up",
            ]
        for line in commands:
            subprocess.run(line.split(), check=True, capture_output=True, text=True)
        for pod in self.pods:  # ip netns exec shows it as /etc/resolv.conf
            os.makedirs(f"/etc/netns/{pod.netns}")
            with open(f"/etc/netns/{pod.netns}/resolv.conf", "w") as file:
                file.write("nameserver 10.88.0.1\nsearch default.svc.cluster.local\noptions timeout:1 attempts:1\n")
        self.publish()
        self.serve()

    def serve(self):
        """Without a server to ask in turn dnsmasq answers REFUSED for what it does not know; for what is local, that there is no such name."""
        if os.path.exists(f"{self.folder}/dnsmasq.pid"):
            os.unlink(f"{self.folder}/dnsmasq.pid")
        more = [] if self.missing == "REFUSED" else ["--local=/train/", "--local=/cluster.local/"]
        self.server = subprocess.Popen(
            [
                "ip",
                "netns",
                "exec",
                self.switch,
                "dnsmasq",
                "--keep-in-foreground",
                "--conf-file=/dev/null",
                "--no-resolv",
                "--no-hosts",
                f"--addn-hosts={self.folder}/hosts",
                "--listen-address=10.88.0.1",
                "--bind-interfaces",
                f"--pid-file={self.folder}/dnsmasq.pid",
                "--user=root",
                *more,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.until("dnsmasq to be ready for signals", lambda: os.path.exists(f"{self.folder}/dnsmasq.pid"))

    def publish(self):
        with open(f"{self.folder}/hosts.new", "w") as file:
            for pod in self.pods:
                if pod.address:
                    for address in (pod.address, second_address(pod.address)):
                        host = self.manifest.host.format(pod.index)
                        name = f"{host}.{self.manifest.service}"
                        file.write(f"{address} {name} {name}.default.svc.cluster.local\n")
        os.rename(f"{self.folder}/hosts.new", f"{self.folder}/hosts")
        if self.server:
            self.server.send_signal(signal.SIGHUP)

    def until(self, what, is_true):
        end = time.monotonic() + PATIENCE_S
        while not is_true():
            if time.monotonic() > end:
                fail(f"waited {PATIENCE_S} s for {what}: " + " // ".join(pod.tail() for pod in self.pods if pod.logs))
            time.sleep(0.05)  # between two looks; nothing rests on it

    def is_whole(self, *indices):
        return all(self.pods[i].size() == len(indices) for i in indices)

    def __exit__(self, *_):
        for pod in self.pods:
            if pod.process:
                pod.process.kill()
                pod.process.wait()
        if self.server:
            self.server.terminate()
            self.server.wait()
        for name in [self.switch] + [pod.netns for pod in self.pods]:
            for pid in subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout.split():
                with contextlib.suppress(ProcessLookupError):  # it has ended since
                    os.kill(int(pid), signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
            shutil.rmtree(f"/etc/netns/{name}", ignore_errors=True)
        for point in self.made:
            os.rmdir(point)


def live(cluster):
    pods = cluster.pods
    for i in (2, 0, 3, 1):
        pods[i].start()
    cluster.until("all four to be in", lambda: cluster.is_whole(0, 1, 2, 3))
    print(f"names without an address are {cluster.missing}: four pods met")

    grace_s = 30 if cluster.missing == "NXDOMAIN" else 15  # what clouds give
    took_s = pods[0].delete(grace_s)
    cluster.until("the others to go on", lambda: cluster.is_whole(1, 2, 3))
    pods[0].start()
    cluster.until("the pod to come back", lambda: cluster.is_whole(0, 1, 2, 3))
    print(
        f"preempted with {grace_s} s of grace: gone in good order after {took_s * 1000:.0f} ms, and back with another address"
    )

    pods[2].vanish()
    cluster.until("the others to go on without a vanished pod", lambda: cluster.is_whole(0, 1, 3))
    cluster.server.terminate()
    cluster.server.wait()
    before = pods[0].commits()[-1][0]
    cluster.until("steps without a name server", lambda: pods[0].commits()[-1][0] > before + 20)
    cluster.serve()
    pods[2].start()
    cluster.until("the vanished pod to come back", lambda: cluster.is_whole(0, 1, 2, 3))
    print("a pod vanished, and the name server for a while: the others went on, the pod came back")


def delete_all(cluster):
    pods = cluster.pods
    for pod in pods:
        pod.process.send_signal(signal.SIGTERM)
    for pod in pods:
        pod.delete()
    last = max(pod.commits()[-1][0] for pod in pods)
    for pod in pods:
        pod.start()
    cluster.until("all to meet again", lambda: cluster.is_whole(0, 1, 2, 3))
    first = min(pod.commits()[0][0] for pod in pods)
    if first != last + 1:
        fail(f"the last step was {last}, and they went on with {first}")
    print(f"all deleted and made anew: they went on with step {first}, after {last}")
    for pod in pods:
        pod.process.send_signal(signal.SIGTERM)
    for pod in pods:
        pod.delete()


def hosts_file(cluster, key, way):
    """docs/guide/engines.md: a file of hosts, or a command that prints them, instead of names of the DNS. A host that is added later joins."""
    path = f"{cluster.folder}/hosts.txt"
    nodes, logs = [], []

    def write(count):
        with open(path + ".new", "w") as file:
            file.write("# ours\n" + "".join(f"10.88.1.{i} slots=1\n" for i in range(count)))
        os.rename(path + ".new", path)

    def start(i):
        pod = cluster.pods[i]
        pod.ip("addr flush dev eth0")
        pod.ip(f"addr add 10.88.1.{i}/16 dev eth0")
        pod.ip("link set eth0 up")
        logs.append(f"{cluster.folder}/host-{i}.log")
        with open(logs[-1], "w") as log:
            nodes.append(
                subprocess.Popen(
                    [
                        "ip",
                        "netns",
                        "exec",
                        pod.netns,
                        SPOTNIK,
                        "run",
                        "-n",
                        "1",
                        "--min",
                        "2",
                        "--bind",
                        f"10.88.1.{i}",
                        "--peers",
                        way + path,
                        "--key-file",
                        key,
                        "--",
                        *TRAIN,
                    ],
                    stdout=log,
                    stderr=log,
                )
            )

    def sizes():
        found = []
        for path in logs:
            with open(path) as file:
                words = [line.split() for line in file if " commit " in line]
            found.append(int(words[-1][5]) if words and len(words[-1]) == 8 else 0)
        return found

    write(3)
    for i in range(3):
        start(i)
    cluster.until("three listed hosts to meet", lambda: sizes() == [3, 3, 3])
    write(4)
    start(3)
    cluster.until("a host that was added to the file", lambda: sizes() == [4, 4, 4, 4])
    for node in nodes:
        node.send_signal(signal.SIGTERM)
    if any(node.wait(PATIENCE_S) != 75 for node in nodes):
        fail(f"hosts of a file ended with {[node.returncode for node in nodes]}")
    print(f"{way}: three hosts met, the fourth was added to the file and joined")


def planned(folder):
    """What `spotnik plan` writes: its name."""
    plan = ["plan", "--prices", "builtin", "--type", "p3.2xlarge", "--machines", "4", "--only", "spot", "--target", "epochs=4"]
    path = f"{folder}/planned.yaml"
    with open(path, "w") as file:
        subprocess.run([SPOTNIK, *plan, "--deadline", "12h", "-o", "kubernetes", "--", "python", "train.py"], check=True, stdout=file)
    return path


def printed(folder, kind):
    """What `spotnik kubernetes` prints: its name. Two of the four pods begin the job."""
    path = f"{folder}/printed-{kind}.yaml"
    with open(path, "w") as file:
        command = [SPOTNIK, "kubernetes", "--pods", "2:4", "--image", "train:1", "--kind", kind, "--", "python", "train.py"]
        subprocess.run(command, check=True, stdout=file)
    return path


def others(name):
    """The pods of another manifest meet, and are deleted."""
    with tempfile.TemporaryDirectory(prefix="spotnik-k8s-") as folder, Cluster(folder, "REFUSED", name) as cluster:
        for pod in cluster.pods:
            pod.start()
        cluster.until(f"the pods of {name} to meet", lambda: cluster.is_whole(0, 1, 2, 3))
        for pod in cluster.pods:
            pod.process.send_signal(signal.SIGTERM)
        for pod in cluster.pods:
            pod.delete()
    print(f"{name}: four pods met; deleted, all left in good order")


def bag():
    """A pod that has not got a network: those of a bag meet in the folder alone."""
    jobs = 24
    with tempfile.TemporaryDirectory(prefix="spotnik-k8s-") as folder, Cluster(folder, "REFUSED", "bag.yaml") as cluster:
        for name, text in {"in.lj": "\n", "in.again": "\n", "jobs.csv": "job,T,seed\n" + "".join(f"j{i},0.{100 + i},{i}\n" for i in range(jobs))}.items():
            with open(f"{folder}/data/{name}", "w") as file:
                file.write(text)
        pods = cluster.pods[:3]
        for pod in pods:
            pod.start()

        def names(kind):
            there = f"{folder}/data/lj.bag/{kind}"
            return os.listdir(there) if os.path.isdir(there) else []

        cluster.until("jobs to be saved", lambda: len(names("saves")) >= 4)
        pods[0].delete(grace_s=25)
        pods[0].start()
        cluster.until("the bag to be done", lambda: len(names("results")) == jobs)
        for pod in pods:
            if pod.process.wait(PATIENCE_S) != 0:
                fail(f"a pod of the bag ended with {pod.process.returncode}: {pod.tail()}")
            pod.process = None
        ends = names("claims")
        if any(end.endswith(".failed") for end in ends) or not any(end.endswith(".returned") for end in ends):
            fail(f"claims: {sorted(ends)}")
    print(f"bag.yaml: {jobs} jobs on three pods; one was deleted and gave its jobs back, all were done")


def main():
    with tempfile.TemporaryDirectory(prefix="spotnik-plan-") as folder:
        made = [printed(folder, kind) for kind in ("job", "jobset", "trainjob")]
        for name in (planned(folder), *made):
            others(name)
    bag()
    files_before = os.listdir("/tmp")
    for missing in ("REFUSED", "NXDOMAIN"):
        with tempfile.TemporaryDirectory(prefix="spotnik-k8s-") as folder, Cluster(folder, missing) as cluster:
            live(cluster)
            if missing == "NXDOMAIN":
                delete_all(cluster)
                for way in ("hosts:", "exec:cat "):
                    hosts_file(cluster, f"{folder}/secret/key", way)
                cluster.until(
                    "the agents' files of hosts to be gone",
                    lambda: (
                        not [
                            name
                            for name in os.listdir("/tmp")
                            if name.startswith("spotnik-hosts-") and name not in files_before
                        ]
                    ),
                )


main()
