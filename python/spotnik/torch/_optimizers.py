# SPDX-License-Identifier: Apache-2.0
"""The memory of optimisers (momenta, ...), made before the first step instead of in it.

A joiner must have a place for what it receives, so state that an optimiser would create lazily is created first, with
the values it would have had at that moment: no result changes. Small tensors are gathered, so that a large model
does not need thousands of registrations.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch.optim import Optimizer

from ..errors import ArgumentError


def parameters_of(optimizer: Optimizer) -> Iterator[torch.nn.Parameter]:
    """All parameters the optimiser updates."""
    for group in optimizer.param_groups:
        yield from group["params"]


def _init_sgd(optimizer: Optimizer) -> None:
    for group in optimizer.param_groups:
        if not group["momentum"]:
            continue
        if group["dampening"]:
            raise ArgumentError(
                "SGD with dampening treats its first step differently, which a joiner cannot repeat; say dampening=0 "
                "(and scale momentum instead)"
            )
        for parameter in group["params"]:
            if parameter.requires_grad and optimizer.state[parameter].get("momentum_buffer") is None:
                optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter).detach()


def _init_groups(optimizer: Optimizer) -> bool:
    """Call the lazy initialiser that PyTorch's own optimisers have; False: this one has none."""
    init = getattr(optimizer, "_init_group", None)
    if init is None:
        return False
    lists = len(inspect.signature(init).parameters) - 1
    for group in optimizer.param_groups:
        init(group, *([] for _ in range(lists)))
    return True


def _steps(optimizer: Optimizer, parameter: torch.nn.Parameter, gradients: list[torch.Tensor]) -> torch.Tensor:
    for gradient in gradients:
        parameter.grad = gradient.clone()
        optimizer.step()
    return parameter.detach()


def _zeroed_state_is_fresh(kind: type[Optimizer], defaults: dict[str, Any]) -> bool:
    """Does an optimiser whose state is all zeros step like a new one? Tried on a toy parameter."""
    generator = torch.Generator().manual_seed(1)
    start = torch.randn(4, 3, generator=generator)
    gradients = [torch.randn(4, 3, generator=generator) for _ in range(3)]
    fresh, zeroed = torch.nn.Parameter(start.clone()), torch.nn.Parameter(start.clone())
    try:
        fresh_optimizer, zeroed_optimizer = kind([fresh], **defaults), kind([zeroed], **defaults)
        _steps(zeroed_optimizer, zeroed, [torch.zeros_like(start)])
        _zero(zeroed_optimizer)
        zeroed.data.copy_(start)
        return torch.equal(_steps(fresh_optimizer, fresh, gradients), _steps(zeroed_optimizer, zeroed, gradients))
    except Exception:
        return False


def _zero(optimizer: Optimizer) -> None:
    for state in optimizer.state.values():
        for key, value in state.items():
            if isinstance(value, torch.Tensor):
                value.zero_()
            elif isinstance(value, (int, float)):
                state[key] = type(value)(0)


def _init_by_trial(optimizer: Optimizer) -> None:
    """Step once on zero gradients, undo it, and clear the state: for optimisers that are not PyTorch's own."""
    if not _zeroed_state_is_fresh(type(optimizer), optimizer.defaults):
        raise ArgumentError(
            f"{type(optimizer).__name__} creates its state in its first step in a way that cannot be done before; "
            "create the state before prepare(), or use an optimizer of torch.optim"
        )
    before = [parameter.detach().clone() for parameter in parameters_of(optimizer)]
    optimizer.step()
    with torch.no_grad():
        for parameter, value in zip(parameters_of(optimizer), before):
            parameter.copy_(value)
    _zero(optimizer)


def materialise(optimizer: Optimizer) -> None:
    """Create all state of `optimizer` as it would be right before its first step; keep what there is.

    Gradients are left as they were. Raises ArgumentError for optimisers whose state cannot be made beforehand.
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ArgumentError(
            "LBFGS evaluates the loss several times in a step, which a distributed step cannot; "
            "use another optimizer, for example AdamW"
        )
    if isinstance(optimizer, torch.optim.SparseAdam):
        raise ArgumentError(
            "SparseAdam needs sparse gradients, which are not summed; use Adam and Embedding(sparse=False)"
        )
    if all(optimizer.state.get(parameter) for parameter in parameters_of(optimizer) if parameter.requires_grad):
        return
    gradients = [parameter.grad for parameter in parameters_of(optimizer)]
    for parameter in parameters_of(optimizer):
        parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
    try:
        if isinstance(optimizer, torch.optim.SGD):
            _init_sgd(optimizer)
        elif not (type(optimizer).__module__.startswith("torch.optim") and _init_groups(optimizer)):
            _init_by_trial(optimizer)
    finally:
        for parameter, gradient in zip(parameters_of(optimizer), gradients):
            parameter.grad = gradient


def state_tensors(optimizers: list[Optimizer], small: int = 1024) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield (name, tensor) of all optimiser state, in the order of the parameters.

    State of fewer than `small` elements is moved into one tensor per type: the optimiser then works in views of it.
    Numbers that are no tensors are yielded by nobody; see :func:`check_numbers`.
    """
    gather: dict[torch.dtype, list[tuple[dict[str, Any], str, torch.Tensor]]] = {}
    for number, optimizer in enumerate(optimizers):
        for index, parameter in enumerate(parameters_of(optimizer)):
            state = optimizer.state.get(parameter, {})
            for key, value in state.items():
                if not isinstance(value, torch.Tensor) or value.numel() == 0:
                    continue
                if value.numel() < small and value.device.type == "cpu" and value.is_contiguous():
                    gather.setdefault(value.dtype, []).append((state, key, value))
                else:
                    yield f"optimizer {number} parameter {index} {key}", value
    for dtype, parts in gather.items():
        flat = torch.cat([value.detach().reshape(-1) for _, _, value in parts])
        at = 0
        for state, key, value in parts:
            state[key] = flat[at : at + value.numel()].view(value.shape)
            at += value.numel()
        yield f"optimizers {dtype} small", flat


def plain_numbers(optimizers: list[Optimizer]) -> list[tuple[dict[str, Any], str]]:
    """Places of optimiser state that is a Python number (a step count, in some optimisers)."""
    places = []
    for optimizer in optimizers:
        for parameter in parameters_of(optimizer):
            state = optimizer.state.get(parameter, {})
            places += [(state, key) for key, value in state.items() if isinstance(value, (int, float))]
    return places
