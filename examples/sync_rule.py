# SPDX-License-Identifier: Apache-2.0
"""A strategy of the program's own, from the primitives: every fourth step, models go half of the way to their average.

    spotnik run -n 2:4 --respawn --kill-every 5s -- python examples/sync_rule.py

The rule is the class; with PyTorch it is ``spotnik.torch.prepare(model, optimizer, sync=Halfway())``, unchanged.
"""

import numpy as np

import spotnik

PERIOD = 4


class Halfway:
    """Each member steps by itself; averages travel while the gradient is computed."""

    name, synchronous, same_bits, early = "halfway", True, False, True

    def begin(self, sync, now):
        """Start what travels; the model stays as it is."""
        if now.step % PERIOD == 0:
            now.scratch[:] = now.model
            sync.average(now.scratch)

    def finish(self, sync, now):
        """It has come, whoever was lost meanwhile. The centre is what all agree on: made of averages alone."""
        if now.step % PERIOD == 0:
            now.centre[:] = now.scratch
            now.model[:] = (now.model + now.centre) / 2
        sync.apply(now.model, now.gradient)


def descend(model, gradient):
    """Take one step of the optimiser: plain gradient descent."""
    model -= np.float32(0.5) * gradient


def main():
    """Fit a line to points near y = 3 x + 2."""
    x = (np.arange(1000) / 1000).astype(np.float32)
    y = 3 * x + 2 + np.float32(0.05) * np.sin(7919 * x)
    w = np.zeros(2, dtype=np.float32)
    job = spotnik.init(samples=len(x), batch=100, steps_max=2000)
    sync = spotnik.Sync(job, w, descend, rule=Halfway())
    for step in job:
        share = [index for part in step.ranges for index in part]
        error = w[0] * x[share] + w[1] - y[share]
        gradient = np.array([2 * (error * x[share]).sum(), 2 * error.sum()], dtype=np.float32)
        sync.step(gradient / np.float32(max(1, len(share))))
    print(f"all agree on y = {sync.agreed[0]:.2f} x + {sync.agreed[1]:.2f}")
    spotnik.leave()


if __name__ == "__main__":
    main()
