# SPDX-License-Identifier: Apache-2.0
"""A stand-in for S3, in memory: objects, conditions, listings, ranges, uploads in parts. Signatures are not checked;
SeaweedFS does that. Digests of bodies are. stand_in_google.py and stand_in_azure.py differ from it in words.

What goes wrong is chosen by the first part of a key:

    lost/...            every other PUT is carried out, and its answer is lost
    late/...            every other PUT, and DELETE of late/genesis, gets no answer, and is carried out after the next PUT but two
    busy/...            every other request of a kind gets 503 with Retry-After: 0
    centuries/...       all get 503, and are to come again in 584 years
    unconditional/...   conditions are ignored
    old/...             a conditional DELETE gets 501, as from a server that knows none
    pages/...           a listing has two keys a page, and its tokens have 1,500 bytes and more
    endless/...         the same, with tokens of 3,000 bytes and more
    expired/...         the first request of each kind finds that the token has ended
    as-NAME/...         requests that are not signed with the key NAME are refused
    torn/...            bodies arrive with a byte changed

It is a metadata service, too, which gives the credentials of a role: the key ROLE. To who shows the token
"the+token/of=this" it gives those of a container, and of a web identity: the keys CONTAINER and IDENTITY. Below
/latest/busy/ every other answer is 503.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import sys
import threading
import urllib.parse
from collections.abc import Callable
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
        self.uploads: dict[str, dict[Any, bytes]] = {}  # parts by number
        self.late: list[tuple[Handler, str, bytes]] = []  # puts that are still on their way
        self.versions: dict[str, int] = {}  # how often each was written
        self.watched: Callable[[], bool] | None = None  # asked at each request; false: it is not carried out
        self.away: str | None = None  # what begins with it is answered with nothing but 503

    def is_turn(self, fault: str, key: str, method: str) -> bool:
        """Is it this request of every two that goes wrong?"""
        if not key.startswith(fault + "/"):
            return False
        self.turns[method] = self.turns.get(method, 0) + 1
        return self.turns[method] % 2 == 1


@functools.lru_cache(maxsize=4)  # a large object is read by many ranges
def etag(data: bytes) -> str:
    return f'"{hashlib.md5(data).hexdigest()}"'


class Handler(BaseHTTPRequestHandler):
    """What differs between services is in the attributes, and in methods that the other stand-ins have, too."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    bucket: Bucket
    services = ("/latest/",)  # paths that are no object's
    id_header, torn, expired = "x-amz-request-id", (400, "XAmzContentSHA256Mismatch"), (403, "ExpiredToken")
    stored, deleted, upload_id = 200, 204, "{key}+{number}"

    def log_message(self, *args: object) -> None:
        pass

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header(self.id_header, f"{self.bucket.requests:016X}")
        if body.startswith(b"<"):
            self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status: int, code: str, **headers: str) -> None:
        self.answer(status, f"<Error><Code>{code}</Code><Message>as asked</Message></Error>".encode(), **headers)

    def answer_metadata(self) -> None:
        """IMDSv2: a token for a header, and with the token the role's credentials."""
        role = {"AccessKeyId": "ROLE", "SecretAccessKey": "secret", "Token": "of-the-role"}
        asked = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()))
        if self.path.startswith("/latest/busy/") and self.bucket.is_turn("busy", "busy/", "credentials"):
            self.answer(503)
        elif self.path == "/latest/api/token" and self.command == "PUT":
            self.answer(200, b"metadata-token")
        elif self.path.endswith("/container") and self.headers.get("Authorization") == "the+token/of=this":
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
        if path.startswith(self.services):
            self.answer_metadata()
            return
        key = self.key_of(urllib.parse.unquote(path))
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        asked = dict(urllib.parse.parse_qsl(query))
        with self.bucket.lock:
            self.bucket.requests += 1
            if self.bucket.watched is not None and not self.bucket.watched():
                self.close_connection = True
                return
            place = key or asked.get("prefix", "")
            if self.bucket.away is not None and place.startswith(self.bucket.away):
                self.refuse(503, "SlowDown", Retry_After="0")
            elif self.is_torn(key, data):
                self.refuse(*self.torn)
            elif self.bucket.is_turn("busy", place, self.command):
                self.refuse(503, "SlowDown", Retry_After="0")
            elif place.startswith("centuries/"):
                self.refuse(503, "SlowDown", Retry_After="18446744073")  # 2^64 ns, but for one second
            elif self.bucket.is_turn("expired", key, self.command):
                self.refuse(*self.expired)
            elif self.is_refused(key):
                pass
            elif self.command == "GET" and not key:
                self.list_keys(asked["prefix"], asked.get("continuation-token", asked.get("marker", "")))
            elif asked.keys() & {"uploadId", "comp"} or "uploads" in query:
                self.handle_upload(key, data, asked)
            else:
                getattr(self, self.command.lower())(key, data)

    do_GET = do_PUT = do_POST = do_DELETE = handle_any  # noqa: N815

    def key_of(self, path: str) -> str:
        return path.split("/", 2)[2]

    def is_torn(self, key: str, data: bytes) -> bool:
        """Does the body differ from its digest?"""
        if data and key.startswith("torn/"):
            data = bytes([data[0] ^ 1]) + data[1:]
        return not self.has_digest(data)

    def has_digest(self, data: bytes) -> bool:
        return self.headers.get("x-amz-content-sha256") == hashlib.sha256(data).hexdigest()

    def handle_upload(self, key: str, data: bytes, asked: dict[str, str]) -> None:
        """An object in parts: begun, a part of it, ended, given up."""
        upload = asked.get("uploadId", self.upload_id.format(key=key, number=self.bucket.requests))
        if self.command == "POST" and "uploadId" not in asked:
            self.bucket.uploads[upload] = {}
            name, space = "InitiateMultipartUploadResult", "http://s3.amazonaws.com/doc/2006-03-01/"
            self.answer(200, f'<{name} xmlns="{space}"><UploadId>{escape(upload)}</UploadId></{name}>'.encode())
        elif upload not in self.bucket.uploads:
            self.refuse(404, "NoSuchUpload")
        elif self.command == "PUT":
            self.bucket.uploads[upload][int(asked["partNumber"])] = data
            self.answer(200, **self.part_facts(data))
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
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("x-ms-range", self.headers.get("Range", "")))
        if asked is None:
            self.answer(200, data, **self.facts(key))
        elif int(asked[1]) >= len(data):
            self.refuse(416, "InvalidRange")
        else:
            part = data[int(asked[1]) : int(asked[2]) + 1]
            place = f"bytes {asked[1]}-{int(asked[1]) + len(part) - 1}/{len(data)}"
            self.answer(206, part, Content_Range=place, **self.facts(key))

    def part_facts(self, data: bytes) -> dict[str, str]:
        return {"ETag": etag(data)}

    def facts(self, key: str) -> dict[str, str]:
        """Headers that tell the object's version."""
        return {"ETag": etag(self.bucket.objects[key])}

    def is_conditional(self) -> bool:
        return any(name in self.headers for name in ("If-Match", "x-goog-if-generation-match"))

    def condition_fails(self, key: str) -> tuple[int, str] | None:
        there = self.bucket.objects.get(key)
        match = self.headers.get("If-Match")
        fails = there is not None if self.headers.get("If-None-Match") == "*" else False
        fails |= match is not None and (there is None or match != etag(there))
        return (412, "PreconditionFailed") if fails else None

    def put(self, key: str, data: bytes) -> None:
        if self.bucket.is_turn("late", key, "PUT"):
            self.bucket.late.append((self, key, data))
            self.close_connection = True
            return
        self.put_now(key, data)
        if key.startswith("late/") and len(self.bucket.late) > 1:
            other, key, data = self.bucket.late.pop(0)
            if other.condition_fails(key) is None and other.command == "PUT":
                self.bucket.objects[key] = data
            elif other.condition_fails(key) is None:
                self.bucket.objects.pop(key, None)

    def put_now(self, key: str, data: bytes) -> None:
        failure = self.condition_fails(key)
        if failure is not None and not key.startswith("unconditional/"):
            self.refuse(*failure)
        else:
            self.store(key, data)

    def store(self, key: str, data: bytes) -> None:
        self.bucket.objects[key] = data
        self.bucket.versions[key] = self.bucket.versions.get(key, 0) + 1
        if self.bucket.is_turn("lost", key, "PUT"):
            self.close_connection = True
        else:
            self.answer(self.stored, **self.facts(key))

    def delete(self, key: str, data: bytes) -> None:
        failure = self.condition_fails(key)
        if key.endswith("/genesis") and self.bucket.is_turn("late", key, "DELETE"):
            self.bucket.late.append((self, key, data))
            self.close_connection = True
        elif self.is_conditional() and key.startswith("old/"):
            self.refuse(501, "NotImplemented")
        elif failure is not None:
            self.refuse(*failure)
        else:
            self.bucket.objects.pop(key, None)
            self.answer(self.deleted)

    def list_keys(self, prefix: str, after: str) -> None:
        """Objects, and folders below which there are any."""
        keys = [key for key in self.bucket.objects if key.startswith(prefix)]
        names = {prefix + key[len(prefix) :].split("/")[0] + "/" * ("/" in key[len(prefix) :]) for key in keys}
        left = sorted(name for name in names if name > after.rstrip("="))
        long = {"pages": 1500, "endless": 3000}.get(prefix.split("/")[0], 0)
        page = left[: 2 if long else 1000]
        self.answer(200, self.page_write(prefix, page, page[-1] + "=" * long if len(page) < len(left) else ""))

    def page_write(self, prefix: str, names: list[str], after: str) -> bytes:
        """A listing of the names; after: what asks for the next page, "": there is none."""
        rows = "".join(self.row(name) for name in names)
        token = f"<NextContinuationToken>{escape(after)}</NextContinuationToken>" if after else ""
        cut = str(after != "").lower()
        body = f"<IsTruncated>{cut}</IsTruncated><Prefix>{escape(prefix)}</Prefix>{token}{rows}"
        return f"<ListBucketResult>{body}</ListBucketResult>".encode()

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

    def __init__(
        self,
        address: str = "127.0.0.1",
        port: int = 0,
        handler: type[Handler] = Handler,
        found_by: Callable[[str, int], dict[str, str]] = environment,
    ) -> None:
        self.bucket = Bucket()
        self.server = Server((address, port), type("Bound", (handler,), {"bucket": self.bucket}))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.environment = found_by(address, self.server.server_address[1])

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
