# SPDX-License-Identifier: Apache-2.0
"""Letters between members of a circle, outside of its steps: what carries send, recv and groups of some members.

One thread moves the bytes of all connections. The first loss that it sees or is told of ends every pending letter, and
it tells the others, so that all end theirs. docs/design/0035-process-group.md says why, and what is not promised.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from ._errors import AbortedError, GroupError, MemberLostError, lost_text
from ._greeting import greet, introduce

__all__ = ["ANY", "Letter", "Post"]

ANY = -1  # in place of a source
_HEAD = struct.Struct("<B7xqqQQ")  # kind, box, tag, number, bytes that follow
_DATA, _ASKED, _TAKEN, _BYE, _LOST = range(1, 6)  # _ASKED: its sender waits for _TAKEN
_LOOK_S = 0.05  # between two looks at the view of the job
_LINGER_S = 2.0  # for last words
_REACHED_S = 30.0  # until a member of higher rank has connected to us
_TURNS = 64  # reads of one connection before the others have their turn


@dataclass(frozen=True)
class Letter:
    """What has come."""

    source: int  # rank
    data: bytearray
    number: int  # as sent
    asked: bool = False  # its sender waits until it is taken


#: Called once, from the thread of the post or from that of the caller, with an error or with a letter.
Done = Callable[[Optional[GroupError], Optional[Letter]], None]


@dataclass(frozen=True)
class _Taker:
    source: int
    done: Done

    def wants(self, letter: Letter) -> bool:
        return self.source in (ANY, letter.source)


class _Line:
    """A connection to one member."""

    def __init__(self, rank: int, sock: socket.socket) -> None:
        self.rank, self.sock = rank, sock
        self.head: Optional[tuple[int, int, int, int, int]] = None
        self.is_closing = False  # once what is queued has gone
        self.is_shut = False
        self.events = 0  # that the selector waits for
        self._room = memoryview(bytearray(_HEAD.size))
        self._got = 0

    def read(self) -> Optional[tuple[tuple[int, int, int, int, int], bytearray]]:
        """A whole letter, or None when there is no more to read now. ConnectionError: the other side has ended."""
        while True:
            if self._got == len(self._room):
                letter = self._filled()
                if letter is not None:
                    return letter
                continue
            try:
                count = self.sock.recv_into(self._room[self._got :])
            except BlockingIOError:
                return None
            if count == 0:
                raise ConnectionResetError("the other side has ended")
            self._got += count

    def _filled(self) -> Optional[tuple[tuple[int, int, int, int, int], bytearray]]:
        whole, self._got = self._room.obj, 0
        assert isinstance(whole, bytearray)
        if self.head is None:
            self.head = _HEAD.unpack(whole)
            self._room = memoryview(bytearray(self.head[4]))
            return None
        head, self.head = self.head, None
        self._room = memoryview(bytearray(_HEAD.size))
        return head, whole


class Post:
    """The letters of one member of one circle. `absent` tells which ranks the view of the job lacks."""

    def __init__(self, rank: int, size: int, host: str, absent: Callable[[], Sequence[int]]) -> None:
        self.rank, self.size = rank, size
        self.error: Optional[GroupError] = None  # why letters are refused; set once
        self._absent = absent
        self._secret = b""
        self._lock = threading.Lock()
        self._strangers = threading.BoundedSemaphore(size + 8)  # that are being greeted
        self._queues: dict[int, deque[memoryview]] = {other: deque() for other in range(size) if other != rank}
        self._lines: dict[int, _Line] = {}
        self._letters: dict[tuple[int, int], list[Letter]] = {}  # not taken yet, by box and tag
        self._takers: dict[tuple[int, int], list[_Taker]] = {}
        self._asked: dict[tuple[int, int], Done] = {}  # sends that are not taken yet, by rank and number
        self._numbers = 0
        self._left: set[int] = set()  # ranks that said goodbye
        self._until: Optional[float] = None  # the end of last words
        self._next_look = 0.0
        self._reached = time.monotonic() + _REACHED_S
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family, backlog=max(size, 1))
        self._listener.setblocking(False)
        self.address = f"{host} {self._listener.getsockname()[1]}"
        self._selector = selectors.DefaultSelector()
        self._bell, self._ear = socket.socketpair()
        self._bell.setblocking(False)
        self._ear.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="spotnik-letters", daemon=True)

    # ---- the beginning ----

    def open(self, addresses: Sequence[str], secret: bytes) -> None:
        """Connect to the members of lower rank; the others connect to us. Raises nothing: a failure is a loss."""
        self._secret = secret
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._ear, selectors.EVENT_READ)
        self._thread.start()
        for other in range(self.rank):
            host, port = addresses[other].rsplit(" ", 1)
            try:
                sock = introduce((host, int(port)), secret, self.rank, other)
            except OSError as error:
                self.fail(_unreached(f"to rank {other} at {host}:{port} ({error})"))
                return
            self._attach(other, sock)

    def _attach(self, other: int, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._lines[other] = _Line(other, sock)
        self._ring()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            sock, _ = self._listener.accept()
            if self._strangers.acquire(blocking=False):
                threading.Thread(target=self._meet, args=(sock,), name="spotnik-greeting", daemon=True).start()
            else:
                sock.close()

    def _meet(self, sock: socket.socket) -> None:
        other = greet(sock, self._secret, self.rank)
        self._strangers.release()
        with self._lock:
            is_wanted = other is not None and other not in self._lines and other in self._queues
        if is_wanted and other is not None:
            self._attach(other, sock)
        else:
            sock.close()

    def _ring(self) -> None:
        with contextlib.suppress(OSError):
            self._bell.send(b"!")

    # ---- letters ----

    def send(self, to: int, box: int, tag: int, data: memoryview, number: int = 0, done: Optional[Done] = None) -> None:
        """Queue a letter. `data` must not change until it is taken: then `done` is called, where it is given.

        With `done` the number is the post's own. Raises why letters are refused.
        """
        with self._lock:
            if self.error is not None:
                raise self.error
            if to in self._left:
                raise self._gone(to)
            if done is not None:
                self._numbers += 1
                number = self._numbers
                self._asked[to, number] = done
            if to != self.rank:
                self._put(to, _DATA if done is None else _ASKED, box, tag, number, data)
        if to == self.rank:
            self._arrive(box, tag, Letter(to, bytearray(data), number, done is not None))
        else:
            self._ring()

    def take(self, source: int, box: int, tag: int, done: Done) -> None:
        """Have `done` called with the next letter of `source` (ANY: of anybody), now or when it comes."""
        taker = _Taker(source, done)
        with self._lock:
            if self.error is not None:
                raise self.error
            letters = self._letters.get((box, tag), [])
            letter = next((one for one in letters if taker.wants(one)), None)
            if letter is not None:
                letters.remove(letter)
            elif source in self._left or (source == ANY and len(self._left) == self.size - 1 > 0):
                raise self._gone(source)
            else:
                self._takers.setdefault((box, tag), []).append(taker)
        if letter is not None:
            self._hand_over(letter, done)

    def _put(self, to: int, kind: int, box: int = 0, tag: int = 0, number: int = 0, data: Any = b"") -> None:
        """With the lock."""
        queue, size = self._queues[to], memoryview(data).nbytes
        queue.append(memoryview(_HEAD.pack(kind, box, tag, number, size)))
        if size:
            queue.append(memoryview(data))

    def _arrive(self, box: int, tag: int, letter: Letter) -> None:
        with self._lock:
            takers = self._takers.get((box, tag), [])
            taker = next((one for one in takers if one.wants(letter)), None)
            if taker is not None:
                takers.remove(taker)
            else:
                self._letters.setdefault((box, tag), []).append(letter)
        if taker is not None:
            self._hand_over(letter, taker.done)

    def _hand_over(self, letter: Letter, done: Done) -> None:
        if letter.asked and letter.source == self.rank:
            self._taken(letter.source, letter.number)
        elif letter.asked:
            with self._lock:
                if letter.source not in self._left:
                    self._put(letter.source, _TAKEN, number=letter.number)
            self._ring()
        done(None, letter)

    def _taken(self, by: int, number: int) -> None:
        with self._lock:
            done = self._asked.pop((by, number), None)
        if done is not None:
            done(None, None)

    # ---- the end ----

    def fail(self, error: GroupError, lost: Optional[Sequence[int]] = None) -> None:
        """End all letters with `error`; tell the others of `lost`, those of the error. Only the first end counts."""
        if lost is None:
            lost = error.lost if isinstance(error, MemberLostError) else ()
        self._end(error, _LOST, struct.pack(f"<{len(lost)}I", *lost))

    def close(self) -> None:
        """Say goodbye, and wait until all that was sent is on its way."""
        self._end(AbortedError("this process has left the group; call init_process_group() again"), _BYE, b"")
        if self._thread.is_alive():
            self._thread.join(2 * _LINGER_S)
        elif not self._secret:  # never opened
            self._free()

    def _end(self, error: GroupError, kind: int, data: bytes) -> None:
        with self._lock:
            if self.error is not None:
                return
            self.error = error
            pending = [taker.done for takers in self._takers.values() for taker in takers]
            pending.extend(self._asked.values())
            self._takers.clear()
            self._asked.clear()
            self._letters.clear()
            for other in self._queues:
                self._put(other, kind, data=data)
            self._until = time.monotonic() + _LINGER_S
        self._ring()
        for done in pending:
            done(error, None)

    def _gone(self, rank: int) -> GroupError:
        lost = sorted(self._left) if rank == ANY else [rank]
        return MemberLostError(f"ranks {lost} have left the group; call reconfigure() to go on without them", lost)

    def _on_goodbye(self, line: _Line) -> None:
        """Only what waits for that member ends."""
        line.is_closing = True
        with self._lock:
            self._left.add(line.rank)
            in_vain = {line.rank, ANY} if len(self._left) == self.size - 1 else {line.rank}
            pending: list[Done] = []
            for takers in self._takers.values():
                pending.extend(taker.done for taker in takers if taker.source in in_vain)
                takers[:] = [taker for taker in takers if taker.source not in in_vain]
            numbers = [key for key in self._asked if key[0] == line.rank]
            pending.extend(self._asked.pop(key) for key in numbers)
        for done in pending:
            done(self._gone(line.rank), None)

    # ---- the thread ----

    def _run(self) -> None:
        while not self._is_over():
            self._choose()
            for key, mask in self._selector.select(_LOOK_S):
                self._serve(key, mask)
            self._look()
        for line in self._lines.values():
            line.sock.close()
        self._free()

    def _free(self) -> None:
        for other in (self._listener, self._bell, self._ear):
            other.close()
        self._selector.close()

    def _is_over(self) -> bool:
        return self._until is not None and (not self._lines or time.monotonic() > self._until)

    def _choose(self) -> None:
        """What to wait for on each connection. Ends those that have said all."""
        with self._lock:
            lines = list(self._lines.values())
        for line in lines:
            has_more = bool(self._queues[line.rank])
            if not has_more and line.is_closing:
                self._drop(line)
                continue
            if not has_more and self._until is not None and not line.is_shut:
                line.is_shut = True
                with contextlib.suppress(OSError):
                    line.sock.shutdown(socket.SHUT_WR)
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if has_more else 0)
            if line.events != events:
                (self._selector.modify if line.events else self._selector.register)(line.sock, events, line)
                line.events = events

    def _serve(self, key: selectors.SelectorKey, mask: int) -> None:
        line = key.data
        if key.fileobj is self._listener:
            self._accept()
        elif key.fileobj is self._ear:
            with contextlib.suppress(OSError):
                self._ear.recv(4096)
        elif line is not None:
            try:
                if mask & selectors.EVENT_READ:
                    self._read(line)
                if mask & selectors.EVENT_WRITE:
                    self._write(line)
            except OSError:
                self._drop(line)
                if self._until is None and not line.is_closing:
                    self.fail(MemberLostError(lost_text([line.rank], self.size), [line.rank]))

    def _drop(self, line: _Line) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(line.sock)
        line.sock.close()
        with self._lock:
            self._lines.pop(line.rank, None)

    def _read(self, line: _Line) -> None:
        for _ in range(_TURNS):
            letter = line.read()
            if letter is None:
                return
            (kind, box, tag, number, _), data = letter
            if self._until is not None:
                continue
            if kind in (_DATA, _ASKED):
                self._arrive(box, tag, Letter(line.rank, data, number, kind == _ASKED))
            elif kind == _TAKEN:
                self._taken(line.rank, number)
            elif kind == _BYE:
                self._on_goodbye(line)
            elif kind == _LOST:
                self._on_loss_told(line, [rank for (rank,) in struct.iter_unpack("<I", data)])

    def _on_loss_told(self, line: _Line, lost: Sequence[int]) -> None:
        text = lost_text(lost, self.size) if lost else f"rank {line.rank} has called reconfigure(); call it here, too"
        self.fail(MemberLostError(text, lost))

    def _write(self, line: _Line) -> None:
        queue = self._queues[line.rank]
        with self._lock:
            first = list(_first(queue))
        try:
            count = line.sock.sendmsg(first)
        except BlockingIOError:
            return
        with self._lock:
            while count and count >= queue[0].nbytes:
                count -= queue.popleft().nbytes
            if count:
                queue[0] = queue[0][count:]

    def _look(self) -> None:
        """A member whose connection does not end may be lost all the same: the view of the job tells."""
        now = time.monotonic()
        if self._until is not None or now < self._next_look:
            return
        self._next_look = now + _LOOK_S
        lost = [rank for rank in self._absent() if rank not in self._left]
        if lost:
            self.fail(MemberLostError(lost_text(lost, self.size), lost))
        elif now > self._reached:
            with self._lock:
                missing = [rank for rank in self._queues if rank not in self._lines and rank not in self._left]
            if missing:
                self.fail(_unreached(f"from rank {missing[0]} to {self.address.replace(' ', ':')}"))


def _unreached(what: str) -> GroupError:
    """No member is lost, but letters cannot pass."""
    return MemberLostError(f"no connection {what}; call reconfigure() to try again, and see that a firewall lets it by")


def _first(queue: deque[memoryview]) -> Iterator[memoryview]:
    for number, part in enumerate(queue):
        if number == 16:
            return
        yield part
