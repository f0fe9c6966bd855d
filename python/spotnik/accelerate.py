# SPDX-License-Identifier: Apache-2.0
"""Accelerate: what accelerator.prepare() does, together with the other members of the job.

    import spotnik.accelerate as spotnik
    model, optimizer, loader, scheduler = spotnik.prepare(accelerator, model, optimizer, loader, scheduler)

In place of ``accelerator.prepare(model, ...)``; the loop stays as it is: ``accelerator.accumulate()``, ``backward()``,
``clip_grad_norm_()``. What else it calls (``spotnik.epochs()``, ``spotnik.rank()``) is that of ``spotnik.torch``. To
accelerate each member is a process by itself.
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
from .torch import prepare as prepare_objects
from .torch import rank, shard
from .torch._checks import check_framework
from .torch._loader import Shard
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

    Raises StateError where accelerate has made a process group, and ArgumentError for what cannot be prepared.
    """
    check_framework("Accelerate")
    if accelerator.num_processes != 1:
        raise StateError(
            f"the Accelerator is one of {accelerator.num_processes} processes that cannot lose any of them; start with "
            "'spotnik run' without --torchrun-env, or call spotnik.torch.hide_torchrun() before making it"
        )
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
    accumulate = accelerator.gradient_accumulation_steps
    more = _others([*objects, *getattr(accelerator, "_custom_objects", [])])
    prepare_objects(whole, optimizers, *schedulers, *more, accumulate=accumulate, **settings)
    loaders = [one for one in objects if isinstance(one, (DataLoader, Shard))]
    shared = {id(one): _Batches(accelerator, one) for one in loaders[:1]}
    return tuple(shared[id(one)] if id(one) in shared else accelerator.prepare(one) for one in objects)


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

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._shard, name)

    def __len__(self) -> int:
        return len(self._shard)

    def __iter__(self) -> Iterator[Any]:
        for batch in self._shard:
            if current().gradients.passes == 0:
                self._accelerator.step = 0  # it counts mini-batches; a member that came back begins a step anew
            state = PartialState()
            state.process_index = state.local_process_index = rank()
            yield send_to_device(batch, self._accelerator.device)
