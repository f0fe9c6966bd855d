# SPDX-License-Identifier: Apache-2.0
"""Loading the batches of this member's shares, ahead of time where the loader has workers.

Workers are asked for what the member will probably compute next. When a member came or went the guess was wrong:
what was loaded for nothing is dropped and the right batch is asked for, so prefetching never changes which samples are
used. The first workers are started before the member joins; the library closes its connections in later ones.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterator
from typing import Any, Generic, NoReturn, Optional, TypeVar

import torch
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, RandomSampler, SequentialSampler

from ..errors import ArgumentError, StateError
from ..job import Step, helper_shield
from ..training.shares import mix
from ._log import log
from ._means import samples_in
from ._sampler import Course, Order, Piece, chosen_of, is_sequence
from ._session import Session, find, seeded
from ._streams import Records, Shards

T = TypeVar("T")

#: What a worker gets: a seed, and indices; or nothing to do.
Request = Optional[tuple[int, list[int]]]


class _Samples:
    """The data set as workers see it: fetches the samples of one request."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __getitem__(self, index: int) -> Any:
        return self.data[index]

    def __len__(self) -> int:
        return len(self.data)

    def __getitems__(self, request: Request) -> Optional[list[Any]]:
        return None if request is None else self.fetch(request)

    def fetch(self, request: tuple[int, list[int]]) -> list[Any]:
        seed, indices = request
        if torch.utils.data.get_worker_info() is not None:
            seeded(seed)  # augmentation is a function of seed and share, whichever worker does it
        many = getattr(self.data, "__getitems__", None)
        return list(many(indices)) if many else [self.data[index] for index in indices]


class _Collate:
    def __init__(self, collate: Any, data: object) -> None:
        self.collate = collate
        self.flat = isinstance(data, Shards)  # a sample is a list of records

    def __call__(self, samples: Optional[list[Any]]) -> Any:
        if samples is not None and self.flat:
            samples = list(itertools.chain.from_iterable(samples))
        return None if samples is None else self.collate(samples)


class _Beginning:
    """What a worker does first: a notice to every process, as batch systems send it, is for the member alone."""

    def __init__(self, own: Any) -> None:
        self.own = own

    def __call__(self, worker: int) -> None:
        helper_shield()
        if self.own is not None:
            self.own(worker)


class _Requests:
    """What is asked of the loader, in order. As its batch sampler it is asked ahead of time."""

    def __init__(self, course: Course) -> None:
        self.course = course
        self.pending: collections.deque[Optional[Piece]] = collections.deque()  # asked for, not yet received
        self._coming: Iterator[Piece] = iter(())
        self._session: Optional[Session] = None

    def __iter__(self) -> Iterator[Request]:
        while True:
            piece = next(self._coming, None)
            self.pending.append(piece)
            if piece is None or self._session is None:
                yield None
            else:
                seed = self._session.control.seed
                yield mix(seed, piece.data_epoch, piece.ranges[0][0]), self.course.order.indices(seed, piece)

    def forget(self) -> None:
        """There are new workers, of which nothing was asked."""
        self.pending.clear()
        self._coming = iter(())

    def want(self, session: Session, step: Step, pieces: list[Piece]) -> None:
        """`pieces` of `step` are needed now, then what is likely to follow."""
        self._session = session
        self._coming = itertools.chain(pieces, self.course.guess(session, step))


class _Dealt:
    """The sampler of a sharded loader: asked for its length, or to set its epoch. The job deals the samples."""

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._sampler, name)

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[Any]:
        raise StateError(
            "the job deals the samples of a sharded loader, so its sampler is not to be iterated over. To skip what a "
            'run before this one has consumed (skip_first_batches()) say prepare(..., checkpoint="DIR") instead: a '
            "program started again goes on at the very sample"
        )


