# SPDX-License-Identifier: Apache-2.0
"""A proxy that ends TCP connections, as the sidecar of a service mesh does. iptables sends to it what its host dials
(REDIRECT); it dials where that was to go, past the rule (SO_MARK). Killed and started again, it says FIN in everybody's
name. At SIGUSR1 it says FIN, too, and goes on reading. What it carries arrives DELAY_MS later.

    proxy.py PORT MARK [DELAY_MS]"""

import collections
import contextlib
import selectors
import signal
import socket
import struct
import sys
import time
from typing import Optional

SO_ORIGINAL_DST, SO_MARK, PIECE = 80, 36, 65536
other: dict[socket.socket, socket.socket] = {}
later: collections.deque[tuple[float, socket.socket, bytes]] = collections.deque()  # in order of time
choose = selectors.DefaultSelector()


def take_in(listener: socket.socket, mark: int) -> None:
    inner, _ = listener.accept()
    outer = socket.socket()
    outer.setsockopt(socket.SOL_SOCKET, SO_MARK, mark)
    outer.settimeout(3)  # it holds the others up meanwhile, as a poor proxy does
    port, address = struct.unpack("!2xH4s8x", inner.getsockopt(socket.SOL_IP, SO_ORIGINAL_DST, 16))
    try:
        outer.connect((socket.inet_ntoa(address), port))
    except OSError:
        inner.close()
        outer.close()
        return
    for one, two in ((inner, outer), (outer, inner)):
        one.settimeout(5)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        other[one] = two
        choose.register(one, selectors.EVENT_READ)


def carry(one: socket.socket, delay_s: float) -> None:
    if one not in other:
        return
    data = b""
    with contextlib.suppress(OSError):
        data = one.recv(PIECE)
    if delay_s:
        later.append((time.monotonic() + delay_s, one, data))
        if not data:
            choose.unregister(one)  # its end is carried when its time has come
    else:
        deliver(one, data)


def deliver(one: socket.socket, data: bytes) -> None:
    if one not in other:
        return
    two = other[one]
    try:
        if data:
            two.sendall(data)
            return
    except OSError:
        pass
    for end in (one, two):
        if end in choose.get_map():
            choose.unregister(end)
        del other[end]
        end.close()


def until_due() -> Optional[float]:
    return max(0.0, later[0][0] - time.monotonic()) if later else None


def half_close() -> None:
    for end in list(other):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_WR)


def main() -> None:
    signal.signal(signal.SIGUSR1, lambda *_: half_close())
    port, mark, delay_s = int(sys.argv[1]), int(sys.argv[2]), float((sys.argv[3:] or ["0"])[0]) / 1000
    listener = socket.create_server(("", port), backlog=128)
    choose.register(listener, selectors.EVENT_READ)
    print("ready", flush=True)
    while True:
        for key, _ in choose.select(until_due()):
            if key.fileobj is listener:
                take_in(listener, mark)
            else:
                carry(key.fileobj, delay_s)  # type: ignore[arg-type]
        while later and until_due() == 0:
            deliver(*later.popleft()[1:])


main()
