# SPDX-License-Identifier: Apache-2.0
"""Members as forks of one process that has imported the frameworks: importing takes most of a member's time.

A server imports what a program imports, and forks a process for each request. What `spotnik run` starts is stand_in.py.
The fork has all that its stand-in was given (descriptors, environment, folder, process group), and nothing of the
server's but modules. The kernel kills the fork when its stand-in dies, before anybody can see that death.

The server refuses to begin when an import has started a thread, which a fork would lack. SPOTNIK_FORKS=0: no forks.
"""

from __future__ import annotations

import fcntl
import functools
import gc
import importlib
import json
import os
import re
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import types
from pathlib import Path
from typing import Any, Optional

HERE = Path(__file__).parent
_IMPORTS = r"^(?:from|import) ((?:keras|tensorflow|jax|optax|flax|torch)\b[\w.]*)"
_OF_BACKEND = {"tensorflow": ("keras",), "jax": (), "torch": ("torch._dynamo",)}  # what else they import when used
_F_SETSIG = 10  # of Linux; the module fcntl has it since Python 3.13
_ABOVE = 512  # where descriptors are parked: no program of the tests has as many
_MAX = 64  # descriptors of a stand-in
_servers: list[subprocess.Popen[bytes]] = []


# ---- the test's side ----


def python(program: Path, backend: str) -> list[str]:
    """The command in place of `python` that runs `program`."""
    if os.environ.get("SPOTNIK_FORKS") == "0":
        return [sys.executable]
    imported = re.findall(_IMPORTS, program.read_text(), re.MULTILINE)
    modules = tuple(sorted({backend, *imported, *_OF_BACKEND[backend]}))
    return [sys.executable, "-S", "-E", str(HERE / "stand_in.py"), _server(backend, modules)]


@functools.cache
def _server(backend: str, modules: tuple[str, ...]) -> str:
    """The socket of a server, which ends with this process."""
    path = f"{_folder().name}/{backend}-{len(modules)}-{abs(hash(modules))}"
    environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        command = [sys.executable, str(HERE / "forks.py"), *modules]
        _servers.append(subprocess.Popen(command, stdin=listener, env=environment))
    return path


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="forks-")


# ---- the server ----


class Server:
    """Forks a process for each request."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ, self._accept)
        self._selector.register(os.pidfd_open(os.getppid()), selectors.EVENT_READ, lambda _: os._exit(0))

    def serve(self) -> list[str]:
        """Returns in a fork alone: what it is to run."""
        while True:
            for key, _ in self._selector.select():
                arguments: Optional[list[str]] = key.data(key.fd)
                if arguments is not None:
                    return arguments

    def _accept(self, _fd: int) -> Optional[list[str]]:
        accepted, _ = self._listener.accept()
        try:
            request, descriptors = _receive(accepted)
        except (OSError, struct.error, ValueError):
            accepted.close()  # it was killed while it asked
            return None
        stand_in = accepted.detach()  # a number: in a fork an object would close another file of this number
        pid = os.fork()
        if pid == 0:
            self._forget()
            _become(request, descriptors)
            return list(request["arguments"])
        for one in descriptors:
            os.close(one)
        _say(stand_in, pid)
        self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, lambda fd: self._reap(fd, pid, stand_in))
        return None

    def _forget(self) -> None:
        self._selector.close()
        self._listener.detach()

    def _reap(self, fd: int, pid: int, stand_in: int) -> None:
        self._selector.unregister(fd)
        os.close(fd)
        _say(stand_in, os.waitpid(pid, 0)[1])
        os.close(stand_in)


def _receive(stand_in: socket.socket) -> tuple[dict[str, Any], list[int]]:
    head, descriptors, _, _ = socket.recv_fds(stand_in, 4, _MAX)
    (length,) = struct.unpack("<I", head)
    return json.loads(stand_in.recv(length, socket.MSG_WAITALL)), descriptors


def _say(stand_in: int, number: int) -> None:
    try:
        os.write(stand_in, struct.pack("<i", number))
    except BrokenPipeError:
        return  # it was killed


def _become(request: dict[str, Any], descriptors: list[int]) -> None:
    """In a fork: have what the stand-in was given, and die with it."""
    parked = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, _ABOVE) for one in descriptors]
    os.closerange(0, _ABOVE)
    for one, number in zip(parked[1:], request["descriptors"]):
        os.dup2(one, number)
        os.close(one)
    _die_with(parked[0])
    os.setpgid(0, request["group"])
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # as `spotnik run` has it


def _die_with(life: int) -> None:
    """Have the kernel kill this process when the other end of the pipe `life` is closed."""
    fcntl.fcntl(life, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(life, _F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(life, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    try:
        os.read(life, 1)
    except BlockingIOError:
        return
    os._exit(1)  # it was closed before


def _load(modules: list[str]) -> None:
    for name in modules:
        importlib.import_module(name)
    threads = len(os.listdir("/proc/self/task"))
    assert threads == 1, f"{threads - 1} threads run after importing {modules}: members cannot be forks of this process"
    gc.freeze()  # else looking through all objects copies all their memory


def _run(arguments: list[str]) -> None:
    """As `python PROGRAM ARGUMENT...` in a process of its own."""
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()  # forks would draw the same numbers
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)  # of two that come first together one fails (pytorch issue 75147)
    sys.argv = arguments
    program = types.ModuleType("__main__")
    program.__file__ = arguments[0]
    sys.modules["__main__"] = program
    exec(compile(Path(arguments[0]).read_text(), arguments[0], "exec"), vars(program))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _load(sys.argv[1:])
    _run(Server(socket.socket(fileno=os.dup(0))).serve())
