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

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

SPOTNIK, WRONG_CLOCK = (os.path.abspath(path) for path in sys.argv[1:3])
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "folder.py")
PYTHON = "/usr/bin/python3"  # Debian's, which has fusepy
NAME = f"spotnik-dr-{os.getpid()}"


def fail(what):
    sys.exit(f"FAILED: {what}")


def skip(why):
    print(f"SKIPPED: {why}")
    sys.exit(77)


def ip(*words, check=True):
    return subprocess.run(["ip", *words], check=check, capture_output=True, text=True)


def set_up():
    if not shutil.which("ip", path=os.environ["PATH"] + ":/sbin") or os.geteuid() != 0:
        skip("network namespaces need root and the program ip")
    try:
        ip("netns", "add", f"{NAME}-sw")
        ip("-n", f"{NAME}-sw", "link", "add", "br0", "type", "bridge")
        ip("-n", f"{NAME}-sw", "link", "set", "br0", "up")
        for i in (1, 2):
            ip("netns", "add", f"{NAME}-{i}")
            ip("-n", f"{NAME}-{i}", "link", "set", "lo", "up")
            ip(
                "-n",
                f"{NAME}-{i}",
                "link",
                "add",
                "eth0",
                "type",
                "veth",
                "peer",
                "name",
                f"p{i}",
                "netns",
                f"{NAME}-sw",
            )
            ip("-n", f"{NAME}-sw", "link", "set", f"p{i}", "master", "br0", "up")
            ip("-n", f"{NAME}-{i}", "addr", "add", f"10.77.0.{i}/24", "dev", "eth0")
            # Whole packets, as on a wire: a bridge lets bundles of them pass whatever its MTU is.
            ip("-n", f"{NAME}-{i}", "link", "set", "eth0", "gso_max_segs", "1", "up")
    except subprocess.CalledProcessError as error:
        tear_down()
        skip(f"no network namespaces here: {error.stderr}")


def tear_down():
    for name in (f"{NAME}-1", f"{NAME}-2", f"{NAME}-sw"):
        for pid in ip("netns", "pids", name, check=False).stdout.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), 9)
        ip("netns", "del", name, check=False)


class Server:
    """spotnik doctor --serve on host 1."""

    def __init__(self, *options):
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", f"{NAME}-1", SPOTNIK, "doctor", "--serve", "--bind", "10.77.0.1", *options],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.said = []
        for line in self.process.stdout:
            self.said.append(line)
            if line.startswith("waiting"):
                return
        fail("the other host does not serve: " + "".join(self.said))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def doctor(*options, first=""):
    """(exit status, lines) of host 2, where a shell does something first."""
    command = ["ip", "netns", "exec", f"{NAME}-2", "sh", "-c", first + '\nexec "$@"', "sh", SPOTNIK, "doctor", *options]
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

door = socket.create_server(("10.77.0.1", 7000))
print("listening", flush=True)
caller = door.accept()[0]
member = socket.create_connection(("10.77.0.1", 21299))
back = threading.Thread(target=pump, args=(member, caller, False))
back.start()
pump(caller, member, True)
back.join()
"""


def other_version(key):
    command = ["ip", "netns", "exec", f"{NAME}-1", sys.executable, "-c", OTHER_VERSION]
    quiet = subprocess.DEVNULL  # either end may close first
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=quiet, text=True) as between:
        between.stdout.readline()
        seen = doctor("10.77.0.1:7000", "--key-file", key)
        between.kill()
    expect("another wire version", 1, "BAD", "version", of=seen)


def wrong_clock(key, peers):
    """This host is an hour ahead."""
    first = f"export LD_PRELOAD={WRONG_CLOCK} ASAN_OPTIONS=verify_asan_link_order=0"
    seen = doctor("10.77.0.1", "--key-file", key, "--peers", f"file:{peers}", first=first)
    expect("a wrong clock", 0, "WARNING", "10.77.0.1", "its clock is -", "deadlines do", of=seen)
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
        while not os.path.ismount(self.point):
            if self.process.poll() is not None:
                fail("FUSE is there, and the folder was not mounted")
            time.sleep(0.05)  # between two looks; nothing rests on it
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
        seen = doctor("10.77.0.1", "--key-file", key, "--peers", f"file:{peers}")
        expect("a folder with stale caches", 0, "WARNING", "10.77.0.1", "only after seconds", "actimeo", of=seen)


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
        well = doctor("10.77.0.1", "--key-file", key, "--peers", f"file:{peers}", "--bind", "10.77.0.2")
        expect("all is well", 0, "fine", "way, key, name and version", of=well)
        expect("all is well", 0, "fine", "sees a new, a changed and a removed file", of=well)
        expect("all is well", 0, "fine", "large packets pass", of=well)
        if os.listdir(peers):
            fail(f"it leaves something in the folder: {os.listdir(peers)}")
        expect("another key", 1, "BAD", "another job key", "sha256sum", of=doctor("10.77.0.1", "--key-file", other))
        expect("another name", 1, "BAD", "another job", of=doctor("10.77.0.1", "--key-file", key, "--job", "elsewhere"))
        expect("nobody listens", 1, "BAD", "nobody listens there", of=doctor("10.77.0.1:5", "--key-file", key))
        expect(
            "another folder",
            1,
            "BAD",
            "is another one than ours",
            of=doctor("10.77.0.1", "--key-file", key, "--peers", f"file:{elsewhere}"),
        )
        os.chmod(other, 0o644)
        expect("a key that others can read", 1, "BAD", "key", of=doctor("--key-file", other))
        expect(
            "no such folder",
            1,
            "BAD",
            "no such folder",
            of=doctor("--key-file", key, "--checkpoint", f"{folder}/nowhere"),
        )
        expect(
            "an address of another host",
            1,
            "BAD",
            "nobody can listen",
            of=doctor("--key-file", key, "--bind", "10.77.0.1"),
        )
        os.chmod(elsewhere, 0o777)
        expect(
            "a folder for everybody",
            0,
            "WARNING",
            "chmod o-w",
            of=doctor("--key-file", key, "--peers", f"file:{elsewhere}"),
        )
        expect(
            "a name without an address",
            0,
            "WARNING",
            "has no address now",
            of=doctor("--key-file", key, "--peers", "dns://localhost,a.invalid"),
        )
        other_version(key)
        own_host(folder, key)
        wrong_clock(key, peers)
        ip("-n", f"{NAME}-sw", "link", "set", "p1", "mtu", "1000")
        expect(
            "large packets vanish",
            1,
            "BAD",
            "small packets pass and large ones vanish",
            of=doctor("10.77.0.1", "--key-file", key),
        )
        ip("-n", f"{NAME}-sw", "link", "set", "p1", "mtu", "1500")
        ip("-n", f"{NAME}-sw", "link", "set", "p1", "down")
        expect("packets vanish", 1, "BAD", "no answer", of=doctor("10.77.0.1", "--key-file", key))
        ip("-n", f"{NAME}-sw", "link", "set", "p1", "up")
    faulty_folders(folder, key, peers)


set_up()
try:
    with tempfile.TemporaryDirectory(prefix="spotnik-doctor-") as scratch:
        diagnose(scratch)
finally:
    tear_down()
