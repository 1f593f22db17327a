"""Traces as other programs read them: OTLP as JSON, JSON lines, and a test made from a recorded run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Literal

from foldline.exceptions import UsageError
from foldline.tracers._otel_attributes import (
    COST,
    SCORE_EVENT,
    answer_attributes,
    content_attributes,
    open_span,
    score_attributes,
)
from foldline.tracers._redact import Redactor
from foldline.tracers._rows import StoredRun
from foldline.tracers._run_fields import field_of
from foldline.utils.json import to_jsonable

__all__ = ["Format", "all_runs", "export_trace", "run_to_json"]

Format = Literal["otel", "jsonl", "pytest"]
KINDS = {"internal": 1, "client": 3}
"""Kinds of spans in OTLP."""
ERROR = 2


def export_trace(root: StoredRun, form: Format) -> str:
    """Return a trace as text of a form."""
    if form == "otel":
        return json.dumps(trace_to_otlp(root), ensure_ascii=False) + "\n"
    if form == "jsonl":
        lines = (json.dumps(run_to_json(run), ensure_ascii=False) for run in all_runs(root))
        return "\n".join(lines) + "\n"
    return _test_of(root)


def all_runs(root: StoredRun) -> Iterator[StoredRun]:
    """Yield a run and all below it, in the order of a tree."""
    yield root
    for child in root.child_runs:
        if isinstance(child, StoredRun):
            yield from all_runs(child)


def run_to_json(run: StoredRun) -> dict[str, Any]:
    """Return a run as JSON values, without the runs below it."""
    return {
        "id": str(run.id),
        "trace_id": str(run.trace_id),
        "parent_run_id": None if run.parent_run_id is None else str(run.parent_run_id),
        "name": run.name,
        "run_type": run.run_type,
        "start_time": run.start_time.isoformat(),
        "end_time": None if run.end_time is None else run.end_time.isoformat(),
        "seconds": run.latency,
        "time_to_first_token": run.time_to_first_token,
        "provider": run.provider,
        "model": run.model,
        "usage": run.usage if run.run_type == "llm" else None,
        "cost": run.cost,
        "session_id": run.session_id,
        "thread_id": run.thread_id,
        "user_id": run.user_id,
        "tags": run.tags,
        "error": run.error,
        "error_class": run.error_class,
        "error_message": run.error_message,
        "status": run.status,
        "interrupts": to_jsonable(run.interrupts),
        "incomplete": run.incomplete,
        "revision": run.revision,
        "config": to_jsonable(run.config),
        "inputs": to_jsonable(run.inputs),
        "outputs": to_jsonable(run.outputs),
        "request": to_jsonable(run.request),
        "extra": to_jsonable(run.extra),
        "events": to_jsonable(run.events),
        "scores": run.scores,
    }


# -- OpenTelemetry


def trace_to_otlp(root: StoredRun) -> dict[str, Any]:
    """Return a trace as OTLP's JSON: what `POST /v1/traces` of a collector takes."""
    redactor = Redactor()
    trace_id = root.id.hex
    spans = [_span(run, trace_id, redactor) for run in all_runs(root)]
    resource = {"attributes": [_attribute("service.name", "foldline")]}
    scope = {"name": "foldline"}
    return {
        "resourceSpans": [
            {"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]},
        ]
    }


def _span(run: StoredRun, trace_id: str, redactor: Redactor) -> dict[str, Any]:
    name, kind, attributes = open_span(run)
    if run.run_type == "llm":
        attributes |= answer_attributes(run)
    elif run.cost is not None:
        attributes[COST] = run.cost
    if run.status is not None:
        attributes["foldline.run.status"] = run.status
    if run.incomplete:
        attributes["foldline.trace.incomplete"] = True
    attributes |= content_attributes(run, redactor)
    span: dict[str, Any] = {
        "traceId": trace_id,
        "spanId": run.id.hex[-16:],
        "name": name,
        "kind": KINDS[kind],
        "startTimeUnixNano": _nanoseconds(run.start_time),
        "endTimeUnixNano": _nanoseconds(run.end_time or run.start_time),
        "events": _events(run),
    }
    if run.parent_run_id is not None:
        span["parentSpanId"] = run.parent_run_id.hex[-16:]
    if run.error is not None:
        attributes["error.type"] = run.error_class or "Exception"
        span["status"] = {"code": ERROR, "message": redactor.text(run.error.split("\n", 1)[0])}
    span["attributes"] = [_attribute(key, value) for key, value in attributes.items()]
    return span


def _events(run: StoredRun) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [
        {
            "name": SCORE_EVENT,
            "timeUnixNano": str(int(score["time"] * 1_000_000_000)),
            "attributes": [
                _attribute(key, value)
                for key, value in score_attributes(
                    score["name"], score["value"], score["comment"]
                ).items()
            ],
        }
        for score in run.scores
    ]
    if run.first_token_time is not None:
        first = {"name": "gen_ai.first_token", "timeUnixNano": _nanoseconds(run.first_token_time)}
        events.insert(0, first)
    return events


def _nanoseconds(time: datetime) -> str:
    return str(int(time.timestamp() * 1_000_000) * 1_000)


def _attribute(key: str, value: object) -> dict[str, Any]:
    return {"key": key, "value": _any_value(value)}


def _any_value(value: object) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list | tuple):
        return {"arrayValue": {"values": [_any_value(item) for item in value]}}
    return {"stringValue": str(value)}


# -- a test


TEST = '''"""Made by `foldline traces {short} --export pytest` from a run of {date}: {name}.

The recording is in this file: the model answers as it did then, and fails the test where it is asked something else.
Put your own chain or agent in the place of the model to test the code around it.
"""

import json

from foldline.load import load
from foldline.testing._recorded import RecordedChatModel

CALLS = json.loads(
    r"""
{calls}
"""
)
"""The messages to the model and its answers, by call."""


def test_{slug}():
    model = RecordedChatModel.of(CALLS)

    for call in CALLS:
        messages, answer = load(call["messages"]), load(call["answer"])
        result = model.invoke(messages)
        assert result.content == answer.content
        assert result.tool_calls == answer.tool_calls
    assert model.calls_left == 0
'''


def _test_of(root: StoredRun) -> str:
    calls = [call for run in all_runs(root) if run.run_type == "llm" and (call := _call_of(run))]
    if not calls:
        raise UsageError(
            f"{root.name}: no call of a chat model in this trace has an answer to make a test of"
        )
    text = json.dumps(calls, indent=2, ensure_ascii=True).replace('"""', "\\u0022\\u0022\\u0022")
    slug = "".join(char if char.isalnum() else "_" for char in root.name.lower()).strip("_")
    return TEST.format(
        short=str(root.id)[-8:],
        date=root.start_time.date().isoformat(),
        name=root.name.replace('"', "'").replace("\\", "/"),
        calls=text,
        slug=slug or "trace",
    )


def _call_of(run: StoredRun) -> dict[str, Any] | None:
    batches = run.inputs.get("messages")
    generations = (run.outputs or {}).get("generations")
    if not batches or not generations or not generations[0]:
        return None
    answer = generations[0][0].get("message")
    if answer is None or run.error is not None or field_of(answer, "content") is None:
        return None
    return {"messages": batches[0], "answer": answer}
