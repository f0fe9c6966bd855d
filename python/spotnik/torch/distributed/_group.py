# SPDX-License-Identifier: Apache-2.0
"""The process group. Decides what each call of torch.distributed puts into a step, and takes out of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Optional

import torch
import torch.distributed as dist

from ._communicator import Part
from ._errors import GroupError, NotSupportedError
from ._memory import bytes_of, check_dense, copy_bytes, reduce_part, reduced_copy, table_part
from ._regroup import AnyDispatcher, Regroup
from ._work import GroupWork

__all__ = ["SpotnikGroup"]

Tensors = Sequence[torch.Tensor]


class SpotnikGroup(dist.ProcessGroup):
    """``init_process_group("spotnik")`` makes one. Calls may come from any thread; they are made in their order."""

    def __init__(
        self,
        dispatcher: AnyDispatcher,
        timeout: timedelta,
        owns: bool = True,
        regroup: Optional[Regroup] = None,
    ) -> None:
        super().__init__(dispatcher.rank, dispatcher.size)
        self._dispatcher = dispatcher
        self._regroup = regroup  # by PyTorch's reconfigure interface
        self._owns = owns  # a group of the same members that was made later ends nothing
        self._timeout_s = timeout.total_seconds()
        self._label, self._desc = "", "undefined"

    # ---- what it is ----

    def rank(self) -> int:
        """This process's place, from 0."""
        return self._dispatcher.rank

    def size(self) -> int:
        """Number of members of the group, lost ones included until ``reconfigure``."""
        return self._dispatcher.size

    def name(self) -> str:
        """The name of the backend."""
        return "spotnik"

    # C++ asks by these names, DDP among others.
    getRank, getSize, getBackendName = rank, size, name  # noqa: N815
    _get_backend_name = name

    @property
    def error(self) -> Optional[GroupError]:
        """Why the group refuses calls; None: it takes them."""
        return self._dispatcher.error

    def __repr__(self) -> str:
        return f"SpotnikGroup(rank={self.rank()}, size={self.size()})"

    # ---- members ----

    def reconfigure_survivors(self, size: int = 0, timeout: Optional[timedelta] = None) -> dict[int, int]:
        """Go on with the survivors. Every survivor calls it; it needs no store.

        With `size` it waits until that many members are here, newcomers included; there is room for the members that
        the group began with. Survivors keep their order, and newcomers come after them. Returns the ranks as they are
        now, by the rank that the same member had before. Raises WaitError after `timeout`.
        """
        limit_s = timeout.total_seconds() if timeout is not None else self._timeout_s
        moved = self._dispatcher.gather(size, limit_s)
        self._renumber()
        return moved

    def _renumber(self) -> None:
        ranks = dist.distributed_c10d._world.pg_group_ranks
        own = [one for one in ranks if isinstance(one, SpotnikGroup) and one._dispatcher is self._dispatcher]
        for group in own:
            ranks[group] = {rank: rank for rank in range(self.size())}

    # ---- PyTorch's reconfigure interface, 2.14 ----

    @property
    def supports_reconfigure(self) -> bool:
        """Was the group made with ``enable_reconfigure=True``?"""
        return self._regroup is not None

    def _regrouping(self) -> Regroup:
        if self._regroup is None:
            raise NotSupportedError(
                "this group was made without enable_reconfigure=True; spotnik.torch.distributed.reconfigure() goes on "
                "with the survivors"
            )
        return self._regroup

    def get_reconfigure_handle(self) -> str:
        """What the others must know of this member; the program exchanges it."""
        return self._regrouping().handle(self._dispatcher)

    def reconfigure(self, opts: Any) -> GroupWork:
        """Become a group of the members that ``opts.handles`` names, in their order. Has ended when it returns."""
        limit_s = opts.timeout.total_seconds() if opts.timeout is not None else self._timeout_s
        self._dispatcher = self._regrouping().next(self._dispatcher, opts.uuid, opts.handles, limit_s)
        self._renumber()
        work = GroupWork("reconfigure", None, limit_s)
        work.finish()
        return work

    def get_error(self) -> Any:
        """SUCCESS, or COMM_ERROR when a member was lost."""
        kinds = torch._C._distributed_c10d.ErrorType
        return kinds.COMM_ERROR if self._dispatcher.error is not None else kinds.SUCCESS

    def get_backend(self, device: torch.device) -> SpotnikGroup:
        """The group is its own backend."""
        return self

    _get_backend = get_backend

    # ---- the end ----

    def abort(self) -> None:
        """End every pending call with AbortedError. To the others this member is lost."""
        self._dispatcher.abort()

    def shutdown(self) -> None:
        """Leave, once the calls handed over have ended. destroy_process_group() calls this."""
        if self._owns:
            self._dispatcher.leave()

    # ---- collectives ----

    def _call(
        self, name: str, parts: Callable[[], list[Part]], done: Callable[[], None], result: Any, opts: Any = None
    ) -> GroupWork:
        """Hand over one operation: `parts` is called when its turn comes, `done` when it is through."""
        limit = getattr(opts, "timeout", None)
        limit_s = limit.total_seconds() if isinstance(limit, timedelta) and limit > timedelta(0) else self._timeout_s
        return self._dispatcher.call(GroupWork(name, result, limit_s), parts, done)

    def allreduce(self, tensors: Any, opts: Any = None, timeout: Optional[timedelta] = None) -> GroupWork:
        tensors = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        check_dense(tensors)
        op = getattr(opts, "reduceOp", opts if opts is not None else dist.ReduceOp.SUM)
        works: list[torch.Tensor] = []

        def parts() -> list[Part]:
            works.extend(reduced_copy(tensor) for tensor in tensors)
            return [reduce_part(work, op) for work in works]

        def done() -> None:
            for tensor, work in zip(tensors, works):
                tensor.detach().copy_(work)

        for tensor in tensors:
            reduce_part(tensor.new_empty(0), op)  # refuse at the call, not later
        return self._call("all_reduce", parts, done, tensors, opts)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> GroupWork:
        return self.allreduce(list(tensors), opts)

    def reduce(self, tensors: Any, opts: Any = None, *rest: Any) -> GroupWork:
        tensors = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        check_dense(tensors)
        works: list[torch.Tensor] = []

        def parts() -> list[Part]:
            works.extend(reduced_copy(tensor) for tensor in tensors)
            return [reduce_part(work, opts.reduceOp) for work in works]

        def done() -> None:
            if self.rank() == opts.rootRank:
                for tensor, work in zip(tensors, works):
                    tensor.detach().copy_(work)

        return self._call(f"reduce {opts.rootRank}", parts, done, tensors, opts)

    def broadcast(self, tensors: Any, opts: Any = None, *rest: Any) -> GroupWork:
        tensors = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        check_dense(tensors)
        root = opts.rootRank if hasattr(opts, "rootRank") else int(opts or 0)
        tables: list[torch.Tensor] = []

        def parts() -> list[Part]:
            for tensor in tensors:
                is_root = self.rank() == root
                tables.append(bytes_of(tensor).clone() if is_root else torch.zeros(tensor.nbytes, dtype=torch.uint8))
            return [table_part(table) for table in tables]

        def done() -> None:
            if self.rank() != root:
                for tensor, table in zip(tensors, tables):
                    copy_bytes(tensor, table)

        return self._call(f"broadcast {root}", parts, done, tensors, opts)

    def _exchange(
        self, name: str, rows: Callable[[], list[tuple[Tensors, Tensors]]], result: Any, opts: Any = None
    ) -> GroupWork:
        """All-gather: `rows` gives pairs (what this member tells, where each member's row goes; empty: nowhere)."""
        kept: list[tuple[torch.Tensor, Tensors]] = []

        def parts() -> list[Part]:
            for told, places in rows():
                mine = torch.cat([bytes_of(one) for one in told]) if told else torch.empty(0, dtype=torch.uint8)
                table = torch.zeros((self.size(), mine.numel()), dtype=torch.uint8)
                table[self.rank()] = mine
                kept.append((table, places))
            return [table_part(table) for table, _ in kept]

        def done() -> None:
            for table, places in kept:
                for row, place in zip(table, places):
                    copy_bytes(place, row)

        return self._call(name, parts, done, result, opts)

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None, *rest: Any) -> GroupWork:
        if isinstance(inputs, torch.Tensor):
            outputs, inputs = [outputs], [inputs]
        for places, one in zip(outputs, inputs):
            check_dense([*places, one])
            if len(places) != self.size() or any(place.nbytes != one.nbytes for place in places):
                raise NotSupportedError(
                    f"all_gather needs {self.size()} places of the input's size, the same on every rank; pad them"
                )
        return self._exchange("all_gather", lambda: [([i], o) for o, i in zip(outputs, inputs)], outputs, opts)

    def allgather_coalesced(self, outputs: Any, inputs: Tensors, opts: Any = None) -> GroupWork:
        return self.allgather(outputs, list(inputs), opts)

    def all_gather_single(self, output: torch.Tensor, source: torch.Tensor, opts: Any = None, *rest: Any) -> GroupWork:
        return self.all_gather_single_coalesced([output], [source], opts)

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> GroupWork:
        check_dense([*outputs, *inputs])
        tables: list[torch.Tensor] = []
        for output, one in zip(outputs, inputs):
            if output.nbytes != one.nbytes * self.size():
                raise NotSupportedError(f"all_gather_into_tensor: the output must be {self.size()} times the input")

        def parts() -> list[Part]:
            for one in inputs:
                table = torch.zeros((self.size(), one.nbytes), dtype=torch.uint8)
                table[self.rank()] = bytes_of(one)
                tables.append(table)
            return [table_part(table) for table in tables]

        def done() -> None:
            for output, table in zip(outputs, tables):
                copy_bytes(output, table.reshape(-1))

        result = outputs[0] if len(outputs) == 1 else list(outputs)
        return self._call("all_gather_into_tensor", parts, done, result, opts)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def gather(self, outputs: Any, inputs: Tensors, opts: Any = None, *rest: Any) -> GroupWork:
        check_dense(inputs)
        root = opts.rootRank
        places = outputs[0] if self.rank() == root and outputs else []
        if self.rank() == root and any(place.nbytes != inputs[0].nbytes for place in places):
            raise NotSupportedError("gather needs tensors of one size, the same on every rank; pad them")
        return self._exchange(f"gather {root}", lambda: [([inputs[0]], places)], outputs, opts)

    def scatter(self, outputs: Tensors, inputs: Any, opts: Any = None, *rest: Any) -> GroupWork:
        check_dense(outputs)
        root, output = opts.rootRank, outputs[0]
        tables: list[torch.Tensor] = []
        if self.rank() == root and any(one.nbytes != output.nbytes for one in inputs[0]):
            raise NotSupportedError("scatter needs tensors of one size, the same on every rank; pad them")

        def parts() -> list[Part]:
            whole = torch.zeros((self.size(), output.nbytes), dtype=torch.uint8)
            if self.rank() == root:
                whole = torch.stack([bytes_of(one) for one in inputs[0]])
            tables.append(whole)
            return [table_part(whole)]

        return self._call(
            f"scatter {root}", parts, lambda: copy_bytes(output, tables[0][self.rank()]), list(outputs), opts
        )

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None, *rest: Any) -> GroupWork:
        if isinstance(outputs, torch.Tensor):
            outputs, inputs = [outputs], [inputs]
        return self._reduce_parts(outputs, lambda: [torch.cat([bytes_of(x) for x in one]) for one in inputs], opts)

    def reduce_scatter_single(
        self, output: torch.Tensor, source: torch.Tensor, opts: Any = None, *rest: Any
    ) -> GroupWork:
        return self.reduce_scatter_single_coalesced([output], [source], opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> GroupWork:
        return self._reduce_parts(outputs, lambda: [bytes_of(one).clone() for one in inputs], opts)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def _reduce_parts(self, outputs: Tensors, wholes: Callable[[], list[torch.Tensor]], opts: Any = None) -> GroupWork:
        """All-reduce each whole, and keep this member's part."""
        check_dense(outputs)
        op = getattr(opts, "reduceOp", dist.ReduceOp.SUM)
        works: list[torch.Tensor] = []
        for output in outputs:
            reduce_part(output.new_empty(0), op)

        def parts() -> list[Part]:
            for output, whole in zip(outputs, wholes()):
                if whole.numel() != output.nbytes * self.size():
                    raise NotSupportedError(f"reduce_scatter: the input must be {self.size()} times the output")
                works.append(whole.view(output.dtype))
            return [reduce_part(work, op) for work in works]

        def done() -> None:
            for output, work in zip(outputs, works):
                output.detach().copy_(work.reshape(self.size(), -1)[self.rank()].reshape(output.shape))

        result = outputs[0] if len(outputs) == 1 else list(outputs)
        return self._call("reduce_scatter", parts, done, result, opts)

    def barrier(self, opts: Any = None, *rest: Any) -> GroupWork:
        return self._call("barrier", list, lambda: None, None, opts)

    def all_to_all_single(
        self, output: torch.Tensor, source: torch.Tensor, out_sizes: Any = None, in_sizes: Any = None, opts: Any = None
    ) -> GroupWork:
        check_dense([output, source])
        if len(set(out_sizes or [])) > 1 or len(set(in_sizes or [])) > 1 or output.nbytes != source.nbytes:
            raise NotSupportedError("all_to_all: every rank must send every rank the same number of rows; pad them")
        tables: list[torch.Tensor] = []

        def parts() -> list[Part]:
            table = torch.zeros((self.size(), source.nbytes), dtype=torch.uint8)
            table[self.rank()] = bytes_of(source)
            tables.append(table)
            return [table_part(table)]

        def done() -> None:
            split = tables[0].reshape(self.size(), self.size(), -1)
            copy_bytes(output, split[:, self.rank()].reshape(-1))

        return self._call("all_to_all_single", parts, done, output, opts)

    alltoall_base = all_to_all_single

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any = None, *rest: Any) -> GroupWork:
        sizes = {one.nbytes for one in itertools.chain(outputs, inputs)}
        check_dense([*outputs, *inputs])
        if len(sizes) > 1:
            raise NotSupportedError("all_to_all: every rank must send every rank the same number of bytes; pad them")
        tables: list[torch.Tensor] = []

        def parts() -> list[Part]:
            table = torch.zeros((self.size(), self.size(), max(sizes)), dtype=torch.uint8)
            for row, one in zip(table[self.rank()], inputs):
                row.copy_(bytes_of(one))
            tables.append(table)
            return [table_part(table)]

        def done() -> None:
            for sender, output in enumerate(outputs):
                copy_bytes(output, tables[0][sender][self.rank()])

        return self._call("all_to_all", parts, done, list(outputs), opts)

    # ---- what is not there ----

    def send(self, *_: Any, **__: Any) -> GroupWork:
        raise NotSupportedError(
            'this group has no send and recv; make a second one, dist.new_group(backend="gloo"), and pass it as group= '
            "(docs/guide/process-group.md)"
        )

    recv = recv_anysource = send

    def split_group(self, *_: Any, **__: Any) -> dist.ProcessGroup:
        raise NotSupportedError('split_group is not there; use dist.new_group(ranks, backend="gloo")')

    # ---- what torch keeps on it ----

    @property
    def group_name(self) -> str:
        """The name under which torch knows the group."""
        return self._label

    @property
    def group_desc(self) -> str:
        """What torch says the group is for."""
        return self._desc

    def _set_group_name(self, name: str) -> None:
        self._label = name

    def _set_group_desc(self, desc: str) -> None:
        self._desc = desc
