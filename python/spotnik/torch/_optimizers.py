# SPDX-License-Identifier: Apache-2.0
"""The memory of optimisers (momenta, ...), made before the first step instead of in it.

A joiner must have a place for what it receives, so state that an optimiser would create lazily is created first, with
the values it would have had at that moment: no result changes. Small tensors are gathered, so that a large model
does not need thousands of registrations.
"""

from __future__ import annotations

import collections
import inspect
import itertools
from collections.abc import Callable, Iterator
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


class _Firsts(dict[str, Any]):
    """The state of one parameter; keeps what each entry was when it was made."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__()
        self.first: dict[str, Any] = {}
        self.update(*given, **named)

    def __setitem__(self, key: str, value: Any) -> None:
        self.first.setdefault(key, value.detach().clone() if isinstance(value, torch.Tensor) else value)
        super().__setitem__(key, value)

    def setdefault(self, key: str, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *given: Any, **named: Any) -> None:
        for key, value in dict(*given, **named).items():
            self[key] = value


class _States(collections.defaultdict[Any, Any]):
    def __init__(self) -> None:
        super().__init__(_Firsts)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, _Firsts(value) if type(value) is dict else value)


_SMALL = " small"  # a name that ends so is that of several tensors
State = dict[str, Any]
#: From the first values of a parameter's state, that state as it would be before the first step.
Way = Callable[[State], State]


def _as_made(first: State) -> State:
    return first


def _as_zeros(first: State) -> State:
    """For state that is made and changed at once."""
    return {key: _zero(value) for key, value in first.items()}


def _zero(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return torch.zeros_like(value)
    return type(value)(0) if isinstance(value, (int, float)) else value


def _step_alone(optimizer: Optimizer) -> None:
    """Step without the hooks of a session or a scheduler."""
    names = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
    hooks = {name: getattr(optimizer, name, None) for name in names}
    for name in names:
        setattr(optimizer, name, collections.OrderedDict())
    try:
        type(optimizer).step(optimizer)
    finally:
        for name, kept in hooks.items():
            setattr(optimizer, name, kept)


def _init_by_trial(optimizer: Optimizer, way: Way) -> None:
    """Step once and undo it: what was made in the step is the state."""
    before = [parameter.detach().clone() for parameter in parameters_of(optimizer)]
    groups = [dict(group) for group in optimizer.param_groups]
    kept, optimizer.state = optimizer.state, _States()
    try:
        _step_alone(optimizer)
    finally:
        made, optimizer.state = optimizer.state, kept
        with torch.no_grad():
            for parameter, value in zip(parameters_of(optimizer), before):
                parameter.copy_(value)
        for group, old in zip(optimizer.param_groups, groups):
            group.update({key: old.get(key, _zero(value)) for key, value in group.items()})
    for parameter, state in made.items():
        if isinstance(state, _Firsts) and not kept.get(parameter):
            kept[parameter] = way(state.first)


def _toy(optimizer: Optimizer, groups: list[list[torch.nn.Parameter]]) -> Optimizer:
    """Another of its kind, with the settings of each group."""
    made = [{**group, "params": own} for group, own in zip(optimizer.param_groups, groups)]
    try:
        return type(optimizer)(made, **optimizer.defaults)
    except TypeError:  # its settings have other names than its arguments
        toy = object.__new__(type(optimizer))
        toy.__dict__.update(optimizer.__dict__, param_groups=made, state=collections.defaultdict(dict))
        return toy


def _small(group: dict[str, Any]) -> list[torch.Size]:
    """A shape of each number of dimensions that the parameters of a group have."""
    return [torch.Size((4, 3, 2, 2, 2)[:dim]) for dim in sorted({parameter.dim() for parameter in group["params"]})]


def _steps_like_a_new_one(optimizer: Optimizer, way: Way) -> bool:
    """Does one whose state was made beforehand take the steps of a new one? Tried on small parameters in its groups."""
    generator = torch.Generator().manual_seed(1)
    starts = [[torch.randn(shape, generator=generator) for shape in _small(group)] for group in optimizer.param_groups]
    gradients = [[torch.randn(one.shape, generator=generator) for one in itertools.chain(*starts)] for _ in range(3)]
    ends = []
    for is_made in (False, True):
        groups = [[torch.nn.Parameter(start.clone()) for start in group] for group in starts]
        toy = _toy(optimizer, groups)
        if is_made:
            for parameter in parameters_of(toy):
                parameter.grad = torch.zeros_like(parameter)
            _init_by_trial(toy, way)
        for step in gradients:
            for parameter, gradient in zip(parameters_of(toy), step):
                parameter.grad = gradient.clone()
            _step_alone(toy)
        ends.append([parameter.detach() for parameter in parameters_of(toy)])
    return all(torch.equal(*pair) for pair in zip(*ends))


def _way_of(optimizer: Optimizer) -> Way:
    """How the state of an optimiser that is not PyTorch's own can be made. Raises ArgumentError: it cannot."""
    why = ""
    for way in (_as_made, _as_zeros):
        try:
            if _steps_like_a_new_one(optimizer, way):
                return way
        except NotImplementedError as error:
            raise ArgumentError(
                f"{type(optimizer).__name__} has no step(); one that takes two calls for a batch, as SAM does, becomes "
                'one whose step() does them by turns: "Two steps for a batch" in docs/guide/pytorch.md'
            ) from error
        except Exception as error:  # of a step that cannot be tried
            why = f" ({type(error).__name__}: {error})"
    raise ArgumentError(
        f"{type(optimizer).__name__} creates its state in its first step in a way that cannot be done before{why}; "
        "create the state before prepare(), or use an optimizer of torch.optim"
    )


