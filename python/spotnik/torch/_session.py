# SPDX-License-Identifier: Apache-2.0
"""One program in one job: what happens between two batches.

    begin   shard(), or the model's forward: take a share; as a joiner, repeat what was committed meanwhile
    travel  backward's hooks send buckets (``_gradients``)
    commit  at the end of backward: wait for the averages. Everything after it sees averages: clipping, unscaling
    apply   optimizer.step(), which does nothing where nothing was committed

Under a strategy other than "ssgd" some of this is otherwise: ``_strategic``.

With the gradients travel the numbers of optimisers and schedulers (``_exchange``), so that every replica takes a step
with the same ones.

Steps without samples for this member (a joiner's repeats, short tails) are taken in ``begin``, if the program did
nothing to averages or parameters that is not in registered state; else its loop runs on a few samples of weight zero.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Optional

import torch
from torch.optim import Optimizer

from ..errors import LeavingError, MismatchError, StateError
from ..job import Job, Step
from ._applying import Applying
from ._exchange import mix
from ._joining import EXIT_INTERRUPTED, log
from ._leaves import Stateful
from ._options import Options
from ._replica import INSIDE, INSIDE_NO, INSIDE_UNKNOWN, INSIDE_YES


class Session(Applying):
    """The life of a prepared model. One per process at a time."""

    def __init__(
        self, model: torch.nn.Module, optimizers: list[Optimizer], extras: list[Stateful], options: Options
    ) -> None:
        super().__init__(model, optimizers, extras, options)
        self._forward_hook = model.register_forward_pre_hook(_not_compiled(self._before_forward))
<<<<<<< HEAD
        self._hooks.append(self._forward_hook)
=======
        self._optimizer_hooks = [
            handle
            for optimizer in optimizers
            for handle in (
                optimizer.register_step_pre_hook(self._before_step),
                optimizer.register_step_post_hook(self._after_step),
            )
        ]

    # ---- joining ----

    def attach(self, data: Data) -> None:
        """Let the job hand out `data`: before the first step."""
        if self.data is not None and data != self.data:
            raise StateError(
                "a job consumes one data set, and another loader was sharded before; shard() the training loader only "
                "and iterate over validation loaders as they are"
            )
        if self.job is not None and self.data is None:
            raise StateError("steps were taken before shard(); shard the loader before the first forward pass")
        self.data = data
        self._forward_hook.remove()  # the loader begins the steps

    def open(self) -> Job:
        """Join the job, or found it; registers the replica. Does nothing when done before."""
        if self.job is not None:
            return self.job
        config = dataclasses.replace(self.options.config) if self.options.config is not None else Config()
        self.solo = config.peers is None and "SPOTNIK_PEERS" not in os.environ
        if self.data is not None:
            config.samples = self.data.samples
            setattr(config, "batch_per_member" if self.data.per_member else "batch", self.data.batch)
        if self.options.checkpoint is not None:
            config.checkpoint_dir = self.options.checkpoint
        seed = self.options.seed if self.options.seed is not None else torch.initial_seed()
        self._replica = self._replicate(seed & ((1 << 63) - 1))
        for start in self.before_open:
            start()
        self.watch.seal()
        job = Job(config)
        job.join()
        self._replica.register(job)
        self._joined(job)
        self._exchange = Exchange(self._replica, len(self.gradients.slots))
        self.job = job
        _heed_sigterm()
        self._say_hello()
        return job

    def _replicate(self, seed: int) -> Replica:
        return Replica(self.model, self.optimizers, self.extras, seed)

    def _joined(self, job: Job) -> None:
        self.gradients.job = None if self.solo else job

    def _say_hello(self) -> None:
        for one in self.replica.objects[len(self.extras) :]:
            log.info("found %s: its state is part of the replica", type(one).__name__)
        if self.data is not None:
            log.info(
                "%d samples an epoch; batch=%r: %d samples a step %s; lr_rule=%r",
                self.data.samples,
                "per_member" if self.data.per_member else "global",
                self.data.batch,
                "for each member" if self.data.per_member else "over all members together",
                self.options.lr_rule,
            )

    @property
    def replica(self) -> Replica:
        """The registered state; there is one once the job is open."""
        assert self._replica is not None
        return self._replica

    @property
    def position(self) -> tuple[int, int]:
        """(epoch of data, samples of it that committed steps have consumed)."""
        control = self.replica.control
        return int(control[DATA_EPOCH]), int(control[CONSUMED])

    @property
    def seed(self) -> int:
        """The job's seed: that of its founder."""
        return int(self.replica.control[SEED])

    # ---- begin ----
