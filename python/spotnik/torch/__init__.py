# SPDX-License-Identifier: Apache-2.0
"""PyTorch: three changed lines, and the job survives.

    import spotnik.torch as spotnik
    model, optimizer = spotnik.prepare(model, optimizer)
    for batch in spotnik.shard(loader):
        ...                                              # the loop body stays as it is

Under ``spotnik run -n 2:8 -- python train.py`` the members average their gradients while backward runs. When one is
lost, the others finish the very step they were in; one that comes receives the state and enters. Without ``spotnik
run`` the script is a job of one. What a step does, and when, is in docs/design/0015-python.md.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional, Union

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from .._native import Op
from ..config import is_alone
from ..errors import ArgumentError, DoneError
from ..job import Config, Job
from ..sync import Rule
from ..training.shares import share_hash
from ._checks import check_choices, check_model, check_objects, check_process_group, check_sharded
from ._ddp import allreduce_hook, check_group, hook_on
from ._ghost import ghost_batchnorm
from ._leaves import Stateful
from ._loader import Shard, shard
from ._log import log
from ._mode import AtBackward
from ._options import Options, StepReport
from ._places import place_here
from ._sampler import ElasticSampler, part
from ._session import Session, current, find, install, last
from ._shard_mode import Sharded
from ._shards import clip_grad_norm_, has_shards
from ._stepping import InTurns
from ._strategic import ByStrategy
from ._streams import Records, Shards
from ._tokens import Tokens
from ._weights import units
from ._wire import WIRES
from ._writing import CSVWriter, SummaryWriter

_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")

__all__ = [
    "CSVWriter",
    "ElasticSampler",
    "Records",
    "Shard",
    "Shards",
    "StepReport",
    "SummaryWriter",
    "Tokens",
    "agreed",
    "allreduce",
    "allreduce_hook",
    "clip_grad_norm_",
    "digest",
    "epoch",
    "epochs",
    "ghost_batchnorm",
    "hide_torchrun",
    "job",
    "leave",
    "observe",
    "part_of",
    "prepare",
    "rank",
    "samples",
    "shard",
    "share_hash",
    "size",
    "skip",
    "step",
    "tell",
    "told",
    "weigh",
]


def prepare(
    model: torch.nn.Module,
    optimizer: Union[Optimizer, Sequence[Optimizer]],
    *extra_state: Stateful,
    sync: Union[str, Rule, None] = None,
    bucket_mb: float = 25,
    wire: str = "auto",
    accumulate: int = 1,
    commit: str = "backward",
    batch: str = "global",
    lr_rule: str = "none",
    lr_batch: Optional[int] = None,
    sparse: str = "error",
    seed: Optional[int] = None,
    rng: bool = True,
    metrics: Sequence[str] = (),
    pauses: Union[str, int, None] = None,
    checkpoint: Optional[str] = None,
    start: int = 0,
    config: Optional[Config] = None,
    on_step: Optional[Callable[[StepReport], None]] = None,
) -> tuple[Any, ...]:
    """Make `model` and `optimizer` take their steps together with the other members of the job.

    Returns what was given, in order: ``model, optimizer = prepare(model, optimizer)``. Both stay the objects they were.
    From then on ``loss.backward()`` sends gradients off in buckets while it runs, and at its end waits until the step
    is committed: every ``.grad`` is then the average over all samples of the step, the same bits on all members. So
    ``clip_grad_norm_``, ``scaler.unscale_`` and what else comes between backward() and step() works on averages, as
    usual. ``optimizer.step()`` applies them. The first step joins the job: it then holds the state of the others.

    Part of the replica, which joiners and checkpoints receive: parameters, buffers, the state of the optimisers, all
    learning-rate schedulers of theirs and gradient scalers that exist at the first step, and `extra_state`.

    Args:
        model: complete, on its device and of its type. Several models: ``torch.nn.ModuleList([a, b])``. A
            DistributedDataParallel of world size 1 is accepted, too. In a group (``spotnik run --group``) so are one
            over the group's processes, and a model that fully_shard() or parallelize_module() has cut over them.
        optimizer: one, or a sequence of several that each update some parameters; all step once per step.
        extra_state: anything else with ``state_dict()`` and ``load_state_dict()``, for example an averaged model.
        sync: how replicas are kept together: a strategy of :class:`spotnik.Sync`, or a rule of your own; default: what
            SPOTNIK_SYNC says, or "ssgd". "ssgd": gradients are averaged in every step. In all others ``.grad`` is this
            member's own, so clipping is too; the model is averaged by the strategy in ``optimizer.step()``. Validate
            and save inside ``with spotnik.agreed():``.
        bucket_mb: MiB of gradients that travel together; more where the model is too large for that.
        wire: as what gradients travel, the same on every member. "auto": as they are. "f32", "bf16" or "f16": rounded
            to that, and again where members' sums meet. "q8": as 8 bits and a scale for every 252 numbers; each member
            keeps what its rounding took away and adds it to its next gradient.
        accumulate: backward passes per optimizer.step(). The loop body is as usual (divide the loss by it).
        commit: where gradients are averaged: "backward", at its end, and they travel while it runs; or "step", in
            optimizer.step(), after any number of backward passes. With several optimizers each step() then is a step
            of the job, in the order in which they are given here, once for each in every batch (GANs). Clipping is of
            this member's own gradients then.
        batch: what the loader's batch_size means. "global": samples of a step over all members, so that the training
            does not depend on how many there are. "per_member": samples of each, so that a step grows with the job.
        lr_rule: by what the learning rate is scaled when a step has other than `lr_batch` samples: "none", "linear"
            or "sqrt" of the ratio. Schedulers do not see it.
        lr_batch: samples the learning rate was chosen for; default: one loader batch.
        sparse: "error", or "dense" to send sparse gradients in full.
        seed: of the shuffling; default: the founder's torch.initial_seed().
        rng: seed PyTorch's generators at each step, by job, step and share, so that no two members draw the same
            numbers and a step repeated is the same step.
        metrics: names of numbers that :func:`tell` gives to a step and :func:`told` has afterwards: their means over
            all its samples. The same on every member.
        pauses: where :func:`allreduce` may be called: "epoch", between two epochs of sharded data; or a number k,
            after every k-th step. A pause in which no member calls it costs one small step of the job.
        checkpoint: directory, shared by all members, for surviving the loss of all of them.
        start: the epoch of sharded data with which the job begins, where the program has loaded a file of its own that
            holds the epochs before. The founder's counts; joiners have the job's.
        config: settings of the job; default: from the environment (``spotnik run`` sets it).
        on_step: called after each step that was committed and applied.

    Raises ArgumentError for models and optimisers that cannot be kept equal, with what to do instead.
    """
    if sync is None:
        sync = os.environ.get("SPOTNIK_SYNC") or "ssgd"
    _check(accumulate, commit, batch, lr_rule, lr_batch, sparse, wire)
    if start < 0:
        raise ArgumentError(f"start is the number of an epoch, 0 or more, not {start}")
    if wire != "auto" and sync != "ssgd":
        raise ArgumentError(f"wire={wire!r} is about gradients that travel; with sync={sync!r} none do: leave it out")
    if commit == "step" and (sync != "ssgd" or accumulate != 1 or isinstance(model, DistributedDataParallel)):
        raise ArgumentError('commit="step" goes with sync="ssgd" and accumulate=1, and without DistributedDataParallel')
    if pauses is not None and (sync != "ssgd" or commit == "step"):
        raise ArgumentError('pauses go with sync="ssgd" and commit="backward"; give the step a number by tell()')
    optimizers = list(optimizer) if isinstance(optimizer, Sequence) else [optimizer]
    check_process_group()
    check_choices(sync, pauses)
    check_objects(model, optimizers, extra_state)
    inner = model
    if isinstance(model, DistributedDataParallel):
        if sync != "ssgd":
            raise ArgumentError(f"sync={sync!r} keeps models together by itself; give it model.module")
        check_group(model)
        inner = model.module
    is_sharded = has_shards(inner)
    check_model(inner, is_sharded)
    options = Options(
        sync=sync,
        bucket_mb=bucket_mb,
        wire=wire,
        accumulate=accumulate,
        commit=commit,
        batch=batch,
        lr_rule=lr_rule,
        lr_batch=lr_batch,
        sparse=sparse,
        seed=seed,
        rng=rng,
        metrics=metrics,
        pauses=pauses,
        checkpoint=checkpoint,
        start=start,
        config=config,
        on_step=on_step,
    )
    mode = InTurns if commit == "step" else AtBackward if sync == "ssgd" else ByStrategy
    if is_sharded:
        check_sharded(sync, commit, wire)
        mode = Sharded
    session = Session(inner, optimizers, list(extra_state), options, mode)
    install(session)
    if isinstance(model, DistributedDataParallel):
        hook_on(model, session)
    return (model, optimizer, *extra_state)


def _check(
    accumulate: int, commit: str, batch: str, lr_rule: str, lr_batch: Optional[int], sparse: str, wire: str
) -> None:
    choices: dict[str, tuple[str, tuple[str, ...]]] = {"batch": (batch, ("global", "per_member"))}
    choices["commit"] = (commit, ("backward", "step"))
    choices["lr_rule"] = (lr_rule, ("none", "linear", "sqrt"))
    choices["sparse"] = (sparse, ("error", "dense"))
    choices["wire"] = (wire, WIRES)
    for name, (value, allowed) in choices.items():
        if value not in allowed:
            raise ArgumentError(f"{name}={value!r} is not known; say {' or '.join(repr(one) for one in allowed)}")
    if accumulate < 1:
        raise ArgumentError(f"accumulate is the number of backward passes per step, 1 or more, not {accumulate}")
    if lr_batch is not None and lr_batch < 1:
        raise ArgumentError(f"lr_batch is a number of samples, 1 or more, not {lr_batch}")


def epochs(count: int) -> Iterator[int]:
    """Count epochs of data, ``for epoch in spotnik.epochs(10):``, from the one the job is in to `count` - 1.

    Like ``range(count)`` for the first members; one that joins late, or a job resumed from a checkpoint, starts in the
    epoch of the others instead of going through empty ones. Joins the job.
    """
    session = _with_data("epochs")
    at = session.position[0]
    if at >= count and not session.told_of_end:
        session.told_of_end = True
        log.warning(
            "the job has trained its %d epochs already: nothing is left to do. To train on, ask for more epochs; to "
            "begin anew, name another checkpoint folder",
            count,
        )
    while at < count:
        session.epoch_floor = at
        yield at
        at += 1


def step() -> int:
    """How many steps the job has committed: the number, from 0, of the step to be taken. The same on all members.

    For loops that draw their own batches: ``while spotnik.step() < 5000:``, and learning rates from it. It goes on
    where the job is in members that join late, and in a job resumed from a checkpoint. Joins the job.
    """
    return current().steps_done


def epoch() -> int:
    """The epoch of sharded data that the job is in, from 0. Joins the job.

    Give ``next(spotnik.epochs(count), count)`` to an engine that takes its first epoch: the loader begins there, too.
    """
    session = _with_data("epoch")
    session.epoch_asked = session.running.handed is None
    return session.position[0]


def samples() -> int:
    """How many samples of sharded data the steps so far have consumed, over all members. Joins the job."""
    session = _with_data("samples")
    at, consumed = session.position
    assert session.data is not None
    return at * session.data.samples + consumed


def _with_data(what: str) -> Session:
    session = current()
    if session.data is None:
        raise ArgumentError(f"{what}() is about sharded data; call shard(loader) first")
    if session.running.last_step is None:
        session.begin()
    return session


def hide_torchrun() -> None:
    """Take torchrun's variables (RANK, WORLD_SIZE, MASTER_ADDR, ...) out of the environment of this process.

    ``spotnik run`` sets them for libraries that look for them. Accelerate, Lightning and others start a process group
    of a fixed size when they see them, which waits for the lost for ever: call this first, so that for them each
    process is by itself, and leave the averaging to :func:`prepare`.
    """
    for name in list(os.environ):
        if name in _TORCHRUN or name.startswith(("TORCHELASTIC_", "ROLE_", "GROUP_")):
            del os.environ[name]


def job() -> Job:
    """The job of the prepared model; joins it if that was not done."""
    return current().open()


@contextlib.contextmanager
def agreed() -> Iterator[None]:
    """Inside, the model is what all members agree on, to be validated and saved: ``with spotnik.agreed(): ...``.

    With "ssgd" that is the model itself. Between two steps only; parameters are put back at the end.
    """
    session = current()
    if session.strategy is None:
        yield
        return
    with session.strategy.agreed():
        yield


def digest() -> int:
    """A hash of the model that all members agree on: equal on all of them after each step."""
    session = current()
    if session.strategy is None:
        return session.open().digest
    return session.strategy.sync.digest


def rank() -> int:
    """This member's place in the view, from 0; another after members came or went. Joins the job.

    ``if spotnik.rank() == 0: print(loss)`` prints once per step: one member alone has 0 in a step. -1 where the others
    may have taken steps without this member: it repeats what they did, has left the job to catch up with its loop, or
    was cut off.
    """
    session = last()
    if session is None and is_alone():
        where = place_here()
        return 0 if where is None else where.rank
    session = session or current()
    is_new = session.running.last_step is None and not (session.is_aside or session.over)
    if is_new and torch.utils.data.get_worker_info() is None:
        with contextlib.suppress(DoneError):
            session.begin()
    return session.rank


def size() -> int:
    """How many members the view had when the present step was begun; 1 before the first step."""
    session = find()
    if session is None or session.running.last_step is None:
        return 1
    return session.running.last_step.size


def observe(name: str, value: object) -> None:
    """Tell a number of the program's own: ``spotnik.observe("loss", loss)``. Page, metrics and report show the latest.

    A tensor of one element will do; reading it waits for the device. Before the first step it is ignored.
    """
    session = find()
    if session is not None and session.running.last_step is not None:
        session.open().observe(name, value)


def tell(name: str, value: object) -> None:
    """Give the running step a number, ``spotnik.tell("loss", loss)``: before backward() of the loss, or after forward.

    Told after backward(), it goes with the next step. Several values in a step (accumulation) are averaged. A tensor of
    one element will do; it is read at the end of backward. Raises ArgumentError for a name not in prepare(metrics=...).
    """
    current().metrics.tell(name, value)


def told(name: str) -> float:
    """The mean of what members told in the last step, weighted by their samples: the same bits on all of them.

    So it may decide what the loop does: stop, say. It costs no step and no wait. NaN when no member told it. Under
    strategies in which members run apart it is of the step before.
    """
    return current().metrics.told(name)


def weigh(count: Union[torch.Tensor, float, int]) -> None:
    """Say by what the loss of this mini-batch was divided, where that is not its samples: ``spotnik.weigh(n)``.

    Between forward and backward(), in each mini-batch of each step. `count` is the divisor of this member's loss: its
    tokens that are not ignored, its pixels under a mask, the sum of its samples' class weights. The step's gradient is
    then the mean over what all members count, as in one process with the whole batch. A whole number, or a fraction: of
    the same type on every member. A tensor of one element will do; reading it waits for the device. 0: the mini-batch
    counts for nothing, and its gradient may be NaN. With ``accumulate=k`` divide the loss by k, too, as ever; with
    ``commit="step"`` it is said before step(), once for all losses of an optimiser. :func:`told` weighs by it, too.

    Raises ArgumentError for a count that is negative or not finite. Raises StateError after backward(), with other
    strategies than "ssgd", and where it is left out for some mini-batches of a step: call it for each of them.
    """
    session = current()
    session.begin_own()
    session.mode.weigh(units(count))


def skip() -> None:
    """Leave out this mini-batch, in place of its backward(): ``if not loss.isfinite(): spotnik.skip()``.

    It counts for nothing in the step. Go on to optimizer.step() all the same: after this call each ``.grad`` is the
    average of the others, which is to be applied here, too, or None where every member has skipped, and step() then
    changes nothing. Raises StateError after backward(), and with other strategies than "ssgd".
    """
    session = current()
    session.begin_own()
    session.mode.skip()


def part_of(batch: Any, dim: int = 0) -> Any:
    """Cut this member's part out of a batch that every member has drawn: ``x, y = part_of(x), part_of(y)``.

    For loops that draw their own batches, the same on all members: in order, or by a generator with a fixed seed. Call
    it on each tensor of a mini-batch before the model's forward pass; it begins the step, and weighs the part by its
    samples, so that the step is that of one process with the whole batch, where :func:`weigh` says no other weight.
    `dim` counts samples; what is no tensor is cut by ``batch[a:b]``. A member for which no sample is left gets two
    of weight 0. Returns a view of a tensor. Raises StateError where shard() deals the samples already.
    """
    return part(current(), batch, dim)


def allreduce(value: Union[torch.Tensor, float, int], op: Union[str, Op] = "mean") -> Any:
    """Reduce a number or a tensor over the members, between two steps: ``seen = spotnik.allreduce(seen, "sum")``.

    `op` is "mean" (each member counts once), "sum", "min", "max" or "product". All members get the same bits, so the
    loop may decide by it. A member that is lost meanwhile does not count; one that comes meanwhile takes part with
    nothing. Call it where ``prepare(..., pauses=...)`` says, the same calls on all members, with the parameters as the
    training has them. It waits for all members.

    Returns a number for a number, and for a tensor a new one of its shape and type; the mean of whole numbers is a
    float. Raises MismatchError on every member, with the ranks, when the members make different calls; StateError where
    there is no pause.
    """
    return current().allreduce(value, op)


def leave() -> None:
    """Leave the job after the last committed step; the model is an ordinary one again. At exit this is done for you."""
    session = find()
    if session is not None:
        session.close()
