#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The real kubectl, and a server of the Kubernetes API that keeps objects in memory and runs nothing (kmock). Claims:
the server takes the job of the manifest, and the guide's kubectl patch makes it grow; `spotnik fleet --engine
kubernetes` brings it to the number that the plan wants, up and down, by patches that kubectl and the server
understand; it patches nothing when the number is right; it ends when a pod has succeeded.

    api.py SPOTNIK MANIFEST PAGE (by mocks.sh)"""

import asyncio
import os
import re
import shutil
import sys
import tempfile

import kmock

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../tests"))
from faults.process import fail

SPOTNIK, MANIFEST, PAGE = (os.path.abspath(path) for path in sys.argv[1:4])
LIMIT_S = 60
CONFIG = """apiVersion: v1
kind: Config
clusters: [{{name: mock, cluster: {{server: "{server}"}}}}]
contexts: [{{name: mock, context: {{cluster: mock, user: mock}}}}]
users: [{{name: mock, user: {{}}}}]
current-context: mock
"""


class Cluster:
    def __init__(self, folder, server):
        self.folder, self.server = folder, server
        self.write("config", CONFIG.format(server=str(server.url).rstrip("/")))

    def write(self, name, text):
        with open(f"{self.folder}/{name}", "w") as file:
            file.write(text)

    async def shell(self, command):
        """What it said; it must succeed."""
        env = {**os.environ, "KUBECONFIG": f"{self.folder}/config", "HOME": self.folder}
        said = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.STDOUT}
        child = await asyncio.create_subprocess_shell(command, env=env, cwd=self.folder, **said)
        said = (await asyncio.wait_for(child.communicate(), LIMIT_S))[0].decode()
        if child.returncode:
            fail(f"{command}: status {child.returncode}: {said}")
        return said

    async def fleet(self, *more):
        words = f"{SPOTNIK} fleet --engine kubernetes --name train --folder {self.folder} --every 20ms"
        return await self.shell(f"{words} --plan {self.folder}/plan {' '.join(more)}")

    async def parallelism(self):
        words = await self.shell("kubectl get job train -o 'jsonpath={.spec.parallelism} {.spec.completions}'")
        return [int(word) for word in words.split()]

    def patches(self):
        return [str(request.url.path) for request in self.server if str(request.method).endswith("PATCH")]


def the_job(folder):
    """The manifest's job alone: the server knows no services."""
    with open(MANIFEST) as file:
        documents = file.read().split("\n---\n")
    with open(f"{folder}/job.yaml", "w") as file:
        file.write(next(text for text in documents if "kind: Job" in text))


async def page(cluster):
    with open(PAGE) as file:
        patch = re.search(r"^(kubectl patch job train .*?) +#", file.read(), re.M).group(1)
    the_job(cluster.folder)
    await cluster.shell("kubectl apply --validate=false -f job.yaml")  # it has no schemas; another test has
    if await cluster.parallelism() != [4, 4]:
        fail(f"the manifest's job: {await cluster.parallelism()}")
    await cluster.shell(patch)
    if await cluster.parallelism() != [8, 8]:
        fail(f"{patch}: {await cluster.parallelism()}")
    print("kubectl: the server took the manifest's job, and the guide's patch made it grow to 8")


async def fleet(cluster):
    for wanted in (8, 11, 3, 3):
        cluster.write("plan", str(wanted))
        before, number = (await cluster.parallelism())[0], len(cluster.patches())
        await cluster.fleet("--once")
        if await cluster.parallelism() != [wanted, wanted]:
            fail(f"{wanted} wanted: {await cluster.parallelism()}")
        if len(cluster.patches()) != number + (wanted != before):
            fail(f"{wanted} wanted, {before} there: patched {cluster.patches()[number:]}")
    await cluster.shell("""kubectl patch job train -p '{"status":{"active":1,"succeeded":1}}'""")
    said = await cluster.fleet()
    if "the training is done" not in said:
        fail(f"a pod has succeeded: {said}")
    print("fleet: 8, 11 and 3 were wanted, and the job had them by one patch each; it ended with the training")


async def main():
    if not shutil.which("kubectl"):
        print("SKIPPED: there is no kubectl")
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="spotnik-api-") as folder:
        async with kmock.KubernetesEmulator() as server, kmock.Server(server, port=0, host="127.0.0.1"):
            server.resources.load_bundled()
            cluster = Cluster(folder, server)
            await page(cluster)
            await fleet(cluster)


asyncio.run(main())
