# SPDX-License-Identifier: Apache-2.0
"""A proxy before a server. It passes requests and answers on as they are, but for one fault at a time.

What goes wrong is chosen by `fault`, and concerns one request of `every`, by chance. It does not concern the next
request of the same method and path: a client that sends again gets through.

    reset      the connection ends before the server has seen the request
    lost       the server carries the request out, and the connection ends before the answer
    cut        the connection ends in the middle of the answer
    silent     the server carries the request out, and no answer comes
    error      500, without a word to the server
    busy       503 with Retry-After: 1
    throttled  429
    expired    403 or 401: the token of the credentials has ended
    away       all connections end at once, whatever `every` is
"""

from __future__ import annotations

import contextlib
import http.client
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

from stand_in import Server
from stand_ins import SERVICES

REFUSALS = {
    "error": (500, "InternalError", {}),
    "busy": (503, "SlowDown", {"Retry-After": "1"}),
    "throttled": (429, "TooManyRequests", {}),
}
SILENT_S = 60  # longer than a client waits
BETWEEN = ("connection", "content-length", "transfer-encoding", "date", "server")  # the proxy writes its own


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    proxy: FaultProxy

    def log_message(self, *args: object) -> None:
        pass

    def setup(self) -> None:
        super().setup()
        self.upstream = http.client.HTTPConnection("127.0.0.1", self.proxy.server_port, timeout=60)

    def finish(self) -> None:
        self.upstream.close()
        with contextlib.suppress(OSError):
            super().finish()

    def handle_any(self) -> None:
        """One request of the client."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = self.proxy.next_fault(f"{self.command} {self.path}")
        if fault in ("away", "reset"):
            self.end_at_once()
        elif fault == "expired" or fault in REFUSALS:
            status, code, headers = REFUSALS.get(fault, (*self.proxy.expired, {}))
            self.answer(status, f"<Error><Code>{code}</Code><Message>as asked</Message></Error>".encode(), headers)
        else:
            self.pass_on(body, fault)

    do_GET = do_PUT = do_POST = do_DELETE = handle_any  # noqa: N815

    def pass_on(self, body: bytes, fault: str | None) -> None:
        self.upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            self.upstream.putheader(name, value)
        self.upstream.endheaders(body)
        with self.upstream.getresponse() as reply:
            data = reply.read()
            headers = {name: value for name, value in reply.getheaders() if name.lower() not in BETWEEN}
        if fault == "silent":
            time.sleep(SILENT_S)
        if fault in ("silent", "lost"):
            self.end_at_once()
        else:
            self.answer(reply.status, data, headers, cut=fault == "cut")

    def answer(self, status: int, body: bytes, headers: dict[str, str], cut: bool = False) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if cut else body)
        if cut:
            self.end_at_once()

    def end_at_once(self) -> None:
        """With a reset, not with an orderly end."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True


class FaultProxy:
    """A running proxy, and the environment by which a process finds it."""

    def __init__(self, server_port: int, scheme: str) -> None:
        handler, environment = SERVICES[scheme]
        self.expired = handler.expired
        self.server_port, self.fault, self.every = server_port, "", 2
        self.hit: set[str] = set()  # what went wrong last time
        self.chance = random.Random(41)
        self.lock = threading.Lock()
        self.server = Server(("127.0.0.1", 0), type("Bound", (Handler,), {"proxy": self}))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.environment = environment("127.0.0.1", self.server.server_address[1])

    def next_fault(self, request: str) -> str | None:
        """What goes wrong with it."""
        with self.lock:
            hits = self.fault == "away" or (request not in self.hit and self.chance.randrange(self.every) == 0)
            (self.hit.add if hits else self.hit.discard)(request)
            return self.fault if hits and self.fault else None

    @contextlib.contextmanager
    def during(self, fault: str, every: int = 2) -> Iterator[None]:
        self.fault, self.every = fault, every
        try:
            yield
        finally:
            self.fault = ""

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
