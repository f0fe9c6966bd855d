#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cases beside those of the other tests of the edges, on hosts that are network namespaces.
In all of them no step has two results. The files beside this one say what each claims.

    network_faults.py SPOTNIK WORKER [only]"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from pathlib import Path

from jobs_on_hosts import CannotRunError, Hosts, World, ip
from network_faults_common import COMMON
from network_faults_cut_off import CUT_OFF
from network_faults_cuts import CUTS
from network_faults_founding import FOUNDING
from network_faults_hostile import HOSTILE
from network_faults_losses import LOSSES
from network_faults_mistaken import MISTAKEN
from network_faults_odd import ODD
from network_faults_paths import PATHS
from network_faults_proxies import PROXIED
from network_faults_short import SHORT

HOSTS = 5
SCENARIOS = (*FOUNDING, *PROXIED, *PATHS, *LOSSES, *HOSTILE, *ODD, *MISTAKEN, *SHORT, *COMMON, *CUT_OFF, *CUTS)


def main() -> None:
    only = re.split("[ ,]", sys.argv[3]) if len(sys.argv) > 3 else [scenario.__name__ for scenario in SCENARIOS]
    try:
        hosts = Hosts(HOSTS, f"spotnik-nb-{os.getpid()}")
    except CannotRunError as why:
        print(f"SKIPPED: {why}")
        sys.exit(77)
    failed = []
    try:
        with tempfile.TemporaryDirectory() as root:
            for scenario in (one for one in SCENARIOS if one.__name__ in only):
                world = World(hosts, Path(root), scenario.__name__)
                begun = time.monotonic()
                try:
                    scenario(world)
                    print(f"{scenario.__name__}: well, {time.monotonic() - begun:.0f} s", flush=True)
                except SystemExit as error:
                    print(error.code, flush=True)
                    failed.append(scenario.__name__)
                finally:
                    world.end()
                    hosts.undo(list(hosts.rules))
                    for host in range(HOSTS):
                        if f"{hosts.netns(host)}" not in ip("netns", "list"):
                            hosts.power_on(host)
    finally:
        hosts.remove()
    sys.exit(f"FAILED: {', '.join(failed)}" if failed else 0)


main()
