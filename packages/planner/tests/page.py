#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claim: the first three commands of docs/guide/planning.md, cut out of the page and run word by word, lead from nothing to a file for
SkyPilot that rents by the prices of the day. (The profile measures more briefly than on the page.) The lists come from a server on this machine (SPOTNIK_PRICES_MIRROR), and `./train` is an
example of this project. Usage: page.py SPOTNIK TRAIN PAGE."""
import os
import re
import subprocess
import sys
import tempfile

import prices as lists
import prices_network as network

spotnik, train, page = map(os.path.abspath, sys.argv[1:4])


def commands():
    with open(page) as source:
        block = re.search(r"```sh\n(.*?)```", source.read(), re.S).group(1)
    found = [line for line in block.splitlines() if line.strip() and not line.startswith("#")]
    assert len(found) == 3 and [line.split()[:2] for line in found] == [["spotnik", "prices"], ["spotnik", "profile"], ["spotnik", "plan"]], found
    return found


def shell(folder, server, line):
    clean = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy") and not key.startswith("SPOTNIK_")}
    print("$", line, flush=True)
    done = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, env={
        **clean, "PATH": os.path.join(folder, "bin") + os.pathsep + clean["PATH"], "XDG_CACHE_HOME": os.path.join(folder, "cache"),
        "SPOTNIK_PRICES_MIRROR": f"http://127.0.0.1:{server.server_port}"})
    assert done.returncode == 0, (line, done.stdout, done.stderr)
    return done


def task(folder):
    with open(os.path.join(folder, "task.yaml")) as source:
        text = source.read()
    assert "{batch}" not in text and "at prices of " in text, text
    assert "./train" in text and "any_of:" in text and re.search(r"^num_nodes: [1-9]", text, re.M), text
    return text, set(re.findall(r"instance_type: \"?([\w.-]+)", text))


def main(folder):
    os.mkdir(os.path.join(folder, "bin"))
    os.symlink(spotnik, os.path.join(folder, "bin", "spotnik"))
    with open(os.path.join(folder, "train"), "w") as script:
        script.write(f"#!/bin/sh\nexec '{train}' \"$@\" --steps 0 --quiet\n")
    os.chmod(script.name, 0o755)
    server = network.serve()
    prices, profile, plan = commands()
    # machines without accelerators: the profile is of this host's processors
    head = lists.AWS.split("\n", 1)[0]
    row = "{},,,{}.0,{}.0,,{},{},us-east-1,us-east-1a,x86_64"
    for cheap, dear in (("c7.one", "c7.two"), ("c7.two", "c7.one")):
        rows = [row.format(cheap, 4, 16, 0.2, 0.05), row.format(dear, 4, 16, 2, 0.5)]
        network.fill(etag=f'"{cheap}"')
        network.Pages.pages["/v8/aws/vms.csv"]["text"] = "\n".join([head, *rows, ""])
        network.Pages.pages["/v8/gcp/vms.csv"] = network.Pages.pages["/v8/azure/vms.csv"] = {"text": "", "status": 404}
        assert "aws: 2 offers" in shell(folder, server, prices).stdout
        if profile:
            # A busy machine may measure rounds that differ by 100 %; from those no plan can be made.
            shell(folder, server, profile.replace(" -- ", " --rounds 1 --seconds 2 -- "))
            profile = None  # the job stays what it is
        shell(folder, server, plan)
        text, rented = task(folder)
        assert rented == {cheap}, (rented, text)
    server.shutdown()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="spotnik-page-") as scratch:
        main(scratch)
    print("ok")
