# SPDX-License-Identifier: Apache-2.0
"""The trained parameters of a model as one vector under a strategy (``spotnik.sync``).

The vector lives in host memory as float32. The optimiser stays the program's: where the strategy wants a step of it,
the vector is spread over the parameters, the optimiser runs on their ``grad``, and the result is gathered again. A step
that sends no vector leaves the vector alone: the optimiser runs on the parameters, and they are gathered when a step
begins that reads them. Decides nothing about when steps begin or end.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Optional, Union

import torch

from ..errors import ArgumentError
from ..job import Job, Step
from ..sync import Rule, Sync

#: Strategies in which members do not wait for each other.
_APART = ("adpsgd", "asp", "hogwild")


def _vector(pointer: int, count: int) -> torch.Tensor:
    memory: Any = (ctypes.c_float * count).from_address(pointer)
    return torch.frombuffer(memory, dtype=torch.float32)


def _address(vector: torch.Tensor) -> int:
    if vector.dtype != torch.float32 or not vector.is_contiguous() or vector.device.type != "cpu":
        raise ArgumentError("models and gradients of strategies are contiguous float32 tensors in host memory")
    return vector.data_ptr()


class _Moments:
    """The optimisers' momenta in one vector, where a policy may go from models that differ to models that are equal.

    It is averaged then, with the models, or equal gradients would make them differ again.
    """

    def __init__(self, optimizers: Iterable[torch.optim.Optimizer]) -> None:
        self._parts = [
            value
            for optimizer in optimizers
            for group in optimizer.param_groups
            for parameter in group["params"]
            for value in optimizer.state.get(parameter, {}).values()
            if isinstance(value, torch.Tensor) and value.is_floating_point()
        ]
        self.count = sum(part.numel() for part in self._parts)
        self.vector = torch.zeros(self.count, dtype=torch.float32)
        self.gather()

    def _pairs(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        at = 0
        for part in self._parts:
            yield part, self.vector[at : at + part.numel()].view(part.shape)
            at += part.numel()

    @torch.no_grad()
    def gather(self) -> None:
        for part, place in self._pairs():
            place.copy_(part)

    @torch.no_grad()
    def spread(self) -> None:
        for part, place in self._pairs():
            part.copy_(place)


class Strategy:
    """The parameters of one model under one strategy."""

    def __init__(
        self,
        job: Job,
        parameters: Iterable[torch.nn.Parameter],
        choice: Union[str, Rule],
        optimise: Callable[[], None],
        optimizers: Iterable[torch.optim.Optimizer] = (),
    ) -> None:
        self.parameters = list(parameters)
        count = sum(parameter.numel() for parameter in self.parameters)
        self.model = torch.zeros(count, dtype=torch.float32)
        self.gradient = torch.zeros(count, dtype=torch.float32)
        self._is_local = False  # does the running step leave `model` alone?
        self._is_behind = False  # have the parameters taken steps that `model` has not?
        self._optimise = optimise
        self._rule: Optional[Rule] = None if isinstance(choice, str) else choice
        self.gather(self.model)
        self.sync: Sync[torch.Tensor] = Sync(
            job,
            self.model,
            self._apply,
            strategy=choice if isinstance(choice, str) else None,
            rule=self._rule,
            vector=_vector,
            address=_address,
            count=count,
        )
        self._moments = _Moments(optimizers) if isinstance(choice, str) and choice.startswith("auto") else None
        if self._moments is not None and self._moments.count:
            self.sync.state_add("sync.moments", self._moments.vector, self._moments.count)

    @property
    def apart(self) -> bool:
        """Do members go on without waiting for each other in the running step?"""
        if self._rule is not None:
            return not self._rule.synchronous
        return self.sync.name in _APART

    def ready(self, number: int) -> None:
        """Step `number` is about to begin."""
        if self._is_behind and not self.sync.is_local(number):
            self.gather(self.model)
            self._is_behind = False

    def received(self) -> None:
        """`model` is what the members agree on."""
        self._is_behind = False
        self.spread(self.model)

    def step(self, step: Step) -> bool:
        """Finish `step` with the gradients that the parameters have; False: the others went on without us."""
        self._is_local = not step.replay and self.sync.is_local(step.number)
        if self._is_local:
            self._is_behind = True
            return self.sync.step(self.gradient)  # what the vector holds is not looked at
        assert step.replay or not self._is_behind
        self._gather_gradients()
        committed = self.sync.step(self.gradient)
        self.spread(self.model)
        return committed

    def _apply(self, model: torch.Tensor, gradient: torch.Tensor) -> None:
        if self._is_local:
            for parameter in self.parameters:
                if parameter.grad is not None and parameter.grad.is_sparse:
                    parameter.grad = parameter.grad.to_dense()  # as in the steps that gather it
            self._optimise()
            return
        self.spread(model)
        self._spread_gradients(gradient)
        if self._moments is not None:
            self._moments.spread()
        self._optimise()
        if self._moments is not None:
            self._moments.gather()
        self.gather(model)

    # ---- vectors and parameters ----

    def _parts(self, vector: torch.Tensor) -> Iterator[tuple[torch.nn.Parameter, torch.Tensor]]:
        at = 0
        for parameter in self.parameters:
            yield parameter, vector[at : at + parameter.numel()].view(parameter.shape)
            at += parameter.numel()

    @torch.no_grad()
    def gather(self, vector: torch.Tensor) -> None:
        """Make `vector` what the parameters are."""
        for parameter, part in self._parts(vector):
            part.copy_(parameter)

    @torch.no_grad()
    def spread(self, vector: torch.Tensor) -> None:
        """Make the parameters what `vector` is."""
        for parameter, part in self._parts(vector):
            parameter.copy_(part)

    @torch.no_grad()
    def _gather_gradients(self) -> None:
        for parameter, part in self._parts(self.gradient):
            if parameter.grad is None:
                part.zero_()
            else:
                part.copy_(parameter.grad.to_dense() if parameter.grad.is_sparse else parameter.grad)

    @torch.no_grad()
    def _spread_gradients(self, gradient: torch.Tensor) -> None:
        """An unused parameter has no gradient. Where gradients are averaged, another member may have used it."""
        everywhere = self.sync.same_bits
        for parameter, part in self._parts(gradient):
            if parameter.grad is not None or everywhere:
                parameter.grad = part.to(parameter.device, parameter.dtype, copy=True)

    @contextmanager
    def agreed(self) -> Iterator[None]:
        """Inside, the parameters hold what all members agree on."""
        own = torch.empty_like(self.model)
        self.gather(own)
        self.spread(self.sync.agreed)
        try:
            yield
        finally:
            self.spread(own)
