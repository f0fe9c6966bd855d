# SPDX-License-Identifier: Apache-2.0
"""The clouds' own Python clients against the stand-ins: clients.py [FOLDER]

Google's and Microsoft's clients word and sign requests by themselves. What they write, list, read and are refused on a
stand-in shows that it keeps to the protocol of the cloud, in what the stores use of it. They are modules of this
Python, or of the one in FOLDER.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

from stand_in import StandIn
from stand_in_google import GoogleHandler, account_make
from stand_ins import stand_in

try:
    from azure.core import MatchConditions
    from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceModifiedError
    from azure.storage.blob import BlobServiceClient
    from google.cloud import storage
    from google.cloud.storage import transfer_manager
    from google.oauth2 import service_account
except ImportError as error:
    other = os.path.join(sys.argv[1], "python") if len(sys.argv) > 1 else ""
    if os.path.exists(other):
        os.execv(other, [other, __file__])
    print(f"skipped: {error.name} is missing; install it with: pip install google-cloud-storage azure-storage-blob")
    sys.exit(77)

DATA = bytes(range(256)) * 4096  # 1 MiB


def expect(what: str, got: object, wanted: object) -> None:
    if got != wanted:
        raise SystemExit(f"{what}: {got!r} in place of {wanted!r}")


def expect_refused(what: str, kind: type[Exception], call: Any, *given: Any, **named: Any) -> None:
    try:
        call(*given, **named)
    except kind:
        return
    raise SystemExit(f"{what} is not refused")


def azure(server: StandIn) -> None:
    text = server.environment["AZURE_STORAGE_CONNECTION_STRING"]
    container = BlobServiceClient.from_connection_string(
        text, max_single_put_size=len(DATA) // 2, max_block_size=len(DATA) // 4, retry_total=0
    ).get_container_client("bucket")
    small, large = container.get_blob_client("clients/a b+c"), container.get_blob_client("clients/in/blocks")
    match = {
        "overwrite": True,
        "etag": small.upload_blob(b"first")["etag"],
        "match_condition": MatchConditions.IfNotModified,
    }
    expect_refused("a second If-None-Match", ResourceExistsError, small.upload_blob, b"second")
    small.upload_blob(b"third", **match)
    expect_refused("an old ETag", ResourceModifiedError, small.upload_blob, b"fourth", **match)
    large.upload_blob(DATA)
    expect("the blocks", server.bucket.objects["clients/in/blocks"], DATA)
    expect("a range", large.download_blob(offset=1000, length=300).readall(), DATA[1000:1300])
    names = sorted(item.name for item in container.walk_blobs("clients/", delimiter="/"))
    expect("a walk", names, ["clients/a b+c", "clients/in/"])
    small.delete_blob()
    expect("what is left", [item.name for item in container.walk_blobs("clients/")], ["clients/in/"])
    wrong = BlobServiceClient.from_connection_string(text.replace("AccountKey=", "AccountKey=AAAA"), retry_total=0)
    refused = wrong.get_container_client("bucket").get_blob_client("clients/x")
    expect_refused("a wrong key", HttpResponseError, refused.upload_blob, b"")


def google(server: StandIn, folder: str) -> None:
    """Its client uses the XML API for uploads in parts alone. Its login is the service account's."""
    url = server.environment["CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE"]
    GoogleHandler.modulus = account_make(folder)
    with open(os.path.join(folder, "account.pem")) as file:
        key = file.read()
    account = {
        "client_email": "job@project.iam.gserviceaccount.com",
        "private_key": key,
        "token_uri": f"{url}/token/long",
    }
    login = service_account.Credentials.from_service_account_info(
        account, scopes=["https://www.googleapis.com/auth/devstorage.read_write"]
    )
    client = storage.Client("project", login, client_options={"api_endpoint": url})
    path = os.path.join(folder, "data")
    with open(path, "wb") as file:
        file.write(DATA)
    blob = client.bucket("bucket").blob("as-ACCOUNT/in/parts")
    transfer_manager.upload_chunks_concurrently(
        path, blob, chunk_size=len(DATA) // 4, max_workers=2, worker_type=transfer_manager.THREAD, checksum="md5"
    )
    expect("the parts", server.bucket.objects["as-ACCOUNT/in/parts"], DATA)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        running = [stand_in("az"), stand_in("gs")]
        azure(running[0])
        google(running[1], place)
        for server in running:
            server.close()
    print("well", flush=True)
