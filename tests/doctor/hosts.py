#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""spotnik doctor between two hosts in network namespaces. Claims: where all is well it says so and ends with
0; and it finds, each with what to do: another key, another name, a key that others can read, nobody
listening, packets that vanish, large packets that vanish while small ones pass, folders that are not the
same, a folder that everybody may write to, a folder that is not there, one that cannot be written to, an address that
is not of this host, names without an address, another wire version, too few open files, no shared memory, a clock that
differs from the other host's and from the folder's; and of folders that cannot rename, that make a file twice, and whose
changes the other host sees late (these three by FUSE; skipped, with a line that says so, where there is none).

    hosts.py SPOTNIK WRONG_CLOCK"""

import os
import re
import subprocess
import sys
import tempfile

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from faults.hosts import CannotRunError, Hosts, ip
from faults.process import Process, fail, skip, wait_for

SPOTNIK, WRONG_CLOCK = (os.path.abspath(path) for path in sys.argv[1:3])
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "folder.py")
PYTHON = "/usr/bin/python3"  # Debian's, which has fusepy
try:
    HOSTS = Hosts(2, f"spotnik-dr-{os.getpid()}")
except CannotRunError as error:
    skip(error)
for space in (HOSTS.netns(0), HOSTS.netns(1)):
    # Whole packets, as on a wire: a bridge lets bundles of them pass whatever its MTU is.
    ip("-n", space, "link", "set", "eth0", "gso_max_segs", "1")


def switch(*words):
    """At the port of host 1."""
    ip("-n", f"{HOSTS.name}-sw", "link", "set", "p0", *words)


class Server(Process):
    """spotnik doctor --serve on host 1."""

    def __init__(self, *options):
        super().__init__(*HOSTS.on(0, SPOTNIK, "doctor", "--serve", "--bind", "10.79.0.1", *options))
        self.until("^waiting")


def doctor(*options, first=""):
    """(exit status, lines) of host 2, where a shell does something first."""
    command = HOSTS.on(1, "sh", "-c", first + '\nexec "$@"', "sh", SPOTNIK, "doctor", *options)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout.splitlines()


# Before a port of host 1: what a caller says first is said in another wire version.
OTHER_VERSION = """
import socket, threading

def pump(source, sink, change):
    while data := source.recv(65536):
        sink.sendall(data[:8] + bytes([data[8] + 40]) + data[9:] if change else data)
        change = False
    sink.shutdown(socket.SHUT_WR)

