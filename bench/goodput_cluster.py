# SPDX-License-Identifier: Apache-2.0
"""The clusters of bench/goodput.py: for each way its nodes, which can be taken away whole, and the helpers that are never lost."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
NEEDS = {"spotnik": "torch, numpy", "torchrun": "torch", "torchft": "torch, torchft", "ray": "torch, ray.train.torch"}
WAYS = tuple(NEEDS)
MARK = "GOODPUT_NODE"  # in the environment of all that belongs to a node
Line = dict[str, Any]

# What Ray's documents say to turn, for losses that come every few seconds.
RAY = {"RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5", "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "10", "RAY_health_check_initial_delay_ms": "1000",
       "RAY_health_check_period_ms": "500", "RAY_health_check_failure_threshold": "3", "RAY_health_check_timeout_ms": "5000",
       "RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_IMPORT_WARNING": "1", "SPT_NOENV": "1"}


def why_not(way: str) -> str:
    """The reason why a way cannot be run here; "" when it can."""
    done = subprocess.run([sys.executable, "-c", "import " + NEEDS[way]], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["?"])[-1]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Cluster:
    """Workers of one way, `first` at the beginning and `most` at once. A node is a process group of its own, which is killed whole."""

    def __init__(self, way: str, options: argparse.Namespace, first: int, most: int) -> None:
        self.way, self.options, self.first, self.most = way, options, first, most
        self.folder = Path(tempfile.mkdtemp(prefix="spotnik-goodput-"))
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}
        self.helpers: list[subprocess.Popen[bytes]] = []
        self.started = 0
        self.log = self.folder / "steps"
        self.log.touch()
        self.out = open(self.folder / "out", "wb")  # noqa: SIM115
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parent / "python"),
                            "SPOTNIK_LIBRARY": str(options.build / "src/libspotnik.so")}
        self.port = free_port()
        getattr(self, f"_open_{way}")()

    def _mark(self, node: str) -> str:
        return f"{self.folder}/{node}"

    def _start(self, node: str, *command: str) -> subprocess.Popen[bytes]:
        environment = {**self.environment, MARK: self._mark(node)}
        return subprocess.Popen(command, stdout=self.out, stderr=self.out, env=environment, start_new_session=True)

    def _help(self, *command: str) -> None:
        self.helpers.append(self._start("helper", *command))

    def _open_spotnik(self) -> None:
        (self.folder / "peers").mkdir()
        key = self.folder / "key"
        subprocess.run([str(self.options.build / "cli/spotnik"), "key", str(key)], check=True)
        self.environment |= {"SPOTNIK_PEERS": f"file:{self.folder}/peers", "SPOTNIK_KEY_FILE": str(key), "SPOTNIK_CHECKPOINT": str(self.folder / "checkpoints"),
                             "SPOTNIK_CHECKPOINT_S": f"{self.options.checkpoint_s:g}"}

    def _open_torchrun(self) -> None:
        """The rendezvous' store lives on a machine that is never lost: better than any of theirs could do by itself."""
        self._help(sys.executable, "-c", f"import time, torch.distributed as d; s = d.TCPStore('127.0.0.1', {self.port}, is_master=True, "
                                         "wait_for_workers=False); time.sleep(1e6)")

    def _open_torchft(self) -> None:
        lighthouse = Path(__file__).with_name("torchft_lighthouse.py")
        self._help(sys.executable, str(lighthouse), "--min_replicas", "1", "--quorum_tick_ms", "100", "--join_timeout_ms", "1000", "--bind", f"[::]:{self.port}")
        self.environment["TORCHFT_LIGHTHOUSE"] = f"http://localhost:{self.port}"

    def _open_ray(self) -> None:
        """A head without resources, and on it the driver with the controller: neither is ever lost. The cluster has a token of its own."""
        token = self.folder / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
        self.environment |= {**RAY, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
        self._help(*self._ray_node("--head", f"--port={self.port}", "--include-dashboard=false", "--num-cpus=0"))
        self._wait_for_head(60)
        self._help(sys.executable, *self._worker(), "--ray", f"127.0.0.1:{self.port}", "--first", str(self.first), "--most", str(self.most))

    def _wait_for_head(self, limit_s: float) -> None:
        """Nodes that look for a head which does not listen yet give up."""
        until = time.monotonic() + limit_s
        while b"Ray runtime started" not in (self.folder / "out").read_bytes():
            if time.monotonic() > until:
                raise SystemExit(f"goodput: Ray's head did not start; see {self.folder}/out")
            time.sleep(0.1)

    def _ray_node(self, *more: str) -> list[str]:
        """Nodes share this host, so their ports and folders must not be those of a machine each. In one folder two nodes that start at
        once can choose one name for their sockets, and a raylet aborts."""
        self.started += 1
        return [str(Path(sys.executable).parent / "ray"), "start", "--block", "--node-ip-address=127.0.0.1", "--object-store-memory=100000000",
                "--min-worker-port=0", "--max-worker-port=0", "--dashboard-agent-listen-port=0",
                f"--temp-dir={self.folder}/{self.started}", *more]

    def _worker(self) -> list[str]:
        options = self.options
        return [str(HERE / "goodput_worker.py"), self.way, "--ledger", str(self.log), "--batch", str(options.batch), "--compute-ms", str(options.compute_ms),
                "--checkpoint", str(self.folder / "checkpoint"), "--checkpoint-s", str(options.checkpoint_s)]

    def _command(self) -> list[str]:
        worker = [sys.executable, *self._worker()]
        if self.way == "spotnik":  # an agent a node, as on a machine of its own
            return [str(self.options.build / "cli/spotnik"), "run", "-q", "-n", "1", "--", *worker]
        if self.way == "torchrun":
            return [sys.executable, "-m", "torch.distributed.run", f"--nnodes=1:{self.most}", "--nproc-per-node=1", "--max-restarts=100000",
                    "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{self.port}", "--rdzv-id=goodput",
                    "--rdzv-conf=is_host=0,last_call_timeout=1,join_timeout=600", *worker[1:]]
        if self.way == "ray":  # a node that does not come up is started again, as a service of its machine would
            return ["sh", "-c", 'while :; do "$@"; done', "node", *self._ray_node(f"--address=127.0.0.1:{self.port}", "--num-cpus=1")]
        return worker

    def add(self, name: str) -> None:
        self.nodes[name] = self._start(name, *self._command())

    def remove(self, name: str) -> None:
        kill_all(self.nodes.pop(name), self._mark(name))

    def _told(self) -> list[Line]:
        """What workers have told so far; a half line at the end is left."""
        text = self.log.read_text()
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines() if line.startswith("{") and line.endswith("}")]

    def lines(self) -> list[Line]:
        """What was committed so far."""
        return [line for line in self._told() if "step" in line]

    def ready(self) -> dict[str, float]:
        """When the first worker of each node could begin."""
        first: dict[str, float] = {}
        for line in self._told():
            if "ready" in line:
                first.setdefault(Path(line["ready"]).name, line["t"])
        return first

    def close(self, keep: bool) -> None:
        for node in list(self.nodes):
            self.remove(node)
        for helper in self.helpers:
            kill_all(helper, self._mark("helper"))
        self.out.close()
        if keep:
            print(f"goodput: kept {self.folder}", file=sys.stderr)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


def descendants(pid: int) -> set[int]:
    """Its children, those of every thread of it, and theirs."""
    found = set()
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found |= {int(child) for child in path.read_text().split()}
    return found.union(*map(descendants, found))


def marked(mark: str) -> set[int]:
    """Processes that were started with this mark in their environment, wherever they have gone since."""
    wanted, found = f"{MARK}={mark}".encode(), set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if wanted in path.read_bytes().split(b"\0"):
                found.add(int(path.parent.name))
    return found


def kill_all(process: subprocess.Popen[bytes], mark: str) -> None:
    """A machine goes at one instant with all it has: all are stopped until none is new, so nobody reacts or forks meanwhile."""
    stopped: set[int] = set()
    while fresh := ({process.pid} | descendants(process.pid) | marked(mark)) - stopped:
        send(fresh, signal.SIGSTOP)
        stopped |= fresh
    send(stopped, signal.SIGKILL)
    process.wait()


def send(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
