# SPDX-License-Identifier: Apache-2.0
"""What a program does that members cannot do as one process would: said, where it is no error."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from ..watching import logger


def tell_too_large(model: Any, most: int) -> None:
    """A member that joins would end with other weights than the rest, without a visible cause."""
    size = sum(int(np.prod(one.shape)) * 4 for one in model.weights)
    if size > most:
        logger.warning(
            "EarlyStopping(restore_best_weights=True) keeps %d MiB of weights, and more than %d do not travel: a "
            "member that joins ends with other weights than the rest. In its place say ModelCheckpoint(FILE, "
            "save_best_only=True, save_weights_only=True), and model.load_weights(FILE) after fit()",
            size >> 20,
            most >> 20,
        )


def tell_sums(model: Any) -> None:
    """The mean of sums over shares is no sum over the batch."""
    losses = keras.tree.flatten(getattr(model, "loss", None))
    if any(getattr(one, "reduction", None) == "sum" for one in losses):
        logger.warning(
            "a loss with reduction='sum' sums over a member's share, so gradients shrink with each member that joins: "
            "let the loss be a mean (reduction='sum_over_batch_size'), and raise the learning rate by the batch_size"
        )