door = socket.create_server(("10.79.0.1", 7000))
print("listening", flush=True)
caller = door.accept()[0]
member = socket.create_connection(("10.79.0.1", 21299))
back = threading.Thread(target=pump, args=(member, caller, False))
back.start()
pump(caller, member, True)
back.join()
"""


def other_version(key):
    with Process(*HOSTS.on(0, sys.executable, "-c", OTHER_VERSION)) as between:
        between.until("listening")
        seen = doctor("10.79.0.1:7000", "--key-file", key, first="export SPOTNIK_TLS=off")
    expect("another wire version", 1, "BAD", "version", of=seen)


def wrong_clock(key, peers):
    """This host is an hour ahead."""
    first = f"export LD_PRELOAD={WRONG_CLOCK} ASAN_OPTIONS=verify_asan_link_order=0"
    seen = doctor("10.79.0.1", "--key-file", key, "--peers", f"file:{peers}", first=first)
    expect("a wrong clock", 0, "WARNING", "10.79.0.1", "its clock is -", "deadlines do", of=seen)
    expect("a wrong clock", 0, "WARNING", "peers folder", "its server's clock is -", of=seen)
    for line in seen[1]:
        told = re.search(r"clock is (-[\d.]+) s", line)
        if told and not -3700 < float(told[1]) < -3500:  # what the machine adds between two looks is no hour
            fail(f"this host is an hour ahead: {line}")


class Fault:
    """A folder with a fault, mounted."""

    def __init__(self, kind, real, point):
        os.mkdir(point, 0o700)
        self.point = point
        self.process = subprocess.Popen([PYTHON, FOLDER, kind, real, point])

    def __enter__(self):
        wait_for("the folder to be mounted", lambda: os.path.ismount(self.point))
        return self.point

    def __exit__(self, *_):
        subprocess.run(["umount", self.point], check=True)
        self.process.wait()


def has_fuse():
    command = [PYTHON, "-c", "import fusepy"]
    return os.path.exists("/dev/fuse") and subprocess.run(command, capture_output=True).returncode == 0


def faulty_folders(folder, key, peers):
    if not has_fuse():
        print("SKIPPED, this part: no /dev/fuse, or no fusepy (Debian: python3-fusepy)")
        return
    with Fault("copies", peers, f"{folder}/copies") as point:
        seen = doctor("--key-file", key, "--peers", f"file:{point}")
        expect("a folder that cannot rename", 1, "BAD", "peers folder", "not rename there", "not implemented", of=seen)
        if os.listdir(peers):
            fail(f"it leaves something in the folder: {os.listdir(peers)}")
    with Fault("forgets", peers, f"{folder}/forgets") as point:
        seen = doctor("--key-file", key, "--peers", f"file:{point}")
        expect("a folder that makes a file twice", 1, "BAD", "peers folder", "makes a file twice", of=seen)
    with Fault("stale", peers, f"{folder}/stale") as point, Server("--key-file", key, "--peers", f"file:{point}"):
        seen = doctor("10.79.0.1", "--key-file", key, "--peers", f"file:{peers}")
        expect("a folder with stale caches", 0, "WARNING", "10.79.0.1", "only after seconds", "actimeo", of=seen)


def own_host(folder, key):
    """What limits this host."""
    few = doctor("--key-file", key, first="ulimit -n 200")
    expect("few open files", 0, "WARNING", "limits", "ulimit -n", of=few)
    none = doctor("--key-file", key, first="trap '' XFSZ; ulimit -f 0")  # no file may have a size
    expect("no shared memory", 0, "WARNING", "shared memory", "over TCP", of=none)
    locked = f"{folder}/locked"
    os.mkdir(locked, 0o700)
    first = f"mount -t tmpfs -o ro,mode=0700 none {locked}"
    unwritable = doctor("--key-file", key, "--peers", f"file:{locked}", first=first)
    expect("a folder to read only", 1, "BAD", "cannot write", of=unwritable)


def expect(what, status, verdict, *words, of):
    code, lines = of
    found = [line for line in lines if line.startswith(verdict) and all(word in line for word in words)]
    if code != status or not found:
        fail(f"{what}: status {code}, wanted {status} and a line {verdict} with {words}:\n" + "\n".join(lines))
    print(f"{what}: {found[0]}")


def diagnose(folder):
    key, other, peers, elsewhere = (f"{folder}/{name}" for name in ("key", "other", "peers", "elsewhere"))
    for path in (key, other):
        subprocess.run([SPOTNIK, "key", path], check=True)
    for path in (peers, elsewhere):
        os.mkdir(path, 0o700)
    with Server("--key-file", key, "--peers", f"file:{peers}"):
        well = doctor("10.79.0.1", "--key-file", key, "--peers", f"file:{peers}", "--bind", "10.79.0.2")
        expect("all is well", 0, "fine", "way, key, name and version", of=well)
        expect("all is well", 0, "fine", "sees a new, a changed and a removed file", of=well)
        expect("all is well", 0, "fine", "large packets pass", of=well)
        if os.listdir(peers):
            fail(f"it leaves something in the folder: {os.listdir(peers)}")
        expect("another key", 1, "BAD", "another job key", "sha256sum", of=doctor("10.79.0.1", "--key-file", other))
        expect("another name", 1, "BAD", "another job", of=doctor("10.79.0.1", "--key-file", key, "--job", "elsewhere"))
        expect("nobody listens", 1, "BAD", "nobody listens there", of=doctor("10.79.0.1:5", "--key-file", key))
        job = ["10.79.0.1", "--key-file", key]
        seen = doctor(*job, "--peers", f"file:{elsewhere}")
        expect("another folder", 1, "BAD", "is another one than ours", of=seen)
        os.chmod(other, 0o644)
        expect("a key that others can read", 1, "BAD", "key", of=doctor("--key-file", other))
        os.chmod(elsewhere, 0o777)
        for what, status, verdict, word, *options in (
            ("no such folder", 1, "BAD", "no such folder", "--checkpoint", f"{folder}/nowhere"),
            ("an address of another host", 1, "BAD", "nobody can listen", "--bind", "10.79.0.1"),
            ("a folder for everybody", 0, "WARNING", "chmod o-w", "--peers", f"file:{elsewhere}"),
            ("a name without an address", 0, "WARNING", "has no address now", "--peers", "dns://localhost,a.invalid"),
        ):
            expect(what, status, verdict, word, of=doctor("--key-file", key, *options))
        other_version(key)
        own_host(folder, key)
        wrong_clock(key, peers)
        switch("mtu", "1000")
        expect("large packets vanish", 1, "BAD", "small packets pass and large ones vanish", of=doctor(*job))
        switch("mtu", "1500")
        switch("down")
        expect("packets vanish", 1, "BAD", "no answer", of=doctor(*job))
        switch("up")
    faulty_folders(folder, key, peers)


try:
    with tempfile.TemporaryDirectory(prefix="spotnik-doctor-") as scratch:
        diagnose(scratch)
finally:
    HOSTS.remove()
