# SPDX-License-Identifier: Apache-2.0
"""What makes up a replica: parameters, buffers, optimiser state, and the numbers of schedulers and the like.

Registers all of it with the job and takes it over when the job has replaced it: a joiner's copy, a checkpoint. What
lives in tensors is registered where it lies, on an accelerator too (``_reach``). Numbers have a copy in host memory,
which is brought up to date for a joiner or a checkpoint.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator, Sequence
from typing import Any, Optional

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from .._native import Dtype
from ..errors import ArgumentError, StateError
from ..group_job import GroupJob
from ..job import Job
from ..training.membership import Membership
from ._buckets import NATIVE_TYPE, is_dense
from ._buffers import Buffers
from ._leaves import Leaves, Stateful, decode, encode, tensors
from ._optimizers import materialise, plain_numbers, state_tensors
from ._parting import sums_of
from ._reach import Reach
from ._shards import is_sharded, local_of
from ._staging import accelerator_of


def discover(optimizers: Sequence[Optimizer], known: Sequence[object]) -> list[Stateful]:
    """Find the schedulers of `optimizers` and the gradient scalers of this program that are not `known`."""
    found: list[tuple[str, int, Any]] = []
    for one in gc.get_objects():
        try:
            kind = type(one)
            number = _number_of(one, optimizers) if issubclass(kind, LRScheduler) else None
            if number is not None:
                found.append((kind.__name__, number, one))
            elif issubclass(kind, torch.amp.GradScaler):
                found.append((kind.__name__, 0, one))
        except Exception:  # some objects cannot even be asked for their type
            continue
    inner = {id(part) for _, _, one in found for part in getattr(one, "_schedulers", [])}
    kept = [entry for entry in found if not any(entry[2] is one for one in known) and id(entry[2]) not in inner]
    return [one for _, _, one in sorted(kept, key=lambda entry: entry[:2])]


def _number_of(scheduler: Any, optimizers: Sequence[Optimizer]) -> Optional[int]:
    """The optimiser of a schedule, which may know the optimiser by a wrapper of a framework, Lightning's Fabric say."""
    one = getattr(scheduler, "optimizer", None)
    while one is not None:
        for number, optimizer in enumerate(optimizers):
            if one is optimizer:
                return number
        one = getattr(one, "optimizer", None)
    return None


def _own_tensors(one: Stateful) -> list[tuple[str, torch.Tensor]]:
    """The tensors an object consists of; they must be the same memory at every state_dict()."""
    first, second = list(tensors(one.state_dict())), list(tensors(one.state_dict()))
    if [local_of(t).data_ptr() for _, t in first] != [local_of(t).data_ptr() for _, t in second]:
        raise ArgumentError(
            f"{type(one).__name__}.state_dict() makes new tensors at every call, so nothing can be received in place; "
            "return the tensors themselves (detach() is fine, clone() is not)"
        )
    return first


def _plain(name: str, tensor: Any) -> list[tuple[str, torch.Tensor]]:
    """The tensors with memory that a parameter consists of: of a quantised one (torchao's) there are several."""
    if is_sharded(tensor) or not hasattr(tensor, "__tensor_flatten__"):
        return [(name, tensor)]
    inner, _ = tensor.__tensor_flatten__()
    return [one for key in inner for one in _plain(f"{name}.{key}", getattr(tensor, key))]


