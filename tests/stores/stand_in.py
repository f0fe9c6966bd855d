# SPDX-License-Identifier: Apache-2.0
"""A stand-in for S3, in memory: objects, conditions, listings, ranges, uploads in parts. Signatures are not checked;
SeaweedFS does that. Digests of bodies are.

What goes wrong is chosen by the first part of a key:

    lost/...            every other PUT is carried out, and its answer is lost
    busy/...            every other request of a kind gets 503 with Retry-After: 0
    unconditional/...   conditions are ignored
    pages/...           a listing has two keys a page
    expired/...         the first request of each kind finds that the token has ended
    as-NAME/...         requests that are not signed with the key NAME are refused
    torn/...            every other body arrives with a byte changed

It is a metadata service, too, which gives the credentials of a role: the key ROLE. To who shows the token
"the+token/of=this" it gives those of a container, and of a web identity: the keys CONTAINER and IDENTITY.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from xml.sax.saxutils import escape


class Bucket:
    """The objects, by key. One lock: each request happens at one moment."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.objects: dict[str, bytes] = {}
        self.requests = 0
        self.turns: dict[str, int] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}  # parts by number
        self.away: str | None = None  # what begins with it is answered with nothing but 503

    def is_turn(self, fault: str, key: str, method: str) -> bool:
        """Is it this request of every two that goes wrong?"""
        if not key.startswith(fault + "/"):
            return False
        self.turns[method] = self.turns.get(method, 0) + 1
        return self.turns[method] % 2 == 1


