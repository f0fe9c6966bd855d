# SPDX-License-Identifier: Apache-2.0
"""A proxy that ends TCP connections, as the sidecar of a service mesh does. iptables sends to it what its host dials
(REDIRECT); it dials where that was to go, past the rule (SO_MARK). Killed and started again, it says FIN in everybody's
name. At SIGUSR1 it says FIN, too, and goes on reading.

    proxy.py PORT MARK"""

import contextlib
import selectors
import signal
import socket
import struct
import sys

SO_ORIGINAL_DST, SO_MARK, PIECE = 80, 36, 65536
other: dict[socket.socket, socket.socket] = {}
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


def carry(one: socket.socket) -> None:
    if one not in other:
        return
    two = other[one]
    try:
        data = one.recv(PIECE)
        if data:
            two.sendall(data)
            return
    except OSError:
        pass
    for end in (one, two):
        choose.unregister(end)
        del other[end]
        end.close()


def half_close() -> None:
    for end in list(other):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_WR)


def main() -> None:
    signal.signal(signal.SIGUSR1, lambda *_: half_close())
    port, mark = int(sys.argv[1]), int(sys.argv[2])
    listener = socket.create_server(("", port), backlog=128)
    choose.register(listener, selectors.EVENT_READ)
    print("ready", flush=True)
    while True:
        for key, _ in choose.select():
            if key.fileobj is listener:
                take_in(listener, mark)
            else:
                carry(key.fileobj)  # type: ignore[arg-type]


main()
