#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The liveness probe of generated manifests, as a kubelet runs it. Claims: it fails where no worker is, holds while a worker still
looks for its job, holds beside connections that starve the page, and fails once the worker is stopped.
Usage: probe.py SPOTNIK WORKER. Exit 77 where YAML cannot be read."""
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

try:
    import yaml
except ImportError:
    sys.exit(77)

SPOTNIK, WORKER = map(os.path.abspath, sys.argv[1:3])
HOST = "127.0.0.9"
PORTS = (21210, 21999)  # the first is that of a pod's first worker
PAGE = 21500


def probes():
    """Of `spotnik kubernetes` and of `spotnik plan`: the words, and the seconds that they have."""
    found = []
    for words in (["kubernetes", "--image", "x"], ["plan", "--prices", "builtin", "--type", "p3.2xlarge", "--target", "epochs=4", "--deadline",
                                                   "40h", "-o", "kubernetes"]):
        text = subprocess.run([SPOTNIK, *words, "--", "true"], check=True, capture_output=True, text=True).stdout
        job = next(document for document in yaml.safe_load_all(text) if document["kind"] == "Job")
        worker = job["spec"]["template"]["spec"]["containers"][0]
        assert worker["startupProbe"]["exec"] == worker["livenessProbe"]["exec"], worker
        found.append((worker["livenessProbe"]["exec"]["command"], worker["livenessProbe"]["timeoutSeconds"]))
    return found


def holds(folder, words, seconds):
    """The kubelet kills one that takes longer, and counts it as a failure."""
    env = {**os.environ, "POD_IP": HOST, "PATH": f"{folder}:{os.environ['PATH']}"}
    try:
        return subprocess.run([word.replace("/etc/spotnik/key", f"{folder}/key") for word in words], env=env, capture_output=True,
                              timeout=seconds).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def ask(folder):
    done = subprocess.run([SPOTNIK, "status", "--json", "--peers", f"{HOST}:{PORTS[0]}", "--key-file", f"{folder}/key"], capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def until(what, done):
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end, f"never: {what}"


def start(folder, port, *words):
    """A member of two; the other one has to come before steps begin."""
    with open(f"{folder}/{port}", "w") as out:
        return subprocess.Popen([SPOTNIK, "run", "-n", "1", "--min", "2", "--peers", f"{HOST}:{PORTS[0]},{HOST}:{PORTS[1]}", "--bind", f"{HOST}:{port}",
                                 "--key-file", f"{folder}/key", *words, "--", WORKER, "-u", "1000"], stdout=out, stderr=out)


def page():
    """A reader that never asks; None: the page is not served yet."""
    try:
        return socket.create_connection((HOST, PAGE), timeout=10)
    except ConnectionRefusedError:
        return None


def main(folder):
    os.symlink(SPOTNIK, f"{folder}/spotnik")
    subprocess.run([SPOTNIK, "key", f"{folder}/key"], check=True)
    commands = probes()
    assert not any(holds(folder, *command) for command in commands), "a probe holds where no worker is"
    runs = [start(folder, PORTS[0], "--http", f"{HOST}:{PAGE}")]
    try:
        until("the worker answers", lambda: ask(folder).get("pid"))
        assert all(holds(folder, *command) for command in commands), "a probe fails while the worker looks for its job"
        runs.append(start(folder, PORTS[1]))
        until("the two meet", lambda: ask(folder).get("size") == 2)
        until("the page is served", page)
        readers = [page() for _ in range(100)]
        assert all(readers) and all(holds(folder, *command) for command in commands), "readers of the page starve a probe"
        pid = int(ask(folder)["pid"])
        os.kill(pid, signal.SIGSTOP)
        assert not any(holds(folder, *command) for command in commands), "a probe holds for a worker that is stopped"
        os.kill(pid, signal.SIGCONT)
    finally:
        for run in runs:
            run.terminate()
            run.wait(timeout=60)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="spotnik-probe-") as scratch:
        main(scratch)
    print("ok")