def etag(data: bytes) -> str:
    return f'"{hashlib.md5(data).hexdigest()}"'


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    bucket: Bucket

    def log_message(self, *args: object) -> None:
        pass

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("x-amz-request-id", f"{self.bucket.requests:016X}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status: int, code: str, **headers: str) -> None:
        self.answer(status, f"<Error><Code>{code}</Code><Message>as asked</Message></Error>".encode(), **headers)

    def answer_metadata(self) -> None:
        """IMDSv2: a token for a header, and with the token the role's credentials."""
        role = {"AccessKeyId": "ROLE", "SecretAccessKey": "secret", "Token": "of-the-role"}
        asked = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()))
        if self.path == "/latest/api/token" and self.command == "PUT":
            self.answer(200, b"metadata-token")
        elif self.path == "/latest/container" and self.headers.get("Authorization") == "the+token/of=this":
            self.answer(200, json.dumps({**role, "AccessKeyId": "CONTAINER"}).encode())
        elif self.path == "/latest/sts" and asked.get("WebIdentityToken") == "the+token/of=this":
            names = ("AccessKeyId", "SecretAccessKey", "SessionToken")
            values = zip(names, ("IDENTITY", "secret", "of-the-identity"), strict=True)
            self.answer(200, "".join(f"<{name}>{value}</{name}>" for name, value in values).encode())
        elif self.headers.get("X-aws-ec2-metadata-token") != "metadata-token":
            self.answer(401)
        else:
            self.answer(200, b"a-role" if self.path.endswith("/") else json.dumps(role).encode())

    def is_refused(self, key: str) -> bool:
        """Refuses what is not signed as the key wants it."""
        wanted = key.split("/")[0].removeprefix("as-")
        credential, token = self.headers.get("Authorization", ""), self.headers.get("x-amz-security-token")
        if not key.startswith("as-") or (
            f"Credential={wanted}/" in credential
            and (token is None) == (wanted not in ("ROLE", "CONTAINER", "IDENTITY"))
        ):
            return False
        self.refuse(403, "InvalidAccessKeyId")
        return True

    def handle_any(self) -> None:
        """The path is /bucket/key."""
        path, _, query = self.path.partition("?")
        if path.startswith("/latest/"):
            self.answer_metadata()
            return
        key = urllib.parse.unquote(path).split("/", 2)[2]
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        asked = dict(urllib.parse.parse_qsl(query))
        with self.bucket.lock:
            self.bucket.requests += 1
            place = key or asked.get("prefix", "")
            if self.bucket.away is not None and place.startswith(self.bucket.away):
                self.refuse(503, "SlowDown", Retry_After="0")
            elif self.is_torn(key, data):
                self.refuse(400, "XAmzContentSHA256Mismatch")
            elif self.bucket.is_turn("busy", place, self.command):
                self.refuse(503, "SlowDown", Retry_After="0")
            elif self.bucket.is_turn("expired", key, self.command):
                self.refuse(403, "ExpiredToken")
            elif self.is_refused(key):
                pass
            elif self.command == "GET" and not key:
                self.list_keys(asked["prefix"], asked.get("continuation-token", ""))
            elif "uploads" in query or "uploadId" in asked:
                self.handle_upload(key, data, asked)
            else:
                getattr(self, self.command.lower())(key, data)

    do_GET = do_PUT = do_POST = do_DELETE = handle_any  # noqa: N815

    def is_torn(self, key: str, data: bytes) -> bool:
        """Does the body differ from its digest?"""
        if data and self.bucket.is_turn("torn", key, self.command):
            data = bytes([data[0] ^ 1]) + data[1:]
        return self.headers.get("x-amz-content-sha256") != hashlib.sha256(data).hexdigest()

    def handle_upload(self, key: str, data: bytes, asked: dict[str, str]) -> None:
        """An object in parts: begun, a part of it, ended, given up."""
        upload = asked.get("uploadId", f"{key}+{self.bucket.requests}")
        if self.command == "POST" and "uploadId" not in asked:
            self.bucket.uploads[upload] = {}
            self.answer(200, f"<R><UploadId>{escape(upload)}</UploadId></R>".encode())
        elif upload not in self.bucket.uploads:
            self.refuse(404, "NoSuchUpload")
        elif self.command == "PUT":
            self.bucket.uploads[upload][int(asked["partNumber"])] = data
            self.answer(200, ETag=etag(data))
        elif self.command == "POST":
            parts = self.bucket.uploads.pop(upload)
            wanted = [f"<ETag>{etag(parts[number])}</ETag>" for number in sorted(parts)]
            if re.findall("<ETag>.*?</ETag>", data.decode()) != wanted:
                self.refuse(400, "InvalidPart")
                return
            self.store(key, b"".join(parts[number] for number in sorted(parts)))
        else:
            del self.bucket.uploads[upload]
            self.answer(204)

    def get(self, key: str, _: bytes) -> None:
        data = self.bucket.objects.get(key)
        if data is None:
            self.refuse(404, "NoSuchKey")
            return
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if asked is None:
            self.answer(200, data, ETag=etag(data))
        elif int(asked[1]) >= len(data):
            self.refuse(416, "InvalidRange")
        else:
            self.answer(206, data[int(asked[1]) : int(asked[2]) + 1], ETag=etag(data))

    def put(self, key: str, data: bytes) -> None:
        there = self.bucket.objects.get(key)
        match = self.headers.get("If-Match")
        fails = there is not None if self.headers.get("If-None-Match") == "*" else False
        fails |= match is not None and (there is None or match != etag(there))
        if fails and not key.startswith("unconditional/"):
            self.refuse(412, "PreconditionFailed")
            return
        self.store(key, data)

    def store(self, key: str, data: bytes) -> None:
        self.bucket.objects[key] = data
        if self.bucket.is_turn("lost", key, "PUT"):
            self.close_connection = True
        else:
            self.answer(200, ETag=etag(data))

    def delete(self, key: str, _: bytes) -> None:
        self.bucket.objects.pop(key, None)
        self.answer(204)

    def list_keys(self, prefix: str, after: str) -> None:
        """Objects, and folders below which there are any."""
        keys = [key for key in self.bucket.objects if key.startswith(prefix)]
        names = {prefix + key[len(prefix) :].split("/")[0] + "/" * ("/" in key[len(prefix) :]) for key in keys}
        left = sorted(name for name in names if name > after)
        page = left[: 2 if prefix.startswith("pages/") else 1000]
        rows = "".join(self.row(name) for name in page)
        cut = len(page) < len(left)
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if cut else ""
        body = f"<IsTruncated>{str(cut).lower()}</IsTruncated><Prefix>{escape(prefix)}</Prefix>{token}{rows}"
        self.answer(200, f"<ListBucketResult>{body}</ListBucketResult>".encode())

    def row(self, name: str) -> str:
        if name.endswith("/"):
            return f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
        facts = f"<LastModified>2026-01-02T03:04:05.678Z</LastModified><Size>{len(self.bucket.objects[name])}</Size>"
        return f"<Contents><Key>{escape(name)}</Key>{facts}</Contents>"


class Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients are killed in the middle of their requests."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def environment(address: str, port: int) -> dict[str, str]:
    """What a process needs to find a stand-in there."""
    return {
        "AWS_ENDPOINT_URL": f"http://{address}:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }


class StandIn:
    """A running server, and the environment by which a process finds it."""

    def __init__(self, address: str = "127.0.0.1", port: int = 0) -> None:
        self.bucket = Bucket()
        self.server = Server((address, port), type("Bound", (Handler,), {"bucket": self.bucket}))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.environment = environment(address, self.server.server_address[1])

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
