# SPDX-License-Identifier: Apache-2.0
"""Accelerate: what accelerator.prepare() does, together with the other members of the job.

    import spotnik.accelerate as spotnik
    model, optimizer, loader, scheduler = spotnik.prepare(accelerator, model, optimizer, loader, scheduler)

In place of ``accelerator.prepare(model, ...)``; the loop stays as it is: ``accelerator.accumulate()``, ``backward()``,
``clip_grad_norm_()``. What else it calls (``spotnik.epochs()``, ``spotnik.rank()``) is that of ``spotnik.torch``. To
accelerate each member is a process by itself, or a group of processes (``spotnik run --group``): those of FSDP2 or of
DistributedDataParallel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader

from . import torch as _all
from .errors import ArgumentError, LibraryError, StateError
from .torch import clip_grad_norm_, rank, shard
from .torch import prepare as prepare_objects
from .torch._loader import Shard
from .torch._places import ALONE, place_here
from .torch._session import current

try:
    from accelerate import Accelerator, PartialState  # type: ignore[import-not-found, import-untyped, unused-ignore]
    from accelerate.utils import send_to_device  # type: ignore[import-not-found, import-untyped, unused-ignore]
except ImportError as error:
    raise LibraryError("spotnik.accelerate needs accelerate: pip install accelerate") from error

__all__ = ["prepare"]


def __getattr__(name: str) -> Any:
    if name not in _all.__all__:
        raise AttributeError(f"module 'spotnik.accelerate' has no attribute {name!r}")
    return getattr(_all, name)


def prepare(accelerator: Accelerator, *objects: Any, **settings: Any) -> tuple[Any, ...]:
    """Prepare models, optimisers, loaders, schedulers and what else has a state, in any order; returns them in that.

    The first loader is the training data: its samples are shared among the members, and its batch_size is that of all
    of them. Other loaders are each member's own, to evaluate with. Gradients are accumulated as often as
    ``Accelerator(gradient_accumulation_steps=k)`` says. ``accelerator.is_main_process`` is true on one member only,
    from its first batch on: on another when that is lost. `settings` are those of :func:`spotnik.torch.prepare`. What
    has a ``state_dict()`` travels to joiners, an average of the weights say; so does what was registered before by
    ``accelerator.register_for_checkpointing()``.

    In a group (``spotnik run --group``) the Accelerator is that of the group's processes. It shards the model with
    ``FullyShardedDataParallelPlugin(fsdp_version=2)``; without a plugin each process has a copy. Loaders that are not
    the first are dealt among the processes of each group, as accelerate does.

    Raises StateError where accelerate has made another process group, and ArgumentError for what cannot be prepared.
    """
    check(accelerator)
    if "accumulate" in settings:
        raise ArgumentError("accumulation is accelerate's: say Accelerator(gradient_accumulation_steps=k)")
    models = [one for one in objects if isinstance(one, torch.nn.Module)]
    optimizers = [one for one in objects if isinstance(one, Optimizer)]
    schedulers = [one for one in objects if isinstance(one, LRScheduler)]
    if not models:
        raise ArgumentError("no model was given; prepare(accelerator, model, optimizer, loader, scheduler)")
    for model in models:
        model.to(accelerator.device)
    whole = models[0] if len(models) == 1 else torch.nn.ModuleList(models)
    made: dict[int, Any] = {}
    if accelerator.num_processes > 1:
        if len(models) > 1:
            raise ArgumentError("accelerate prepares one model in a group; make one module of them")
        given = [whole, *optimizers]
        made = dict(zip(map(id, given), accelerator.prepare(*given)))
        whole = made[id(whole)]
        adapt(accelerator)
    accumulate = accelerator.gradient_accumulation_steps
    more = _others([*objects, *getattr(accelerator, "_custom_objects", [])])
    prepare_objects(whole, optimizers, *schedulers, *more, accumulate=accumulate, **settings)
    loaders = [one for one in objects if isinstance(one, (DataLoader, Shard))]
    shared = {id(one): _Batches(accelerator, one) for one in loaders[:1]}
    made.update(shared)
    return tuple(made[id(one)] if id(one) in made else _prepared(accelerator, one) for one in objects)


def _prepared(accelerator: Accelerator, one: Any) -> Any:
    """As accelerate prepares it. A scheduler steps once for each step of the job, not once for each process."""
    made = accelerator.prepare(one)
    if isinstance(one, LRScheduler) and accelerator.num_processes > 1:
        made.split_batches = True
    return made


def check(accelerator: Accelerator) -> None:
    """Has it the processes of this member, and what these can hold?"""
    size = (place_here() or ALONE).size
    if accelerator.num_processes != size:
        raise StateError(
            f"the Accelerator is one of {accelerator.num_processes} processes, and the member has {size}: it cannot "
            "lose any of them. Start them as one member, by 'spotnik run --group'; or with 'spotnik run' without "
            "--torchrun-env, or call spotnik.torch.hide_torchrun() before making it"
        )
    kind = accelerator.distributed_type.value
    if not (kind == "NO" or kind.startswith("MULTI_") or accelerator.is_fsdp2):
        raise ArgumentError(
            f"accelerate's {kind} keeps parts of the model that no other member can read. In a group say "
            "FullyShardedDataParallelPlugin(fsdp_version=2), or with a Trainer TrainingArguments(fsdp=True)"
        )


def adapt(accelerator: Accelerator) -> None:
    """Clip by the norm that has the same bits in groups of all sizes."""
    own = accelerator.clip_grad_norm_

    def clip(parameters: Any, max_norm: float, norm_type: float = 2) -> Any:
        if norm_type != 2:
            return own(parameters, max_norm, norm_type=norm_type)
        accelerator.unscale_gradients()
        return torch.tensor(clip_grad_norm_(parameters, max_norm))

    accelerator.clip_grad_norm_ = clip


def _others(objects: Iterable[Any]) -> list[Any]:
    """What is no part of the training, and has a state that a joiner needs; each once."""
    known = (torch.nn.Module, Optimizer, LRScheduler, DataLoader, Shard)
    found = {id(one): one for one in objects if not isinstance(one, known)}
    return [one for one in found.values() if hasattr(one, "state_dict") and hasattr(one, "load_state_dict")]


class _Batches:
    """The training data on this member's device."""

    def __init__(self, accelerator: Accelerator, loader: Any) -> None:
        self._accelerator = accelerator
        self._shard: Shard[Any] = loader if isinstance(loader, Shard) else shard(loader)
        self.dataset = self._shard.dataset
        self._step: Any = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._shard, name)

    def __len__(self) -> int:
        return len(self._shard)

    def __iter__(self) -> Iterator[Any]:
        for batch in self._shard:
            if current().running.step is not self._step:
                self._accelerator.step = 0  # it counts mini-batches; a member that came back begins a step anew
                self._step = current().running.step
            state = PartialState()
            state.process_index = state.local_process_index = rank()
            yield send_to_device(batch, self._accelerator.device)
