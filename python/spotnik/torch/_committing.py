# SPDX-License-Identifier: Apache-2.0
"""The end of a step: wait for the averages, and take over what all members together said."""

from __future__ import annotations

import time

from torch.optim import Optimizer

from ..errors import MismatchError, StateError
from ..job import Step
from ._exchange import Common, pairs, share_hash
from ._joining import EXIT_INTERRUPTED, Joining, log
from ._leaves import UNKNOWN
from ._options import Data
from ._replica import CONSUMED, DATA_EPOCH, INSIDE, INSIDE_NO, INSIDE_YES

_LATE = (
    "the program sets {names} between backward() and optimizer.step(), and this member set other values than the one "
    "that has been here longest: their parameters have parted. Set them before backward(), and all use those of the "
    'oldest member; or say prepare(..., commit="step"). Count by spotnik.step()'
)


class Committing(Joining):
    """The part of a session between the end of backward and the averages."""

    def _is_idle(self, step: Step) -> bool:
        """Does this member contribute nothing to the step?"""
        return step.replay or step.share >= step.shares or (self.data is not None and step.sample_count == 0)

    def _weight_of(self, step: Step) -> int:
        """What this member's word weighs in the step: its samples, where they are counted."""
        return 0 if self._is_idle(step) else step.sample_count or 1

    def _commit(self) -> None:
        step, job = self.step, self.job
        if step is None or job is None:
            return
        ended = time.perf_counter()
        used = self.gradients.send_rest()
        if not self.solo:
            self._exchange.send(job, step, used, self._is_idle(step), self._known)
            self.metrics.send(job, self._weight_of(step))
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
        self._settings_committed, self._settings_late = self._settings(), None
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
        self.metrics.keep(self._weight_of(step))
        self._adopt_totals(step.sample_count, 1, share_hash(step.number, pairs(step)))
        self.gradients.finish(used)
        self._pending = set(range(len(self.optimizers)))

    def _adopt_totals(self, samples: int, members: int, contributors: int) -> None:
        self._samples, self._members, self._contributors = samples, members, contributors
        self._account()

    def _adopt_common(self) -> Common:
        """Take over what the step says, but for gradients."""
        common = self._exchange.receive()
        self.metrics.receive()
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
        if self._settings_late is not None and self._settings() != self._settings_late:
            raise StateError(_LATE.format(names=", ".join(changed[:4])))
        repeated = self.last_step is not None and self.last_step.replay  # its copy may be a scheduler's tick older
        if self._known and not repeated and not self._told_of_numbers:
            self._told_of_numbers = True
            log.warning(
                "the member that has been here longest had other values for %s; its values are used, in this step and "
                "in all others. A loop that counts its iterations itself counts from 0 in a member that joins: count "
                "by spotnik.step()",
                ", ".join(changed[:4]),
            )

    def _settings(self) -> list[object]:
        """Numbers of the optimisers' groups: learning rates, momenta, ..."""
        groups = [group for optimizer in self.optimizers for group in optimizer.param_groups]
        return [one for group in groups for one in group.values() if isinstance(one, (int, float, tuple))]

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
        before = self.replica.control[DATA_EPOCH].item()
        if self.data is not None:
            self._consume(self.data)
        self.pauses.step_trained(not self._inside, self.replica.control[DATA_EPOCH].item() != before)

    def _consume(self, data: Data) -> None:
        control = self.replica.control
        control[CONSUMED] += self._samples
        if control[CONSUMED] >= data.samples:
            control[DATA_EPOCH] += 1
            control[CONSUMED] = 0

    # ---- learning rates ----

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
