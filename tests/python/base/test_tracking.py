# SPDX-License-Identifier: Apache-2.0
"""The event log as others want it: each event once, whoever reads it again; and TensorBoard's own reader."""

from __future__ import annotations

import http.server
import importlib
import json
import os
import subprocess
import sys
import threading
import urllib.parse
from pathlib import Path
from typing import Any, Optional

import pytest

from spotnik import tracking


def line(t: float, event: str, **more: Any) -> str:
    return json.dumps({"t": t, "event": event, "step": int(t), "size": 3, **more}) + "\n"


class Kept:
    run = ""

    def __init__(self) -> None:
        self.numbers: list[tuple[str, float, int]] = []

    def scalar(self, name: str, value: float, step: int, date: float) -> None:
        self.numbers.append((name, value, step))

    def event(self, event: dict[str, Any]) -> None:
        pass

    def close(self) -> None:
        pass


def test_each_event_once_over_restarts(tmp_path: Path) -> None:
    events, kept = tmp_path / "events", tmp_path / "kept.json"
    events.mkdir()
    half = '{"t": 5, "ev'
    (events / "a.jsonl").write_text(line(1, "lost", epoch=4) + line(3, "sample", steps_per_s=9) + half)
    (events / "b.jsonl").write_text(line(2, "lost", epoch=4, total_ms=8.5))
    log = tracking.Log(tmp_path, kept)
    assert [event["t"] for event in log.events()] == [1, 3], "a view counts once, by date"
    log.keep()
    with open(events / "a.jsonl", "a", encoding="ascii") as file:
        file.write('ent": "sample", "step": 5, "size": 2}\n')
    (events / "c.jsonl").write_text(line(4, "lost", epoch=4, total_ms=1) + line(6, "lost", epoch=5, total_ms=2))
    again = tracking.Log(tmp_path, kept)
    assert [event["t"] for event in again.events()] == [5, 6]
    assert again.events() == []


def test_numbers_of_events() -> None:
    sink = Kept()
    tracking.pass_on(json.loads(line(8, "sample", steps_per_s=2.5, goodput=0.9, observed={"loss": 0.25})), sink)
    tracking.pass_on(json.loads(line(9, "lost", total_ms=4.5)), sink)
    assert tracking.pass_on(json.loads(line(9, "started")), sink) == 0
    assert sink.numbers == [
        ("steps_per_s", 2.5, 8),
        ("goodput", 0.9, 8),
        ("observed/loss", 0.25, 8),
        ("members", 3.0, 8),
        ("recovery_ms", 4.5, 9),
        ("members", 3.0, 9),
    ]


def test_tensorboard_reads_one_run(tmp_path: Path) -> None:
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    pytest.importorskip("torch")
    runs = tmp_path / "runs"
    for number in (10, 20):  # a second life, and a second reader
        sample = line(number, "sample", steps_per_s=number, observed={"loss": 1 / number})
        (tmp_path / f"{number}.jsonl").write_text(sample)
        done = subprocess.run(
            [sys.executable, "-m", "spotnik.tracking", str(tmp_path), "--tensorboard", str(runs)],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == "1 events, 3 numbers\n"
    board = accumulators.EventAccumulator(str(runs))
    board.Reload()
    assert [(scalar.step, scalar.value) for scalar in board.Scalars("spotnik/steps_per_s")] == [(10, 10.0), (20, 20.0)]
    assert board.Scalars("spotnik/observed/loss")[1].wall_time == 20


class Collector:
    """Stands in for an OpenTelemetry collector: takes OTLP/HTTP in JSON, and refuses what is not."""

    def __init__(self, status: int = 200) -> None:
        self.taken: dict[str, list[dict[str, Any]]] = {"/v1/metrics": [], "/v1/traces": []}
        taken = self.taken

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                good = self.path in taken and self.headers["Content-Type"] == "application/json"
                if good and status == 200:
                    taken[self.path].append(body)
                self.send_response(status if good else 400)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def track(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "spotnik.tracking", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **settings})


def some_events(folder: Path) -> None:
    phases = {"reconcile_ms": 1.0, "accept_ms": 2.0, "restart_ms": 0.0, "commit_ms": 5.0, "total_ms": 8.0}
    text = line(1700000010, "sample", steps_per_s=4.0) + line(1700000020, "lost", epoch=4, count=1, **phases)
    (folder / "a.jsonl").write_text(text)


