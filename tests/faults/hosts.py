# SPDX-License-Identifier: Apache-2.0
"""Hosts on one machine: network namespaces on a bridge, and what can be done to their network. Needs root, `ip` and
`iptables`."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MARK, PROXY_PORT = 7, 15001
PROXY = Path(__file__).with_name("proxy.py")


# Takes the hosts away when the run has ended, however it ended: then its standard input ends, too.
JANITOR = """
cat >/dev/null
for name; do
    ip netns pids "$name" 2>/dev/null | xargs -r kill -KILL
    ip netns del "$name" 2>/dev/null
done
true
"""


# Looks at every frame of every card, and writes which of the words (in hexadecimal) it has seen, until its input ends.
CAPTURE = """
import select, socket, sys
words, seen = [bytes.fromhex(word) for word in sys.argv[1:]], set()
card = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
card.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)  # SO_RCVBUFFORCE
print("ready", flush=True)
while sys.stdin not in select.select([card, sys.stdin], [], [])[0]:
    frame = card.recv(65536)
    seen |= {word.hex() for word in words if word in frame}
print(*seen, flush=True)
"""


class CannotRunError(Exception):
    """Why hosts cannot be had here."""


def ip(*words: str, check: bool = True) -> str:
    done = subprocess.run(["ip", *words], check=check, capture_output=True, text=True)
    return done.stdout


class Hosts:
    """`name`-0, `name`-1, ... on one switch. Rules are remembered, so that all can be taken away at once."""

    def __init__(self, count: int, name: str) -> None:
        self.count, self.name = count, name
        self.rules: list[tuple[int, tuple[str, ...]]] = []
        self.proxies: dict[int, subprocess.Popen[str]] = {}
        self.boots = [0] * count
        os.environ["PATH"] += ":/sbin:/usr/sbin"
        if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("iptables"):
            raise CannotRunError("network namespaces need root, and the programs ip and iptables")
        spaces = [self.netns(host) for host in range(count)] + [f"{name}-sw"]
        self.janitor = subprocess.Popen(
            ["sh", "-c", JANITOR, "janitor", *spaces], stdin=subprocess.PIPE, start_new_session=True
        )
        try:
            ip("netns", "add", f"{name}-sw")
            for bridge in ("br0", "br1"):
                ip("-n", f"{name}-sw", *["link", "add", bridge, "type", "bridge"])
                ip("-n", f"{name}-sw", *["link", "set", bridge, "up"])
            for host in range(count):
                self.boot(host)
            self.iptables(0, "-A", "INPUT", "-p", "tcp", "-m", "length", "--length", "60000:", "-j", "DROP")
            self.iptables(0, "-D", "INPUT", "-p", "tcp", "-m", "length", "--length", "60000:", "-j", "DROP")
        except subprocess.CalledProcessError as error:
            self.remove()
            raise CannotRunError(f"no network namespaces with iptables here: {error.stderr.strip()}") from error

    def netns(self, host: int) -> str:
        return f"{self.name}-{host}"

    def address(self, host: int) -> str:
        return f"10.79.0.{host + 1}"

    def on(self, host: int, *words: str) -> list[str]:
        return ["ip", "netns", "exec", self.netns(host), *words]

    def boot(self, host: int) -> None:
        space, switch = self.netns(host), f"{self.name}-sw"
        ip("netns", "add", space)
        ip("-n", space, *["link", "set", "lo", "up"])
        ip("-n", space, *["link", "add", "eth0", "type", "veth", "peer", "name"], f"p{host}", "netns", switch)
        ip("-n", switch, "link", "set", f"p{host}", "master", "br0", "up")
        # The same card after each boot: the others may know its address for half a minute.
        ip("-n", space, *["link", "set", "eth0", "address"], f"02:79:00:00:00:{host + 1:02x}")
        ip("-n", space, "addr", "add", f"{self.address(host)}/24", "dev", "eth0")
        ip("-n", space, "link", "set", "eth0", "up")

    def processes(self, host: int) -> list[int]:
        return [int(word) for word in ip("netns", "pids", self.netns(host), check=False).split()]

    def power_off(self, host: int) -> None:
        """No FIN leaves: the cable goes first, and the host's sockets never see another one."""
        ip("-n", f"{self.name}-sw", "link", "set", f"p{host}", "down")
        for pid in self.processes(host):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        ip("-n", f"{self.name}-sw", "link", "del", f"p{host}", check=False)
        ip("netns", "del", self.netns(host))
        self.rules = [rule for rule in self.rules if rule[0] != host]

    def power_on(self, host: int) -> None:
        self.boots[host] += 1  # another boot id, so another machine to the eyes of the others
        self.boot(host)

    def cable(self, host: int, state: str) -> None:
        """`down` or `up`. All paths of the host at once: one after the other, they leave a majority on either side."""
        ip("-n", f"{self.name}-sw", "link", "set", f"p{host}", state)

    def move(self, host: int, second: bool) -> None:
        """To the second switch, whose hosts reach each other alone, or back."""
        ip("-n", f"{self.name}-sw", "link", "set", f"p{host}", "master", "br1" if second else "br0")

    # ---- rules

    def iptables(self, host: int, *words: str, check: bool = True) -> None:
        subprocess.run(self.on(host, "iptables", "-w", "10", *words), check=check, capture_output=True, text=True)

    def rule(self, host: int, *words: str) -> tuple[int, tuple[str, ...]]:
        self.iptables(host, "-I", *words)
        self.rules.append((host, words))
        return host, words

    def undo(self, rules: list[tuple[int, tuple[str, ...]]]) -> None:
        for rule in rules:
            if rule in self.rules:
                self.rules.remove(rule)
                self.iptables(rule[0], "-D", *rule[1])

    def drop(self, to: int, source: int) -> tuple[int, tuple[str, ...]]:
        return self.rule(to, "INPUT", "-s", self.address(source), "-j", "DROP")

    @contextlib.contextmanager
    def capture(self, words: list[bytes]) -> Iterator[set[bytes]]:
        """What passes the switch meanwhile: the words that were seen stand in the set afterwards."""
        seen: set[bytes] = set()
        python = ["ip", "netns", "exec", f"{self.name}-sw", sys.executable, "-c", CAPTURE]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen([*python, *(word.hex() for word in words)], **pipes) as looks:  # type: ignore[call-overload]
            looks.stdout.readline()
            yield seen
            seen |= {bytes.fromhex(word) for word in looks.communicate()[0].split()}

    # ---- proxies

    def use_proxies(self, delay_ms: int = 0) -> None:
        for host in range(self.count):
            self.redirect(host, delay_ms)

    def redirect(self, host: int, delay_ms: int = 0) -> None:
        for other in range(self.count):
            if other != host:
                where = f"-t nat -A OUTPUT -p tcp -d {self.address(other)} -m mark ! --mark {MARK}"
                self.iptables(host, *where.split(), "-j", "REDIRECT", "--to-ports", str(PROXY_PORT))
        self.start_proxy(host, delay_ms)

    def start_proxy(self, host: int, delay_ms: int = 0) -> None:
        words = self.on(host, sys.executable, str(PROXY), str(PROXY_PORT), str(MARK), str(delay_ms))
        self.proxies[host] = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert self.proxies[host].stdout is not None
        self.proxies[host].stdout.readline()  # type: ignore[union-attr]

    def end_proxy(self, host: int) -> None:
        if host in self.proxies:
            proxy = self.proxies.pop(host)
            proxy.kill()
            proxy.wait()

    def end_proxies(self) -> None:
        for host in list(self.proxies):
            self.end_proxy(host)
            self.iptables(host, "-t", "nat", "-F", "OUTPUT")

    # ---- the end

    def remove(self) -> None:
        for host in list(self.proxies):
            self.end_proxy(host)
        self.janitor.communicate()
