# SPDX-License-Identifier: Apache-2.0
"""What a seed means: a world, and storms of faults for it. Nothing here touches a machine; one seed is one plan, on
every machine.

A fault names places and hosts by number. Whether anybody stands there when it comes is the run's business: killing an
empty place does nothing. So the plan stays the same while the members' timing does not."""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, field

# kind: (how often it is drawn, heals after, in seconds). What never heals by itself has (0, 0).
KINDS: dict[str, tuple[int, tuple[float, float]]] = {
    "kill": (6, (0, 0)),
    "leave": (3, (0, 0)),
    "join": (6, (0, 0)),
    "stop": (3, (0.05, 0.6)),
    "stop_long": (2, (2, 9)),  # longer than silence, its ceiling, and T
    "poweroff": (3, (0, 0)),
    "cut": (3, (0.2, 6)),  # one pair, both ways
    "one_way": (3, (0.2, 6)),
    "partition": (3, (0.3, 8)),
    "loss": (2, (0.5, 4)),
    "reject": (2, (0.3, 4)),  # a firewall that refuses in the name of the host behind it
    "proxy": (3, (0, 0)),  # the proxy between two hosts starts again; worlds with proxies only
    "tear": (2, (0, 0)),
    "hide": (2, (0, 0)),  # a record that cannot be read
    "away": (2, (0.5, 8)),  # the folder is away for one host
    "total": (1, (0, 0)),  # everybody dies at one instant
}
FOLDER_KINDS = {"tear", "hide", "away"}
PORT = 4100


@dataclass
class Fault:
    at: float  # seconds from the beginning of the storm
    kind: str
    host: int
    other: int  # another host, where the fault has two
    place: int
    heal: float  # seconds; 0: it does not heal by itself
    side: list[int] = field(default_factory=list)  # hosts on one side of a partition
    share: float = 0.0  # of packets that are lost
    count: int = 1  # places from `place` on that are hit at once


@dataclass
class World:
    seed: int
    hosts: int
    places: list[int]  # the host of each
    peers: str  # "file" or "list"
    folder: str  # SPOTNIK_FOLDER
    transport: str
    stale_ms: int
    checkpoints: bool
    proxies: bool
    quiet: list[str]  # kinds that this world has not

    def words(self) -> dict[str, object]:
        return asdict(self)


def draw_world(seed: int) -> World:
    random_ = random.Random(f"world {seed}")
    hosts = random_.choice([2, 2, 3, 3, 4, 5])
    places = [host for host in range(hosts) for _ in range(random_.choice([1, 1, 1, 2]))]
    kinds = [kind for kind in KINDS if kind not in ("kill", "join")]
    peers = random_.choice(["file", "file", "file", "list"])
    folder = random_.choice(["witness", "witness", ""])
    return World(
        seed=seed,
        hosts=hosts,
        places=places,
        peers=peers,
        folder=folder if peers == "file" else "",
        transport=random_.choice(["auto", "tcp"]),
        stale_ms=4000,
        checkpoints=random_.random() < 0.4,
        proxies=random_.random() < 0.25,
        quiet=random_.sample(kinds, random_.randint(0, len(kinds) * 2 // 3)),
    )


def draw_fault(random_: random.Random, world: World, kinds: list[str], seconds: float) -> Fault:
    kind = random_.choices(kinds, [KINDS[kind][0] for kind in kinds])[0]
    least, most = KINDS[kind][1]
    host, other = random_.sample(range(world.hosts), 2)
    side = sorted(random_.sample(range(world.hosts), random_.randint(1, world.hosts - 1)))
    return Fault(
        at=round(random_.uniform(0, seconds), 3),
        kind=kind,
        host=host,
        other=other,
        place=random_.randrange(len(world.places)),
        heal=round(random_.uniform(least, most), 3),
        side=side,
        share=round(random_.uniform(0.01, 0.2), 3),
        count=random_.choice([1, 1, 1, 2, 3]),
    )


def draw_storm(world: World, number: int) -> list[Fault]:
    """The faults of the storm of that number, in order of time."""
    random_ = random.Random(f"storm {world.seed} {number}")
    kinds = [kind for kind in KINDS if kind not in world.quiet]
    kinds = [kind for kind in kinds if world.peers == "file" or kind not in FOLDER_KINDS]
    kinds = [kind for kind in kinds if world.proxies or kind != "proxy"]
    seconds = random_.choice([1.0, 4.0, 8.0])
    faults = [draw_fault(random_, world, kinds, seconds) for _ in range(random_.randint(1, 8))]
    return sorted(faults, key=lambda fault: fault.at)
