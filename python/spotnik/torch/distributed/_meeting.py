# SPDX-License-Identifier: Apache-2.0
"""How the processes of a group find each other: by the job of ``spotnik run``, or by torchrun's store."""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
from collections.abc import Generator
from datetime import timedelta
from typing import Any, Optional
from urllib.parse import parse_qs, urlparse

import torch.distributed as dist
from torch.distributed.rendezvous import _rendezvous_handlers, register_rendezvous_handler

from ...config import Config
from ._dispatcher import Dispatcher
from ._errors import GroupError, NotSupportedError
from ._regroup import Regroup

__all__ = ["dispatcher_of", "register", "regroup_of"]

_gathered: Optional[Dispatcher] = None  # by the rendezvous, for the group that is made right after it


class NoStore(dist.Store):
    """Stands where torch wants a store. A group of this backend needs none."""

    def _refuse(self, *_: Any) -> Any:
        raise NotSupportedError(
            "this job has no store, and what was called needs one; start the program by torchrun, or pass store=..."
        )

    set = get = wait = add = check = compare_set = delete_key = num_keys = multi_get = multi_set = _refuse


def dispatcher_of(store: dist.Store, rank: int, size: int, timeout: timedelta) -> Dispatcher:
    """The dispatcher for a new group. Raises GroupError when two processes ask for one rank."""
    global _gathered
    dispatcher, _gathered = _gathered, None
    if dispatcher is None:
        config, kept = _config(store, rank, size)
        dispatcher = Dispatcher(config, rank, size, timeout.total_seconds(), kept)
    if dispatcher.rank != rank:
        dispatcher.abort()
        became = dispatcher.rank
        raise GroupError(f"this process asked for rank {rank} and became {became}; give each process its own rank")
    return dispatcher


def _config(store: dist.Store, rank: int, size: int) -> tuple[Config, object]:
    """Settings for a job of `size`, and what must live as long as it does."""
    if os.environ.get("SPOTNIK_PEERS") or size == 1:
        return Config(members_max=size), None
    if rank == 0:
        store.set("spotnik/key", secrets.token_hex(32))
    mine = _free_address()
    store.set(f"spotnik/address/{rank}", mine)
    addresses = [store.get(f"spotnik/address/{other}").decode() for other in range(size)]
    key = _key_from(store)
    return Config(members_max=size, bind=mine, peers=",".join(addresses), key_file=key.name), key


def regroup_of(store: dist.Store, rank: int) -> Regroup:
    """For a group that PyTorch's interface will reconfigure: all learn the key, by the environment or by the store."""
    if os.environ.get("SPOTNIK_KEY_FILE"):
        return Regroup(_free_address, None)
    if rank == 0:
        store.set("spotnik/key", secrets.token_hex(32))
    key = _key_from(store)
    return Regroup(_free_address, key.name, key)


def _key_from(store: dist.Store) -> Any:
    key = tempfile.NamedTemporaryFile("w", prefix="spotnik-key-")  # noqa: SIM115 (closed with its owner)
    key.write(store.get("spotnik/key").decode() + "\nmade\n")  # for this run alone: src/api/key.h
    key.flush()
    return key


def _free_address() -> str:
    """An address of this host on the network of MASTER_ADDR, with a port that is free now."""
    master = os.environ.get("MASTER_ADDR", "127.0.0.1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((master, 9))  # sends nothing; the kernel chooses the interface
        host = probe.getsockname()[0]
    with socket.socket() as listener:
        listener.bind((host, 0))
        return f"{host}:{listener.getsockname()[1]}"


Met = tuple[dist.Store, int, int]


def _meet(url: str, timeout: timedelta = dist.default_pg_timeout, **_: Any) -> Generator[Met, None, None]:
    """``spotnik://``: the job that SPOTNIK_PEERS names. Without ``?world_size=``, as many members as it waits for."""
    global _gathered
    asked = {name: int(values[-1]) for name, values in parse_qs(urlparse(url).query).items()}
    size = asked.get("world_size", int(os.environ.get("WORLD_SIZE", 0)))
    rank = asked.get("rank", int(os.environ.get("RANK", os.environ.get("SPOTNIK_SLOT", -1))))
    config = Config(members_max=size) if size > 0 else Config()
    _gathered = Dispatcher(config, rank, max(size, 0), timeout.total_seconds())
    yield NoStore(), _gathered.rank, _gathered.size
    raise GroupError("a group is made once; call reconfigure() to go on with the survivors")


def register() -> None:
    """Make ``init_process_group("spotnik")`` work in a job of ``spotnik run``, without the variables of torchrun."""
    register_rendezvous_handler("spotnik", _meet)
    theirs = _rendezvous_handlers["env"]  # no call of torch replaces a handler

    def env(url: str, timeout: timedelta = dist.default_pg_timeout, **more: Any) -> Any:
        by_job = os.environ.get("SPOTNIK_PEERS") and not os.environ.get("MASTER_ADDR")
        return (_meet if by_job else theirs)(url, timeout=timeout, **more)

    _rendezvous_handlers["env"] = env
