# SPDX-License-Identifier: Apache-2.0
"""Which part of a model's tensors this process has, and which part of the group's samples it computes.

Tensors of FSDP2 and of tensor parallelism are DTensors: each has a mesh of processes, and is cut or copied along each
dimension of it. The first dimension of what ``fully_shard()`` has cut is data parallel. The processes along the others
compute the same samples together.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator
from typing import Any, Union

import torch
import torch.distributed

from ..errors import ArgumentError
from ..group_job import Place


@dataclasses.dataclass(frozen=True)
class Layout:
    """This process computes part `part` of `parts` of the group's samples.

    Of the processes with the same part, one `counts` them.
    """

    part: int
    parts: int
    counts: bool


def is_sharded(tensor: torch.Tensor) -> bool:
    """Is it a DTensor?"""
    return hasattr(tensor, "placements")


def has_shards(model: torch.nn.Module) -> bool:
    """Is any parameter of the model a DTensor?"""
    return any(is_sharded(parameter) for parameter in model.parameters())


def local_of(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of this process's part."""
    detached: Any = tensor.detach()
    local: torch.Tensor = detached.to_local() if is_sharded(tensor) else detached
    return local


def slices_of(tensor: Any) -> tuple[slice, ...]:
    """Where this process's part lies in the whole. The one use of what PyTorch keeps to itself."""
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    shape, offset = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
    return tuple(slice(at, at + length) for at, length in zip(offset, shape))


def is_own(tensor: Any, rank: int) -> bool:
    """Does process `rank` of the group write the part that it has? Of copies that of the lowest rank counts."""
    if not is_sharded(tensor):
        return rank == 0
    at = tensor.device_mesh.get_coordinate()
    is_first = all(not one.is_replicate() or at[dim] == 0 for dim, one in enumerate(tensor.placements))
    return is_first and 0 in tensor.device_mesh.mesh  # a mesh of some of the processes: others have the same


def _fsdp_modules(model: torch.nn.Module) -> Iterator[torch.nn.Module]:
    return (one for one in model.modules() if any(kind.__name__ == "FSDPModule" for kind in type(one).__mro__))


def _check_mean(model: torch.nn.Module, parts: int) -> None:
    """FSDP adds up in place of averaging where the program has set another divisor."""
    for module in _fsdp_modules(model):
        state: Any = module._get_fsdp_state()  # type: ignore[operator]
        for group in getattr(state, "_fsdp_param_groups", ()):
            if group.gradient_divide_factor not in (None, parts):
                raise ArgumentError(
                    f"set_gradient_divide_factor({group.gradient_divide_factor}) was called: in a group FSDP averages "
                    "over its processes. Leave it out (torchtitan's disable_fsdp_gradient_division()), divide the loss "
                    "by what this process counts, and say that number by spotnik.weigh()"
                )


def reshard(model: torch.nn.Module) -> None:
    """Free whole parameters that a forward pass without backward has left: they would hide what is received."""
    for module in _fsdp_modules(model):
        module.reshard()  # type: ignore[operator]


def layout_of(model: torch.nn.Module, place: Place) -> Layout:
    """What this process computes. Raises ArgumentError for models that a group cannot hold."""
    shards: list[Any] = [parameter for parameter in model.parameters() if is_sharded(parameter)]
    cut: list[Any] = [one for module in _fsdp_modules(model) for one in module.parameters() if is_sharded(one)]
    _check(model, bool(cut))
    if any(one.placements[0].is_replicate() for one in cut):
        raise ArgumentError(
            "fully_shard() has a mesh with a dimension of replicas (HSDP): the members of the job are the replicas. "
            "Give it the mesh of this group's processes alone, init_device_mesh(device, (size,))"
        )
    parts = int(cut[0].device_mesh.size(0)) if cut else 1
    _check_mean(model, parts)
    widest = max((one.device_mesh for one in shards), key=lambda mesh: (mesh.ndim, mesh.size()))
    beside = widest.size() // parts if widest.ndim > 1 or not cut else 1  # processes that compute the same samples
    if parts * beside != place.size:
        raise ArgumentError(
            f"the model is cut over {parts * beside} of the {place.size} processes of this group. A group holds one "
            "replica: pipeline stages and groups over several hosts are not supported. Cut each layer over all "
            "processes, by fully_shard() or parallelize_module()"
        )
    at = widest.get_coordinate()
    return Layout(at[0] if cut else 0, parts, beside == 1 or not any(at[1 if cut else 0 :]))


