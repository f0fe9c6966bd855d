# SPDX-License-Identifier: Apache-2.0
"""``hvd.elastic`` for PyTorch: states with models and optimisers, and a sampler for the samples that are left."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from ...torch._optimizers import materialise
from .._elastic import ObjectState, State, run
from .._world import world

__all__ = ["ElasticSampler", "ObjectState", "State", "TorchState", "run"]


class TorchState(State):
    """``TorchState(model=model, optimizer=optimizer, epoch=0, batch=0)``."""

    def __init__(self, model: Any = None, optimizer: Any = None, **attributes: Any) -> None:
        given = {"model": model, "optimizer": optimizer, **attributes}
        kinds = (torch.nn.Module, torch.optim.Optimizer)
        self._live = {name: one for name, one in given.items() if isinstance(one, kinds)}
        super().__init__(**{name: one for name, one in attributes.items() if name not in self._live})
        vars(self).update(given)
        for one in self._live.values():
            if isinstance(one, torch.optim.Optimizer):
                materialise(one)

    def _tensors(self) -> list[torch.Tensor]:
        found: list[torch.Tensor] = []
        for one in self._live.values():
            tree = one.state_dict()
            states = tree["state"].values() if isinstance(one, torch.optim.Optimizer) else [tree]
            found += [value for state in states for value in state.values() if isinstance(value, torch.Tensor)]
        return found

    def _groups(self) -> Any:
        optimizers = [one for one in self._live.values() if isinstance(one, torch.optim.Optimizer)]
        return [group for one in optimizers for group in one.param_groups]

    def read(self) -> Sequence[Any]:
        """Tensors as bytes, and what a program changes in an optimiser's groups."""
        parts = [one.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy() for one in self._tensors()]
        groups = [{key: value for key, value in one.items() if key != "params"} for one in self._groups()]
        plain = np.zeros(_GROUPS_BYTES, np.uint8)
        packed = pickle.dumps(groups)
        plain[: len(packed)] = np.frombuffer(packed, np.uint8)
        return [*parts, plain]

    def write(self, values: Sequence[Any]) -> None:
        """Take over what another member's :meth:`read` returned."""
        with torch.no_grad():
            for tensor, raw in zip(self._tensors(), values):
                tensor.copy_(torch.from_numpy(raw.copy()).view(tensor.dtype).reshape(tensor.shape))
        for group, said in zip(self._groups(), pickle.loads(values[-1].tobytes())):
            group.update(said)


_GROUPS_BYTES = 1 << 14  # room for the settings of an optimiser's groups


class ElasticSampler(torch.utils.data.Sampler[int]):
    """Indices that are left of an epoch, dealt out among the members; a part of a state, by the name of an attribute.

    Call :meth:`record_batch` after each batch. What a member that is lost took since the last commit is not made up.
    """

    def __init__(self, dataset: Any, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset, self.shuffle, self.seed = dataset, shuffle, seed
        self.epoch = self.processed_num = 0
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch."""
        self.epoch, self.processed_num = epoch, 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Every member has processed a batch."""
        self.processed_num += batch_size * self.num_replicas

    def reset(self) -> None:
        """Deal out what is left among the members of now."""
        self.rank, self.num_replicas = world.rank, world.size
        left = max(len(self.dataset) - self.processed_num, 0)
        self.num_samples = math.ceil(left / self.num_replicas)

    def state_dict(self) -> dict[str, Any]:
        """Where the epoch stands."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on there."""
        self.epoch, self.processed_num = state_dict["epoch"], state_dict["processed_num"]
        self.reset()

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        order = np.random.default_rng([self.seed, self.epoch]).permutation(count) if self.shuffle else np.arange(count)
        left = order[min(self.processed_num, count) :]
        padded = np.resize(left, self.num_samples * self.num_replicas) if len(left) else left
        return iter(padded[self.rank :: self.num_replicas].tolist())

    def __len__(self) -> int:
        return self.num_samples
