# SPDX-License-Identifier: Apache-2.0
"""Members that train by the loop and the replica of a framework's face; programs.py names them."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
from telling import tell

import spotnik
from spotnik.training.data import Arrays
from spotnik.training.program_loop import ProgramLoop
from spotnik.training.replica import Replica, Settings


def hosted(folder: str, way: str) -> None:
    """The same with the replica of a framework, whose callbacks, say, are a blob."""
    own = [np.zeros(1)]
    replica = Replica(lambda: own, Settings(config=spotnik.Config(checkpoint_dir=folder, checkpoint_steps=1000)))
    replica.before_copy.append(lambda job: job.blob_set("blob", str(own[0][0]).encode()))
    for _ in range(3):
        replica.begin()
        if replica.fresh:
            own[0][:] = replica.values[0]
            tell({"memory": own[0][0], "blob": replica.open().blob_get("blob").decode()})
            replica.taken()
        assert replica.commit()
        own[0] += 1
    if way == "notice":
        replica.open().notice()
        replica.begin()
    replica.leave()


def iterations(samples: int = 160, epochs: int = 8, pause_s: float = 0.02) -> None:
    """A loop of a framework without one, which averages three things in an iteration, all of one size."""
    state = [np.ones(50)]
    wrong = 0

    def write(values: Any) -> None:
        state[:] = map(np.copy, values)

    loop = ProgramLoop(lambda: state, write, Settings())
    loop.assigned = 0
    source = lambda: Arrays(np.arange(samples, dtype=np.float64), 8, shuffle=True)  # noqa: E731
    for _, x in (one for _ in range(epochs) for one in loop.steps(source(), 1)):
        time.sleep(pause_s)  # stands for the work of an iteration: without it the loop ends before the kill
        [mean] = loop.average([np.full(50, x.mean())], once=True)
        state[0] = 0.5 * state[0] + mean
        loop.assigned += 1
        [loss] = loop.average([np.full(50, 1e6)])
        most = np.full(50, -2e6)
        loop.reduce([most], "max")
        wrong += loss[0] != 1e6 or most[0] != -2e6
    tell({"digest": loop.replica.digest, "w": float(state[0][0]), "wrong": int(wrong)})


def alike(what: str, members: int = 3) -> None:
    """A loop of a framework. `what` comes to differ among members: "data", "statistics", "key"; or "rounding" alone."""
    state = [np.ones(50), np.zeros(50), np.array([1, 2], np.uint32)]
    samples = np.arange(48.0) if what != "data" else np.random.default_rng(os.getpid()).permutation(np.arange(48.0))

    def write(values: Any) -> None:
        state[:] = map(np.copy, values)

    loop = ProgramLoop(lambda: state, write, Settings(config=spotnik.Config(members_min=members)))
    loop.names, loop.advice, said = (lambda: ["w", "statistics", "key"]), "Do this.", ""
    try:
        for step, x in loop.steps(Arrays(samples, 6, shuffle=False), 4):
            [mean] = loop.average([np.full(50, x.mean())], once=True)
            state[0] = 0.5 * state[0] + mean
            if what == "rounding":
                state[1] = mean * (1 + 1e-6 * step.rank)
            if what == "statistics":
                state[1] = 0.9 * state[1] + 0.1 * x.mean()
            if what == "key":
                state[2] = np.array([x[0], 2], np.uint32)
    except spotnik.StateError as error:
        said = str(error)
    tell([said, step.number])


def shorter(wire: str) -> None:
    """Three members average the same gradients in each of 40 steps, with statistics a million times as large."""
    loop = ProgramLoop(lambda: [np.ones(3)], lambda values: None, Settings(config=spotnik.Config(members_min=3)))
    gradient, total, exact = np.linspace(-1, 1, 1000, dtype=np.float32) ** 3, np.zeros(1000), True
    for step, _ in loop.steps(Arrays(np.arange(120.0), 3, shuffle=False), 1):
        statistics = np.full(300, 1e6 + step.number, np.float32)
        mean, same = loop.average([gradient, statistics], once=True, wire=wire, gradients=1)
        total += mean
        exact &= bool((same == statistics).all())
    tell([float(np.abs(total - 40 * gradient.astype(np.float64)).max()), exact])


def wholes() -> None:
    """Three members share two samples, so one has none: whole numbers and booleans in an average."""
    loop = ProgramLoop(lambda: [np.ones(3)], lambda values: None, Settings(config=spotnik.Config(members_min=3)))
    loop.assigned, told = 0, []
    for step, x in loop.steps(Arrays(np.arange(8.0), 2, shuffle=False), 1):
        number = np.full(3, step.rank if step.ranges else 1000 + step.rank, np.int32)
        given = [x, number, np.array([step.rank == 2, True]), np.array(200 + step.rank, np.uint8)]
        one = loop.average([np.full(2, x.mean()), *given[1:]], once=True)
        loop.assigned += 1
        further = loop.average([number - 2000, np.ones(2)])
        told.append([value.tolist() for value in (*one, *further)])
        kinds = [value.dtype == like.dtype for value, like in zip(one[1:], given[1:])]
    tell([told, all(kinds), bool(further[0].dtype == np.int32)])


def second(gate: str) -> None:
    """Two trainings in a row; the second one, of another size, goes on until the file `gate` is there."""
    for size in (2, 300):
        own, steps = np.zeros(size), 0
        replica = Replica(lambda own=own: [own], Settings(config=spotnik.Config()))
        tell(size)
        while steps < 2 or (size == 300 and not os.path.exists(gate)):
            try:
                replica.begin()
            except spotnik.MismatchError as error:
                tell(str(error))
                return
            own += replica.commit()
            steps += 1
            time.sleep(0.01)
        replica.leave()
    tell("done")