def test_collector_gets_metrics_and_traces(tmp_path: Path) -> None:
    some_events(tmp_path)
    collector = Collector()
    done = track(str(tmp_path), "--otlp", collector.url, "--name", "job-7")
    assert done.returncode == 0, done.stderr
    assert track(str(tmp_path), "--otlp", collector.url).stdout == "0 events, 0 numbers\n", "each once"
    collector.close()
    (metrics,), (traces,) = collector.taken["/v1/metrics"], collector.taken["/v1/traces"]
    resource = metrics["resourceMetrics"][0]
    assert {"key": "spotnik.job", "value": {"stringValue": "job-7"}} in resource["resource"]["attributes"]
    named = {metric["name"]: metric["gauge"]["dataPoints"] for metric in resource["scopeMetrics"][0]["metrics"]}
    assert named["spotnik.steps_per_s"][0]["asDouble"] == 4.0
    assert named["spotnik.steps_per_s"][0]["timeUnixNano"] == "1700000010000000000"
    spans = traces["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert [span["name"] for span in spans] == ["recovery", "reconcile", "accept", "restart", "commit"]
    whole, phases = spans[0], spans[1:]
    assert int(whole["endTimeUnixNano"]) - int(whole["startTimeUnixNano"]) == pytest.approx(8e6, abs=2000)
    assert {span["traceId"] for span in spans} == {whole["traceId"]} and len(whole["traceId"]) == 32
    assert all(span["parentSpanId"] == whole["spanId"] for span in phases)
    assert len({span["spanId"] for span in spans}) == 5


def test_otlp_is_what_its_protocol_says(tmp_path: Path) -> None:
    metrics_service = pytest.importorskip("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")
    trace_service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    json_format = pytest.importorskip("google.protobuf.json_format")
    some_events(tmp_path)
    collector = Collector()
    assert track(str(tmp_path), "--otlp", collector.url).returncode == 0
    collector.close()
    json_format.ParseDict(collector.taken["/v1/metrics"][0], metrics_service.ExportMetricsServiceRequest())
    json_format.ParseDict(collector.taken["/v1/traces"][0], trace_service.ExportTraceServiceRequest())


def test_what_a_collector_refuses_is_sent_again(tmp_path: Path) -> None:
    some_events(tmp_path)
    refusing = Collector(status=503)
    done = track(str(tmp_path), "--otlp", refusing.url)
    refusing.close()
    assert done.returncode == 1 and "not passed on" in done.stdout
    collector = Collector()
    assert track(str(tmp_path), "--otlp", collector.url).stdout.startswith("2 events")
    collector.close()


def test_a_log_in_a_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(os.environ["SPOTNIK_ROOT"]) / "tests/stores"))
    server = importlib.import_module("stand_ins").stand_in("s3")
    parts = server.bucket.objects
    settings = {**server.environment, "XDG_CACHE_HOME": str(tmp_path)}
    collector, where = Collector(), ("s3://bucket/job/events", "--otlp")
    parts["job/events/a.000000.jsonl"] = line(1, "lost", epoch=4, total_ms=8.5).encode()
    assert track(*where, collector.url, **settings).stdout == "1 events, 2 numbers\n"
    parts["job/events/a.000001.jsonl"] = line(2, "sample", steps_per_s=3.0).encode()
    assert track(*where, collector.url, **settings).stdout == "1 events, 2 numbers\n", "each once"
    server.close()
    away = track(*where, collector.url, **settings)
    assert away.returncode == 1 and "not passed on: spotnik report: cannot copy" in away.stdout, away
    collector.close()


def two_lives(folder: Path, *arguments: str, **settings: str) -> str:
    """A reader of each of two lives of a job; returns the name of the run, which is one."""
    run = ""
    for life in (1, 2):
        (folder / f"{life}.jsonl").write_text(line(1700000000 + life, "sample", steps_per_s=float(life)))
        done = track(str(folder), *arguments, **settings)
        assert done.returncode == 0, done.stderr
        kept = json.loads(next(folder.glob("tracking-*.json")).read_text())["run"]
        run = run or kept
        assert kept == run != ""
    return run


