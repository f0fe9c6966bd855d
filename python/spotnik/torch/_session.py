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

import dataclasses
import logging
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from typing import Any, Optional

import torch
from torch.optim import Optimizer

from ..errors import LeavingError, MismatchError, StateError
from ..job import Config, Job, Step, leave_on_sigterm
from ._exchange import Common, Exchange, mix, pairs, share_hash
from ._gradients import Gradients
from ._leaves import UNKNOWN, Stateful
from ._options import Data, Options, StepReport
from ._replica import CONSUMED, DATA_EPOCH, INSIDE, INSIDE_NO, INSIDE_UNKNOWN, INSIDE_YES, SEED, Replica, Watch
from ._strategies import Strategy

log = logging.getLogger("spotnik.torch")

EXIT_INTERRUPTED = 75


class Session:
    """The life of a prepared model. One per process at a time."""

    def __init__(
        self, model: torch.nn.Module, optimizers: list[Optimizer], extras: list[Stateful], options: Options
    ) -> None:
        self.model = model
        self.optimizers = optimizers
        self.extras = extras
        self.options = options
        self.watch = Watch(model, optimizers)
        trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        self.gradients = Gradients(trained, options.bucket_mb, options.accumulate, options.sparse, self._commit)
        self.data: Optional[Data] = None
        self.job: Optional[Job] = None
        self.solo = False
        self.step: Optional[Step] = None  #: begun and not committed
        self.over = False
        self.epoch_floor = 0  #: epochs of data before this one are not asked for
        self.before_open: list[Callable[[], None]] = []
        self.last_step: Optional[Step] = None
        self.wait_s = 0.0
        self.strategy: Optional[Strategy] = None  #: other than averaging the gradients of every step
        self._used: list[int] = []
        self._replica: Optional[Replica] = None
        self._exchange: Exchange
        self._pending: set[int] = set()  # optimisers that have not applied the committed step
        self._excluded = False
        self._inside = False
        self._touched = False
        self._known = True  # do we know what the program did after the last step?
        self._members = 1
        self._samples = 0
        self._in_closure: Optional[Optimizer] = None  # the optimiser that computes its own gradients
        self._contributors = 0
        self._lr_before: list[tuple[dict[str, Any], Any]] = []
        self._versions: Optional[int] = None
        self._backward_s: Optional[float] = None
        self._forward_hook = model.register_forward_pre_hook(_not_compiled(self._before_forward))
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

    def _mismatch(self, error: MismatchError) -> MismatchError:
        slots = self.gradients.slots
        return MismatchError(
            f"{error}. Here the model has {sum(slot.parameter.numel() for slot in slots)} trained elements in "
            f"{len(slots)} parameters and bucket_mb={self.options.bucket_mb}: start the same program with the same "
            "arguments on all members"
        )

    def _armed(self, step: Step) -> None:
        self.step = self.last_step = step
        self._excluded = False
        self.gradients.arm()
        self._used = []
        if self.options.rng:
            first = step.ranges[0].start if step.ranges else step.rank + (1 << 40)
            _seed_generators(mix(self.seed, step.number, first))

    def _is_idle(self, step: Step) -> bool:
        """Does this member contribute nothing to the step?"""
        return step.replay or step.share >= step.shares or (self.data is not None and step.sample_count == 0)

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

    # ---- commit ----

    def _commit(self) -> None:
        step, job = self.step, self.job
        if step is None or job is None:
            return
        ended = time.perf_counter()
        used = self.gradients.send_rest()
        if not self.solo:
            self._exchange.send(job, step, used, self._is_idle(step), self._known)
        try:
            committed = job.step_commit()
        except MismatchError as error:
            raise self._mismatch(error) from error
        self.wait_s = time.perf_counter() - ended
        self.step = None
        if not committed:
            self._exclude()
        elif self.solo:
            self._adopt_own(step, used)
        else:
            self._adopt()
        if self._in_closure is not None and committed:
            self._scale_lr(self._in_closure)

    def commit_for_ddp(self) -> None:
        """All gradients of a backward pass have come by the communication hook."""
        self.gradients.passes += 1
        self._commit()

    def _exclude(self) -> None:
        log.info("the others went on without this member; it joins again")
        self._excluded = True
        self._pending = set()
        self._known = True
        self._versions = None
        self.gradients.drop(self.replica.scaled)
        self.replica.buffers.restore()

    def _adopt_own(self, step: Step, used: list[int]) -> None:
        self.replica.buffers.keep()
        self._adopt_totals(step.sample_count, 1, share_hash(step.number, pairs(step)))
        self.gradients.finish(used)
        self._pending = set(range(len(self.optimizers)))

    def _adopt_totals(self, samples: int, members: int, contributors: int) -> None:
        self._samples, self._members, self._contributors = samples, members, contributors
        self._account()

    def _adopt_common(self) -> Common:
        """Take over what the step says, but for gradients."""
        common = self._exchange.receive()
        self._adopt_leaves(common.numbers)
        self.replica.buffers.adopt(common.wholes, common.buffers_changed)
        self._check_inside(common.inside)
        self._adopt_totals(common.samples, common.members, common.contributors)
        return common

    def _adopt(self) -> None:
        """Take over what the step says."""
        common = self._adopt_common()
        if self._members == 0:
            self.gradients.drop(self.replica.scaled)  # everybody with samples was lost: the step has no gradient
        else:
            self.gradients.finish(common.used)
        self._pending = set(range(len(self.optimizers)))

    def _adopt_leaves(self, codes: list[int]) -> None:
        own = self.replica.leaves.read()
        codes = [mine if code == UNKNOWN else code for code, mine in zip(codes, own)]
        self.replica.note(codes)
        if codes == own:
            return
        changed = self.replica.leaves.write(codes)
        repeated = self.last_step is not None and self.last_step.replay  # its copy may be a scheduler's tick older
        if self._known and not repeated:
            log.warning("other members had other values for %s; theirs are used", ", ".join(changed[:4]))

    def _check_inside(self, said: int) -> None:
        """A joiner that repeated a step alone learns that the program did something in it."""
        if said != INSIDE_NO:
            return
        was, self.replica.control[INSIDE] = int(self.replica.control[INSIDE]), INSIDE_NO
        if was == INSIDE_YES and not self._known:
            log.error("the program began to change gradients or parameters while this member joined; it starts again")
            self.close(abandon=True)
            raise SystemExit(EXIT_INTERRUPTED)

    def _account(self) -> None:
        if self.data is None:
            return
        control = self.replica.control
        control[CONSUMED] += self._samples
        if control[CONSUMED] >= self.data.samples:
            control[DATA_EPOCH] += 1
            control[CONSUMED] = 0

    # ---- apply ----

    def _before_step(self, optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        closure = kwargs.get("closure") or (args[1] if len(args) > 1 else None)
        if callable(closure) and self.step is not None and not self.gradients.fired:
            self._in_closure = optimizer  # it calls backward(), which commits
            return
        if self.step is not None and not self._inside:
            if not self.gradients.arrived:
                raise StateError(
                    "optimizer.step() without backward(): no parameter has a gradient in this step. Call "
                    "loss.backward() first, on a loss that depends on the prepared model"
                )
            self._end_step()
        if self._excluded:
            return
        self._check_pending(optimizer)
        self._applying(optimizer, len(args) > 1 or bool(kwargs))

    def _end_step(self) -> None:
        """The program calls optimizer.step() for a step that is not committed yet."""
        self._commit()

    def _check_pending(self, optimizer: Optimizer) -> None:
        if self.optimizers.index(optimizer) not in self._pending:
            raise StateError(
                "optimizer.step() was called twice for one backward(), or before the first; call it once after each "
                "backward(). Losses with a backward() each: call all of them before the first step(), with "
                "prepare(..., accumulate=how many)"
            )

    def _applying(self, optimizer: Optimizer, with_arguments: bool) -> None:
        """An optimiser is about to apply the committed step."""
        if not self._inside and (self.gradients.touched or with_arguments):
            self._touched = True
        self._scale_lr(optimizer)

    def _scale_lr(self, optimizer: Optimizer) -> None:
        factor = self.lr_factor
        if factor == 1.0:
            return
        for group in optimizer.param_groups:
            self._lr_before.append((group, group["lr"]))
            group["lr"] = group["lr"] * factor

    @property
    def lr_factor(self) -> float:
        """By how much the learning rates of the last committed step were scaled."""
        if self.options.lr_rule == "none" or self.data is None or not self._members:
            return 1.0
        batch = self.data.batch * (self._members if self.data.per_member else 1)
        ratio = batch / (self.options.lr_batch or self.data.batch)
        return ratio if self.options.lr_rule == "linear" else ratio**0.5

    def _unscale_lr(self) -> None:
        for group, rate in self._lr_before:
            group["lr"] = rate
        self._lr_before.clear()

    def _after_step(self, optimizer: Optimizer, *_: Any) -> None:
        self._unscale_lr()
        in_closure, self._in_closure = self._in_closure, None
        if self._excluded:
            return
        if in_closure is not None:
            self._settle_closure()
        self._pending.discard(next(i for i, one in enumerate(self.optimizers) if one is optimizer))
        if self._pending:
            return
        if not self._inside:
            self._known = True
            self._versions = self.watch.versions()
        self._report()

    def _settle_closure(self) -> None:
        if self.step is not None:
            raise StateError(
                "the closure given to optimizer.step() did not call backward(); let it compute the loss, call "
                "loss.backward() and return the loss"
            )
        self._touched |= self.gradients.touched

    def _report(self) -> None:
        step = self.last_step
        if self.options.on_step is None or step is None:
            return
        self.options.on_step(
            StepReport(
                number=step.number,
                data_epoch=step.data_epoch,
                samples=self._samples,
                members=self._members,
                contributors=self._contributors,
                replay=step.replay,
                share=pairs(step),
                wait_s=self.wait_s,
            )
        )

    # ---- the end ----

    def close(self, abandon: bool = False) -> None:
        """Leave the job and take the hooks away; the model is an ordinary one again."""
        global _current
        self.over = True
        self.gradients.close()
        self._forward_hook.remove()
        for handle in self._optimizer_hooks:
            handle.remove()
        if _current is self:
            _current = None
        job, self.job = self.job, None
        if job is None:
            return
        if abandon:
            job.abandon()
        else:
            job.leave()


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


def _heed_sigterm() -> None:
    """SIGTERM asks to leave after the running step, unless the program has its own handler."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        leave_on_sigterm()


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
