# SPDX-License-Identifier: Apache-2.0
"""A member that is stopped amid a step of train_on_batch or fit, until the others have gone on without it."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
from member import tell

import spotnik.keras

SETTINGS = json.loads(sys.argv[1])
FOLDER = Path(SETTINGS["folder"])
STOPPED, BACK = FOLDER / "stopped", FOLDER / "back"
IS_STOPPED = os.environ["SPOTNIK_SLOT"] == "2"


class Stopping(keras.Model):
    """Its train step runs as Python each time on PyTorch."""

    def train_step(self, data: Any) -> Any:
        if IS_STOPPED and not STOPPED.exists() and spotnik.keras.step() >= 3:
            STOPPED.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGSTOP)
        logs = super().train_step(data)
        return {**logs, "back": float(BACK.exists())} if SETTINGS.get("fit") else logs


epochs_apart: list[int] = []  # that members had without the stopped one, or this had since it was stopped


class Watch(keras.callbacks.Callback):
    """Has the stopped member go on when the others have ended two epochs without it, and ends when it is back."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        tell(step=spotnik.keras.step(), loss=float(logs["loss"]), digest=spotnik.keras.digest())

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        tell(epoch=epoch, digest=spotnik.keras.digest(), size=spotnik.keras.size(), stopped=IS_STOPPED, logs=logs)
        if STOPPED.exists() and (IS_STOPPED or spotnik.keras.size() == 2):
            epochs_apart.append(epoch)
        if len(epochs_apart) >= 2:
            BACK.touch() if IS_STOPPED else os.kill(int(STOPPED.read_text()), signal.SIGCONT)
        self.model.stop_training = logs["back"] > 0  # a number that members agree on


def on_batches(model: keras.Model) -> None:
    chance = np.random.default_rng(os.getpid())
    after = 0
    while after < 3 and not BACK.exists():
        x = chance.normal(size=(10, 8)).astype("float32")
        model.train_on_batch(x, x.sum(axis=1, keepdims=True))
        tell(step=spotnik.keras.step(), digest=spotnik.keras.digest(), size=spotnik.keras.size(), stopped=IS_STOPPED)
        after += IS_STOPPED and STOPPED.exists()
        if spotnik.keras.size() == 2 and STOPPED.exists() and not IS_STOPPED:
            os.kill(int(STOPPED.read_text()), signal.SIGCONT)
    BACK.touch()


def main() -> None:
    keras.utils.set_random_seed(1)
    given = keras.Input((8,))
    model = Stopping(given, keras.layers.Dense(1)(given))
    optimizer = spotnik.keras.DistributedOptimizer(keras.optimizers.Adam(1e-2))
    model.compile(optimizer=optimizer, loss="mse", metrics=["mae"])
    if not SETTINGS.get("fit"):
        on_batches(model)
        return
    x = np.random.default_rng(4).normal(size=(60, 8)).astype("float32")
    data = spotnik.keras.shard((x, x.sum(axis=1, keepdims=True)), batch_size=12)
    model.fit(data, epochs=1_000_000, verbose=0, callbacks=[spotnik.keras.Callback(), Watch()])


main()
