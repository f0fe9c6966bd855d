# SPDX-License-Identifier: Apache-2.0
"""Two members that meet: each proves that it knows the secret of the circle, and which rank it has."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket
import struct
from typing import Optional

__all__ = ["greet", "introduce"]

_MAGIC = b"spotnik1"
_HELLO = struct.Struct("<8sI32s")  # magic, rank, nonce
_PROOF = 32
_LIMIT_S = 10.0


def introduce(address: tuple[str, int], secret: bytes, rank: int, other: int) -> socket.socket:
    """Connect to `other`, and return the connection when both have proven themselves. Raises OSError."""
    sock = socket.create_connection(address, timeout=_LIMIT_S)
    try:
        mine = secrets.token_bytes(32)
        sock.sendall(_HELLO.pack(_MAGIC, rank, mine))
        answer = _read(sock, 32 + _PROOF)
        theirs, proof = answer[:32], answer[32:]
        if not hmac.compare_digest(proof, _prove(secret, b"greet", rank, other, mine, theirs)):
            raise ConnectionRefusedError("somebody else answers there")
        sock.sendall(_prove(secret, b"introduce", rank, other, mine, theirs))
    except BaseException:
        sock.close()
        raise
    return sock


def greet(sock: socket.socket, secret: bytes, rank: int) -> Optional[int]:
    """The rank of the member that has connected to us; None: it is a stranger, or it is not serious."""
    try:
        sock.settimeout(_LIMIT_S)
        magic, other, theirs = _HELLO.unpack(_read(sock, _HELLO.size))
        if magic != _MAGIC:
            return None
        mine = secrets.token_bytes(32)
        sock.sendall(mine + _prove(secret, b"greet", other, rank, theirs, mine))
        wanted = _prove(secret, b"introduce", other, rank, theirs, mine)
        return int(other) if hmac.compare_digest(_read(sock, _PROOF), wanted) else None
    except OSError:
        return None


def _prove(secret: bytes, role: bytes, dialer: int, listener: int, first: bytes, second: bytes) -> bytes:
    said = role + struct.pack("<II", dialer, listener) + first + second
    return hmac.new(secret, said, hashlib.sha256).digest()


def _read(sock: socket.socket, size: int) -> bytes:
    """Raises ConnectionError when the other side ends before."""
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise ConnectionResetError("the other side has ended")
        data += more
    return data
