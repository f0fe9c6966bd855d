# SPDX-License-Identifier: Apache-2.0
"""torchft's wrappers without its lighthouse: a manager whose members are those of a Spotnik job.

    from torchft import DistributedDataParallel, Optimizer
    from spotnik.torch.torchft import Manager

``DistributedDataParallel``, ``Optimizer``, ``LocalSGD`` and ``DiLoCo`` of torchft run on it as they are. When a member
is lost, the survivors finish the step: none is dropped. docs/guide/torchft.md has the recipe. Nothing here imports
torchft.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Optional

import torch
import torch.distributed as dist

from ...config import Config, is_alone
from ...errors import ArgumentError, SpotnikError, StateError
from ...job import Step
from ...training.control import Control
from ...training.membership import Membership, heed_sigterm
from ...training.steps import Steps
from .._checks import check_launcher
from ..distributed._errors import NotSupportedError
from ._handover import Handover, Stage
from ._round import Outcome, Round
from ._work import ManagedWork, Result, in_backward

__all__ = ["Manager"]

# What torchft's manager also takes, and a job of Spotnik does not need.
_NOT_NEEDED = {
    "checkpoint_transport",
    "connect_timeout",
    "heartbeat_interval",
    "hostname",
    "lighthouse_addr",
    "port",
    "quorum_retries",
    "quorum_timeout",
    "rank",
    "replica_id",
    "store_addr",
    "store_port",
    "timeout",
}


class Manager:
    """The surface of ``torchft.Manager`` that its wrappers call. One process is one replica.

    `pg` and the settings of servers and timeouts are taken and not used. `min_replica_size` is the number of members
    that steps wait for. With `init_sync` all begin with the state of one of them. `config` holds settings of the job.
    """

    def __init__(
        self,
        pg: object = None,
        load_state_dict: Optional[Callable[[Any], object]] = None,
        state_dict: Optional[Callable[[], Any]] = None,
        min_replica_size: int = 1,
        use_async_quorum: bool = True,
        *,
        init_sync: bool = True,
        max_retries: Optional[int] = None,
        world_size: Optional[int] = None,
        world_size_mode: object = None,
        config: Optional[Config] = None,
        **not_needed: object,
    ) -> None:
        _check(not_needed, world_size, world_size_mode)
        self._use_async_quorum = use_async_quorum  # DiLoCo wants False; both are the same here
        self._min = min_replica_size
        self._init_sync = init_sync
        self._max_retries = max_retries
        self._config = config if config is not None else Config(members_min=min_replica_size)
        self._functions: dict[str, tuple[Callable[[Any], object], Callable[[], Any]]] = {}
        self._control = Control()
        self._membership = Membership(self._control.register)
        self._handover = Handover(self._control, self._membership, self._read, self._write)
        self._handover.is_whole = not init_sync
        self._steps = Steps(self._membership, self._join, self._begun, [self._handover])
        self._own = (0, 0)  # step and batches before the last begin
        self._round: Optional[Round] = None
        self._outcomes: list[Optional[Outcome]] = []  # since start_quorum()
        self._participants = 0
        self._is_asked = False  # start_quorum() was called, and should_commit() was not
        self._errored: Optional[Exception] = None
        self._failures = 0  # of should_commit(), in a row
        if load_state_dict is not None and state_dict is not None:
            self.register_state_dict_fn("default", load_state_dict, state_dict)
        heed_sigterm()

    # ---- state ----

    def register_state_dict_fn(
        self, key: str, load_state_dict: Callable[[Any], object], state_dict: Callable[[], Any]
    ) -> None:
        """Have a newcomer receive what `state_dict` returns, and give it to `load_state_dict`."""
        if key in self._functions:
            raise ArgumentError(f"state functions for {key!r} are registered already; use another key")
        self._functions[key] = (load_state_dict, state_dict)

    def set_state_dict_fns(self, load_state_dict: Callable[[Any], object], state_dict: Callable[[], Any]) -> None:
        """The older name of :meth:`register_state_dict_fn`."""
        self.register_state_dict_fn("set_state_dict_fns", load_state_dict, state_dict)

    def state_dict(self) -> dict[str, int]:
        """Step and batches, for a checkpoint of the program's own."""
        return {"step": self._control.step, "batches_committed": self._control.batches}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Go on from a checkpoint of the program's own. Of several members the one furthest on gives its state."""
        self._control.step, self._control.batches = state_dict["step"], state_dict["batches_committed"]

    def allow_state_dict_read(self) -> None:
        """Nothing: the state is read inside :meth:`start_quorum`, on the caller's thread."""

    disallow_state_dict_read = allow_state_dict_read

    def _read(self) -> dict[str, Any]:
        return {key: state_dict() for key, (_, state_dict) in self._functions.items()}

    def _write(self, state: dict[str, Any]) -> None:
        for key, (load_state_dict, _) in self._functions.items():
            load_state_dict(state[key])

    # ---- a step ----

    def start_quorum(
        self, allow_heal: bool = True, shrink_only: bool = False, timeout: Optional[timedelta] = None
    ) -> None:
        """Begin a step. Waits for `min_replica_size` members, and hands the state to newcomers.

        Raises LeavingError, a SystemExit with status 75, after SIGTERM.
        """
        if self._round is not None:
            return
        self._errored, self._outcomes, self._is_asked = None, [], True
        control = self._control
        control.phase = 0
        if control.wanted:
            control.stage, control.wanted = Stage.CHOOSE, 0
        self._begin()

    def _begin(self) -> None:
        step = self._steps.begin()
        self._round = Round(self._membership, step, self._handover.is_whole)
        self._participants = step.size

    def _join(self) -> None:
        self._own = self._control.step, self._control.batches
        if self._membership.job is None:
            check_launcher(is_alone(self._config))
            self._membership.join(self._config)

    def _begun(self, _step: Step, came: bool) -> None:
        """A newcomer cannot follow between two commits of one should_commit()."""
        if not came:
            return
        control = self._control
        self._handover.reset()
        self._handover.is_whole = not control.shared and not self._init_sync
        if not control.shared:  # a member with a checkpoint of its own tells its step when a donor is chosen
            control.step, control.batches = self._own
        if control.phase:
            self._membership.retreat()
        else:
            self._membership.settled()

    def wait_quorum(self) -> None:
        """Nothing: :meth:`start_quorum` has waited."""
        if not self._is_asked:
            raise StateError("call start_quorum() first; Optimizer.zero_grad() does")

    def allreduce(
        self, tensor: torch.Tensor, should_quantize: bool = False, reduce_op: Any = dist.ReduceOp.AVG
    ) -> ManagedWork:
        """Average `tensor` over the members, in place. It is done when the step is committed.

        A step is committed at the end of backward() for calls from inside it, and else when one of its calls is waited
        for, or by :meth:`should_commit`. With `should_quantize` float32 travels as q8: a byte for each number, rounded
        to 1/254 of the greatest among 252 neighbours. Say it for the same calls on every member.
        """
        self.wait_quorum()
        if self._round is None and None in self._outcomes:
            return _done(tensor)  # the others went on without this member
        if self._round is None:
            self._control.phase = len(self._outcomes)
            self._begin()
        assert self._round is not None
        if in_backward() and not self._is_awaited:
            self._is_awaited = True
            torch.autograd.Variable._execution_engine.queue_callback(self._settle)
        return ManagedWork(self._round.add(tensor, reduce_op, should_quantize), self._settle)

    _is_awaited = False  # the end of backward() commits the step

    def _settle(self) -> None:
        """Commit the step that has begun, if there is one."""
        self._is_awaited = False
        current, self._round = self._round, None
        if current is None:
            return
        outcome = current.commit(self._errored is not None)
        self._outcomes.append(outcome)
        if outcome is None:
            self._handover.reset()
            self._errored = StateError("the others went on without this process: it was stopped or cut off")
        else:
            self._participants = outcome.participants
            self._control.wanted |= int(outcome.newcomers > 0)

    def should_commit(self, timeout: Optional[timedelta] = None) -> bool:
        """Is the step to be applied? Commits it where that has not happened yet.

        False: fewer than `min_replica_size` members took part, one of them reported an error, or the others went on
        without this one. Raises RuntimeError after more than `max_retries` of these in a row.
        """
        self.wait_quorum()
        self._settle()
        self._is_asked = False
        if self._is_good():
            self._control.step += 1
            self._control.batches += self._participants
            self._failures = 0
            if self._errored is None:
                return True
            self._handover.reset()  # reported after the commit: the others apply the step, and this one must not
            return False
        self._failures += 1
        if self._max_retries is not None and self._failures > self._max_retries:
            raise RuntimeError(f"should_commit() failed {self._failures} times in a row (max_retries)")
        return False

    def _is_good(self) -> bool:
        """Is what was committed since start_quorum() whole? All members that committed it answer alike."""
        return bool(self._outcomes) and all(
            one is not None and not one.failures and one.participants >= self._min for one in self._outcomes
        )

    # ---- errors ----

    def report_error(self, e: Exception) -> None:
        """Drop this step: on all members before it is committed, and afterwards on this one, which is healed."""
        self._errored = e

    def errored(self) -> Optional[Exception]:
        """The error of this step, if there was one."""
        return self._errored

    def wrap_future(
        self, fut: torch.futures.Future[Any], default: Any, timeout: Optional[timedelta] = None
    ) -> torch.futures.Future[Any]:
        """A future that ends with `default` when `fut` fails, which is reported."""

        def outcome(done: torch.futures.Future[Any]) -> Any:
            try:
                return done.value()
            except Exception as error:
                self.report_error(error)
                return default

        return fut.then(outcome)

    # ---- where it stands ----

    def current_step(self) -> int:
        """Steps committed, the same on every member."""
        return self._control.step

    def batches_committed(self) -> int:
        """Batches in the committed steps: one for each member that took part in one."""
        return self._control.batches

    def num_participants(self) -> int:
        """Members in this step: those of its begin, and after its commit those that took part."""
        return self._participants

    def participating_rank(self) -> Optional[int]:
        """This member's place among them; None while it has not got the state."""
        return self._round.step.rank if self._round is not None and self._handover.is_whole else None

    def is_participating(self) -> bool:
        """Do this member's data count in this step?"""
        return self._handover.is_whole

    def shutdown(self, wait: bool = True) -> None:
        """Leave the job."""
        if self._round is None:
            self._membership.leave()
        else:
            self._membership.abandon()


def _done(tensor: torch.Tensor) -> ManagedWork:
    result = Result()
    result.set_result(tensor)
    return ManagedWork(result, lambda: None)


def _check(others: dict[str, object], world_size: Optional[int], mode: object) -> None:
    if unknown := sorted(set(others) - _NOT_NEEDED):
        raise TypeError(f"Manager() got unexpected arguments: {', '.join(unknown)}")
    if world_size is not None and world_size > 1:
        raise NotSupportedError(f"a replica of {world_size} processes is not there; one process is one replica")
    if mode is not None and getattr(mode, "name", "") != "DYNAMIC":
        raise NotSupportedError("spares are not there; a newcomer takes part as soon as it has the state")
    if os.environ.get("SPOTNIK_CHECKPOINT"):
        raise SpotnikError(
            "SPOTNIK_CHECKPOINT is set, but what these wrappers keep is not in the job's checkpoints; unset it, and "
            "save state_dict() of model, optimizer and manager yourself"
        )