def _check_state(optimizer: Optimizer) -> None:
    """Only tensors and numbers can be sent to a joiner."""
    for parameter in parameters_of(optimizer):
        for key, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, (list, tuple, dict, set)) and len(value):
                raise ArgumentError(
                    f"{type(optimizer).__name__} keeps a {type(value).__name__} as {key!r} of a parameter, which "
                    "cannot be sent to a joiner; use one whose state is tensors and numbers, as those of torch.optim"
                )


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
    if not all(optimizer.state.get(parameter) for parameter in parameters_of(optimizer) if parameter.requires_grad):
        _make_state(optimizer)
    _check_state(optimizer)


def _make_state(optimizer: Optimizer) -> None:
    gradients = [parameter.grad for parameter in parameters_of(optimizer)]
    for parameter in parameters_of(optimizer):
        parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
    try:
        if isinstance(optimizer, torch.optim.SGD):
            _init_sgd(optimizer)
        elif not (type(optimizer).__module__.startswith("torch.optim") and _init_groups(optimizer)):
            _init_by_trial(optimizer, _way_of(optimizer))
    finally:
        for parameter, gradient in zip(parameters_of(optimizer), gradients):
            parameter.grad = gradient


def state_parts(optimizers: list[Optimizer], small: int = 1024) -> Iterator[tuple[str, list[torch.Tensor]]]:
    """Yield what :func:`state_tensors` does, with the parts of each tensor, which stay where they are."""
    for name, values in _state_entries(optimizers, small):
        yield name, [value for _, _, value in values]


def state_tensors(optimizers: list[Optimizer], small: int = 1024) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield (name, tensor) of all optimiser state, in the order of the parameters.

    State of fewer than `small` elements is moved into one tensor per type: the optimiser then works in views of it.
    Numbers that are no tensors are left out; see :func:`check_numbers`.
    """
    for name, parts in _state_entries(optimizers, small):
        if not name.endswith(_SMALL):
            yield name, parts[0][2]
            continue
        flat = torch.cat([value.detach().reshape(-1) for _, _, value in parts])
        at = 0
        for state, key, value in parts:
            state[key] = flat[at : at + value.numel()].view(value.shape)
            at += value.numel()
        yield name, flat


_Entries = Iterator[tuple[str, list[tuple[State, str, torch.Tensor]]]]


def _state_entries(optimizers: list[Optimizer], small: int) -> _Entries:
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
                    yield f"optimizer {number} parameter {index} {key}", [(state, key, value)]
    for dtype, parts in gather.items():
        yield f"optimizers {dtype}{_SMALL}", parts


def plain_numbers(optimizers: list[Optimizer]) -> list[tuple[dict[str, Any], str]]:
    """Places of optimiser state that is a Python number (a step count, in some optimisers)."""
    places = []
    for optimizer in optimizers:
        for parameter in parameters_of(optimizer):
            state = optimizer.state.get(parameter, {})
            places += [(state, key) for key, value in state.items() if isinstance(value, (int, float))]
    return places
