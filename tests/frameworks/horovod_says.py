# SPDX-License-Identifier: Apache-2.0
"""Calls in Horovod's words that mean something else, each made twice."""

from __future__ import annotations

import keras
import tensorflow as tf

import spotnik.horovod as horovod
import spotnik.horovod.tensorflow as hvd
from spotnik import SpotnikError


def refused(act: object) -> str:
    try:
        act()  # type: ignore[operator]
    except SpotnikError as error:
        return str(error)
    return "not refused"


def main() -> None:
    hvd.init()
    table = tf.Variable(tf.ones((4, 2)))
    for _ in range(2):
        hvd.DistributedOptimizer(keras.optimizers.Adam(), backward_passes_per_step=2)
        with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
            loss = tf.reduce_sum(tf.gather(table, [1, 1]))
        gradient = tape.gradient(loss, [table])[0]
        assert gradient.numpy().tolist() == [[0, 0], [2, 2], [0, 0], [0, 0]], gradient
    print("set:", refused(lambda: hvd.DistributedOptimizer(keras.optimizers.Adam(), process_set=1)))
    print("tape:", refused(lambda: hvd.DistributedGradientTape(tf.GradientTape(), process_set=1)))
    hvd.init(elastic=True)
    print("apart:", refused(lambda: [hvd.allreduce(1.0) for _ in range(65)]))
    print("run:", refused(lambda: horovod.run(main, num_proc=3)))


if __name__ == "__main__":
    main()
