# SPDX-License-Identifier: Apache-2.0
"""How gradients come into memory of the job and back: at once, or on streams of an accelerator beside the program's.

On an accelerator two streams of their own copy, one to the host and one back. Work on them begins when what the
program's stream was given before is done. A thread waits for the copies of a bucket, asleep, and hands it to the job
while backward goes on. The program's stream waits for averages; the program does not.
"""

from __future__ import annotations

import ctypes
import queue
import threading
from collections.abc import Callable
from typing import Any, Optional, Protocol, Union

import torch

from ..job import Job
from ._buckets import Bucket

Send = Callable[[Bucket, torch.Tensor], object]
SMALL_BYTES = 1 << 18


def _memory_of_job(job: Job, bucket: Bucket) -> torch.Tensor:
    """Memory for what the bucket travels as; it ends with the job."""
    count = max(1, bucket.wire.size(bucket.count))
    memory: Any = (ctypes.c_uint8 * count).from_address(job.alloc(count))
    return torch.frombuffer(memory, dtype=torch.uint8)


class HostStage:
    """Gradients that are in host memory: all work is done at once."""

    small_bytes = 0

    def __init__(self, job: Job, send: Send) -> None:
        self._job, self._send = job, send
        self._host: dict[Bucket, torch.Tensor] = {}

    def host(self, bucket: Bucket) -> torch.Tensor:
        """The memory of the bucket in the host, made at the first call."""
        if bucket not in self._host:
            bytes_ = _memory_of_job(self._job, bucket)
            self._host[bucket] = bytes_[: bucket.wire.size(bucket.count)].view(bucket.wire.torch_type)
        return self._host[bucket]

    def outward(self, work: Callable[[], object]) -> None:
        """Do it."""
        work()

    def hand_over(self, bucket: Bucket) -> None:
        """The job gets it at once."""
        self._send(bucket, self.host(bucket))

    def wait(self) -> None:
        """The job has all buckets."""

    def back(self, work: Callable[[], object]) -> None:
        """Do it."""
        work()

    def close(self) -> None:
        """The memory is the job's."""
        self._host.clear()


class Event(Protocol):
    """A place in the work of a stream."""

    def synchronize(self) -> None:
        """Sleep until the work before it is done; raises what that has raised."""


class Device(Protocol):
    """What an accelerator does. Stream None is the program's present one."""

    def stream(self) -> Any:
        """A stream beside the program's."""

    def run(self, stream: Any, work: Callable[[], object]) -> None:
        """Give `work` to a stream."""

    def record(self, stream: Any) -> Event:
        """The end of what the stream has been given so far."""

    def wait(self, stream: Any, event: Any) -> None:
        """What the stream is given from now on comes after `event`."""

    def pin(self, memory: torch.Tensor) -> None:
        """Have copies to and from `memory` go on beside the program."""

    def unpin(self, memory: torch.Tensor) -> None:
        """The memory is about to go."""

    def make_pinned(self, count: int) -> torch.Tensor:
        """Bytes of host memory of the device's own, pinned."""


class Staging:
    """Buckets of one accelerator. `send` gives the job a bucket; it is called on a thread of this object."""

    small_bytes = SMALL_BYTES

    def __init__(self, device: Device, make: Callable[[Bucket], torch.Tensor], send: Send) -> None:
        self._device, self._make, self._send = device, make, send
        self._down, self._up = device.stream(), device.stream()
        self._host: dict[Bucket, torch.Tensor] = {}
        self._begun: queue.Queue[Optional[tuple[Bucket, Event]]] = queue.Queue()
        self._thread: Optional[threading.Thread] = None
        self._error: Optional[BaseException] = None

    def host(self, bucket: Bucket) -> torch.Tensor:
        """The pinned memory of the bucket in the host, made at the first call."""
        if bucket not in self._host:
            memory = self._make(bucket)
            self._device.pin(memory)
            self._host[bucket] = memory
        wire = bucket.wire
        return self._host[bucket][: wire.size(bucket.count)].view(wire.torch_type)

    def outward(self, work: Callable[[], object]) -> None:
        """Have `work` done on the stream to the host, after what the program's stream has been given so far."""
        self._device.wait(self._down, self._device.record(None))
        self._device.run(self._down, work)

    def hand_over(self, bucket: Bucket) -> None:
        """The thread gives it to the job, when all `outward` work so far is done."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._wait_and_send, name="spotnik-staging", daemon=True)
            self._thread.start()
        self._begun.put((bucket, self._device.record(self._down)))

    def _wait_and_send(self) -> None:
        while (one := self._begun.get()) is not None:
            bucket, event = one
            try:
                if self._error is None:
                    event.synchronize()
                    self._send(bucket, self.host(bucket))
            except BaseException as error:  # for the program's thread, in wait()
                self._error = error
            finally:
                self._begun.task_done()

    def wait(self) -> None:
        """Wait until the job has all buckets. Raises what a copy, or the job, has raised."""
        self._begun.join()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def back(self, work: Callable[[], object]) -> None:
        """Have `work` done on the stream from the host; the program's stream waits for it, the program does not."""
        self._device.wait(self._up, self._device.record(None))
        self._device.run(self._up, work)
        self._device.wait(None, self._device.record(self._up))

    def close(self) -> None:
        """End the thread, and the copies: the job takes its memory along."""
        if self._thread is not None:
            self._begun.put(None)
            self._thread.join()
            self._thread = None
        for stream in (self._down, self._up):
            self._device.record(stream).synchronize()
        for memory in self._host.values():
            self._device.unpin(memory)
        self._host.clear()


class Cuda:
    """A CUDA device, by PyTorch's streams and events."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def stream(self) -> Any:
        """A stream beside the program's."""
        return torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]

    def run(self, stream: Any, work: Callable[[], object]) -> None:
        """Give `work` to a stream."""
        with torch.cuda.stream(stream):
            work()

    def record(self, stream: Any) -> Event:
        """The end of what the stream has been given so far; who waits for it sleeps."""
        event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        event.record(self._stream(stream))
        return event

    def wait(self, stream: Any, event: Any) -> None:
        """What the stream is given from now on comes after `event`."""
        self._stream(stream).wait_event(event)

    def _stream(self, stream: Any) -> Any:
        return torch.cuda.current_stream(self._device) if stream is None else stream

    def pin(self, memory: torch.Tensor) -> None:
        """Register the memory. Where the driver refuses, copies block, and are right all the same."""
        torch.cuda.cudart().cudaHostRegister(memory.data_ptr(), memory.numel(), 0)  # type: ignore[no-untyped-call]

    def unpin(self, memory: torch.Tensor) -> None:
        """Take the registration back."""
        torch.cuda.cudart().cudaHostUnregister(memory.data_ptr())  # type: ignore[no-untyped-call]

    def make_pinned(self, count: int) -> torch.Tensor:
        """Bytes of host memory of the device's own, pinned."""
        return torch.empty(count, dtype=torch.uint8, pin_memory=True)


def accelerator_of(tensor: torch.Tensor) -> Optional[Device]:
    """The device that `tensor` is on; None: the host."""
    return None if tensor.device.type == "cpu" else Cuda(tensor.device)


def stage_of(job: Job, buckets: list[Bucket], send: Send) -> Union[HostStage, Staging, None]:
    """The stage of `buckets`; None: their gradients travel from where they lie."""
    device = accelerator_of(buckets[0].parts[0].slot.parameter)
    if device is not None:
        return Staging(device, lambda bucket: _memory_of_job(job, bucket), send)
    if all(bucket.wire.torch_type == bucket.dtype for bucket in buckets):
        return None
    return HostStage(job, send)
