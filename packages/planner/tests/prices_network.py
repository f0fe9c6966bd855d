#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claim: `spotnik prices update` fetches lists from a server, asks for changes only, and a page that is missing, cut short or not
a list changes nothing of what is kept; without a network one sentence says so and what to do. The server is on this machine and
has the small lists of prices.py. Usage: prices_network.py SPOTNIK."""
import email.utils
import gzip
import http.server
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zlib

import prices as lists

LISTS = {"/v8/aws/vms.csv": lists.AWS, "/v8/gcp/vms.csv": lists.GCP, "/v8/azure/vms.csv": lists.AZURE,
         "/spot-advisor-data.json": json.dumps(lists.ADVISOR)}


class Pages(http.server.BaseHTTPRequestHandler):
    """Answers from `pages`: path -> {text, raw, mark, etag, modified, status, gzip, short, cut, to}; `asked` has (path, status) of every answer."""
    pages, asked = {}, []

    def do_GET(self):  # noqa: N802 (the name that http.server wants)
        page = self.pages.get(self.path)
        status = 404 if page is None else page.get("status", 200)
        body = b"" if page is None else page.get("raw", page.get("mark", b"") + page["text"].encode())
        if status == 200 and self.unchanged(page):
            status, body = 304, b""
        self.asked.append((self.path, status))
        self.send_response(status)
        for name, key in (("ETag", "etag"), ("Location", "to")):
            if page and key in page:
                self.send_header(name, page[key])
        if page and "modified" in page:
            self.send_header("Last-Modified", email.utils.formatdate(page["modified"], usegmt=True))
        if page and page.get("gzip") and body:
            body = gzip.compress(body)[:-page.get("short", 0) or None]  # short: the server's own copy ends early
            self.send_header("Content-Encoding", "gzip")
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:len(body) // 2] if page and page.get("cut") else body)

    def unchanged(self, page):
        if "etag" in page:
            return self.headers.get("If-None-Match") == page["etag"]
        since = self.headers.get("If-Modified-Since")
        return "modified" in page and since and email.utils.parsedate_to_datetime(since).timestamp() >= int(page["modified"])

    def log_message(self, *_):
        pass


class Silent(http.server.BaseHTTPRequestHandler):
    """Never ends an answer: says nothing, or a byte now and then, until the client goes. What it waits for is the client's end of the connection."""

    def do_GET(self):  # noqa: N802
        try:
            if self.path.startswith("/drip"):
                self.send_response(200)
                self.send_header("Content-Length", "1000000")
                self.end_headers()
            while not select.select([self.connection], [], [], 0.2)[0]:
                if self.path.startswith("/drip"):
                    self.wfile.write(b"a")
        except OSError:
            pass
        self.close_connection = True

    def log_message(self, *_):
        pass


class Case:
    def __init__(self, folder, root):
        self.root, self.kept = root, os.path.join(folder, "kept.csv")

    def run(self, *words, fails=None, env=None):
        clean = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
        done = subprocess.run([sys.argv[1], "prices", *words], capture_output=True, text=True, timeout=120,
                              env={**clean, "SPOTNIK_PRICES": self.kept, **(env or {})})
        assert done.returncode == (0 if fails is None else 1), (words, done)
        assert fails is None or fails in done.stderr, (words, fails, done.stderr)
        return done

    def update(self, **more):
        return self.run("update", "--mirror", self.root, **more)

    def text(self):
        with open(self.kept) as source:
            return source.read()


def serve(pages=Pages):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def fill(**more):
    Pages.asked.clear()
    Pages.pages = {path: {"text": text, **more} for path, text in LISTS.items()}


