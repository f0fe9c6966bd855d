# SPDX-License-Identifier: Apache-2.0
"""The words that are the same for every framework."""

from __future__ import annotations

import os
import pickle
from typing import Any, Optional

from ..errors import ArgumentError, StateError
from ..job import Config
from ._world import once, world

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "Max",
    "Min",
    "Product",
    "Sum",
    "allgather_object",
    "barrier",
    "broadcast_object",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "rocm_built",
    "shutdown",
    "size",
]

Average, Sum, Adasum, Min, Max, Product = "mean", "sum", "adasum", "min", "max", "product"


class _None:
    wire: Optional[str] = None


class _Half:
    wire: Optional[str] = "f16"


class Compression:
    """What gradients travel as."""

    none = _None
    fp16 = _Half


def init(*_ignored: Any, config: Optional[Config] = None, elastic: Optional[bool] = None, **_more: Any) -> None:
    """Begin; the job itself is joined by the first collective call.

    `elastic`: will ``elastic.run`` come? Calls before it are this member's own then. Default: it will when
    `spotnik run` got a range of members and the words are in the program.
    """
    world.config, world.elastic = config, elastic
    once("rank() and size() are those of the start until members come or go; then they change, and nobody aborts")


def shutdown() -> None:
    """Leave the job."""
    world.leave()


def is_initialized() -> bool:
    """Always: init() has nothing to wait for."""
    return True


def rank() -> int:
    """This member's place, from 0."""
    return world.rank


def size() -> int:
    """How many members there are."""
    return world.size


def local_rank() -> int:
    """The place of this worker on its machine: what picks a GPU."""
    return int(os.environ.get("SPOTNIK_SLOT", "0"))


def local_size() -> int:
    """How many workers this machine was asked to run."""
    return int(os.environ.get("SPOTNIK_SLOTS", "1"))


def cross_rank() -> int:
    """0: machines have no places here."""
    once("cross_rank() and cross_size() are 0 and 1: machines have no places in a job")
    return 0


def cross_size() -> int:
    """1: machines have no places here."""
    cross_rank()
    return 1


def _no() -> bool:
    return False


mpi_enabled = mpi_built = gloo_enabled = gloo_built = nccl_built = ddl_built = ccl_built = cuda_built = rocm_built = _no
mpi_threads_supported = is_homogeneous = _no


def barrier(process_set: Any = None) -> None:
    """Wait until every member has come here."""
    check_set(process_set)
    world.wait()


def join(*_ignored: Any) -> int:
    """Not here: raises StateError, which says what to do."""
    raise StateError("join() has no counterpart: give every member the same number of steps, or shard by spotnik.shard")


def broadcast_object(obj: Any, root_rank: int = 0, name: Optional[str] = None, process_set: Any = None) -> Any:
    """What the member of rank `root_rank` has; pickled, as Horovod does: members of a job trust each other."""
    check_set(process_set)
    return pickle.loads(world.broadcast(pickle.dumps(obj), root_rank))


def allgather_object(obj: Any, name: Optional[str] = None, process_set: Any = None) -> list[Any]:
    """What all members have, in order of rank."""
    check_set(process_set)
    return [pickle.loads(one) for one in world.gather(pickle.dumps(obj))]


def check_set(process_set: Any) -> None:
    """Refuse process sets."""
    if process_set is not None:
        raise ArgumentError("process_set has no counterpart: a collective is of all members of the job")


def operation(average: Optional[bool], op: Optional[str]) -> str:
    """The operation that a call asks for."""
    if op is None:
        return "mean" if average is None or average else "sum"
    if op == Adasum:
        once("Adasum is not here: gradients are averaged. Do not scale the learning rate as for Adasum")
        return "mean"
    if op not in (Average, Sum, Min, Max, Product):
        raise ArgumentError(f"op must be Average, Sum, Min, Max or Product, not {op!r}")
    return op
