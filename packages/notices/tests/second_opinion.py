#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The metadata service of moto, which others wrote: a second opinion on the token part of AWS. Claims: moto takes the
request for a token, which says for how long; the next question has the token that moto gave; moto's failure on
spot/instance-action, which it lacks, is no notice.

    second_opinion.py SPOTNIK (by tests/mocks.sh)"""

import logging
import os
import subprocess
import sys
import threading

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

logging.disable(logging.CRITICAL)  # moto logs each question
DAY_S = 21_600  # AWS gives no token for longer
moto, asked = DomainDispatcherApplication(create_backend_app), []


def service(environ, start_response):
    header = {name: environ.get(f"HTTP_X_AWS_EC2_METADATA_TOKEN{name}") for name in ("", "_TTL_SECONDS")}
    statuses = []
    try:
        body = list(moto(environ, lambda status, *more: statuses.append(status) or start_response(status, *more)))
    except Exception as error:  # moto says so of what it lacks
        statuses.append(f"500 {error}")
        start_response("500 it is not there", [("Content-Length", "0")])
        body = []
    asked.append((environ["REQUEST_METHOD"], environ["PATH_INFO"], header, statuses[-1][:3], b"".join(body).decode()))
    return body


server = make_server("127.0.0.1", 0, service, threaded=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
env = {**os.environ, "SPOTNIK_IMDS_ENDPOINT": f"http://127.0.0.1:{server.server_port}"}
done = subprocess.run([sys.argv[1], "notice", "--from", "aws"], capture_output=True, text=True, env=env, timeout=60)
if done.returncode or "no notice from: aws" not in done.stdout:
    sys.exit(f"FAILED: {done}")
(method, path, header, status, token), (_, then, with_it, _, _) = asked[:2]
if (method, path, status) != ("PUT", "/latest/api/token", "200") or not 1 <= int(header["_TTL_SECONDS"]) <= DAY_S:
    sys.exit(f"FAILED: asked for a token: {asked[0]}")
if then != "/latest/meta-data/spot/instance-action" or with_it[""] != token or not token:
    sys.exit(f"FAILED: used the token: {asked[1]}")
print(f"moto gave a token for {header['_TTL_SECONDS']} s, and the next question had it")
