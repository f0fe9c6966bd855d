# SPDX-License-Identifier: Apache-2.0
"""Buckets of an accelerator in pinned host memory.

A bucket is copied to the host on a stream of its own as soon as backward has filled it, and summed there while
later buckets are still computed and copied. After the commit all go back on that stream; the stream of the program
waits for them, the program does not.
"""

from __future__ import annotations

import torch


class Staging:
    """Host memory for `device_flats`, all on one CUDA device."""

    def __init__(self, device_flats: list[torch.Tensor]) -> None:
        self.device = device_flats
        #: What is summed, per bucket.
        self.host = [torch.empty(flat.shape, dtype=flat.dtype, pin_memory=True) for flat in device_flats]
        self._stream = torch.cuda.Stream(device_flats[0].device)  # type: ignore[no-untyped-call]
        self._copied: dict[int, torch.cuda.Event] = {}  # begun and not yet handed out, in order

    def fetch(self, number: int) -> None:
        """Begin to copy a bucket to the host, after what the present stream has been given so far."""
        self._stream.wait_stream(torch.cuda.current_stream(self.device[number].device))
        with torch.cuda.stream(self._stream):
            self.host[number].copy_(self.device[number], non_blocking=True)
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record(self._stream)
        self._copied[number] = event

    def fetched(self, wait: bool = False) -> list[int]:
        """Buckets whose copy is complete, each told once; with `wait`, one after the other, all of them."""
        ready = []
        for number, event in list(self._copied.items()):
            if wait:
                event.synchronize()
            elif not event.query():  # type: ignore[no-untyped-call]
                break
            del self._copied[number]
            ready.append(number)
            if wait:
                break
        return ready

    def put_back(self) -> None:
        """Copy all sums to the device."""
        with torch.cuda.stream(self._stream):
            for device, host in zip(self.device, self.host):
                device.copy_(host, non_blocking=True)
        torch.cuda.current_stream(self.device[0].device).wait_stream(self._stream)
