# SPDX-License-Identifier: Apache-2.0
"""FSDP2 and tensor parallelism inside a group: a model of DTensors, and its optimiser, as one replica of a job.

    job = spotnik.torch.sharded.join(config)
    replica = Replica(job, model, optimizer)      # after fully_shard()
    for step in replica.steps():
        ...                                       # forward and backward, where there are samples
        if replica.average():
            optimizer.step()

The job sees the whole tensors, as one process would hold them: groups of different sizes train together, and a
checkpoint resumes with any size. Each process copies its shards into the group's memory, and back. Every process makes
the same calls in the same order.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any, Optional

import torch
from torch.optim import Optimizer

from .._native import Dtype, Op
from ..errors import ArgumentError, LimitError
from ..group_job import GroupJob, Place
from ..job import Config, Step
from ..training.buckets import GRADIENTS
from ..training.membership import heed_sigterm
from ._optimizers import materialise, parameters_of
from ._places import place_here

__all__ = ["Replica", "join"]

_BUCKET_BYTES = 64 << 20
_ALIGN = 64
_ROW = 1 << 12  # elements; short enough for one thread
_TYPES = {
    torch.float32: Dtype.F32,
    torch.float64: Dtype.F64,
    torch.float16: Dtype.F16,
    torch.bfloat16: Dtype.BF16,
    torch.int64: Dtype.I64,
}


def join(config: Optional[Config] = None) -> GroupJob:
    """Join the job as a process of a group; without ``spotnik run --group`` or torchrun as a group of one."""
    job = GroupJob(config, place_here() or Place("alone", 0, 1))
    job.join()
    heed_sigterm()
    return job


@dataclasses.dataclass
class _Piece:
    """A tensor of the whole model in the group's memory, and the part of it that this process holds."""

    whole: torch.Tensor
    part: torch.Tensor  #: a view of `whole`
    is_own: bool  #: does this process write it? Of copies the leader's counts

    def write(self, local: torch.Tensor) -> None:
        if self.is_own:
            self.part.copy_(local)


def _is_sharded(tensor: torch.Tensor) -> bool:
    return hasattr(tensor, "placements")


