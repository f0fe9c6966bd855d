# SPDX-License-Identifier: Apache-2.0
"""Which samples this member computes next: the ledger's shares, as indices into the data set.

The order of an epoch is a function of the job's seed and the number of the epoch, so every member knows it; the
ledger hands out places in that order, every place once whatever the churn. Nothing here loads data.
"""

from __future__ import annotations

import dataclasses
import os
import zlib
from collections.abc import Iterator, Sequence, Sized
from typing import Any, Optional

import torch
from torch.utils.data import ConcatDataset, Sampler, Subset

from ..errors import ArgumentError, DoneError, StateError
from ..job import Step
from ..training.shares import mix, pairs
from ._options import Data
from ._session import Session, current

Ranges = tuple[tuple[int, int], ...]
_NAMES = 256  # of a list that are compared

#: A batch of weight zero is this many samples: layers like BatchNorm refuse a single one.
IDLE_SAMPLES = 2


@dataclasses.dataclass(frozen=True)
class Piece:
    """One mini-batch: places in the order of an epoch of data, and the weight of its gradient in the step."""

    data_epoch: int
    ranges: Ranges
    scale: float

    @property
    def count(self) -> int:
        """How many samples."""
        return sum(end - begin for begin, end in self.ranges)

    @property
    def weight(self) -> int:
        """How many of them count."""
        return self.count if self.scale else 0


def cut(ranges: Ranges, begin: int, end: int) -> Ranges:
    """Samples `begin` to `end` of the concatenated ranges."""
    parts = []
    for low, high in ranges:
        a, b = max(begin, 0), min(end, high - low)
        if a < b:
            parts.append((low + a, low + b))
        begin, end = begin - (high - low), end - (high - low)
    return tuple(parts)