def _check(model: torch.nn.Module, is_cut: bool) -> None:
    for name, parameter in model.named_parameters():
        placements: Any = getattr(parameter, "placements", ())
        if any(one.is_partial() for one in placements):
            raise ArgumentError(f"parameter {name} is a partial sum; redistribute() it to shards or copies first")
        if is_cut and not placements and parameter.requires_grad:
            raise ArgumentError(
                f"parameter {name} is in no layer that fully_shard() was given (or in its ignored_params), so its "
                "gradient is that of one process; call fully_shard(model) on the whole model, too"
            )
    for name, buffer in model.named_buffers():
        if is_sharded(buffer):
            raise ArgumentError(f"buffer {name} is a DTensor, which cannot be sent to a joiner; make it full_tensor()")


# ---- numbers of all processes of the group ----


def add_up(numbers: list[int], op: Any = None) -> list[int]:
    """Sums of whole numbers over the processes of the group: a collective call of the program's process group."""
    if not torch.distributed.is_initialized():
        return numbers
    backend = str(torch.distributed.get_backend())
    device = torch.device("cuda", torch.cuda.current_device()) if "nccl" in backend else torch.device("cpu")
    tensor = torch.tensor(numbers, dtype=torch.int64, device=device)
    torch.distributed.all_reduce(tensor, op or torch.distributed.ReduceOp.SUM)
    return [int(one) for one in tensor.tolist()]


# ---- norms ----

_BITS = 30  # of a square that one sum takes
_ZERO, _NOT_FINITE = -1000, 1 << 12  # exponents: what is smaller counts as zero


@torch.no_grad()
def clip_grad_norm_(parameters: Union[torch.Tensor, Iterable[torch.Tensor]], max_norm: float) -> float:
    """Scale the gradients so that their norm is at most `max_norm`, and return the norm before: the L2 norm.

    As torch.nn.utils.clip_grad_norm_() does, which in a group adds up over the shards: groups of different sizes round
    differently, and their replicas part. This one has the same bits in groups of any size and in single processes. All
    processes of a group call it.
    """
    given = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
    gradients = [one.grad for one in given if one.grad is not None]
    rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
    norm = _norm([local_of(one) for one in gradients if is_own(one, rank)])
    if norm > max_norm:
        for one in gradients:
            local_of(one).mul_(max_norm / (norm + 1e-6))
    return norm


def _norm(tensors: list[torch.Tensor]) -> float:
    """The sum of squares is one of whole numbers, which is the same in any order."""
    (exponent,) = add_up([max((_exponent(one) for one in tensors), default=_ZERO)], torch.distributed.ReduceOp.MAX)
    if exponent in (_ZERO, _NOT_FINITE):
        return 0.0 if exponent == _ZERO else math.inf
    high = low = 0
    for one in tensors:
        scaled = (one.double() * 2.0**-exponent).square() * 2.0**_BITS
        high += int(scaled.floor().to(torch.int64).sum())
        low += int((scaled.frac() * 2.0**_BITS).floor().to(torch.int64).sum())
    high, low = add_up([high, low])
    return math.sqrt(((high << _BITS) + low) / (1 << 2 * _BITS)) * 2.0**exponent


def _exponent(tensor: torch.Tensor) -> int:
    """The least power of two that no element reaches."""
    greatest = float(tensor.abs().max()) if tensor.numel() else 0.0
    if not math.isfinite(greatest):
        return _NOT_FINITE
    return max(_ZERO, math.frexp(greatest)[1]) if greatest else _ZERO
