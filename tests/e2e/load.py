# SPDX-License-Identifier: Apache-2.0
"""Load by unauthenticated peers: connect to each listening socket in turn, RATE times a second, and close at once.

Prints "ready" after the first connection; at SIGTERM it prints how many connections it made, and in how many seconds.

    load.py RATE ADDRESS:PORT..."""

import contextlib
import itertools
import signal
import socket
import sys
import time

rate, doors = float(sys.argv[1]), [door.rsplit(":", 1) for door in sys.argv[2:]]
over = False


def end(*_: object) -> None:
    global over
    over = True


signal.signal(signal.SIGTERM, end)
begun, came = time.monotonic(), 0
for address, port in itertools.cycle(doors):
    due = begun + came / rate
    time.sleep(max(0.0, due - time.monotonic()))
    with contextlib.suppress(OSError), socket.socket() as caller:
        caller.settimeout(0.2)
        caller.connect((address, int(port)))
    came += 1
    if came == 1:
        print("ready", flush=True)
    if over:
        break
print(came, time.monotonic() - begun, flush=True)