def pieces(data_epoch: int, ranges: Ranges, accumulate: int, samples: int) -> list[Piece]:
    """Cut a share into `accumulate` mini-batches, as equal as can be.

    Weights are such that the sum of the mean gradients, each divided by `accumulate`, is the mean over the share. A
    mini-batch with nothing in it gets a few samples of weight zero.
    """
    total = sum(end - begin for begin, end in ranges)
    idle: Ranges = ((0, min(IDLE_SAMPLES, samples)),)
    result = []
    for number in range(accumulate):
        part = cut(ranges, total * number // accumulate, total * (number + 1) // accumulate)
        count = sum(end - begin for begin, end in part)
        scale = count * accumulate / total if total else 0.0
        result.append(Piece(data_epoch, part or idle, scale))
    return result


def _portion(step: Step, at: int, total: int) -> tuple[int, int, int]:
    """Where our share of `step` begins and ends, and of how many: of its samples, from `at` on, where that can be told.

    Shares may be uneven (dynamic batching), and then the next one is probably what this one is.
    """
    ranges = pairs(step)
    if len(ranges) == 1:
        begin, end = ranges[0]
        if at <= begin and end <= at + total:
            return begin - at, end - at, total
    return step.share, step.share + 1, step.shares


def part(session: Session, batch: Any, dim: int) -> Any:
    """This member's part of a batch that every member has; the step is begun."""
    if session.data is not None:
        raise StateError(
            "part_of() is for batches of the program's own; those of shard() are this member's part already"
        )
    session.begin_own()
    if session.running.pending and not session.running.excluded:
        raise StateError("part_of() was called before optimizer.step() of the batch before; call it after that")
    step = session.running.step or session.running.last_step
    assert step is not None
    count = batch.shape[dim] if isinstance(batch, torch.Tensor) else len(batch)
    shares = max(1, step.shares)
    begin, end = (count * min(number, shares) // shares for number in (step.share, step.share + 1))
    session.mode.deal(end - begin)
    if begin == end:
        begin, end = 0, min(IDLE_SAMPLES, count)
    return batch.narrow(dim, begin, end - begin) if isinstance(batch, torch.Tensor) else batch[begin:end]


def mark_of(order: Any) -> int:
    """A number of 62 bits for a list of numbers; another list, and another order, has another one. Of names: 0."""
    try:
        numbers = torch.as_tensor(order, dtype=torch.int64)
    except (TypeError, ValueError, RuntimeError):  # names, say, by which the data set finds its samples
        return 0
    return int(((numbers + 1) * (2 * torch.arange(len(numbers)) + 1)).sum()) & ((1 << 62) - 1)


def chosen_of(data: Any) -> int:
    """A number for which samples `data` has under which numbers: indices of a Subset, and names that a folder lists."""
    if isinstance(data, Subset):
        return mark_of(data.indices) ^ chosen_of(data.dataset)
    if isinstance(data, ConcatDataset):
        marks = [chosen_of(one) for one in data.datasets]
        return mark_of(marks) if any(marks) else 0
    lists = [one for one in vars(data).values() if isinstance(one, (list, tuple))] if hasattr(data, "__dict__") else []
    return next((mark for mark in (_mark_of_names(one) for one in lists if len(one) == len(data)) if mark), 0)


def _mark_of_names(names: Sequence[Any]) -> int:
    """For names of files, or tuples that begin with one, as ImageFolder has them; 0: they are something else.

    Looks at some of them, and not at the folders, which may have another place on each machine.
    """
    some = [one[0] if isinstance(one, tuple) and one else one for one in names[:: max(1, len(names) // _NAMES)]]
    if not all(isinstance(one, (str, os.PathLike)) for one in some):
        return 0
    return zlib.crc32("\0".join(os.path.basename(one) for one in some).encode(errors="replace"))


class Order:
    """The order of the samples in each epoch of data."""

    def __init__(self, samples: int, shuffle: bool, sampler: Optional[Sampler[Any]] = None) -> None:
        self.samples = samples
        self.shuffle = shuffle
        self.sampler = sampler
        self._orders: dict[tuple[int, int], torch.Tensor] = {}  # of the last two epochs: one is prefetched
        self._marks: dict[tuple[int, int], int] = {}  # of these, where a sampler of the program's own made them
        self.chosen = 0  #: a mark of what the data set has chosen from another

    def indices(self, seed: int, piece: Piece) -> list[int]:
        """The indices into the data set that `piece` stands for."""
        if not self.shuffle and self.sampler is None:
            return [place for begin, end in piece.ranges for place in range(begin, end)]
        order = self._of((seed, piece.data_epoch))
        return [int(index) for begin, end in piece.ranges for index in order[begin:end].tolist()]

    def mark(self, seed: int, epoch: int) -> int:
        """A number that another order of the epoch does not have; orders that follow from the seed have the same."""
        if self.sampler is not None:
            order = self._of((seed, epoch))
            if (seed, epoch) not in self._marks:
                self._marks = {(seed, epoch): mark_of(order)}
        return self.chosen ^ self._marks.get((seed, epoch), 0)

    def _of(self, key: tuple[int, int]) -> torch.Tensor:
        if key not in self._orders:
            self._orders = {**dict(list(self._orders.items())[-1:]), key: self._make(mix(*key))}
        return self._orders[key]

    def _make(self, seed: int) -> torch.Tensor:
        if self.sampler is None:
            generator = torch.Generator().manual_seed(seed)
            return torch.randperm(self.samples, generator=generator)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            own = getattr(self.sampler, "generator", None)
            if own is not None:
                own.manual_seed(seed)
            order = torch.as_tensor(list(self.sampler))
        if len(order) < self.samples:
            raise ArgumentError(
                f"{type(self.sampler).__name__} gave {len(order)} indices, but its length is {self.samples}; every "
                "epoch of data must have the same length"
            )
        return order


class Course:
    """The way through the data: which share comes next, and which will probably come after it."""

    def __init__(self, order: Order, batch: int, drop_last: bool) -> None:
        self.order = order
        self.batch = batch
        self._iterations = 0
        self.session: Optional[Session] = None
        self.samples = order.samples
        if drop_last:
            self.samples = order.samples // batch * batch
        if batch < 1 or self.samples < 1:
            raise ArgumentError(
                f"{order.samples} samples in batches of {batch} make no step; use a smaller batch_size, or "
                "drop_last=False"
            )

    def bind(self) -> Session:
        """Connect to the prepared model."""
        session = current()
        if self.session is session:
            return session
        options = session.options
        session.attach(Data(self.samples, self.batch * options.accumulate, options.batch == "per_member"))
        self.session, self._iterations = session, options.start
        session.order_mark = lambda: self.order.mark(session.control.seed, session.control.epoch)
        return session

    def steps(self) -> int:
        """Steps in an epoch of data, as long as no member is lost."""
        session = self.session
        batch = self.batch * (session.options.accumulate if session else 1)
        if session and session.data and session.data.per_member and session.job:
            batch *= session.job.size
        return -(-self.samples // batch)

    def epoch(self) -> Iterator[tuple[Piece, Step]]:
        """Go through one epoch of data: each mini-batch with the step it belongs to.

        The i-th call is the i-th epoch, from prepare(start=...) on: those that the job had finished before this member
        came are empty.
        """
        session = self.bind()
        if session.job is None and self._iterations < session.aside_until:
            self._iterations += 1  # the loop goes through an epoch that is over
            return
        if session.running.step is None and session.job is None and not self._begin(session):
            return
        wanted = min(max(self._iterations, session.epoch_floor), session.position[0])
        self._iterations = wanted + 1
        if wanted < session.position[0]:
            session.unsure()
            session.stand_aside(wanted)
        while session.position[0] == wanted and self._begin(session, wanted):
            step = session.running.step
            if step is None or session.position[0] != wanted:
                return
            yield from self._mini_batches(session, step)

    @staticmethod
    def _begin(session: Session, epoch: Optional[int] = None) -> bool:
        try:
            session.begin(epoch)
        except DoneError:
            return False
        return True

    def _mini_batches(self, session: Session, step: Step) -> Iterator[tuple[Piece, Step]]:
        """Those of one step, which may be read ahead of their backward passes (as gradient accumulation does)."""
        share = self.pieces(session, step)
        session.running.handed = step
        session.gradients.weights.plan([piece.weight for piece in share])
        for piece in share:
            yield piece, step
        if session.running.step is step and session.options.commit == "step":
            raise StateError(
                "the loop came for another batch without optimizer.step() on the last one: with commit=\"step\" each "
                "batch has its step. To accumulate gradients over k batches say prepare(..., accumulate=k) in its place"
            )
        if session.running.step is step and session.gradients.passes < len(share):
            raise StateError(
                "the loop came for another batch without backward() on the last one; call loss.backward() for each "
                "batch of a sharded loader, and iterate over validation data with the loader itself. To leave out a "
                "batch (its loss is not finite, it is empty) call spotnik.skip() in place of backward(), and go on to "
                "optimizer.step(). A loop that reads one batch ahead (accelerate's loaders do) must be given the "
                "sharded loader as it is"
            )

    def pieces(self, session: Session, step: Step) -> list[Piece]:
        """The mini-batches of this member's share."""
        return pieces(session.position[0], pairs(step), session.options.accumulate, self.samples)

    def guess(self, session: Session, step: Step) -> Iterator[Piece]:
        """The mini-batches that follow `step` for this member as long as no member comes or goes."""
        assert session.data is not None
        data, (epoch, at) = session.data, session.position
        batch = data.batch * (step.shares if data.per_member else 1)
        accumulate = session.options.accumulate
        share = _portion(step, at, min(batch, self.samples - at))
        at += min(batch, self.samples - at)  # the running step
        idle = 0  # steps in a row without anything for us
        while idle <= 2 * (self.samples // batch + 1):
            if at >= self.samples:
                epoch, at = epoch + 1, 0
            total = min(batch, self.samples - at)
            begin, end = total * share[0] // share[2], total * share[1] // share[2]
            idle = 0 if end > begin else idle + 1
            if not idle:
                yield from pieces(epoch, ((at + begin, at + end),), accumulate, self.samples)
            at += total


class ElasticSampler(Sampler[list[int]]):
    """Yields the indices of one mini-batch after the other, as members come and go.

    A ``batch_sampler`` for a DataLoader without workers, or to be iterated over by itself:

        loader = DataLoader(dataset, batch_sampler=spotnik.ElasticSampler(dataset, batch_size=64))

    Every iteration is one epoch of data, shuffled anew by the job's seed; over all members every sample is yielded
    once, and again only when the member that had it was lost. With workers, which fetch ahead, use :func:`shard`.

    Args:
        data_source: the data set, or anything else with a length.
        batch_size: samples in a step over all members together, or of each member, as prepare()'s `batch` says (with
            ``accumulate=k``: in each of its k mini-batches).
        shuffle: another order in each epoch of data.
        drop_last: leave out the samples that do not fill the last step.
    """

    def __init__(self, data_source: Sized, batch_size: int, shuffle: bool = True, drop_last: bool = False) -> None:
        if not hasattr(data_source, "__len__"):
            raise ArgumentError(
                f"ElasticSampler needs to know how many samples there are, and {type(data_source).__name__} has no "
                "length; give it a __len__, or a range(number of samples)"
            )
        self._course = Course(Order(len(data_source), shuffle), batch_size, drop_last)

    def __len__(self) -> int:
        """Mini-batches in an epoch of data, as long as no member is lost."""
        session = self._course.session
        return self._course.steps() * (session.options.accumulate if session else 1)

    def __iter__(self) -> Iterator[list[int]]:
        """One epoch of data."""
        if torch.utils.data.get_worker_info() is not None:
            raise StateError("ElasticSampler was iterated over in a worker; use spotnik.shard(loader)")
        for piece, _ in self._course.epoch():
            assert self._course.session is not None
            yield self._course.order.indices(self._course.session.control.seed, piece)


def is_sequence(data: object) -> bool:
    """Can samples be taken from `data` by number?"""
    return isinstance(data, Sequence) or (hasattr(data, "__len__") and hasattr(data, "__getitem__"))
