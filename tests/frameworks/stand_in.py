# SPDX-License-Identifier: Apache-2.0
"""Stands in for a member that forks.py starts: asks for a fork, hands on all that this process was given, and ends as
the fork has ended. Usage: stand_in.py SOCKET PROGRAM [ARGUMENT...]. It imports little: it starts with each member.
"""

import fcntl
import json
import os
import signal
import socket
import struct
import sys


def inherited() -> list[int]:
    """This process' descriptors, without that of the folder which is being listed."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            fcntl.fcntl(int(name), fcntl.F_GETFD)
        except OSError:
            continue
        found.append(int(name))
    return found


def ask(server: socket.socket, given: list[int], life: int) -> None:
    """Ask for a fork that has the descriptors `given`, and dies when the other end of the pipe `life` is closed."""
    request = {"arguments": sys.argv[2:], "environment": dict(os.environ), "folder": os.getcwd()}
    request |= {"group": os.getpgrp(), "descriptors": given}
    text = json.dumps(request).encode()
    socket.send_fds(server, [struct.pack("<I", len(text))], [life, *given])
    server.sendall(text)


def number(server: socket.socket) -> int:
    data = server.recv(4, socket.MSG_WAITALL)
    if len(data) < 4:
        sys.exit("the process that members are forked from has ended; its reason stands above")
    return int(struct.unpack("<i", data)[0])


def main() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # until there is a fork to hand it on to
    given = inherited()
    life, _held = os.pipe()
    server = socket.socket(socket.AF_UNIX)
    server.connect(sys.argv[1])
    ask(server, given, life)
    pid = number(server)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    status = number(server)
    if os.WIFSIGNALED(status):
        if os.WTERMSIG(status) != signal.SIGKILL:
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


main()
