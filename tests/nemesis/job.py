# SPDX-License-Identifier: Apache-2.0
"""The members of one job on the hosts, and the nemesis' hands: what each kind of fault does to them. All that happens
goes to faults.jsonl."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from faults.hosts import Hosts
from plan import PORT, Fault, World

Undo = Callable[[], None]


class Member:
    """A process that stands at a place, and how far its file says it is."""

    def __init__(self, name: str, place: int, host: int, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name, self.place, self.host, self.process, self.log = name, place, host, process, log
        self.born = time.monotonic()
        self.size = self.view = self.step = self.at = self.commit_ns = 0
        self.leaving = self.parked = self.killed = False
        self.rest = ""

    def look(self) -> None:
        if not self.log.exists():
            return
        with self.log.open() as lines:
            lines.seek(self.at)
            text = self.rest + lines.read()
            self.at = lines.tell()
        *whole, self.rest = text.split("\n")
        for line in whole:
            words = line.split(" ")
            if words[1] == "commit" and words[5] == "0":
                self.commit_ns, self.parked = int(words[0]), False
                self.step, self.view, self.size = (int(word) for word in words[2:5])
            elif words[1] == "wait":
                self.parked = words[2] == "1"


class Job:
    def __init__(self, world: World, hosts: Hosts, folder: Path, member: str, key: Path, options: list[str]) -> None:
        self.world, self.hosts, self.folder, self.member, self.key, self.options = (
            world,
            hosts,
            folder,
            member,
            key,
            options,
        )
        self.at: dict[int, Member] = {}  # by place
        self.not_before: dict[int, float] = {}  # whoever ends at once is not started again at once
        self.count = 0
        self.off: set[int] = set()
        self.random = random.Random(world.seed)
        self.faults = (folder / "faults.jsonl").open("a")
        for name in ("peers", "checkpoints", "dumps", "events", "hosts"):
            (folder / name).mkdir()
        for host in range(world.hosts):
            (folder / "hosts" / str(host)).mkdir()
            (folder / "hosts" / str(host) / "peers").symlink_to("../../peers")

    def tell(self, kind: str, **words: object) -> None:
        self.faults.write(json.dumps({"ns": time.monotonic_ns(), "kind": kind, **words}) + "\n")
        self.faults.flush()

    # ---- members

    def environment(self, place: int) -> dict[str, str]:
        host, world = self.world.places[place], self.world
        listed = ",".join(f"{self.hosts.address(of)}:{PORT + at}" for at, of in enumerate(world.places))
        more = {"SPOTNIK_FOLDER": world.folder} if world.folder else {}
        if world.checkpoints:
            more |= {"SPOTNIK_CHECKPOINT": str(self.folder / "checkpoints"), "SPOTNIK_CHECKPOINT_STEPS": "50"}
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("SPOTNIK_")},
            "SPOTNIK_JOB": "nemesis",
            "SPOTNIK_KEY_FILE": str(self.key),
            "SPOTNIK_PEERS": listed if world.peers == "list" else f"file:{self.folder}/hosts/{host}/peers",
            "SPOTNIK_BIND": f"{self.hosts.address(host)}:{PORT + place}",
            "SPOTNIK_HOST": f"{host}.{self.hosts.boots[host]}",
            "SPOTNIK_TRANSPORT": world.transport,
            "SPOTNIK_STALE_MS": str(world.stale_ms),
            "SPOTNIK_MAX": "16",
            "SPOTNIK_DUMP": str(self.folder / "dumps"),
            "SPOTNIK_EVENTS": str(self.folder / "events"),
            **more,
        }

    def start(self, place: int) -> None:
        host = self.world.places[place]
        if place in self.at or host in self.off or time.monotonic() < self.not_before.get(place, 0):
            return
        name = f"m-{self.count:04d}"
        self.count += 1
        log = self.folder / f"{name}.log"
        words = self.hosts.on(host, self.member, str(log), *self.options)
        said = (self.folder / f"{name}.stderr").open("wb")
        process = subprocess.Popen(
            words, env=self.environment(place), stdout=said, stderr=said, stdin=subprocess.DEVNULL
        )
        said.close()
        self.at[place] = Member(name, place, host, process, log)
        self.tell("started", member=name, place=place, host=host, pid=process.pid)

    def reap(self) -> None:
        for place, member in list(self.at.items()):
            member.look()
            if member.process.poll() is not None:
                self.tell("exit", member=member.name, status=member.process.returncode)
                self.not_before[place] = member.born + 1
                del self.at[place]

    def signal(self, place: int, number: int) -> bool:
        member = self.at.get(place)
        if not member or member.process.poll() is not None:
            return False
        if number == signal.SIGKILL:
            self.tell("killed", member=member.name)
            member.killed = True
        member.process.send_signal(number)
        return True

    def places(self, fault: Fault) -> list[int]:
        count = len(self.world.places)
        return [(fault.place + i) % count for i in range(min(fault.count, count))]

    # ---- what faults do; each returns how it is undone

    def do(self, fault: Fault) -> Undo | None:
        words = {name: value for name, value in vars(fault).items() if name not in ("at", "kind")}
        self.tell(fault.kind, **words)
        undo: Undo | None = getattr(self, f"do_{fault.kind}")(fault)
        return undo

    def do_kill(self, fault: Fault) -> None:
        for place in self.places(fault):
            self.signal(place, signal.SIGKILL)

    def do_total(self, fault: Fault) -> None:
        for place in range(len(self.world.places)):
            self.signal(place, signal.SIGKILL)

    def do_leave(self, fault: Fault) -> None:
        if self.signal(fault.place, signal.SIGTERM):
            self.at[fault.place].leaving = True

    def do_join(self, fault: Fault) -> None:
        self.reap()
        for place in self.places(fault):
            self.start(place)

    def do_stop(self, fault: Fault) -> Undo:
        stopped = [self.at[place] for place in self.places(fault) if self.signal(place, signal.SIGSTOP)]

        def go_on() -> None:
            for member in stopped:
                member.process.send_signal(signal.SIGCONT)

        return go_on

    do_stop_long = do_stop

    def do_poweroff(self, fault: Fault) -> None:
        if fault.host in self.off:
            return
        self.off.add(fault.host)
        for place, host in enumerate(self.world.places):
            if host == fault.host and place in self.at:
                self.tell("killed", member=self.at[place].name)
        self.hosts.end_proxy(fault.host)
        self.hosts.power_off(fault.host)

    def power_on(self) -> None:
        for host in sorted(self.off):
            self.hosts.end_proxy(host)
            self.hosts.power_on(host)
            if self.world.proxies:
                self.hosts.redirect(host)
        self.off.clear()

    def rules(self, rules: Sequence[tuple[int, ...]], make: Callable[..., tuple[int, tuple[str, ...]]]) -> Undo:
        made = [make(*rule) for rule in rules if not self.off & set(rule[:2])]
        return lambda: self.hosts.undo(made)

    def do_cut(self, fault: Fault) -> Undo:
        return self.rules([(fault.host, fault.other), (fault.other, fault.host)], self.hosts.drop)

    def do_one_way(self, fault: Fault) -> Undo:
        return self.rules([(fault.host, fault.other)], self.hosts.drop)

    def do_partition(self, fault: Fault) -> Undo:
        rest = [host for host in range(self.world.hosts) if host not in fault.side]
        pairs = [(one, two) for one in fault.side for two in rest]
        return self.rules(pairs + [(two, one) for one, two in pairs], self.hosts.drop)

    def do_loss(self, fault: Fault) -> Undo:
        words = f"INPUT -m statistic --mode random --probability {fault.share} -j DROP".split()
        return self.rules([(fault.host,)], lambda host: self.hosts.rule(host, *words))

    def do_reject(self, fault: Fault) -> Undo:
        def rule(host: int, other: int) -> tuple[int, tuple[str, ...]]:
            words = f"OUTPUT -p tcp -d {self.hosts.address(other)} -j REJECT --reject-with tcp-reset"
            return self.hosts.rule(host, *words.split())

        return self.rules([(fault.host, fault.other), (fault.other, fault.host)], rule)

    def do_proxy(self, fault: Fault) -> None:
        if fault.host not in self.off:
            self.hosts.end_proxy(fault.host)
            self.hosts.start_proxy(fault.host)

    # ---- the folder

    def record(self, names: str) -> Path | None:
        found = sorted((self.folder / "peers").glob(names))
        return self.random.choice(found) if found else None

    def do_tear(self, fault: Fault) -> None:
        path = self.record("member-*")
        if path:
            with contextlib.suppress(FileNotFoundError):
                os.truncate(path, path.stat().st_size // 2)

    def do_hide(self, fault: Fault) -> None:
        path = self.record("member-*")
        if path:
            link = self.folder / "peers" / f".hide-{time.monotonic_ns()}"
            link.symlink_to("nowhere")
            link.rename(path)

    def do_away(self, fault: Fault) -> Undo:
        link = self.folder / "hosts" / str(fault.host) / "peers"
        away = link.with_name("peers.away")
        if not link.is_symlink():
            return lambda: None
        link.rename(away)

        def back() -> None:
            away.rename(link)

        return back
