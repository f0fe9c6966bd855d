# SPDX-License-Identifier: Apache-2.0
"""A Slurm of four nodes, or more, on this machine, in a network namespace of its own: slurmctld, a slurmd for each node, munged.
Nodes say that they have a GPU each. Test code only."""

import glob
import os
import shutil
import socket
import subprocess
import sys
import time

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from faults.process import skip

CONF = """ClusterName=spotnik
SlurmctldHost={host}(10.99.1.1)
SlurmctldPort=16817
AuthType=auth/munge
AuthInfo=socket={dir}/run/munge.socket,cred_expire=5
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation={dir}/state
SlurmctldPidFile={dir}/run/slurmctld.pid
SlurmdPidFile={dir}/run/slurmd.%n.pid
SlurmdSpoolDir={dir}/spool/%n
SlurmctldLogFile={dir}/log/slurmctld.log
SlurmdLogFile={dir}/log/slurmd.%n.log
CommunicationParameters=NoAddrCache
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
KillWait=10
InactiveLimit=0
MessageTimeout=10
SlurmdTimeout=60
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName=n[0-{last}] NodeHostname={host} NodeAddr=10.99.1.1 Port=[17001-1700{count}] CPUs=2 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=100 Gres=gpu:1 State=UNKNOWN
PartitionName=spot Nodes=n[0-{last}] Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE OverSubscribe=EXCLUSIVE
PartitionName=prio Nodes=n[0-{last}] MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF OverSubscribe=EXCLUSIVE
"""
PATIENCE_S = 90


class Lab:
    def __init__(self, folder, nodes=4):
        for tool in ("slurmctld", "slurmd", "munged", "srun", "sbatch", "ip", "nsenter"):
            if not shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
                skip(f"there is no {tool} (Debian: slurm-wlm, munge, iproute2)")
        if os.geteuid() != 0:
            skip("only root can make a network namespace for Slurm")
        self.nodes = nodes  # nine at most: their ports
        self.dir, self.netns, self.daemons = folder, f"spotnik-slurm-{os.getpid()}", []
        # Slurm signals workers, too: they do what most programs do.
        self.env = {**os.environ, "WORKER_DEAF": "1", "SLURM_CONF": f"{folder}/slurm.conf", "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}
        for name in ("SPOTNIK_PEERS", "SPOTNIK_KEY_FILE", "SPOTNIK_BIND"):
            self.env.pop(name, None)

    def __enter__(self):
        os.chmod(self.dir, 0o755)
        for name in ("run", "state", "log", *(f"spool/n{i}" for i in range(self.nodes))):
            os.makedirs(f"{self.dir}/{name}")
        with open(f"{self.dir}/slurm.conf", "w") as file:
            file.write(CONF.format(dir=self.dir, host=socket.gethostname(), count=self.nodes, last=self.nodes - 1))
        with open(f"{self.dir}/cgroup.conf", "w") as file:
            file.write("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")
        with open(f"{self.dir}/gres.conf", "w") as file:
            file.write("Name=gpu File=/dev/null\n")
        with open(f"{self.dir}/munge.key", "wb") as file:
            file.write(os.urandom(1024))
        os.chmod(f"{self.dir}/munge.key", 0o400)
        try:
            self.network()
            self.start()
        except (OSError, subprocess.CalledProcessError) as error:
            self.__exit__()
            skip(f"no Slurm can be started here: {error}")
        return self

    def network(self):
        for command in (
            f"ip netns add {self.netns}",
            f"ip netns add {self.netns}-far",
            f"ip -n {self.netns} link set lo up",
            f"ip -n {self.netns} link add s0 type veth peer name s1 netns {self.netns}-far",
            f"ip -n {self.netns}-far link set s1 up",
            f"ip -n {self.netns} addr add 10.99.1.1/24 dev s0",
            f"ip -n {self.netns} link set s0 up",
            f"ip -n {self.netns} route add default dev s0",
        ):
            subprocess.run(command.split(), check=True, capture_output=True)

    def inside(self, *command):
        return ["nsenter", f"--net=/run/netns/{self.netns}", *command]

    def daemon(self, *command):
        self.daemons.append(
            subprocess.Popen(self.inside(*command), env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        )

    def start(self):
        run = f"{self.dir}/run"
        self.daemon(
            "munged",
            "--foreground",
            "--force",
            f"--socket={run}/munge.socket",
            f"--key-file={self.dir}/munge.key",
            f"--pid-file={run}/munged.pid",
            f"--log-file={self.dir}/log/munged.log",
            f"--seed-file={run}/munge.seed",
        )
        self.until("munged to listen", lambda: os.path.exists(f"{run}/munge.socket"))
        self.daemon("slurmctld", "-D", "-f", f"{self.dir}/slurm.conf")
        for i in range(self.nodes):
            self.daemon("slurmd", "-D", "-f", f"{self.dir}/slurm.conf", "-N", f"n{i}")
        self.until(
            "idle nodes", lambda: self.tell("sinfo", "-h", "-N", "-p", "spot", "-o", "%T").split() == ["idle"] * self.nodes
        )

    def until(self, what, is_true, patience_s=PATIENCE_S):
        end = time.monotonic() + patience_s
        while not is_true():
            if time.monotonic() > end:
                log = f"{self.dir}/log/slurmctld.log"
                said = open(log).read().splitlines()[-15:] if os.path.exists(log) else []
                for path in glob.glob(f"{self.dir}/out/*") + glob.glob(f"{self.dir}/train/*.log"):
                    said += [path, *open(path).read().splitlines()[-4:]]
                raise OSError(
                    f"waited {patience_s} s for {what}; "
                    + "\n".join([self.tell("squeue", "-o", "%i %T %r %S %N"), *said])
                )
            time.sleep(0.05)  # between two questions; nothing rests on it

    def run(self, *command, **more):
        return subprocess.run(self.inside(*command), env=self.env, capture_output=True, text=True, **more)

    def tell(self, *command):
        return self.run(*command).stdout

    def __exit__(self, *_):
        if self.daemons:
            self.run("scancel", "--user=root")
            try:
                self.until("all jobs to end", lambda: not self.tell("squeue", "-h").strip(), 40)
            except OSError:
                pass
        for process in reversed(self.daemons):
            process.terminate()
        for process in self.daemons:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
        for name in (self.netns, f"{self.netns}-far"):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
