# SPDX-License-Identifier: Apache-2.0
"""What cannot be kept equal on all members, or survive the loss of one: named, with what to do instead."""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch
import torch.distributed
from torch.optim import Optimizer

from ..errors import ArgumentError, StateError
from ._places import place_here, process_group_size


def _kinds(one: object) -> set[str]:
    """Names of its classes, so that what need not be installed can be recognised."""
    return {kind.__name__ for kind in type(one).__mro__}


def check_objects(model: object, optimizers: Sequence[object], extra: Sequence[object]) -> None:
    """Are these a model, its optimisers, and what has a state?"""
    if not isinstance(model, torch.nn.Module):
        raise ArgumentError(f"the model must be a torch.nn.Module, not {type(model).__name__}")
    for one in optimizers:
        _check_optimizer(one)
    if not optimizers:
        raise ArgumentError("no optimizer was given; prepare(model, optimizer)")
    for other in extra:
        if isinstance(other, Optimizer):
            raise ArgumentError("give several optimizers as a list: prepare(model, [a, b], ...)")
        if not (hasattr(other, "state_dict") and hasattr(other, "load_state_dict")):
            raise ArgumentError(
                f"{type(other).__name__} has no state_dict() and load_state_dict(); only what has both can be sent to "
                "a joiner"
            )


def _check_optimizer(one: object) -> None:
    kinds = _kinds(one)
    if "AcceleratedOptimizer" in kinds:
        raise ArgumentError(
            "this optimizer was wrapped by accelerate; call spotnik.prepare(model, optimizer) first and give its "
            "result to accelerator.prepare()"
        )
    if "_FabricOptimizer" in kinds:
        raise ArgumentError(
            "this optimizer was wrapped by Lightning's Fabric; call spotnik.prepare(model, optimizer) first and give "
            "its result to fabric.setup()"
        )
    if "ZeroRedundancyOptimizer" in kinds:
        raise ArgumentError(
            "ZeroRedundancyOptimizer keeps each part of its state in one process, and a part that is lost is gone; use "
            "the optimizer that it wraps: every member has all of it"
        )
    if not isinstance(one, Optimizer):
        raise ArgumentError(
            "prepare() takes (model, optimizer, *others): the second is a torch optimizer or a list of them, not "
            f"{type(one).__name__}"
        )


def check_model(model: torch.nn.Module, is_sharded: bool) -> None:
    """Is it complete, on one device, and whole on every member?"""
    for name, module in model.named_modules():
        _check_layer(name, module, is_sharded)
    _check_devices(sorted({str(parameter.device) for parameter in model.parameters()}))
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ArgumentError("the model has no parameter to train (requires_grad)")


def _check_devices(devices: list[str]) -> None:
    if len(devices) > 1:
        raise ArgumentError(
            f"the parameters are on several devices ({', '.join(devices)}); move the model to one, model.to(device), "
            "before making the optimizer"
        )
    if "meta" in devices:
        raise ArgumentError(
            "the parameters have no memory yet (device meta); call model.to_empty() and initialise them"
        )


def _check_layer(name: str, module: torch.nn.Module, is_sharded: bool) -> None:
    kinds, where = _kinds(module), f"layer {name}" if name else "the model"
    if "FullyShardedDataParallel" in kinds:
        raise ArgumentError(
            f"{where} is FSDP1, whose parameters are flat pieces without a place in the model; use "
            "torch.distributed.fsdp.fully_shard()"
        )
    if "FSDPModule" in kinds and not is_sharded:
        raise ArgumentError(
            f"{where} was given to fully_shard() and has no shards; prepare it before its first forward"
        )
    if isinstance(module, torch.nn.SyncBatchNorm):
        raise ArgumentError(
            f"layer {name} is a SyncBatchNorm, which communicates by itself and cannot lose a member; use BatchNorm "
            "(its statistics are averaged after each step), spotnik.ghost_batchnorm(model, samples) or GroupNorm"
        )
    if "DetectionModel" in kinds and any(kind.__module__.startswith("ultralytics.") for kind in type(module).__mro__):
        raise ArgumentError(
            f"{where} is ultralytics' {type(module).__name__}, whose loss is divided by the targets of this member's "
            "share inside the model: it would be another training. Train it with one process; a classifier can have "
            "members (docs/guide/recipes.md)"
        )
    if any(isinstance(p, torch.nn.parameter.UninitializedParameter) for p in module.parameters(recurse=False)):
        raise ArgumentError(f"layer {name} is lazy and has no parameters yet; run a batch through the model first")


def check_process_group() -> None:
    """A process group of several, started by a library that found RANK and WORLD_SIZE, waits for the lost for ever.

    That of this process's own group ends with it.
    """
    size, where = process_group_size(), place_here()
    if where is not None and size not in (0, 1, where.size):
        raise StateError(
            f"a process group of {size} is initialised, and the group that is a member here has {where.size} "
            "processes: a group stands on one host, and what is between hosts is Spotnik's; use the RANK, WORLD_SIZE "
            "and MASTER_PORT that spotnik run --group has set"
        )
    if size > 1 and where is None:
        raise StateError(
            f"a process group of {size} ({torch.distributed.get_backend()}) is initialised in this process, and cannot "
            "lose any of them. Where its processes are to be one member, start them with 'spotnik run --group'. Where "
            "a library made it because RANK and WORLD_SIZE are set, start with 'spotnik run' without --torchrun-env, "
            "or call spotnik.hide_torchrun() first"
        )


def check_choices(sync: object, pauses: object) -> None:
    """Does a group of processes know these? They need collectives that a group does not have."""
    for name, is_chosen in (("sync", sync != "ssgd"), ("pauses", pauses is not None)):
        if is_chosen and place_here() is not None:
            raise ArgumentError(
                f"{name} is not for groups of processes yet; leave it out, or start each process as a member of its "
                "own: spotnik run without --group"
            )


def check_sharded(sync: object, commit: str, wire: str) -> None:
    """What a model of shards cannot have yet."""
    if sync != "ssgd" or commit != "backward" or wire != "auto":
        raise ArgumentError(
            'a sharded model (FSDP2, parameters that are DTensors) goes with sync="ssgd", commit="backward" and '
            'wire="auto"; leave these out'
        )


def check_launcher(solo: bool) -> None:
    """Several processes without a way to find each other would each train by themselves, unnoticed."""
    size = os.environ.get("WORLD_SIZE", "")
    if not solo or not size.isdigit() or int(size) < 2 or "RANK" not in os.environ:
        return
    raise StateError(
        f"this process is one of {size} (WORLD_SIZE) that torchrun or its like has started, but SPOTNIK_PEERS does "
        "not say where the others are: each would train by itself. Start them with: "
        f"spotnik run -n {size} -- python ...; or set SPOTNIK_PEERS and SPOTNIK_KEY_FILE for all of them; or, for a "
        "job of one, call spotnik.hide_torchrun() first"
    )
