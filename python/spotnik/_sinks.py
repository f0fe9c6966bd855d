# SPDX-License-Identifier: Apache-2.0
"""Where ``spotnik.tracking`` puts the job's numbers: TensorBoard, Weights & Biases, MLflow, OpenTelemetry.

Each is one run over all lives of the job: what names the run is kept, and the next reader goes on with it.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import secrets
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional, Protocol

__all__ = ["MLflow", "OpenTelemetry", "Sink", "TensorBoard", "WandB"]

_PHASES = ("reconcile", "accept", "restart", "commit")


class Sink(Protocol):
    """Where numbers go."""

    run: str  # what a later reader needs to go on with the run; "" for none

    def scalar(self, name: str, value: float, step: int, date: float) -> None:
        """Take one number of a step."""

    def event(self, event: dict[str, Any]) -> None:
        """Take an event as it is in the log."""

    def close(self) -> None:
        """Write out what is held back. An exception: nothing of it counts as passed on."""


class TensorBoard:
    """Scalars under ``spotnik/``; needs PyTorch and tensorboard."""

    run = ""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise SystemExit("spotnik.tracking: TensorBoard is missing: pip install torch tensorboard") from None
        self._writer = SummaryWriter(str(folder))

    def scalar(self, name: str, value: float, step: int, date: float) -> None:
        """Write one number."""
        self._writer.add_scalar(f"spotnik/{name}", value, step, walltime=date)

    def event(self, event: dict[str, Any]) -> None:
        """Nothing: TensorBoard has numbers only."""

    def close(self) -> None:
        """Write out what is held back."""
        self._writer.close()


class WandB:
    """Metrics under ``spotnik/`` over ``spotnik/step``, in one run of a project; needs wandb."""

    def __init__(self, project: str, run: str, name: str) -> None:
        try:
            wandb: Any = importlib.import_module("wandb")
        except ImportError:
            raise SystemExit("spotnik.tracking: wandb is missing: pip install wandb") from None
        self.run = run or secrets.token_hex(4)
        self._run = wandb.init(project=project, id=self.run, name=name, resume="allow")
        self._run.define_metric("spotnik/step")
        self._run.define_metric("spotnik/*", step_metric="spotnik/step")

    def scalar(self, name: str, value: float, step: int, date: float) -> None:
        """Log one number."""
        self._run.log({f"spotnik/{name}": value, "spotnik/step": step, "spotnik/date": date})

    def event(self, event: dict[str, Any]) -> None:
        """Nothing: what is a number has come as one."""

    def close(self) -> None:
        """Wait until all is sent."""
        self._run.finish()


class MLflow:
    """Metrics under ``spotnik/`` in one run of an experiment; needs mlflow, or mlflow-skinny and a server.

    MLFLOW_TRACKING_URI says where. OSError when it does not take them, as with every sink.
    """

    def __init__(self, experiment: str, run: str, name: str) -> None:
        try:
            entities: Any = importlib.import_module("mlflow.entities")
            tracking: Any = importlib.import_module("mlflow.tracking")
            self._refused: type[Exception] = importlib.import_module("mlflow.exceptions").MlflowException
        except ImportError:
            raise SystemExit("spotnik.tracking: MLflow is missing: pip install mlflow-skinny, or mlflow") from None
        self._client, self._metric = tracking.MlflowClient(), entities.Metric
        self._held: list[Any] = []
        with self._told():
            found = self._client.get_experiment_by_name(experiment)
            number = found.experiment_id if found else self._client.create_experiment(experiment)
            self.run = run or self._client.create_run(number, run_name=name).info.run_id
            self._client.update_run(self.run, status="RUNNING")

    def scalar(self, name: str, value: float, step: int, date: float) -> None:
        """Hold one number back; MLflow takes a thousand at once."""
        self._held.append(self._metric(f"spotnik/{name}", value, int(date * 1000), step))

    def event(self, event: dict[str, Any]) -> None:
        """Nothing: what is a number has come as one."""

    def close(self) -> None:
        """Send what was held back."""
        with self._told():
            for first in range(0, len(self._held), 1000):
                self._client.log_batch(self.run, metrics=self._held[first : first + 1000])
            self._client.update_run(self.run, status="FINISHED")

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Make an OSError of what MLflow says of a server that is away, so that a reader goes on."""
        try:
            yield
        except self._refused as error:
            raise OSError(str(error)) from error


