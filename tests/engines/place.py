# SPDX-License-Identifier: Apache-2.0
"""What the tests of this folder share: network, processes, host name and mounts that nobody else
sees, and the words of a page."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from faults.process import fail, skip

INSIDE = "SPOTNIK_TEST_INSIDE"  # set in the namespaces


def within_namespace(up):
    """The rest runs in namespaces in which the shell commands `up` were done, and no process stays behind."""
    if os.environ.get(INSIDE):
        return
    if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("ip"):
        skip("only root can make a network namespace, with unshare and ip")
    space = ["unshare", "--net", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if subprocess.run([*space, "sh", "-c", up], capture_output=True).returncode:
        skip("no network namespace can be made here")
    os.environ[INSIDE] = "1"
    os.execvp("unshare", [*space, "sh", "-c", f'{up} && exec "$@"', "sh", sys.executable, *sys.argv])


def words(path, pattern):
    """What a page says, by a pattern with one group."""
    with open(path) as file:
        found = re.search(pattern, file.read(), re.S | re.M)
    if not found:
        fail(f"{path} has no {pattern}")
    return found.group(1)


def kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def end_all():
    """Every other process of the namespace is killed and has ended: none writes to the folder any more."""
    if os.getpid() != 1:
        fail("this process is not the first of a namespace")
    kill(-1)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
