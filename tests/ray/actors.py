# SPDX-License-Identifier: Apache-2.0
"""The program of docs/guide/ray.md as it stands there, on two Ray nodes of this host. Claims: four workers form one job; a worker that is
killed, and both workers of a node that is killed, cost the others nothing: they train on in the same processes; Ray starts replacements,
which join; all end with the same state, in which each sample of each step was counted once.

    actors.py PAGE (by run.sh)"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from ray.cluster_utils import Cluster

LIMIT_S = 240
SAMPLES, BATCH = 60_000, 256  # of the page

TRAIN = '''
import os, time
import numpy as np
import spotnik

FOLDER = os.environ["RAY_TEST"]

def tell(job, step, node):
    text = f"{step.number} {step.size} {node}"
    with open(f"{FOLDER}/lives/{os.getpid()}.new", "w") as file:
        file.write(text)
    os.rename(f"{FOLDER}/lives/{os.getpid()}.new", f"{FOLDER}/lives/{os.getpid()}")

def run(job):
    """w: samples counted; whether somebody was told to stop; steps. All members read the same, so all stop at the same step."""
    import ray
    node = ray.get_runtime_context().get_node_id()
    w, g = np.zeros(3), np.zeros(3)
    spotnik.register("w", w)
    for step in job:
        tell(job, step, node)
        g[:] = sum(map(len, step.ranges)), os.path.exists(f"{FOLDER}/stop"), 0
        spotnik.start(g, op="sum")
        time.sleep(0.005)
        if job.step_commit():
            w += g
            w[2] += 1
        if w[1]:
            break  # between two steps: a member that ends within one is a loss to the others
    return w.tolist()
'''


def fail(what):
    sys.exit(f"FAILED: {what}")


def until(what, is_true, driver):
    end = time.monotonic() + LIMIT_S
    while not is_true():
        if driver.poll() is not None:
            fail(f"the page's program ended with {driver.returncode} before {what}")
        if time.monotonic() > end:
            fail(f"waited {LIMIT_S} s for {what}")
        time.sleep(0.05)  # between two looks; nothing rests on it


class Lives:
    """What each process says of itself: step, size of the view, Ray's node."""

    def __init__(self, folder, driver):
        self.folder, self.driver = folder, driver

    def all(self):
        found = {}
        for name in os.listdir(self.folder):
            if name.isdigit():
                with open(f"{self.folder}/{name}") as file:
                    step, size, node = file.read().split()
                found[int(name)] = (int(step), int(size), node)
        return found

    def at_work(self, count):
        """The processes of a view of `count`, if they are in it now."""
        lives = self.all()
        newest = max((step for step, _, _ in lives.values()), default=0)
        there = {pid: life for pid, life in lives.items() if life[0] >= newest - 3}
        return there if len(there) == count and all(size == count for _, size, _ in there.values()) else None

    def wait(self, count, after=0):
        """`count` processes that have all come beyond a step, in a view of their number."""
        found = []

        def there():
            found[:] = [self.at_work(count)]
            return found[0] and min(step for step, _, _ in found[0].values()) > after

        until(f"a view of {count}", there, self.driver)
        return found[0]


def steps_of(lives):
    return max(step for step, _, _ in lives.values())


def disturb(cluster, nodes, lives, folder):
    """A worker is killed, then a node; each time the others are the same processes, and replacements join."""
    before = lives.wait(4, 20)
    victim = min(before)
    os.kill(victim, signal.SIGKILL)
    after = lives.wait(4, steps_of(before) + 20)
    if not set(before) - {victim} < set(after) or victim in after:
        fail(f"{victim} of {sorted(before)} was killed: {sorted(after)} are there")
    print("a worker was killed: the other three trained on, its replacement joined")
    node = nodes.pop()
    gone = {pid for pid, (_, _, where) in after.items() if where == node.node_id}
    if not gone or len(gone) == 4:
        fail(f"Ray put {len(gone)} of 4 workers on one node")
    cluster.remove_node(node, allow_graceful=False)
    cluster.add_node(num_cpus=3)
    last = lives.wait(4, steps_of(after) + 20)
    if not set(after) - gone < set(last) or gone & set(last):
        fail(f"the node of {sorted(gone)} was killed: {sorted(last)} are there")
    print(f"a node was killed: {4 - len(gone)} workers trained on, {len(gone)} replacements joined from another one")
    open(f"{folder}/stop", "x").close()


def page(path, folder):
    """The page's program, and its folder as it says to make it."""
    with open(path) as file:
        program = re.search(r"```python\n(.*?)```", file.read(), re.S).group(1)
    os.makedirs(f"{folder}/shared/job")
    subprocess.run(["spotnik", "key", f"{folder}/shared/job.key"], check=True)
    return program.replace("/shared/", f"{folder}/shared/")


def main():
    with tempfile.TemporaryDirectory(prefix="spotnik-ray-") as folder:
        os.mkdir(f"{folder}/lives")
        with open(f"{folder}/train.py", "w") as file:
            file.write(TRAIN)
        os.environ.update({"RAY_TEST": folder, "PYTHONPATH": f"{folder}:{os.environ['PYTHONPATH']}"})
        program = page(sys.argv[1], folder)
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        nodes = [cluster.add_node(num_cpus=2) for _ in range(2)]
        os.environ["RAY_ADDRESS"] = cluster.address
        with open(f"{folder}/workers.py", "w") as file:
            file.write(program)
        driver = subprocess.Popen([sys.executable, f"{folder}/workers.py"], stdout=subprocess.PIPE, text=True)
        disturb(cluster, nodes, Lives(f"{folder}/lives", driver), folder)
        said = driver.communicate(timeout=LIMIT_S)[0]
        if driver.returncode:
            fail(f"the page's program ended with {driver.returncode}: {said}")
        ends = json.loads(re.search(r"^\[\[.*\]\]$", said, re.M).group())  # among what Ray says of its workers
        if len(ends) != 4 or any(end != ends[0] for end in ends):
            fail(f"the workers' ends differ: {ends}")
        samples, _, steps = ends[0]
        epochs, rest = divmod(steps, -(-SAMPLES // BATCH))  # the last step of an epoch has fewer samples
        if samples != epochs * SAMPLES + rest * BATCH or steps < 60:
            fail(f"{steps:.0f} steps, and {samples:.0f} samples were counted")
        print(f"all four ended with the same state: {steps:.0f} steps, {samples:.0f} samples, each counted once")
        cluster.shutdown()


if __name__ == "__main__":
    main()