>>>>>>> founding

    def begin(self) -> Step:
        """Begin the next step that the program's loop has to take; takes those before it by itself.

        Raises DoneError at the end of the job; leaves and exits with 75 after a notice.
        """
        if self.step is not None:
            return self.step
        if self.over:
            raise StateError("the job was left; call prepare() again to take part in another")
        job = self.open()
        self._settle()
        while True:
            self.watch.check()
            self._mark()
            step = self._begin_or_leave(job)
            if self.replica.after_begin(job):
                self._known = True
                self._received()
                log.info("state received at step %d", step.number - 1)
            self._armed(step)
            if not self._is_idle(step) or self.replica.control[INSIDE] != INSIDE_YES:
                return step
            self._take_inside()

    def _received(self) -> None:
        """This member has another's state now."""

    def _begin_or_leave(self, job: Job) -> Step:
        try:
            return job.step_begin()
        except LeavingError:
            log.info("leaving the job after a notice; exit status %d asks for a restart", EXIT_INTERRUPTED)
            self.close()
            raise SystemExit(EXIT_INTERRUPTED) from None
        except MismatchError as error:
            raise self._mismatch(error) from error

    def _armed(self, step: Step) -> None:
        self.step = self.last_step = step
        self._excluded = False
        self.gradients.arm()
        self._used = []
        if self.options.rng:
            first = step.ranges[0].start if step.ranges else step.rank + (1 << 40)
            _seed_generators(mix(self.seed, step.number, first))

    def _settle(self) -> None:
        """The program comes for another step: has it dealt with the last one?"""
        if self._pending and not self._excluded:
            if self._members and not self._skipped:
                raise StateError(
                    "backward() was called, but not optimizer.step(): the averaged gradient was not applied. Call "
                    "step() of every prepared optimizer once for each backward(), or say prepare(..., accumulate=k) "
                    "to accumulate gradients over k of them"
                )
            self._touched = True  # skipped on purpose, as a gradient scaler does
        self._pending.clear()

    @property
    def _skipped(self) -> bool:
        """Was the committed step left out on purpose? A gradient scaler does so; and zero_grad() may have followed."""
        return not self.gradients.finite or (self.replica.scaled and not self.gradients.present)

    def _mark(self) -> None:
        """Write down whether a joiner may repeat steps without the program's loop."""
        if self._versions is None:
            return  # the last step, if any, was not taken by the loop
        control = self.replica.control
        if self._touched or self.watch.versions() != self._versions:
            if control[INSIDE] == INSIDE_YES:
                log.warning(
                    "the program changes gradients or parameters in a step for the first time in step %d; members "
                    "that join in this moment have to start again",
                    self.last_step.number if self.last_step else 0,
                )
            control[INSIDE] = INSIDE_NO
        elif control[INSIDE] == INSIDE_UNKNOWN:
            control[INSIDE] = INSIDE_YES
        self._touched, self._versions = False, None

    def _before_forward(self, module: torch.nn.Module, _: Any) -> None:
        if not module.training or not torch.is_grad_enabled():
            return
        if not self._pending or self._skipped:
            self.begin()

    def _take_inside(self) -> None:
        assert self.step is not None
        self._inside = True
        try:
            self._used = self.gradients.send_nothing()
            self._finish_inside()
            if not self._excluded:
                for optimizer in self.optimizers:
                    optimizer.step()
        finally:
            self._inside = False
        self._known = self._excluded or not self.replica.leaves
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)

    def _finish_inside(self) -> None:
        self._commit()

    def unsure(self) -> None:
        """The program did something to its schedulers that it should not have: its numbers do not count."""
        self._known = False

    def close(self, abandon: bool = False) -> None:
        """Leave the job and take the hooks away; the model is an ordinary one again."""
        global _current
        if _current is self:
            _current = None
        super().close(abandon)


def _not_compiled(hook: Callable[..., None]) -> Callable[..., None]:
    return torch.compiler.disable(hook)  # type: ignore[no-any-return, no-untyped-call]


_current: Optional[Session] = None


def install(session: Session) -> None:
    """Make `session` the one that shard() and the other functions use."""
    global _current
    if _current is not None and not _current.over:
        raise StateError("a model is prepared already; call spotnik.leave() before preparing another in this process")
    _current = session


def current() -> Session:
    """The session that prepare() made."""
    if _current is None:
        raise StateError("no model is prepared; call model, optimizer = spotnik.prepare(model, optimizer) first")
    return _current


def find() -> Optional[Session]:
    """The session, if there is one."""
    return _current


def _seed_generators(seed: int) -> None:
    """As torch.manual_seed() does, but without its record of the caller for accelerators that are not in use."""
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(seed)


def seeded(*parts: int) -> None:
    """Seed Python's and PyTorch's generators: in workers that load data."""
    seed = mix(*parts)
    random.seed(seed)
    torch.manual_seed(seed)