class Shard(Generic[T]):
    """A loader whose batches are this member's shares. Made by :func:`shard`."""

    def __init__(self, loader: DataLoader[T], course: Course) -> None:
        self.loader = loader
        self.dataset = loader.dataset
        self._course = course
        self._requests = _Requests(course)
        self._inner: Optional[Iterator[Any]] = None
        self._epoch = -1  # of data, that the workers load
        self.dropped = 0  #: batches that were loaded for nothing

    def __getattr__(self, name: str) -> Any:
        """What scripts ask of their loader: its sampler, batch_size, collate_fn, ..."""
        if name.startswith("_") or name == "loader":
            raise AttributeError(name)
        asked = getattr(self.loader, name)
        if name in ("state_dict", "load_state_dict"):
            return _refuse_state
        return _Dealt(asked) if name in ("sampler", "batch_sampler") else asked

    def __len__(self) -> int:
        """Batches in an epoch of data, as long as no member is lost: the same for all members."""
        session = self._course.session or find()
        return self._course.steps() * (session.options.accumulate if session else 1)

    def __iter__(self) -> Iterator[T]:
        """One epoch of data: begins a step, yields its batch; the step is committed when it is asked for more."""
        session = self.bind()
        for piece, step in self._course.epoch():
            yield self.load(session, step, piece)

    def bind(self) -> Session:
        """Connect to the prepared model, if that was not done; workers are started before the member joins."""
        session = self._course.bind()
        if self._inner is None:
            if session.job is None:
                session.before_open.append(self._start)
            else:
                self._start()
        return session

    def _start(self) -> None:
        if self._inner is None:
            self._inner = iter(self._open())

    def _open(self) -> DataLoader[Any]:
        loader = self.loader
        workers: dict[str, Any] = {}
        if loader.num_workers:
            workers = {
                "prefetch_factor": loader.prefetch_factor,
                "multiprocessing_context": loader.multiprocessing_context,
                "timeout": loader.timeout,
            }
        return DataLoader(
            _Samples(loader.dataset),  # type: ignore[arg-type]
            batch_sampler=self._requests,  # type: ignore[arg-type]
            num_workers=loader.num_workers,
            collate_fn=_Collate(loader.collate_fn, loader.dataset),
            pin_memory=loader.pin_memory,
            worker_init_fn=_Beginning(loader.worker_init_fn),
            generator=loader.generator,
            **workers,
        )

    @property
    def samples(self) -> int:
        """Samples in an epoch of data."""
        return self._course.samples

    def load(self, session: Session, step: Step, piece: Piece) -> T:
        """The batch of one piece of this member's share of `step`."""
        if not step.sample_count:
            return self._load_here(session, piece)
        self._renew(piece.data_epoch)
        requests = self._requests
        if not requests.pending or requests.pending[0] != piece:
            share = self._course.pieces(session, step)
            requests.want(session, step, share[share.index(piece) :])
            for _ in range(len(requests.pending)):
                self._next()
                self.dropped += 1
        batch = self._next()
        session.mode.dealt(batch, piece.count, None if isinstance(self.dataset, Shards) else samples_in(batch))
        return batch  # type: ignore[no-any-return]

    def _renew(self, epoch: int) -> None:
        """Start workers anew for an epoch, as a DataLoader does: they see what the program has changed in the data."""
        if 0 <= self._epoch != epoch and self.loader.num_workers and not self.loader.persistent_workers:
            self._requests.forget()
            self._inner = None
            self._start()
        self._epoch = epoch

    def _load_here(self, session: Session, piece: Piece) -> T:
        """A batch of weight zero, which was not prefetched."""
        request = (session.control.seed, self._course.order.indices(session.control.seed, piece))
        return _Collate(self.loader.collate_fn, self.dataset)(_Samples(self.dataset).fetch(request))  # type: ignore[no-any-return]

    def _next(self) -> Any:
        assert self._inner is not None
        pending = self._requests.pending
        if pending:
            pending.popleft()
            return next(self._inner)
        batch = next(self._inner)  # without workers: asked for and loaded in this call
        pending.popleft()
        return batch


def _refuse_state(*_: object) -> NoReturn:
    raise StateError(
        "the job knows its place in the data, and this loader does not: for the loss of all members say prepare(..., "
        'checkpoint="DIR"), which goes on at the very sample; with files of your own prepare(..., start=epoch)'
    )


def _is_plain(loader: DataLoader[Any]) -> bool:
    """Does it cut batches as PyTorch's does? torchdata's StatefulDataLoader has classes of its own for that."""
    kind = type(loader.batch_sampler)
    return kind is torch.utils.data.BatchSampler or (
        kind.__module__.startswith("torchdata.") and kind.__name__ == "BatchSampler"
    )


def _kind(given: object) -> str:
    """Its class, with the library's name where that alone tells it from PyTorch's."""
    kind = type(given)
    return f"{kind.__module__.partition('.')[0]}'s DataLoader" if kind.__name__ == "DataLoader" else kind.__name__


def _instead_of(given: object) -> str:
    """What to give to shard() in place of something that is no DataLoader."""
    inside = [name for name, one in getattr(given, "__dict__", {}).items() if isinstance(one, DataLoader)]
    if inside:
        return (
            f"it wraps one ({inside[0]}): give shard() the DataLoader as it is before it is wrapped, and do in the "
            "loop what the wrapper does (Fabric's moves batches to a device, timm's normalises them; timm makes none "
            "with use_prefetcher=False; of fastai's DataLoaders take data, and make torch.utils.data.DataLoader of it)"
        )
    makes = "DataLoader(data, batch_size=...)" if is_sequence(given) else "a data set with a length in a DataLoader"
    return f"use {makes}"


