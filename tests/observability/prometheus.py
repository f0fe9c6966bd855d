# SPDX-License-Identifier: Apache-2.0
"""Claims: the alert rules are well formed, and each fires when it should and not otherwise; a real Prometheus finds all members
of a churned job through one of them, and counts what happened; every query of the Grafana dashboard has an answer from it, and
asks for no metric that there is not.

    prometheus.py SPOTNIK CHARLM
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.parse
from typing import Any

from lib import Job, get, port_of, skip, wait_for

ROOT = os.environ["SPOTNIK_ROOT"]
RULES = os.path.join(ROOT, "packaging/prometheus/spotnik-alerts.yml")
DASHBOARD = os.path.join(ROOT, "packaging/grafana/spotnik.json")


def check_rules() -> None:
    done = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "7 rules found" in done.stdout, done.stdout + done.stderr
    with open(os.path.join(ROOT, "tests/observability/alerts_test.yml"), encoding="utf-8") as file:
        played = file.read().replace("RULES", RULES)
    with tempfile.TemporaryDirectory(prefix="spotnik-alerts-") as folder:
        path = os.path.join(folder, "test.yml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(played)
        done = subprocess.run(["promtool", "test", "rules", path], capture_output=True, text=True, check=False)
        assert done.returncode == 0 and "SUCCESS" in done.stdout, done.stdout + done.stderr
        with open(path, "w", encoding="utf-8") as file:
            file.write(played.replace("spotnik_parked{instance=\"a\",job_name=\"j\"}', values: '0x100 1x100", "spotnik_parked{instance=\"a\",job_name=\"j\"}', values: '0x100 0x100"))
        done = subprocess.run(["promtool", "test", "rules", path], capture_output=True, text=True, check=False)
        assert done.returncode != 0, "the test of the alerts finds nothing wrong with anything"
    print("alerts: seven rules, each fires when it should, none for a job that is well")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Prometheus:
    """A server of our own, in a folder of its own."""

    def __init__(self, page: str) -> None:
        self.folder = tempfile.mkdtemp(prefix="spotnik-prometheus-")
        self.url = f"http://127.0.0.1:{free_port()}"
        config = {"global": {"scrape_interval": "500ms", "evaluation_interval": "1s"}, "rule_files": [RULES],
                  "scrape_configs": [{"job_name": "spotnik", "http_sd_configs": [{"url": f"{page}/targets.json", "refresh_interval": "1s"}]}]}
        with open(os.path.join(self.folder, "prometheus.yml"), "w", encoding="utf-8") as file:
            json.dump(config, file)  # JSON is YAML
        self.log = open(os.path.join(self.folder, "log"), "wb")
        self.process = subprocess.Popen(["prometheus", f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data",
                                         f"--web.listen-address={self.url[7:]}"], stdout=self.log, stderr=self.log)

    def __enter__(self) -> Prometheus:
        wait_for("Prometheus", lambda: get(self.url + "/-/ready")[0] == 200)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def query(self, expression: str) -> list[dict[str, Any]]:
        status, text = get(f"{self.url}/api/v1/query?query={urllib.parse.quote(expression)}")
        assert status == 200, f"{expression}: {text}"
        result: list[dict[str, Any]] = json.loads(text)["data"]["result"]
        return result

    def up(self) -> set[str]:
        """Whom the last scrape found: one that has just died is among them for a moment."""
        return {series["metric"]["instance"] for series in self.query('up{job="spotnik"} == 1')}

    def value(self, expression: str) -> float:
        found = self.query(expression)
        return float(found[0]["value"][1]) if found else float("nan")


def check_dashboard(server: Prometheus, metrics: str) -> None:
    with open(DASHBOARD, encoding="utf-8") as file:
        dashboard = json.load(file)
    assert dashboard["__inputs"][0]["name"] == "DS_PROMETHEUS"
    known = set(re.findall(r"^(spotnik_\w+)[{ ]", metrics, flags=re.M))
    queries = [target["expr"].replace("$job", "spotnik") for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(queries) > 15
    for query in queries:
        unknown = set(re.findall(r"spotnik_\w+", query)) - known
        assert not unknown, f"{query} asks for {unknown}"
        wait_for(f"an answer to {query}", lambda query=query: server.query(query), 40)
    print(f"dashboard: {len(queries)} queries have answers")


def check_job(spotnik: str, charlm: str) -> None:
    with Job(spotnik, ["-n", "2:3", "--respawn"], [charlm, "--quiet", "--steps", "0", "--batch", "64"],
             {"SPOTNIK_EVENTS": "events", "SPOTNIK_PRICE": "1", "SPOTNIK_CHECKPOINT": "checkpoints", "SPOTNIK_CHECKPOINT_S": "2"}) as job:
        pages = wait_for("three pages", lambda: len(found := port_of(job, job.path("events"))) >= 3 and found)
        page = f"http://{pages[0]}"
        told = json.loads(wait_for("the status", lambda: get(page + "/status.json")[1]))["pid"]
        with Prometheus(page) as server:
            wait_for("three targets", lambda: server.value('count(up{job="spotnik"} == 1)') == 3)
            wait_for("one view of three", lambda: server.value("count(spotnik_members == 3)") == 3)
            wait_for("one number of it", lambda: server.value("max(spotnik_view_hash) - min(spotnik_view_hash)") == 0)
            for number in (1, 2):
                before = server.up()
                os.kill(next(pid for pid in job.workers() if pid != told), signal.SIGKILL)
                wait_for(f"loss {number}", lambda number=number: server.value("max(spotnik_losses_total)") == number)
                wait_for("the newcomer among the targets", lambda before=before: len(up := server.up()) == 3 and up != before)
            assert {series["metric"]["job_name"] for series in server.query("spotnik_step")} == {"spotnik"}
            check_dashboard(server, get(page + "/metrics")[1])
            rules = json.loads(get(server.url + "/api/v1/rules")[1])["data"]["groups"][0]["rules"]
            ill = [rule["name"] for rule in rules if rule["health"] == "err"]
            assert not ill, ill
        print("Prometheus: found all members through one of them, and saw two losses")


def main() -> None:
    if not shutil.which("promtool") or not shutil.which("prometheus"):
        skip("no Prometheus here (Debian: prometheus)")
    check_rules()
    if os.environ.get("SPOTNIK_TEST_HAVE_HTTP") == "0":
        skip("built without libmicrohttpd's header (Debian: libmicrohttpd-dev)")
    check_job(*map(os.path.abspath, sys.argv[1:3]))


if __name__ == "__main__":
    main()
