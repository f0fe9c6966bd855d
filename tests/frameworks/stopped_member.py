# SPDX-License-Identifier: Apache-2.0
"""A member that is stopped in the midst of a step of train_on_batch, until the others have gone on without it."""

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

FOLDER = Path(json.loads(sys.argv[1])["folder"])
STOPPED, BACK = FOLDER / "stopped", FOLDER / "back"
IS_STOPPED = os.environ["SPOTNIK_SLOT"] == "2"


class Stopping(keras.Model):
    """Its train step runs as Python each time on PyTorch."""

    def train_step(self, data: Any) -> Any:
        if IS_STOPPED and not STOPPED.exists() and spotnik.keras.step() >= 3:
            STOPPED.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGSTOP)
        return super().train_step(data)


def main() -> None:
    keras.utils.set_random_seed(1)
    given = keras.Input((8,))
    model = Stopping(given, keras.layers.Dense(1)(given))
    model.compile(optimizer=spotnik.keras.DistributedOptimizer(keras.optimizers.Adam(1e-2)), loss="mse")
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


main()
