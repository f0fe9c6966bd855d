# SPDX-License-Identifier: Apache-2.0
"""BatchNorm over groups of a fixed number of samples, whatever the share of a member is.

A share shrinks when members come, and with it what BatchNorm normalises over. A group does not: with shares that are
multiples of it, four members train as one does. ("Ghost batches": Hoffer, Hubara, Soudry 2017.)
"""

from __future__ import annotations

import copy
import functools
from typing import Any, TypeVar

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from ..errors import ArgumentError
from ._files import KeptOut, keep_out, plain

Model = TypeVar("Model", bound=torch.nn.Module)


def ghost_batchnorm(model: Model, samples: int) -> Model:
    """Have every BatchNorm of `model` normalise over groups of `samples` in training. Returns `model`, changed.

    Before prepare(). A share that is no multiple of `samples` has groups of at most that many, as equal as can be.
    Running statistics become the mean over the groups, as one step, and evaluation is that of BatchNorm. A file of the
    whole model has plain BatchNorm: call this again where the file is loaded to train on.
    """
    if samples < 2:
        raise ArgumentError(f"BatchNorm needs groups of 2 samples or more, not {samples}")
    for module in model.modules():
        if isinstance(module, _BatchNorm) and not isinstance(module, torch.nn.SyncBatchNorm):
            _haunt(module, samples)
    return model


def _haunt(module: _BatchNorm, samples: int) -> None:
    keep_out(module)
    module.forward = _Ghost(module, samples)  # type: ignore[method-assign, assignment, unused-ignore]
    module.__dict__["__deepcopy__"] = functools.partial(_copy, module, samples)


def _copy(module: _BatchNorm, samples: int, memo: dict[int, Any]) -> _BatchNorm:
    """Copy a BatchNorm, which stays one over groups: in files it is a plain one."""
    twin = memo[id(module)] = type(module).__new__(type(module))
    twin.__dict__.update(copy.deepcopy(plain(module.__dict__), memo))
    _haunt(twin, samples)
    return twin


def depends_on_share(module: torch.nn.Module) -> bool:
    """Does it normalise over all of a member's share?"""
    return isinstance(module, _BatchNorm) and not isinstance(module.forward, _Ghost)


def bear_lone_samples(model: torch.nn.Module) -> None:
    """Have every BatchNorm of `model` take a share of one sample, as a small last step of an epoch may deal out.

    PyTorch refuses to normalise one value over itself, and the member's program would end. Such a share is normalised
    as in evaluation, by the running statistics; without those it is refused as before.
    """
    for module in model.modules():
        if isinstance(module, torch.nn.SyncBatchNorm) or isinstance(module.forward, _Lone):
            continue
        if depends_on_share(module):
            keep_out(module)
            module.forward = _Lone(module)  # type: ignore[method-assign, assignment, unused-ignore]


class _Lone(KeptOut):
    """The forward of one BatchNorm that may meet a single value per channel."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        module = self.module
        assert isinstance(module, _BatchNorm)
        if not module.training or module.running_mean is None or x.dim() < 2 or x.numel() != x.shape[1]:
            return type(module).forward(module, x)
        return torch.nn.functional.batch_norm(
            x, module.running_mean, module.running_var, module.weight, module.bias, False, 0.0, module.eps
        )


class _Ghost(KeptOut):
    """The forward of one BatchNorm."""

    def __init__(self, module: _BatchNorm, samples: int) -> None:
        self.module = module
        self.samples = samples

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        module, groups = self.module, -(-len(x) // self.samples)
        if groups < 2 or not module.training:
            return _Lone(module)(x)
        module._check_input_dim(x)  # type: ignore[no-untyped-call]
        parts = torch.tensor_split(x, groups)
        results, means, variances = [], [], []
        for part in parts:
            mean = torch.zeros(module.num_features, dtype=x.dtype, device=x.device)
            variance = torch.zeros_like(mean)
            results.append(
                torch.nn.functional.batch_norm(part, mean, variance, module.weight, module.bias, True, 1.0, module.eps)
            )
            means.append(mean)
            variances.append(variance)
        self._track(torch.stack(means).mean(0), torch.stack(variances).mean(0))
        return torch.cat(results)

    @torch.no_grad()
    def _track(self, mean: torch.Tensor, variance: torch.Tensor) -> None:
        module = self.module
        if module.running_mean is None or module.running_var is None or module.num_batches_tracked is None:
            return
        module.num_batches_tracked += 1
        weight = module.momentum if module.momentum is not None else 1.0 / float(module.num_batches_tracked)
        module.running_mean.lerp_(mean.to(module.running_mean.dtype), weight)
        module.running_var.lerp_(variance.to(module.running_var.dtype), weight)