def _local(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of this process's part."""
    detached: Any = tensor.detach()
    local: torch.Tensor = detached.to_local() if _is_sharded(tensor) else detached
    return local


def _slices(tensor: Any) -> tuple[slice, ...]:
    """Where this process's part lies in the whole. The one use of what PyTorch keeps to itself."""
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    shape, offset = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
    return tuple(slice(at, at + length) for at, length in zip(offset, shape))


def _squares(piece: _Piece) -> list[float]:
    """Sums of squares of rows of a fixed length, which no number of threads changes."""
    flat = piece.whole.reshape(-1)
    rows = flat[: flat.numel() // _ROW * _ROW].view(-1, _ROW)
    sums = [float(flat[rows.numel() :].double().square().sum())]
    for some in torch.split(rows, 1024):
        sums += some.double().square().sum(1).tolist()
    return sums


def _check(model: torch.nn.Module) -> None:
    for name, module in model.named_modules():
        if type(module).__name__ == "FullyShardedDataParallel":
            raise ArgumentError(
                f"{name or 'the model'} is FSDP1, whose parameters are flat pieces without a place in the model; use "
                "torch.distributed.fsdp.fully_shard()"
            )
    for name, parameter in model.named_parameters():
        placements: Any = getattr(parameter, "placements", ())
        if any(one.is_partial() for one in placements):
            raise ArgumentError(f"parameter {name} is a partial sum; redistribute() it to shards or copies first")


class _Memory:
    """Whole tensors, one behind the other in one piece of the group's memory."""

    def __init__(self, job: GroupJob, tensors: list[torch.Tensor]) -> None:
        self._offsets = [0]
        for tensor in tensors:
            size = tensor.numel() * tensor.element_size()
            self._offsets.append(self._offsets[-1] + size + -size % _ALIGN)
        self._bytes = job.memory(self._offsets[-1])
        self.pieces = [self._piece(job, number, tensor) for number, tensor in enumerate(tensors)]

    def whole(self, dtype: torch.dtype) -> torch.Tensor:
        """All of it, gaps included, as elements of one type."""
        elements: torch.Tensor = self._bytes.view(dtype)
        return elements

    def _piece(self, job: GroupJob, number: int, tensor: torch.Tensor) -> _Piece:
        at = self._offsets[number]
        flat = self._bytes[at : at + tensor.numel() * tensor.element_size()].view(tensor.dtype)
        whole = flat.view(tensor.shape)
        if not _is_sharded(tensor):
            return _Piece(whole, whole, job.place.rank == 0)
        part = whole[_slices(tensor)] if tensor.dim() else whole
        return _Piece(whole, part, part.numel() < whole.numel() or job.place.rank == 0)


class Replica:
    """`model` and `optimizer` of this process as its part of the group's replica. Before the first step of `job`.

    Parameters may be DTensors over meshes of the group's processes, of any placement but partial sums. The processes
    begin with one model: initialise all with one seed, or load it. Raises ArgumentError for optimisers whose state
    cannot be made before the first step, and LimitError.
    """

    def __init__(self, job: GroupJob, model: torch.nn.Module, optimizer: Optimizer) -> None:
        self._job = job
        _check(model)
        materialise(optimizer)
        names = {parameter: name for name, parameter in model.named_parameters()}
        self._state: list[tuple[str, torch.Tensor]] = [(f"parameter {name}", one) for one, name in names.items()]
        for parameter in parameters_of(optimizer):
            for key, value in optimizer.state.get(parameter, {}).items():
                if isinstance(value, torch.Tensor):
                    self._state.append((f"optimizer {names[parameter]} {key}", value))
        self._state += [(f"buffer {name}", buffer) for name, buffer in model.named_buffers()]
        self._trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._memory = _Memory(job, [tensor for _, tensor in self._state])
        self._buckets = [(some, _Memory(job, list(some))) for some in self._cut()]
        self._loads = job.loads
        self._register()

    def _cut(self) -> list[list[torch.nn.Parameter]]:
        """Parameters of one type each, in buckets of about 64 MiB."""
        buckets: list[list[torch.nn.Parameter]] = []
        size = 0
        for parameter in self._trained:
            own = parameter.numel() * parameter.element_size() + _ALIGN
            if not buckets or buckets[-1][0].dtype != parameter.dtype or size + own > _BUCKET_BYTES:
                buckets.append([])
                size = 0
            buckets[-1].append(parameter)
            size += own
        if len(buckets) > len(GRADIENTS):
            raise LimitError(f"{len(buckets)} buckets of 64 MiB, but at most {len(GRADIENTS)}")
        return buckets

    def _register(self) -> None:
        self.pack()
        for (name, tensor), piece in zip(self._state, self._memory.pieces):
            if tensor.dtype not in _TYPES:
                raise ArgumentError(f"{name} is of type {tensor.dtype}, which cannot be sent to a joiner")
            self._job.shared_state_add(name, piece.whole, _TYPES[tensor.dtype])
        self._job.refresh_set(self.pack)

    @torch.no_grad()
    def pack(self) -> None:
        """Write this process's parts of the state into the group's memory."""
        for (_, tensor), piece in zip(self._state, self._memory.pieces):
            piece.write(_local(tensor))

    @torch.no_grad()
    def unpack(self) -> None:
        """Read them from there."""
        for (_, tensor), piece in zip(self._state, self._memory.pieces):
            _local(tensor).copy_(piece.part)

    def steps(self) -> Iterator[Step]:
        """Begin steps until the job is done. The state of others is in the model when one is yielded.

        A step has this process's part of the samples. FSDP averages over its processes as if they had equally many:
        ``loss = sum of the losses of these samples * scale(step)`` is exact. One without samples runs forward and
        backward on any sample, times 0. In a replay no process does.
        """
        for step in self._job:
            if self._job.loads != self._loads:
                self.unpack()
                self._loads = self._job.loads
            yield step

    def scale(self, step: Step) -> float:
        """What a sum of losses is multiplied by: processes of the group by samples of the group."""
        return self._job.place.size / max(1, self._job.samples_of_group)

    @torch.no_grad()
    def clip_grad_norm_(self, max_norm: float) -> float:
        """Scale the averages so that their norm over the whole model is at most `max_norm`; return the norm before.

        After :meth:`average`. PyTorch's own function adds up over the shards of a group: groups of different sizes
        round differently, and their replicas would part.
        """
        pieces = [piece for _, memory in self._buckets for piece in memory.pieces]
        norm = math.sqrt(math.fsum(square for piece in pieces for square in _squares(piece)))
        if norm > max_norm:
            for parameter in self._trained:
                assert parameter.grad is not None
                _local(parameter.grad).mul_(max_norm / (norm + 1e-6))
        return norm

    @torch.no_grad()
    def average(self) -> bool:
        """Finish the step with the average of the gradients over the job, and leave it in ``.grad`` everywhere.

        False: the others went on without this group; apply nothing. Errors as :meth:`spotnik.Job.step_commit`.
        """
        for number, (parameters, memory) in enumerate(self._buckets):
            for parameter, piece in zip(parameters, memory.pieces):
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                piece.write(_local(parameter.grad))
            self._job.parts_start(number, memory.whole(parameters[0].dtype), _TYPES[parameters[0].dtype], Op.MEAN)
        if not self._job.step_commit():
            return False
        for parameters, memory in self._buckets:
            for parameter, piece in zip(parameters, memory.pieces):
                assert parameter.grad is not None
                _local(parameter.grad).copy_(piece.part)
        return True
