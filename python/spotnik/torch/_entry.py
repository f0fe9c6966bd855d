# SPDX-License-Identifier: Apache-2.0
"""Where a forward pass begins: in the model, or in a part of it that the program calls by itself (``agent.critic(x)``).

The hooks of the parts go with the first call of the whole that trains: they would cut a compiled model into pieces. A
call that only predicts tells nothing: a policy acts as a whole, and may learn in parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Optional

import torch

from ._files import KeptOut, keep_out

Begins = Callable[[torch.nn.Module, Any], None]


class Entry:
    """Calls `begins` before a forward pass of `model`, or of one of its parts."""

    def __init__(self, model: torch.nn.Module, begins: Begins) -> None:
        self._begins = begins
        self._whole = _hook(model, self._of_whole)
        self._parts = [_hook(part, begins) for part in set(_parts(model))]

    def _of_whole(self, module: torch.nn.Module, arguments: Any) -> None:
        if module.training and torch.is_grad_enabled():
            self._leave_parts()
        self._begins(module, arguments)

    def _leave_parts(self) -> None:
        for handle in self._parts:
            handle.remove()
        self._parts.clear()

    def remove(self) -> None:
        """Take all hooks away."""
        self._leave_parts()
        self._whole.remove()


class Exit(Entry):
    """Calls `ends` with what such a forward pass returns, and has it return the result."""

    def __init__(self, model: torch.nn.Module, ends: Callable[[Any], Any]) -> None:
        super().__init__(model, lambda module, arguments: None)
        hook = _Hook(lambda module, arguments, output: ends(output))
        self._parts += [part.register_forward_hook(hook) for part in set(_parts(model))]
        self._end = model.register_forward_hook(hook)

    def remove(self) -> None:
        """Take all hooks away."""
        super().remove()
        self._end.remove()


def _parts(model: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """What a program may call: layers of the model, and those in its lists of layers."""
    for child in model.children():
        if isinstance(child, (torch.nn.ModuleList, torch.nn.ModuleDict)):
            yield from _parts(child)
        else:
            yield child


class _Hook(KeptOut):
    """A hook that is not compiled."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call: Callable[..., Any] = torch.compiler.disable(call)  # type: ignore[no-untyped-call]

    def __call__(self, module: torch.nn.Module, *arguments: Any) -> Optional[Any]:
        return self._call(module, *arguments)


def _hook(module: torch.nn.Module, begins: Begins) -> Any:
    keep_out(module)
    # First of all: FSDP gathers parameters in a hook of its own, and the state of others comes with a step.
    return module.register_forward_pre_hook(_Hook(begins), prepend=True)
