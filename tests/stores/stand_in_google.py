# SPDX-License-Identifier: Apache-2.0
"""A stand-in for Google Cloud Storage's XML API, in memory. It keeps to what Google publishes: generations and
x-goog-if-generation-match, tokens as Authorization: Bearer, x-goog-hash, listings of version 2, multipart uploads.

What goes wrong is chosen by the first part of a key, as in stand_in.py. It is also what gives tokens: the metadata
server (MACHINE), and the place where the assertion of a service account (ACCOUNT: its RS256 signature is checked) or
the login of gcloud (LOGIN) is exchanged. A token from /token/short is good for one request.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import time
import urllib.parse
from typing import Any, ClassVar

from stand_in import Handler

SHA256_PREFIX = bytes.fromhex("3031300d060960864801650304020105000420")  # RFC 8017, 9.2


def unpadded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class GoogleHandler(Handler):
    services = ("/computeMetadata/", "/token/")
    id_header, torn, expired = "x-guploader-uploadid", (400, "BadDigest"), (401, "AuthenticationRequired")
    upload_id = "id-{number}"  # Google's client does not encode it
    modulus = 0  # of the service account's key
    tokens: ClassVar[dict[str, int]] = {}  # how often each was used

    def has_digest(self, data: bytes) -> bool:
        digest = base64.b64encode(hashlib.md5(data).digest()).decode()
        return self.headers.get("x-goog-hash") in (None, f"md5={digest}" if self.command == "PUT" else None)

    def generation(self, key: str) -> int:
        return 1700000000000000 + self.bucket.versions.get(key, 0) if key in self.bucket.objects else 0

    def facts(self, key: str) -> dict[str, str]:
        return {**super().facts(key), "x_goog_generation": str(self.generation(key))}

    def part_facts(self, data: bytes) -> dict[str, str]:
        digest = base64.b64encode(hashlib.md5(data).digest()).decode()
        return {**super().part_facts(data), "x_goog_hash": f"md5={digest}"}

    def condition_fails(self, key: str) -> tuple[int, str] | None:
        wanted = self.headers.get("x-goog-if-generation-match")
        return (412, "PreconditionFailed") if wanted not in (None, str(self.generation(key))) else None

    def delete(self, key: str, data: bytes) -> None:
        if key in self.bucket.objects:
            super().delete(key, data)
        else:
            self.refuse(404, "NoSuchKey")

    # ---- tokens ----

    def is_refused(self, key: str) -> bool:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        wanted = key.removeprefix("as-").split("/")[0] if key.startswith("as-") else None
        if key.startswith("anonymous/") and not token:
            return False
        if token not in self.tokens:
            self.refuse(401, "AuthenticationRequired")
            return True
        self.tokens[token] += 1
        if wanted in (None, token.split("-")[0]) and (self.tokens[token] == 1 or not token.startswith("SHORT")):
            return False
        self.refuse(403, "AccessDenied")
        return True

    def token_give(self, name: str, lasts_s: int) -> None:
        token = f"{name}-{len(self.tokens)}"
        self.tokens[token] = 0
        answer = {"access_token": token, "expires_in": lasts_s, "token_type": "Bearer"}
        self.answer(200, json.dumps(answer).encode())

    def is_assertion(self, assertion: str) -> bool:
        """Is it signed by the account's key, and of now?"""
        head, claims, signature = assertion.split(".")
        number = pow(int.from_bytes(unpadded(signature), "big"), 65537, self.modulus)
        digest = SHA256_PREFIX + hashlib.sha256(f"{head}.{claims}".encode()).digest()
        padded = b"\0\1" + b"\xff" * (self.modulus.bit_length() // 8 - len(digest) - 3) + b"\0" + digest
        told: dict[str, Any] = json.loads(unpadded(claims))
        return (
            number.to_bytes(self.modulus.bit_length() // 8, "big") == padded
            and json.loads(unpadded(head))["alg"] == "RS256"
            and told["iss"] == "job@project.iam.gserviceaccount.com"
            and told["aud"] == "https://oauth2.googleapis.com/token"
            and told["scope"] == "https://www.googleapis.com/auth/devstorage.read_write"
            and abs(told["iat"] - time.time()) < 60
            and told["exp"] == told["iat"] + 3600
        )

    def answer_metadata(self) -> None:
        asked = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()))
        grant = asked.get("grant_type", "")
        login = {"client_id": "an id", "client_secret": "a+secret", "refresh_token": "1//again"}
        with self.bucket.lock:
            if self.path.startswith("/computeMetadata/v1/instance/service-accounts/default/token"):
                if self.headers.get("Metadata-Flavor") == "Google":
                    self.token_give("MACHINE", 3600)
                else:
                    self.answer(403, b"Metadata-Flavor is missing")
            elif grant.endswith(":jwt-bearer") and self.is_assertion(asked["assertion"]):
                self.token_give("SHORT" if self.path == "/token/short" else "ACCOUNT", 1)
            elif grant == "refresh_token" and login.items() <= asked.items():
                self.token_give("LOGIN", 3600)
            else:
                self.answer(400, b'{"error": "invalid_grant"}')


def environment(address: str, port: int) -> dict[str, str]:
    return {
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"http://{address}:{port}",
        "GCE_METADATA_HOST": f"{address}:{port}",
        "CLOUDSDK_CONFIG": "/nowhere",
    }


def account_make(folder: str) -> int:
    """The key of a service account, in PEM, for the tests to show. Returns its modulus."""
    path = os.path.join(folder, "account.pem")
    subprocess.run(["openssl", "genrsa", "-out", path, "2048"], check=True, capture_output=True)
    told = subprocess.run(["openssl", "rsa", "-in", path, "-noout", "-modulus"], check=True, capture_output=True)
    return int(told.stdout.decode().strip().removeprefix("Modulus="), 16)