def changes_only(case):
    """By version, by date, or whole where a server says neither; what has not changed is still all there."""
    for facts, again in (({"etag": '"v1"'}, 304), ({"modified": time.time() - 3600}, 304), ({"etag": 'W/"v2"', "gzip": True}, 304), ({}, 200)):
        fill(**facts)
        first = case.update()
        rows = case.text()
        assert [status for _, status in Pages.asked] == [200] * 4, (facts, Pages.asked)
        Pages.asked.clear()
        second = case.update()
        assert [status for _, status in Pages.asked] == [again] * 4, (facts, Pages.asked)
        assert case.text() == rows and second.stdout == first.stdout
        assert ("unchanged since the last update" in second.stderr) == (again == 304), second.stderr
    fill(etag='"v3"')
    case.update()
    Pages.pages["/v8/aws/vms.csv"] = {"text": lists.AWS.replace(",3.0,1.0,", ",3.0,0.7,"), "etag": '"v4"'}
    case.update()
    assert ",0.7," in case.text()


def broken(case):
    """A list that is missing or broken is left out where the others do; one that was asked for changes nothing."""
    aws, url = "/v8/aws/vms.csv", case.root + "/v8/aws/vms.csv"
    for how, says in (({"status": 404}, "404"), ({"status": 500}, "500"), ({"cut": True}, "transfer closed"),
                      ({"text": "<html><body>Sign in</body></html>"}, "a web page, not a list"), ({"text": ""}, "empty"),
                      ({"text": lists.AWS[:-25]}, "vms.csv:"), ({"status": 302, "to": "http://example.org/vms.csv"}, "redirects to http://example.org/vms.csv, which is not https://"),
                      ({"status": 302, "to": "http://127.0.0.1:1@example.org/vms.csv"}, "which is not https://"),
                      ({"status": 302, "to": "/v8/aws/vms.csv"}, "redirects more than"), ({"gzip": True, "short": 12}, "the compressed page is cut short")):
        fill(etag='"v5"')
        case.update()
        rows, age = case.text(), os.path.getmtime(case.kept)
        Pages.pages[aws] = {"text": lists.AWS, "etag": '"v6"', **how}
        failed = case.run("update", "--from", url, fails=says)
        assert "the prices kept 0 min ago stay as they are" in failed.stderr, failed.stderr
        assert case.text() == rows and os.path.getmtime(case.kept) == age, how
        partly = case.update()
        assert "LEFT OUT: " + url in partly.stderr and "gcp: " in partly.stdout and "aws: " not in partly.stdout, (how, partly)
        # the broken page was not kept under its version: once it is mended it comes whole
        fill(etag='"v6"')
        case.update()
        assert (aws, 200) in Pages.asked and case.text() == rows, (how, Pages.asked)
    fill()  # Azure's list stands under an older number where it has not changed since
    Pages.pages["/v6/azure/vms.csv"] = Pages.pages.pop("/v8/azure/vms.csv")
    done = case.update()
    assert "azure: 1 offers" in done.stdout and "an older list is tried" in done.stderr and "LEFT OUT" not in done.stderr, done
    fill(status=503)
    case.update(fails="none of the lists could be used")


def elsewhere(case):
    """A list that has moved on this machine is found, and so is one with a byte-order mark; a mirror can be named once for all."""
    fill(etag='"v7"')
    case.update()
    rows = case.text()
    Pages.pages["/new/vms.csv"] = {"text": lists.AWS, "etag": '"v8"', "mark": b"\xef\xbb\xbf", "gzip": True}
    Pages.pages["/v8/aws/vms.csv"] = {"text": "moved", "status": 301, "to": "/new/vms.csv"}
    Pages.pages["/spot-advisor-data.json"]["mark"] = b"\xef\xbb\xbf"
    Pages.pages["/spot-advisor-data.json"]["etag"] = '"v8"'
    Pages.asked.clear()
    assert "LEFT OUT" not in case.update().stderr and case.text() == rows
    assert ("/new/vms.csv", 200) in Pages.asked, Pages.asked
    Pages.asked.clear()
    case.update()
    assert ("/new/vms.csv", 304) in Pages.asked and case.text() == rows, Pages.asked
    with tempfile.TemporaryDirectory() as other:  # somebody who has kept nothing cannot be told that nothing has changed
        Pages.pages["/new/vms.csv"]["status"] = 304
        Case(other, case.root).run("update", "--from", case.root + "/new/vms.csv", fails="the page is empty")
        del Pages.pages["/new/vms.csv"]["status"]
    Pages.asked.clear()
    case.run("update", env={"SPOTNIK_PRICES_MIRROR": case.root})
    assert len(Pages.asked) == 5 and case.text() == rows, Pages.asked
    case.run("update", env={"SPOTNIK_PRICES_MIRROR": "http://example.org"}, fails="SPOTNIK_PRICES_MIRROR is https://")