class OpenTelemetry:
    """Gauges, and a trace for each recovery with a span for each of its phases, as OTLP/HTTP in JSON. Needs nothing."""

    run = ""

    def __init__(self, endpoint: str, job: str, headers: Optional[dict[str, str]] = None) -> None:
        self._endpoint, self._headers = endpoint.rstrip("/"), headers or {}
        self._resource = {"attributes": _attributes({"service.name": "spotnik", "spotnik.job": job})}
        self._points: dict[str, list[dict[str, Any]]] = {}
        self._spans: list[dict[str, Any]] = []

    def scalar(self, name: str, value: float, step: int, date: float) -> None:
        """Hold one number back."""
        point = {"timeUnixNano": _nano(date), "asDouble": value, "attributes": _attributes({"spotnik.step": step})}
        self._points.setdefault("spotnik." + name.replace("/", "."), []).append(point)

    def event(self, event: dict[str, Any]) -> None:
        """Hold the spans of a recovery back."""
        if event.get("event") == "lost" and event.get("total_ms"):
            self._spans += _recovery(event)

    def close(self) -> None:
        """Send what was held back. OSError when the collector does not take it."""
        scope = {"name": "spotnik"}
        if self._points:
            metrics = [{"name": name, "gauge": {"dataPoints": points}} for name, points in sorted(self._points.items())]
            told = {"resource": self._resource, "scopeMetrics": [{"scope": scope, "metrics": metrics}]}
            self._post("metrics", {"resourceMetrics": [told]})
        if self._spans:
            traces = {"resource": self._resource, "scopeSpans": [{"scope": scope, "spans": self._spans}]}
            self._post("traces", {"resourceSpans": [traces]})

    def _post(self, what: str, body: dict[str, Any]) -> None:
        headers = {"Content-Type": "application/json", **self._headers}
        request = urllib.request.Request(f"{self._endpoint}/v1/{what}", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=30):
            pass


def _nano(date: float) -> str:
    return str(int(date * 1e6) * 1000)


def _attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    """As OTLP's JSON has them: 64-bit numbers are strings there."""
    found = []
    for key, value in values.items():
        kind = "intValue" if isinstance(value, int) else "stringValue"
        found.append({"key": key, "value": {kind: str(value)}})
    return found


def _recovery(event: dict[str, Any]) -> list[dict[str, Any]]:
    """Spans of a recovery, which ended when the event says: the whole, and its phases one after the other.

    The ids come from the view: a reader that begins anew sends the same spans again, and no others.
    """
    key = hashlib.sha256(f"{event.get('job', '')} {event.get('epoch')} {event.get('member', '')}".encode()).hexdigest()
    end = float(event["t"])
    at = end - float(event["total_ms"]) / 1000
    base = {"traceId": key[:32], "kind": 1}
    facts: dict[str, Any] = {name: event[name] for name in ("step", "epoch", "size", "count") if name in event}
    whole = {**base, "spanId": key[32:48], "name": "recovery", "attributes": _attributes(facts)}
    spans = [{**whole, "startTimeUnixNano": _nano(at), "endTimeUnixNano": _nano(end)}]
    for number, name in enumerate(_PHASES):
        until = at + float(event.get(f"{name}_ms", 0)) / 1000
        own = hashlib.sha256(f"{key} {number}".encode()).hexdigest()[:16]
        span = {"spanId": own, "parentSpanId": key[32:48], "name": name, "startTimeUnixNano": _nano(at)}
        spans.append({**base, **span, "endTimeUnixNano": _nano(until)})
        at = until
    return spans
