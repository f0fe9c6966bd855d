# SPDX-License-Identifier: Apache-2.0
"""One job: its folder and key, the processes that are its members or agents, and the one digest of each step."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any, Optional

from faults.process import Process, environment


class Job:
    """In a folder that nobody has used. Its members meet in `peers`."""

    def __init__(self, folder: Path, spotnik: str = "spotnik") -> None:
        self.folder, self.spotnik, self.peers = Path(folder), spotnik, Path(folder) / "peers"
        self.peers.mkdir(mode=0o700, parents=True)
        (self.peers / "fresh").touch()  # made for this job alone
        self.spec = f"file:{self.peers}"
        self.key = self.key_new("key")
        self.processes: list[Any] = []
        self.digests: dict[int, str] = {}
        self.wrong: Optional[str] = None

    def key_new(self, name: str) -> Path:
        key = self.folder / name
        key.touch(mode=0o600)
        key.write_text(secrets.token_hex(32) + "\n")
        return key

    @property
    def where(self) -> list[str]:
        """The options that name it."""
        return ["--peers", self.spec, "--key-file", str(self.key)]

    def environment(self, **more: str) -> dict[str, str]:
        """The variables that name it, for a member without an agent."""
        return environment(**{"SPOTNIK_PEERS": self.spec, "SPOTNIK_KEY_FILE": str(self.key), **more})

    def begin(self, *words: Any, env: Optional[dict[str, str]] = None, kind: Any = Process, **more: Any) -> Any:
        """A process of the job: a member by its variables, or `spotnik run` by its options, too."""
        self.processes.append(kind(*words, env=self.environment(**(env or {})), **more))
        return self.processes[-1]

    def run(self, *words: Any, **more: Any) -> Any:
        """`spotnik run`: options, --, command."""
        return self.begin(self.spotnik, "run", *self.where, *words, **more)

    def settle(self, name: str, step: int, digest: str) -> None:
        """A member has this digest after that step; `wrong` tells of a second one."""
        if self.digests.setdefault(step, digest) != digest:
            self.wrong = f"{name} has {digest} after step {step}, another had {self.digests[step]}"

    def end(self) -> None:
        for process in self.processes:
            process.kill()
