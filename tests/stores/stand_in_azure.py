# SPDX-License-Identifier: Apache-2.0
"""A stand-in for Azure Blob Storage, in memory. It keeps to what Microsoft publishes: Put Blob, Put Block, Put Block
List, Get Blob, Delete Blob, List Blobs; conditions by ETag; signatures by Shared Key, which are checked, SAS, tokens.

What goes wrong is chosen by the first part of a key, as in stand_in.py. It is also what gives tokens: the identity of
the machine (MACHINE), of a workload (WORKLOAD) and of an application (APPLICATION).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import urllib.parse
from xml.sax.saxutils import escape

from stand_in import Handler

ACCOUNT, KEY, SAS = "account", base64.b64encode(b"the key of the account").decode(), "sv=2021-12-02&sig=of%2Bthe%3D"
SIGNED = [
    "Content-Encoding",
    "Content-Language",
    "Content-Length",
    "Content-MD5",
    "Content-Type",
    "Date",
    "If-Modified-Since",
    "If-Match",
    "If-None-Match",
    "If-Unmodified-Since",
    "Range",
]


class AzureHandler(Handler):
    services = ("/metadata/", "/tenant/")
    id_header, torn, expired = "x-ms-request-id", (400, "Md5Mismatch"), (401, "InvalidAuthenticationInfo")
    stored, deleted = 201, 202

    def key_of(self, path: str) -> str:
        """The path is /account/bucket/key."""
        return path.split("/", 3)[3] if path.count("/") > 2 else ""

    def has_digest(self, data: bytes) -> bool:
        given = self.headers.get("Content-MD5")
        return given in (None, base64.b64encode(hashlib.md5(data).digest()).decode())

    def facts(self, key: str) -> dict[str, str]:
        return {"ETag": f'"0x8DC{self.bucket.versions.get(key, 0):012X}"'}

    def condition_fails(self, key: str) -> tuple[int, str] | None:
        match, is_there = self.headers.get("If-Match"), key in self.bucket.objects
        if self.headers.get("If-None-Match") == "*" and is_there:
            return 409, "BlobAlreadyExists"
        fails = match is not None and (not is_there or match != self.facts(key)["ETag"])
        return (412, "ConditionNotMet") if fails else None

    def refuse(self, status: int, code: str, **headers: str) -> None:
        super().refuse(status, code, x_ms_error_code=code, **headers)

    def put(self, key: str, data: bytes) -> None:
        if self.headers.get("x-ms-blob-type") != "BlockBlob":
            self.refuse(400, "MissingRequiredHeader")
        else:
            super().put(key, data)

    def delete(self, key: str, data: bytes) -> None:
        if key in self.bucket.objects:
            super().delete(key, data)
        else:
            self.refuse(404, "BlobNotFound")

    def handle_upload(self, key: str, data: bytes, asked: dict[str, str]) -> None:
        """A block, or the list that makes an object of blocks. They are gone then, and ones not listed, too."""
        blocks, failure = self.bucket.uploads.setdefault(key, {}), self.condition_fails(key)
        if asked["comp"] == "block":
            blocks[asked["blockid"]] = data
            self.answer(201)
            return
        wanted = re.findall("<Latest>(.*?)</Latest>", data.decode())
        if failure is not None or not wanted or not blocks.keys() >= set(wanted):
            self.refuse(*(failure or (400, "InvalidBlockList")))
            return
        del self.bucket.uploads[key]
        self.store(key, b"".join(blocks[number] for number in wanted))

    def page_write(self, prefix: str, names: list[str], after: str) -> bytes:
        rows = "".join(self.row(name) for name in names)
        marker = f"<NextMarker>{escape(after)}</NextMarker>" if after else "<NextMarker />"
        body = f"<Prefix>{escape(prefix)}</Prefix><Delimiter>/</Delimiter><Blobs>{rows}</Blobs>{marker}"
        head = '<?xml version="1.0" encoding="utf-8"?>'
        return f'{head}<EnumerationResults ContainerName="bucket">{body}</EnumerationResults>'.encode()

    def row(self, name: str) -> str:
        if name.endswith("/"):
            return f"<BlobPrefix><Name>{escape(name)}</Name></BlobPrefix>"
        size = f"<Content-Length>{len(self.bucket.objects[name])}</Content-Length><BlobType>BlockBlob</BlobType>"
        facts = f"<Properties><Last-Modified>Fri, 02 Jan 2026 03:04:05 GMT</Last-Modified>{size}</Properties>"
        return f"<Blob><Name>{escape(name)}</Name>{facts}</Blob>"

    # ---- who asks ----

    def signature(self) -> str:
        """Shared Key, as "Authorize with Shared Key" of Microsoft's REST reference has it."""
        length = self.headers.get("Content-Length", "")
        values = [
            ("" if length == "0" else length) if name == "Content-Length" else self.headers.get(name, "")
            for name in SIGNED
        ]
        own = sorted(
            (name.lower(), value.strip()) for name, value in self.headers.items() if name.lower().startswith("x-ms-")
        )
        path, _, query = self.path.partition("?")
        asked = sorted(urllib.parse.parse_qsl(query, keep_blank_values=True))
        lines = [self.command, *values, *(f"{name}:{value}" for name, value in own), f"/{ACCOUNT}{path}"]
        text = "\n".join([*lines, *(f"{name}:{value}" for name, value in asked)])
        return base64.b64encode(hmac.digest(base64.b64decode(KEY), text.encode(), "sha256")).decode()

    def signer(self) -> str:
        """KEY, SAS, or the name of the token; "": none that is good."""
        given = self.headers.get("Authorization", "")
        if given == f"SharedKey {ACCOUNT}:{self.signature()}":
            return "KEY"
        if not given and self.path.endswith(SAS):
            return "SAS"
        return given.removeprefix("Bearer of-") if given.startswith("Bearer of-") else ""

    def is_refused(self, key: str) -> bool:
        wanted = key.removeprefix("as-").split("/")[0] if key.startswith("as-") else "KEY"
        if self.signer() == wanted and self.headers.get("x-ms-version"):
            return False
        self.refuse(403, "AuthenticationFailed")
        return True

    def answer_metadata(self) -> None:
        asked = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()))
        asked |= dict(urllib.parse.parse_qsl(self.path.partition("?")[2]))
        scope = asked.get("scope", asked.get("resource", "")).removesuffix(".default")
        name = ""
        if self.path.startswith("/metadata/identity/oauth2/token?") and self.headers.get("Metadata") == "true":
            name = "MACHINE" if asked.get("client_id") in (None, "client") else ""
        elif asked.get("client_assertion") == "the+token/of=this" and asked["client_assertion_type"].endswith("bearer"):
            name = "WORKLOAD"
        elif asked.get("client_secret") == "a+secret":
            name = "APPLICATION"
        if name and scope == "https://storage.azure.com/":
            self.answer(200, json.dumps({"access_token": f"of-{name}", "expires_in": "3600"}).encode())
        else:
            self.answer(400, b'{"error": "invalid_request"}')


def environment(address: str, port: int) -> dict[str, str]:
    endpoint = f"http://{address}:{port}/{ACCOUNT}"
    return {"AZURE_STORAGE_CONNECTION_STRING": f"AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={endpoint};"}
