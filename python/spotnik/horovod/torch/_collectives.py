# SPDX-License-Identifier: Apache-2.0
"""Horovod's collectives on tensors. Each is done when the call returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional, Union

import numpy as np
import torch

from .._words import Compression, broadcast_object, check_set, operation
from .._world import once, world


def to_host(tensor: torch.Tensor) -> Any:
    """The tensor as an array; types that NumPy lacks as float32."""
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def like(array: Any, tensor: torch.Tensor) -> torch.Tensor:
    """The array as a tensor of the kind of `tensor`."""
    return torch.from_numpy(np.array(array)).to(tensor.device, tensor.dtype)


def reduce(tensors: Sequence[torch.Tensor], op: str, compression: Any = Compression.none) -> list[torch.Tensor]:
    """Reduce all of `tensors` in one step."""
    results = world.reduce([to_host(one) for one in tensors], op, compression.wire)
    return [like(one, tensor) for one, tensor in zip(results, tensors)]


def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: Any = Compression.none,
    op: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Any = None,
) -> list[torch.Tensor]:
    """The mean of each of `tensors` over the members, or what `op` says."""
    check_set(process_set)
    results = reduce([one * prescale_factor for one in tensors], operation(average, op), compression)
    return [(one * postscale_factor).to(tensor.dtype) for one, tensor in zip(results, tensors)]


def allreduce(tensor: torch.Tensor, *arguments: Any, **named: Any) -> torch.Tensor:
    """The mean of `tensor` over the members; arguments as of :func:`grouped_allreduce`."""
    return grouped_allreduce([tensor], *arguments, **named)[0]


def allreduce_(tensor: torch.Tensor, *arguments: Any, **named: Any) -> torch.Tensor:
    """As :func:`allreduce`, in place."""
    with torch.no_grad():
        return tensor.copy_(allreduce(tensor, *arguments, **named))


def _at_once(result: torch.Tensor) -> torch.Tensor:
    once("allreduce_async and the like are done when they return; synchronize() has nothing to wait for")
    return result


def allreduce_async(tensor: torch.Tensor, *arguments: Any, **named: Any) -> torch.Tensor:
    """As :func:`allreduce`; returns what :func:`synchronize` takes."""
    return _at_once(allreduce(tensor, *arguments, **named))


def allreduce_async_(tensor: torch.Tensor, *arguments: Any, **named: Any) -> torch.Tensor:
    """As :func:`allreduce_`; returns what :func:`synchronize` takes."""
    return _at_once(allreduce_(tensor, *arguments, **named))


def synchronize(handle: torch.Tensor) -> torch.Tensor:
    """The result of an asynchronous call."""
    return handle


def poll(handle: torch.Tensor) -> bool:
    """Is it done? It is."""
    return True


def allgather(tensor: torch.Tensor, name: Optional[str] = None, process_set: Any = None) -> torch.Tensor:
    """The tensors of all members, one behind the other along the first dimension, which may differ."""
    check_set(process_set)
    array = to_host(tensor)
    rows = [np.frombuffer(one, array.dtype).reshape(-1, *array.shape[1:]) for one in world.gather(array.tobytes())]
    return like(np.concatenate(rows), tensor)


def broadcast(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: Any = None
) -> torch.Tensor:
    """`tensor` as the member of rank `root_rank` has it."""
    check_set(process_set)
    array = to_host(tensor)
    return like(np.frombuffer(world.broadcast(array.tobytes(), root_rank), array.dtype).reshape(array.shape), tensor)


def broadcast_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: Any = None) -> Any:
    """As :func:`broadcast`, in place."""
    with torch.no_grad():
        return tensor.copy_(broadcast(tensor, root_rank, name, process_set))


def broadcast_parameters(params: Union[Mapping[str, Any], Iterable[tuple[str, Any]]], root_rank: int) -> None:
    """Overwrite the parameters by those of the member of rank `root_rank`."""
    pairs = sorted(params.items()) if isinstance(params, Mapping) else list(params)
    tensors = [one for _, one in pairs if isinstance(one, torch.Tensor)]
    arrays = broadcast_object([to_host(one) for one in tensors], root_rank)
    with torch.no_grad():
        for tensor, array in zip(tensors, arrays):
            tensor.copy_(like(array, tensor))


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int, model: Any = None) -> None:
    """Overwrite the state of `optimizer`, learning rates too, by that of the member of rank `root_rank`."""
    optimizer.load_state_dict(broadcast_object(optimizer.state_dict(), root_rank))