def order_of(loader: DataLoader[Any]) -> Order:
    sampler: Any = loader.sampler
    data: Any = loader.dataset
    if type(sampler) is DistributedSampler and sampler.num_replicas == 1:
        return Order(len(data), shuffle=sampler.shuffle)
    if hasattr(sampler, "set_epoch"):
        raise ArgumentError(
            f"the loader has a {type(sampler).__name__}, which shards for a fixed number of workers; make it with "
            "shuffle=True (or False) and no sampler: shard() does the rest. For an order of your own (repeated "
            "augmentation, say) use a sampler without set_epoch() that yields it anew by torch's generator"
        )
    if isinstance(sampler, RandomSampler) and (sampler.replacement or len(sampler) == len(data)):
        if sampler.replacement:
            raise ArgumentError(
                "the loader draws samples with replacement, so they cannot be counted once each; use shuffle=True"
            )
        return Order(len(sampler), shuffle=True)
    if isinstance(sampler, SequentialSampler):
        return Order(len(sampler), shuffle=False)
    if not hasattr(sampler, "__len__"):
        raise ArgumentError(f"{type(sampler).__name__} has no length; give it a __len__, or use shuffle=True")
    return Order(len(sampler), shuffle=True, sampler=sampler)


def shard(loader: DataLoader[T]) -> Shard[T]:
    """Share the batches of `loader` among the members of the job.

    Iterate over the result as over the loader: every iteration is one epoch of data, in which each sample is
    computed by one member once, whatever the churn; with ``shuffle=True`` the order is another one in each epoch. Its
    `batch_size` is that of all members together (each gets its part), or of each member with
    ``prepare(..., batch="per_member")``.
    Members with nothing to compute, at the end of an epoch, take part without the loop seeing it. Where the program
    keeps a log (:class:`SummaryWriter`, :class:`CSVWriter`) their loop gets a few samples of weight zero.

    The loader's data set, sampler, workers and collate function are used as they are. Workers live for one epoch, as
    those of a DataLoader do, or to the end with its ``persistent_workers=True``. A member that joins late skips the
    epochs that are over; see :func:`epochs`.

    Raises ArgumentError for data without a length, batch samplers, and samplers that shard by themselves.
    """
    if not isinstance(loader, DataLoader):
        raise ArgumentError(f"shard() takes PyTorch's DataLoader, not {_kind(loader)}; {_instead_of(loader)}")
    if isinstance(loader.dataset, IterableDataset):
        raise ArgumentError(
            "shard() needs to know how many samples there are and to fetch any of them, and DataLoader asks an "
            "IterableDataset for neither. A stream in shards: DataLoader(spotnik.Shards(stream), ...), which deals "
            "whole shards. One with an index (MDS, litdata): DataLoader(spotnik.Records(stream), ...). One that is "
            "read from front to back: DataLoader(spotnik.Records(stream, count), ...), which deals records by their "
            "place"
        )
    if not hasattr(loader.dataset, "__len__"):
        raise ArgumentError(
            f"shard() needs to know how many samples there are, and {type(loader.dataset).__name__} has no length; "
            "give the data set a __len__"
        )
    if loader.batch_size is None and loader.batch_sampler is None:
        raise ArgumentError(
            "the loader has batch_size=None, so its samples are batches already; let the job deal these as samples, by "
            "batch_size=1 and collate_fn=lambda one: one[0], or let the data set give single samples. Where batches "
            "differ in size say spotnik.weigh(n) before each backward()"
        )
    if loader.batch_size is None or not _is_plain(loader):
        raise ArgumentError(
            "the loader has a batch sampler of its own; make it with batch_size=... and, if need be, sampler=.... If "
            "batches have a budget of tokens, or one length each, let the job deal them as samples: a data set of "
            "batches, with batch_size=1 and collate_fn=lambda one: one[0]; and spotnik.weigh(n) before backward()"
        )
    if type(loader).__iter__ is not DataLoader.__iter__ and not type(loader).__module__.startswith("torchdata."):
        log.warning(
            "%s has an iterator of its own, and shard() does not use it: it takes a loader's data set, sampler and "
            "collate function. If the iterator changes batches, do that in collate_fn or in the loop",
            type(loader).__name__,
        )
    order = order_of(loader)
    order.chosen = chosen_of(loader.dataset)
    reads_on = isinstance(loader.dataset, Records) and not loader.dataset.has_index
    if reads_on and (order.shuffle or order.sampler is not None):
        raise ArgumentError(
            "the records of a stream come in its own order; make the loader with shuffle=False and no sampler, and "
            "shuffle the stream itself by a fixed seed, or deal its shards: spotnik.Shards(stream)"
        )
    course = Course(order, loader.batch_size, loader.drop_last)
    sharded = Shard(loader, course)
    if find() is not None:
        sharded.bind()
    return sharded