def _quantised(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """The scales that bitsandbytes keeps beside its 4-bit and 8-bit weights, in no buffer."""
    for path, module in model.named_modules():
        weight: Any = module._parameters.get("weight")
        state, name = getattr(weight, "quant_state", None), f"scales {path}"
        while state is not None:
            yield from ((f"{name}.{key}", one) for key, one in vars(state).items() if key in ("absmax", "offset"))
            state, name = getattr(state, "state2", None), f"{name}.state2"
        for owner in (weight, getattr(module, "state", None)):  # the second from the first forward pass on
            scales = getattr(owner, "SCB", None)
            if isinstance(scales, torch.Tensor):
                yield f"{name}.SCB", scales


class Replica:
    """The state of one program, as the job sees it."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizers: list[Optimizer],
        extras: list[Stateful],
        under_strategy: bool = False,
    ) -> None:
        self.model = model
        self._under_strategy = under_strategy  # which registers what is agreed of the trained parameters
        self.optimizers = optimizers
        self.objects = [*extras, *discover(optimizers, extras)]
        for optimizer in optimizers:
            materialise(optimizer)
        self.leaves = Leaves([group for optimizer in optimizers for group in optimizer.param_groups], self.objects)
        self.buffers = Buffers(model)
        self.changes_itself = False  #: does the program change some of it by itself after each step?
        self._reach: Optional[Reach] = None  # of what is on an accelerator
        self._mirrors: list[tuple[torch.Tensor, torch.Tensor]] = []  # of it, in a group
        self.is_copied = False  #: has the job begun to copy the state in this step?
        self._named: list[tuple[str, torch.Tensor]] = []
        self.compared: list[tuple[str, torch.Tensor]] = []  #: what must have the same bits on all members
        self._collect()
        self._plain = plain_numbers(optimizers)
        self._numbers = torch.zeros(len(self.leaves) + len(self._plain), dtype=torch.int64)

    @property
    def scaled(self) -> bool:
        """Does a gradient scaler look at the gradients before they are applied?"""
        return any(isinstance(one, torch.amp.GradScaler) and one.is_enabled() for one in self.objects)

    def _collect(self) -> None:
        parameters = self.model.named_parameters()
        kept = [(name, p) for name, p in parameters if not (self._under_strategy and p.requires_grad)]
        named = [one for name, p in kept for one in _plain(f"parameter {name}", p.detach())]
        named += [(name, one) for name, one in _quantised(self.model) if isinstance(one, torch.Tensor)]
        named += self.buffers.state()
        named += state_tensors(self.optimizers)
        self.compared = [(name, tensor) for name, tensor in named if tensor.numel()]
        named += self._of_objects([tensor for _, tensor in named])
        self._named = [(name, tensor) for name, tensor in named if tensor.numel()]

    def _of_objects(self, known: Sequence[torch.Tensor]) -> list[tuple[str, torch.Tensor]]:
        """Tensors of other objects, without those that are `known` already."""
        own = {local_of(tensor).data_ptr() for tensor in known}
        named = []
        for number, one in enumerate(self.objects):
            extra = [(f"{type(one).__name__} {number} {path}", t) for path, t in _own_tensors(one)]
            extra = [(name, tensor) for name, tensor in extra if local_of(tensor).data_ptr() not in own]
            self.changes_itself |= bool(extra)
            named += extra
        return named

    @property
    def tensors(self) -> list[torch.Tensor]:
        """All of it."""
        return [tensor for _, tensor in self._named]

    def sums(self) -> list[int]:
        """A number for each of `compared`: the sum of its bits."""
        return sums_of(self.compared)

    # ---- registration ----

    def register(self, job: Job, membership: Membership) -> None:
        """Tell the job of everything."""
        self._register_tensors(job)
        if self._numbers.numel():
            job.state_add("numbers", self._numbers.data_ptr(), self._numbers.numel(), Dtype.I64, self._numbers)
        self.pack()
        job.refresh_set(lambda: None if membership.has_newer else self._refresh(job))
        if self.changes_itself:
            self.changed(job)

    def _refresh(self, job: Job) -> None:
        self.is_copied = not isinstance(job, GroupJob)  # a group has copied it when this returns
        self.pack()

    def _register_tensors(self, job: Any) -> None:
        for number, (name, tensor) in enumerate(self._named):
            if not is_dense(tensor):
                raise ArgumentError(
                    f"{name} does not lie in one piece of memory; make it contiguous() before prepare()"
                )
            self._register_one(job, f"{number} {name}"[:250], tensor)

    def _register_one(self, job: Job, name: str, tensor: torch.Tensor) -> None:
        dtype, count = NATIVE_TYPE.get(tensor.dtype), tensor.numel()
        if dtype is None:
            dtype, count = Dtype.U8, count * tensor.element_size()
        device = accelerator_of(tensor)
        if device is None:
            job.state_add(name, tensor.data_ptr(), count, dtype, tensor)
            return
        if isinstance(job, GroupJob):  # its processes copy host memory into each other's
            mirror = torch.empty_like(tensor, device="cpu")
            self._mirrors.append((tensor, mirror))
            job.state_add(name, mirror.data_ptr(), count, dtype, mirror)
            return
        if self._reach is None:
            self._reach = Reach(device)
            job.state_reach_set(self._reach.read, self._reach.write)
        self._reach.add(tensor)
        job.state_add_remote(name, count, dtype)

    def changed(self, job: Job) -> None:
        """The program changes registered memory while a step is begun."""
        if not isinstance(job, GroupJob):
            job.state_changed()

    def mark(self) -> None:
        """The program is about to begin a step: the state is what its stream has been given so far."""
        self.is_copied = False
        if self._reach is not None:
            self._reach.mark()

    # ---- copies ----

    @torch.no_grad()
    def pack(self) -> None:
        """Bring the registered memory up to date."""
        numbers = [*self.leaves.read(), *(encode(state[key]) for state, key in self._plain)]
        if numbers:
            self._numbers.copy_(torch.tensor(numbers, dtype=torch.int64))
        for tensor, mirror in self._mirrors:
            mirror.copy_(tensor)
        if self._reach is not None:
            self._reach.mark()

    def note(self, codes: list[int]) -> None:
        """A step was committed with these numbers: registered memory is the same on all members."""
        numbers = [*codes, *(encode(state[key]) for state, key in self._plain)]
        if numbers:
            self._numbers.copy_(torch.tensor(numbers, dtype=torch.int64))

    @torch.no_grad()
    def unpack(self) -> None:
        """Give the program what the registered memory says."""
        for tensor, mirror in self._mirrors:
            tensor.copy_(mirror)
        numbers = [int(code) for code in self._numbers.tolist()]
        self.leaves.write(numbers[: len(self.leaves)])
        for (state, key), code in zip(self._plain, numbers[len(self.leaves) :]):
            state[key] = decode(code, state[key])
        self.buffers.received()


def _entries(state: dict[Any, Any]) -> int:
    return sum(len(one) for one in state.values() if isinstance(one, dict))


def _few(tensor: torch.Tensor) -> torch.Tensor:
    """Some elements of a tensor in host memory."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    every = max(1, tensor.numel() // _SAMPLES)
    return tensor.as_strided((tensor.numel() // every,), (every,)).double()


_SAMPLES = 64
_COPY = "; other values go into the memory that is there, by copy_()"

_THAW = (
    ". What is trained later: give it to the optimizer, call prepare() while it has requires_grad=True, and freeze it "
    "after that (requires_grad_(False)); it can then be unfrozen in any step, the same on all members. Or train in "
    "stages: save, spotnik.leave(), and prepare() anew with another checkpoint folder"
)


class Watch:
    """Notices that a model or its optimisers are not what they were at prepare()."""

    def __init__(self, model: torch.nn.Module, optimizers: list[Optimizer]) -> None:
        self.model = model
        self.optimizers = optimizers
        self.parameters = list(model.named_parameters())
        self._pointers = [parameter.data_ptr() for _, parameter in self.parameters]
        self._trained = [parameter.requires_grad for _, parameter in self.parameters]
        self._grouped = self._count()
        self._checks = 0
        self._states: list[dict[Any, Any]] = []
        self._entries: list[int] = []
        self._check_optimizers()

    @contextlib.contextmanager
    def thawed(self) -> Iterator[None]:
        """Inside, what the program froze after prepare() is trained: its optimizer's state is made, too."""
        known = zip(self.parameters, self._trained)
        frozen = [parameter for (_, parameter), trained in known if trained and not parameter.requires_grad]
        for parameter in frozen:
            parameter.requires_grad_(True)
        yield
        for parameter in frozen:
            parameter.requires_grad_(False)

    def seal(self) -> None:
        """From now on the optimisers' state is registered where it lies."""
        self._states = [optimizer.state for optimizer in self.optimizers]
        self._entries = [_entries(state) for state in self._states]

    def _count(self) -> int:
        return sum(len(group["params"]) for optimizer in self.optimizers for group in optimizer.param_groups)

    def _check_optimizers(self) -> None:
        own = {id(parameter) for _, parameter in self.parameters}
        owner: dict[int, int] = {}
        for number, optimizer in enumerate(self.optimizers):
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if id(parameter) not in own:
                        raise ArgumentError(
                            f"optimizer {number} updates a parameter of shape {tuple(parameter.shape)} that is not in "
                            "the model; prepare all models together, as torch.nn.ModuleList([a, b]), or make the "
                            "optimizer from model.parameters(). One that is in no model (a temperature, say): make it "
                            "a torch.nn.Parameter p, and add torch.nn.ParameterList([p]) to the list"
                        )
                    if owner.setdefault(id(parameter), number) != number:
                        raise ArgumentError("two optimizers update the same parameter; give each its own")

    def check(self) -> None:
        """Raise StateError when something was changed that cannot be."""
        for (name, parameter), pointer, trained in zip(self.parameters, self._pointers, self._trained):
            if parameter.data_ptr() != pointer:
                self._complain(f"the memory of parameter {name} was replaced (model.to(), .data = ..., half()?)", _COPY)
            if parameter.requires_grad and not trained:
                self._complain(f"parameter {name} was unfrozen", _THAW)
        if self._count() != self._grouped:
            self._complain("an optimizer was given other parameters", _THAW)
        if any(optimizer.state is not state for optimizer, state in zip(self.optimizers, self._states)):
            raise StateError(
                "the state of an optimizer was replaced after the first step (load_state_dict()?); load it before the "
                "first step: the members that join receive it from there"
            )
        if [_entries(state) for state in self._states] != self._entries:
            raise StateError(
                "an optimizer made more state in a later step than in its first, which no joiner would receive; use "
                "one that makes all of it in its first step, or make it before prepare()"
            )
        self._checks += 1
        if self._checks <= 2 or self._checks % 64 == 0:
            self._check_names()

    def _check_names(self) -> None:
        now = list(self.model.named_parameters())
        if len(now) != len(self.parameters) or any(a is not b for (_, a), (_, b) in zip(now, self.parameters)):
            self._complain("parameters were added to the model, removed or exchanged")

    @staticmethod
    def _complain(what: str, instead: str = "") -> None:
        raise StateError(
            f"{what} after prepare(); call prepare() when the model is complete, on its device and of its type, "
            f"and the optimizer made from its parameters{instead}"
        )

    def settings(self) -> list[object]:
        """Numbers of the optimisers' groups: learning rates, momenta, ..."""
        groups = [group for optimizer in self.optimizers for group in optimizer.param_groups]
        return [one for group in groups for one in group.values() if isinstance(one, (int, float, tuple))]

    def versions(self) -> int:
        """Changes whenever any parameter is changed in place."""
        return sum(parameter._version for _, parameter in self.parameters)

    @torch.no_grad()
    def bits(self) -> torch.Tensor:
        """What mostly changes with any parameter, `.data` too, of which no version tells."""
        all_parts = [part for name, one in self.parameters for _, part in _plain(name, one.detach())]
        host = [_few(part) for part in all_parts if part.device.type == "cpu"]
        there = [part for part in all_parts if part.device.type != "cpu" and part.is_floating_point()]
        return torch.cat([*host, *([torch.stack(torch._foreach_norm(there)).double()] if there else [])])
