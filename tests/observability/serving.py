# SPDX-License-Identifier: Apache-2.0
"""Claims, on a real job: every member serves metrics that Prometheus' own checker accepts, its status and whether it is
well; any member names all others; a loss shows in the counters of the survivors and in the event log, which outlives
everybody; strangers' names are refused on loopback, and without the token nothing of the job is told.

    serving.py SPOTNIK WORKER
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys

from lib import Job, get, metric, port_of, skip, wait_for

TOKEN = "correct horse battery"


def check_with_promtool(text: str) -> None:
    if not shutil.which("promtool"):
        print("promtool is not installed: the names of metrics were not checked with it (Debian: prometheus)")
        return
    done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True, check=False)
    assert done.returncode == 0 and not done.stderr.strip(), done.stdout + done.stderr
    bad = subprocess.run(["promtool", "check", "metrics"], input="# TYPE spotnik_x counter\nspotnik_x 1\n", text=True,
                         capture_output=True, check=False)
    assert bad.returncode != 0, "promtool finds nothing wrong with anything"
    print("promtool check metrics: nothing to say")


def check_documented(text: str) -> None:
    """docs/reference/metrics.md has every metric with its kind and its help, and no other."""
    with open(os.path.join(os.environ["SPOTNIK_ROOT"], "docs/reference/metrics.md"), encoding="utf-8") as file:
        written = {name: (kind, meaning) for name, kind, meaning in re.findall(r"^\| `(\w+)` \| (\w+) \| [^|]* \| (.*) \|$", file.read(), flags=re.M)}
    meaning = dict(re.findall(r"^# HELP (\w+) (.*)$", text, flags=re.M))
    served = {name: (kind, meaning[name]) for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", text, flags=re.M)}
    wrong = {name for name in served.keys() | written.keys() if served.get(name) != written.get(name)}
    assert len(served) > 30 and not wrong, f"docs/reference/metrics.md and /metrics differ in {sorted(wrong)}"


def one_job(spotnik: str, worker: str) -> None:
    with Job(spotnik, ["-n", "2:3", "--respawn"], [worker, "-s", "1000000", "-u", "2000"],
             {"SPOTNIK_EVENTS": "events", "SPOTNIK_PRICE": "0.36"}) as job:
        events = job.path("events")
        pages = wait_for("three pages", lambda: len(found := port_of(job, events)) >= 3 and found)
        page = f"http://{pages[0]}"
        assert json.loads(get(page + "/status.json")[1])["job"] == "spotnik", "the first question is answered, too"
        wait_for("a view of three", lambda: "spotnik_members 3" in get(page + "/metrics")[1])
        text = get(page + "/metrics")[1]
        check_with_promtool(text)
        check_documented(text)
        assert get(page + "/healthz")[0] == 200
        wait_for("a member that is ready", lambda: get(page + "/readyz")[0] == 200)  # not at once: the view has just changed
        status = json.loads(get(page + "/status.json")[1])
        assert status["size"] == 3 and status["dollars_per_hour"] == 0.36
        wait_for("all pages named by one member",
                 lambda: set(json.loads(get(page + "/targets.json")[1])[0]["targets"]) == set(pages))

        assert get(page + "/nothing")[0] == 404
        assert get(page + "/metrics", host="evil.example:80")[0] == 403
        assert get(page + "/", host="evil.example:80")[0] == 200, "the empty page is nobody's secret"

        before = metric(text, "spotnik_losses_total")
        ended = metric(text, 'spotnik_losses_by_cause_total{cause="ended"}')
        mine = json.loads(get(page + "/status.json")[1])["pid"]
        victim = next(pid for pid in job.workers() if pid != mine)
        os.kill(victim, signal.SIGKILL)
        wait_for("the loss in the metrics", lambda: metric(get(page + "/metrics")[1], "spotnik_losses_total") == before + 1)
        assert metric(get(page + "/metrics")[1], 'spotnik_losses_by_cause_total{cause="ended"}') == ended + 1
        assert metric(get(page + "/metrics")[1], 'spotnik_stalls_total{of="step"}') == 0
        text = get(page + "/metrics")[1]
        assert metric(text, 'spotnik_recovery_duration_seconds_count{phase="total"}') == 1
        assert metric(text, "spotnik_lost_work_seconds_total") > 0
        assert 0.1 < metric(text, "spotnik_goodput_ratio") <= 1
        assert metric(text, "spotnik_cost_dollars_total") > 0
        address = wait_for("the newcomer's page", lambda: next((one for one in port_of(job, events) if one not in pages), None))
        newcomer = f"http://{address}"
        wait_for("what the newcomer was told of the past", lambda: '"event":"lost"' in get(newcomer + "/job.json")[1])
        told = json.loads(get(newcomer + "/job.json")[1])
        epochs = [event["epoch"] for event in told["events"] if event["id"] == "S112"]
        assert len(epochs) == len(set(epochs)) == 1, f"one loss is one event, whoever tells of it: {epochs}"
        job.process.send_signal(signal.SIGTERM)
        assert job.process.wait(60) == 75
        lines = job.events(events)
        lost = [line for line in lines if line["id"] == "S112"]
        assert lost and all(line["count"] == 1 and line["total_ms"] > 0 for line in lost), lost
        assert sum(line["id"] == "S101" for line in lines) == 3, "each that left in good order says so"
        assert sum(line["id"] == "S100" for line in lines) == 4
        print(f"metrics, status, targets, {len(lines)} lines of the event log: well")


def with_token(spotnik: str, worker: str) -> None:
    with Job(spotnik, ["-n", "1"], [worker, "-s", "1000000", "-u", "2000"], {"SPOTNIK_HTTP": "0.0.0.0:0"}) as job:
        assert job.process.wait(60) != 0
        assert "SPOTNIK_HTTP_TOKEN_FILE" in job.said("out") + job.said("err"), job.said()
    with Job(spotnik, ["-n", "1"], ["sh", "-c", f'printf "%s\\n" "{TOKEN}" >token; exec "$@"', "sh", worker, "-s", "1000000", "-u", "2000"],
             {"SPOTNIK_HTTP": "0.0.0.0:0", "SPOTNIK_HTTP_TOKEN_FILE": "token", "SPOTNIK_EVENTS": "events"}) as job:
        page = "http://" + wait_for("a page", lambda: port_of(job, job.path("events")))[0].replace("0.0.0.0", "127.0.0.1")
        for path in ("/metrics", "/status.json", "/job.json", "/targets.json", "/events"):
            assert get(page + path)[0] == 401, path
            assert get(page + path, token=TOKEN + "x")[0] == 401, path
        assert get(page + "/metrics", token=TOKEN)[0] == 200
        assert "spotnik_members" in get(page + "/metrics", token=TOKEN)[1]
        assert get(page + "/")[0] == 200 and get(page + "/healthz")[0] == 200
    print("beyond loopback: refused without a token, and answered with it alone")


def main() -> None:
    spotnik, worker = map(os.path.abspath, sys.argv[1:3])
    if os.environ.get("SPOTNIK_TEST_HAVE_HTTP") == "0":
        skip("built without libmicrohttpd's header (Debian: libmicrohttpd-dev)")
    one_job(spotnik, worker)
    with_token(spotnik, worker)


if __name__ == "__main__":
    main()
