# SPDX-License-Identifier: Apache-2.0
"""What a program sees of a job: a step, the members, a status. Plain values, copied from the C structs."""

from __future__ import annotations

import dataclasses

from . import _native

__all__ = ["BatchStatus", "Change", "CheckpointStatus", "Member", "Recovery", "Status", "Step"]


@dataclasses.dataclass(frozen=True)
class Step:
    """One step as this member sees it."""

    #: From 1; committed at most once in the life of the job.
    number: int
    #: Epoch of the view in which the step was begun.
    view_epoch: int
    #: Place in that view, from 0. May be another in the next step.
    rank: int
    #: Length of that view.
    size: int
    #: Which pass over the data, from 0: seed the shuffle with it.
    data_epoch: int
    #: Samples in this member's share; may be 0.
    sample_count: int
    #: The share: indices into the (shuffled) epoch of data.
    ranges: list[range]
    #: A joiner repeating a committed step: the share is empty, the result is the committed one.
    replay: bool
    #: Which of the `shares` into which the step was dealt out is ours; equal to `shares`: none, and what we contribute
    #: is left out. Shares keep their numbers while views change. Both 0 in a replay.
    share: int = 0
    shares: int = 0


@dataclasses.dataclass(frozen=True)
class Member:
    """One member of the view."""

    #: Its id, 32 hex digits; never used again.
    member: str
    #: Where it listens: "address:port".
    address: str


@dataclasses.dataclass(frozen=True)
class Change:
    """A view that is not that of the step before."""

    epoch: int
    rank: int
    size: int
    #: Size of the view before.
    size_before: int
    #: All members, in order of rank.
    members: list[Member]


@dataclasses.dataclass(frozen=True)
class Recovery:
    """One recovery as this member saw it. Instants are CLOCK_MONOTONIC nanoseconds, 0 where not reached."""

    #: Epoch of the view it led to.
    epoch: int
    lost: int
    joined: int
    left: int
    detected_ns: int
    reconciled_ns: int
    accepted_ns: int
    restarted_ns: int
    committed_ns: int


@dataclasses.dataclass(frozen=True)
class Status:
    """A snapshot of the job."""

    #: Our member id, 32 hex digits.
    member: str
    view_epoch: int
    #: Place in the view; -1: in none yet, as before the first step.
    rank: int
    size: int
    step_committed: int
    step_stable: int
    #: Cut off from the majority, waiting.
    parked: bool
    #: Copying state or replaying steps.
    joining: bool
    bytes_sent: int
    bytes_received: int
    control_messages: int
    losses: int
    joins: int
    leaves: int
    #: Other members of the view that this one hears itself, so that their end proves itself to it. For a moment fewer
    #: than all in a view that has just formed; always fewer in a large one.
    linked: int
    #: The last 16 at most, newest last.
    recoveries: list[Recovery]


def step_of(native: _native.NativeStep) -> Step:
    """Copy a spotnik_step."""
    return Step(
        number=native.number,
        view_epoch=native.view_epoch,
        rank=native.rank if native.rank < native.size else -1,
        size=native.size,
        data_epoch=native.data_epoch,
        sample_count=native.sample_count,
        ranges=[range(part.begin, part.end) for part in native.samples[: native.range_count]],
        replay=bool(native.replay),
        share=native.share,
        shares=native.shares,
    )


@dataclasses.dataclass(frozen=True)
class CheckpointStatus:
    """Checkpoints as this member sees them; all zeros without ``checkpoint_dir``."""

    #: The job was founded here from the checkpoint after this step; 0: it was not.
    resumed_step: int
    #: Step of the last checkpoint known here to be complete; 0: none yet.
    complete_step: int
    #: Complete ones in this member's life.
    complete_count: int
    #: Due, but not completed.
    left_out_count: int
    #: How long the last copy of this member's part held up the caller, and its size.
    copy_ns: int
    copy_bytes: int
    #: How long writing it took, in the background.
    write_ns: int
    #: What went wrong last, or which damaged checkpoint was left out; "" when all is well.
    message: str


@dataclasses.dataclass(frozen=True)
class BatchStatus:
    """Shares and gradient noise; all members of a view come to the same numbers."""

    #: Shares follow the members' speed.
    dynamic: bool
    #: That the shares below are for; 0: they are even, or nothing is known yet.
    members: int
    #: How often shares were changed, view changes apart.
    adjustments: int
    #: Samples: ours, the smallest and the largest one in the next step.
    share: int
    share_least: int
    share_most: int
    #: The shortest and the longest compute time of a member in the last step.
    compute_least_us: int
    compute_most_us: int
    #: Steps that went into the estimates below; 0: they are not known.
    noise_steps: int
    #: McCandlish's B_simple, in samples: up to about that batch, twice the batch is worth twice the progress.
    noise_scale: float
    #: Nearly the relative standard error of ``noise_scale``: trust that where this is well below 1.
    noise_error: float


_NO_RANK = 0xFFFFFFFF


def status_of(native: _native.NativeStatus) -> Status:
    """Copy a spotnik_job_status."""
    return Status(
        member=native.member.decode(),
        view_epoch=native.view_epoch,
        rank=-1 if native.rank == _NO_RANK else native.rank,
        size=native.size,
        step_committed=native.step_committed,
        step_stable=native.step_stable,
        parked=bool(native.parked),
        joining=bool(native.joining),
        bytes_sent=native.bytes_sent,
        bytes_received=native.bytes_received,
        control_messages=native.control_messages,
        losses=native.losses,
        joins=native.joins,
        leaves=native.leaves,
        linked=native.linked,
        recoveries=[
            Recovery(**{field.name: getattr(one, field.name) for field in dataclasses.fields(Recovery)})
            for one in native.recovery[: native.recovery_count]
        ],
    )


def checkpoint_of(native: _native.NativeCheckpointInfo) -> CheckpointStatus:
    """Copy a spotnik_checkpoint_info."""
    names = [field.name for field in dataclasses.fields(CheckpointStatus) if field.name != "message"]
    return CheckpointStatus(
        **{name: getattr(native, name) for name in names}, message=native.message.decode(errors="replace")
    )


def batch_of(native: _native.NativeBatchInfo) -> BatchStatus:
    """Copy a spotnik_batch_info."""
    return BatchStatus(
        dynamic=bool(native.dynamic),
        members=native.members,
        adjustments=native.adjustments,
        share=native.share,
        share_least=native.share_least,
        share_most=native.share_most,
        noise_steps=native.noise_steps,
        noise_scale=native.noise_scale,
        compute_least_us=native.compute_least_us,
        compute_most_us=native.compute_most_us,
        noise_error=native.noise_error,
    )
