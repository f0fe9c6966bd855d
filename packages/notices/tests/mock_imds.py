#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The metadata services of three clouds, whose answers change by orders from standard input; it ends with that input.
The rules (tokens, headers, tags) are those of the real services. The first line printed is the address; each order is
printed back once it holds.

    mock_imds.py [--listen ADDRESS:PORT] [--clouds aws,gcp,azure] [--name NAME]

    aws action terminate|stop|hibernate [WHEN]   aws rebalance   aws expire-tokens   aws clear
    gcp preempted   gcp maintenance VALUE   gcp clear
    azure event TYPE MACHINE [WHEN] [Scheduled|Started]   azure clear
    all fail STATUS   all hang   all well

WHEN is +SECONDS; another word is passed on as it is. GET /mock/seen tells how many questions there were."""

import argparse
import http.server
import json
import secrets
import sys
import threading
import time
import urllib.parse

ISO, HTTP = "%Y-%m-%dT%H:%M:%SZ", "%a, %d %b %Y %H:%M:%S GMT"
NOTHING = (404, "", {})


def date(word, form):
    if not word.startswith("+"):
        return word
    return time.strftime(form, time.gmtime(time.time() + float(word[1:])))


class Clouds:
    """What holds now. `changed` guards it, and wakes the questions that wait."""

    def __init__(self, clouds, name):
        self.clouds, self.name = clouds, name
        self.changed = threading.Condition()
        self.tokens, self.action, self.rebalance = {}, None, None
        self.gcp = {"preempted": ("FALSE", "tag1"), "maintenance-event": ("NONE", "tag1")}
        self.events, self.incarnation = [], 1
        self.fail, self.hang = 0, False
        self.seen = {"asked": 0, "acknowledged": 0}

    # ---- orders ----

    def order(self, line):
        whose, what, *rest = line.split()
        with self.changed:
            getattr(self, f"order_{whose}")(what, *rest)
            self.changed.notify_all()

    def order_aws(self, what, *rest):
        if what == "action":
            self.action = {"action": rest[0], "time": date(rest[1] if rest[1:] else "+120", ISO)}
        elif what == "rebalance":
            self.rebalance = {"noticeTime": date("+0", ISO)}
        elif what == "expire-tokens":
            self.tokens = {}
        else:
            self.action = self.rebalance = None

    def order_gcp(self, what, *rest):
        def put(name, value):
            self.gcp[name] = (value, "tag" + secrets.token_hex(8))

        if what == "clear":
            put("preempted", "FALSE")
        if what == "preempted":
            put("preempted", "TRUE")
        else:
            put("maintenance-event", rest[0] if rest else "NONE")

    def order_azure(self, what, *rest):
        self.incarnation += 1
        if what == "clear":
            self.events = []
            return
        kind, machine, when, status = [*rest, *["+30", "Scheduled"][len(rest) - 2 :]]
        self.events.append(
            {
                "EventId": f"EVENT-{self.incarnation}",
                "EventStatus": status,
                "EventType": kind,
                "ResourceType": "VirtualMachine",
                "Resources": [machine],
                "NotBefore": "" if status == "Started" else date(when, HTTP),
                "EventSource": "Platform",
                "DurationInSeconds": -1,
            }
        )

    def order_all(self, what, *rest):
        self.fail, self.hang = int(rest[0]) if what == "fail" else 0, what == "hang"

    # ---- answers: (status, body, headers); None: not yet ----

    def answer(self, method, url, headers, asked):
        if url.path == "/mock/seen":
            return 200, json.dumps(self.seen), {}
        if self.hang:
            return None
        if self.fail:
            return self.fail, "", {}
        for cloud, prefix in (("aws", "/latest/"), ("gcp", "/computeMetadata/v1/instance/"), ("azure", "/metadata/")):
            if cloud in self.clouds and url.path.startswith(prefix):
                ask = urllib.parse.parse_qs(url.query)
                return getattr(self, f"answer_{cloud}")(method, url.path.removeprefix(prefix), ask, headers, asked)
        return NOTHING

    def answer_aws(self, method, path, ask, headers, asked):
        now = time.monotonic()
        if path == "api/token":
            ttl = headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
            if method != "PUT" or "X-Forwarded-For" in headers:
                return 403, "", {}
            if not ttl.isdigit() or not 1 <= int(ttl) <= 21600:
                return 400, "", {}
            token = secrets.token_urlsafe(40)
            self.tokens[token] = now + int(ttl)
            return 200, token, {"X-aws-ec2-metadata-token-ttl-seconds": ttl}
        if self.tokens.get(headers.get("X-aws-ec2-metadata-token"), 0) <= now:
            return 401, "", {}
        found = {
            "meta-data/spot/instance-action": self.action,
            "meta-data/events/recommendations/rebalance": self.rebalance,
        }.get(path)
        return (200, json.dumps(found), {}) if found else NOTHING

    def answer_gcp(self, method, path, ask, headers, asked):
        if headers.get("Metadata-Flavor") != "Google":
            return 403, "Missing Metadata-Flavor:Google header.", {}
        if path not in self.gcp:
            return NOTHING
        value, tag = self.gcp[path]
        waits = ask.get("wait_for_change") == ["true"] and ask.get("last_etag") == [tag]
        if waits and time.monotonic() < asked + float(ask["timeout_sec"][0]):
            return None
        return 200, value, {"Metadata-Flavor": "Google", "ETag": tag}

    def answer_azure(self, method, path, ask, headers, asked):
        if headers.get("Metadata", "").lower() != "true" or "api-version" not in ask:
            return 400, '{"error":"Required metadata header or api-version not specified"}', {}
        if path == "instance/compute/name":
            return 200, self.name, {}
        if path != "scheduledevents":
            return NOTHING
        self.seen["acknowledged"] += method == "POST"
        return 200, json.dumps({"DocumentIncarnation": self.incarnation, "Events": self.events}), {}


class Question(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        clouds, asked, url = self.server.clouds, time.monotonic(), urllib.parse.urlsplit(self.path)
        with clouds.changed:
            clouds.seen["asked"] += not url.path.startswith("/mock/")
            while not (answer := clouds.answer(self.command, url, self.headers, asked)):
                clouds.changed.wait(1)
        status, body, headers = answer
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())

    do_PUT = do_POST = do_GET

    def log_message(self, *words):
        pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--listen", default="127.0.0.1:0")
    parser.add_argument("--clouds", default="aws,gcp,azure")
    parser.add_argument("--name", default="vm-0")
    asked = parser.parse_args()
    address, port = asked.listen.split(":")
    with http.server.ThreadingHTTPServer((address, int(port)), Question) as server:
        server.clouds = Clouds(asked.clouds.split(","), asked.name)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(f"http://{address}:{server.server_port}", flush=True)
        for line in sys.stdin:
            server.clouds.order(line)
            print(line.strip(), flush=True)
        server.shutdown()


main()