class MLflowServer:
    """Stands in for an MLflow server: experiments, runs and metrics by its REST interface; 404 for anything else."""

    def __init__(self) -> None:
        self.experiments: dict[str, str] = {}
        self.runs: dict[str, dict[str, Any]] = {}
        self.metrics: list[tuple[str, str, float, int, int]] = []
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                url = urllib.parse.urlsplit(self.path)
                self.answer(url.path, dict(urllib.parse.parse_qsl(url.query)))

            def do_POST(self) -> None:
                self.answer(self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def answer(self, path: str, asked: dict[str, Any]) -> None:
                name = path.removeprefix("/api/2.0/mlflow/").replace("/", "_").replace("-", "_")
                method = getattr(server, name, None)
                found = method(asked) if path.startswith("/api/2.0/mlflow/") and method else None
                missing = {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": path}
                body = json.dumps(missing if found is None else found).encode()
                self.send_response(404 if found is None else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def experiments_get_by_name(self, asked: dict[str, Any]) -> Optional[dict[str, Any]]:
        number = self.experiments.get(asked["experiment_name"])
        told = {"experiment_id": number, "name": asked["experiment_name"], "lifecycle_stage": "active"}
        return {"experiment": told} if number else None

    def experiments_create(self, asked: dict[str, Any]) -> dict[str, Any]:
        self.experiments[asked["name"]] = str(len(self.experiments) + 1)
        return {"experiment_id": self.experiments[asked["name"]]}

    def runs_create(self, asked: dict[str, Any]) -> Optional[dict[str, Any]]:
        run = f"run{len(self.runs)}"
        self.runs[run] = {"run_id": run, "run_uuid": run, "status": "RUNNING", "lifecycle_stage": "active", **asked}
        return self.runs_get({"run_id": run})

    def runs_get(self, asked: dict[str, Any]) -> Optional[dict[str, Any]]:
        found = self.runs.get(asked["run_id"])
        return found and {"run": {"info": found, "data": {}}}

    def runs_update(self, asked: dict[str, Any]) -> Optional[dict[str, Any]]:
        found = self.runs.get(asked["run_id"])
        return found and {"run_info": found.update(status=asked["status"]) or found}

    def runs_log_batch(self, asked: dict[str, Any]) -> Optional[dict[str, Any]]:
        if asked["run_id"] not in self.runs:
            return None
        for metric in asked["metrics"]:
            self.metrics.append((asked["run_id"], *(metric[name] for name in ("key", "value", "timestamp", "step"))))
        return {}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def test_mlflow_has_one_run(tmp_path: Path) -> None:
    """MLflow's own client (mlflow, or mlflow-skinny, which has no database) against a server that stands in."""
    pytest.importorskip("mlflow.tracking", reason="MLflow is optional; dev/python.sh installs mlflow-skinny")
    nobody = Collector()
    nobody.close()
    (tmp_path / "0.jsonl").write_text(line(1700000000, "sample", steps_per_s=0.5))
    retries = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
    away = track(str(tmp_path), "--mlflow", "churn", MLFLOW_TRACKING_URI=nobody.url, **retries)
    assert away.returncode == 1 and "not passed on" in away.stdout and "Traceback" not in away.stderr, away
    server = MLflowServer()
    run = two_lives(tmp_path, "--mlflow", "churn", MLFLOW_TRACKING_URI=server.url)
    server.close()
    assert list(server.experiments) == ["churn"]
    told = [(name, found["status"], found["run_name"]) for name, found in server.runs.items()]
    assert told == [(run, "FINISHED", tmp_path.name)]
    speeds = [metric[2:] for metric in server.metrics if metric[:2] == (run, "spotnik/steps_per_s")]
    assert speeds == [(value, 1000 * date, date) for value, date in zip((0.5, 1.0, 2.0), range(1700000000, 1700000003))]


def test_mlflow_on_a_database(tmp_path: Path) -> None:
    client = pytest.importorskip("mlflow.tracking").MlflowClient
    pytest.importorskip("sqlalchemy", reason="a database needs all of mlflow; mlflow-skinny has none")
    place = f"sqlite:///{tmp_path}/mlflow.db"
    run = two_lives(tmp_path, "--mlflow", "churn", MLFLOW_TRACKING_URI=place)
    told = client(tracking_uri=place)
    experiment = told.get_experiment_by_name("churn")
    assert [found.info.run_id for found in told.search_runs([experiment.experiment_id])] == [run]
    assert [metric.value for metric in told.get_metric_history(run, "spotnik/steps_per_s")] == [1.0, 2.0]


def test_wandb_has_one_run(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    run = two_lives(tmp_path, "--wandb", "churn", WANDB_MODE="offline", WANDB_DIR=str(tmp_path), WANDB_SILENT="true")
    assert len(list((tmp_path / "wandb").glob(f"offline-run-*-{run}"))) == 2, "two lives, one id"