def wrong(case):
    """Pages that are whole and compressed rightly, but no lists; a page that is small until it is unpacked."""
    fill(etag='"v9"')
    case.update()
    rows = case.text()
    url = case.root + "/v8/aws/vms.csv"
    for text, says in (("{}", "neither"), ("[1, 2]", "neither"), ('{"message": "rate limit exceeded"}', "rate limit exceeded"), ("Not Found", "no rows"), ("a,b,c\n1,2,3\n", "column"),
                       (lists.AWS.splitlines()[0] + "\n", "no rows"), ("\0" * 5000, "vms.csv"), ("[" * 100000, "vms.csv"), ("InstanceType," * 20000, "vms.csv"), (" \n \n", "column")):
        for packed in (False, True):
            Pages.pages["/v8/aws/vms.csv"] = {"text": text, "etag": '"v10"', "gzip": packed}
            said = case.run("update", "--from", url, fails=says).stderr
            assert said.count("\n") == 1 and len(said) < 700 and case.text() == rows, (text[:60], said)
    packer, some = zlib.compressobj(wbits=31), b"a" * (1 << 20)
    Pages.pages["/v8/aws/vms.csv"] = {"text": "", "raw": b"".join(packer.compress(some) for _ in range(257)) + packer.flush()}
    case.run("update", "--from", url, fails="larger than 256 MiB")
    assert case.text() == rows


def silent(case):
    """A server that says nothing, or a byte now and then, is given up, and the others are asked all the same."""
    server = serve(Silent)
    root = f"http://127.0.0.1:{server.server_port}"
    fill()
    case.update()
    rows = case.text()
    for path in ("/mute.csv", "/drip.csv"):
        said = case.run("update", "--timeout", "1s", "--from", root + path, fails="the server is silent, or too slow").stderr
        assert "--timeout" in said and "stay as they are" in said and said.count("\n") == 1 and case.text() == rows, said
    Pages.pages["/v8/aws/vms.csv"] = {"text": "", "status": 302, "to": root + "/mute.csv"}
    partly = case.run("update", "--timeout", "1s", "--mirror", case.root)
    assert "LEFT OUT: " + case.root + "/v8/aws/vms.csv" in partly.stderr and "gcp: " in partly.stdout, partly
    server.shutdown()


def old(case):
    """What has not changed for weeks is told."""
    fill(modified=time.time() - 40 * 86400)
    assert "note: " + case.root + "/v8/aws/vms.csv has not changed for 40 days" in case.update().stderr
    fill(modified=time.time() - 3600)
    assert "has not changed" not in case.update().stderr


def no_network(case):
    with socket.socket() as free:  # a port that nobody listens on
        free.bind(("127.0.0.1", 0))
        case.run("update", "--mirror", f"http://127.0.0.1:{free.getsockname()[1]}", fails="is there a network? Try again with one, or give files")
    with tempfile.TemporaryDirectory() as other:
        empty = Case(other, case.root)
        said = empty.run("update", "--mirror", "https://spotnik.invalid", fails="is there a network?").stderr
        assert "stay as they are" not in said and said.count("\n") == 1, said
    for url in ("http://127.0.0.1.example.org/x", "http://example.org/x", "ftp://127.0.0.1/x", "http://127.0.0.1:80@example.org/x"):
        case.run("update", "--from", url, fails="only https://, files, and http:// of this machine")


def main(folder):
    server = serve()
    case = Case(folder, f"http://127.0.0.1:{server.server_port}")
    for check in (changes_only, broken, elsewhere, wrong, silent, old, no_network):
        check(case)
        print("ok", check.__name__, flush=True)
    server.shutdown()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="spotnik-prices-network-") as scratch:
        main(scratch)
