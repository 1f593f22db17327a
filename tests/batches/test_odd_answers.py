"""Batches of a server that answers nonsense: errors are typed, good rows are kept, and the key stays with its host."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from foldline._io import ASYNC, BLOCKING, IO
from foldline._io.drive import drive
from foldline.batches._provider_batches import _number_of
from foldline.batches.records import Part
from foldline.exceptions import FoldlineError, MalformedStreamError, SecurityError
from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.google import ChatGoogle, _batches as google_batches
from foldline.providers.openai import ChatOpenAI
from tests.servers import Answer
from tests.servers.fixtures import fault_server, fault_server_process  # noqa: F401
from tests.servers.script import json_answer

PART = Part(id=1, tag="t", provider_id=None, size=1, made_at=0.0)
PATHS = {
    "openai": ("/files", "/batches", "/batches/b1", "/batches/b1/cancel", "/files/f/content"),
    "anthropic": tuple(f"/v1/messages/batches{end}" for end in ("", "/b1", "/b1/cancel", "/b1/results")),
    "google": ("/models/m:batchGenerateContent", "/batches", "/b1", "/b1:cancel"),
}  # fmt: skip
NONSENSE: list[Any] = [
    [], "x", 7, None, {}, {"id": None, "name": None}, {"id": 5, "name": 5, "data": 5, "operations": 5},
    {"id": "a", "name": "a", "request_counts": [1], "data": [1], "operations": [1], "metadata": [1], "errors": 5},
    {"id": "a", "request_counts": {"x": "y", "completed": "z"}, "data": [{"id": 5, "request_counts": {"a": "q"}}],
     "operations": [{"metadata": 5}], "has_more": True, "nextPageToken": 5},
    {"id": ["a"], "status": "completed", "processing_status": "ended", "output_file_id": ["f"],
     "metadata": {"state": "BATCH_STATE_SUCCEEDED", "output": [5]}, "response": 5},
    {"id": "b1", "status": "failed", "errors": {"data": [5]}, "metadata": {"state": "FAILED"}, "error": 5},
]  # fmt: skip


def api_of(vendor: str, url: str) -> Any:
    classes: dict[str, Any] = {
        "openai": ChatOpenAI,
        "anthropic": ChatAnthropic,
        "google": ChatGoogle,
    }
    model = classes[vendor](model="m", api_key="canary", base_url=url, max_retries=0)
    return model._batch_api()


@pytest.fixture(params=["openai", "anthropic", "google"])
def vendor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def io_of(call: Any) -> IO:
    return ASYNC if call.is_async else BLOCKING


def run(call: Any, work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work) if call.is_async else drive(work)


async def read(api: Any, io: Any) -> list[Any]:
    status = await api.status("b1", io)
    if status.state != "ended":
        return []
    return [answer async for answer in api.answers(status, io)]


@pytest.mark.parametrize("body", NONSENSE, ids=lambda body: json.dumps(body)[:40])
def test_an_answer_of_another_format_is_a_typed_error(call, fault_server, vendor, body):
    api, io = api_of(vendor, fault_server.url), io_of(call)
    for path in PATHS[vendor]:
        fault_server.script(path, json_answer(body))
    steps = {
        "submit": lambda: api.submit([b"{}"], PART, "models/m:x", io),
        "find": lambda: api.find(PART, [], io),
        "cancel": lambda: api.cancel("b1", io),
        "read": lambda: read(api, io),
    }
    failures: dict[str, MalformedStreamError] = {}
    for name, step in steps.items():
        try:
            run(call, step())
        except MalformedStreamError as error:
            failures[name] = error
    assert failures or "b1" in body.values()
    if "submit" in failures:
        assert failures["submit"].is_retryable, "the batch may exist: look for it"


ENDED = {
    "openai": {"id": "b1", "status": "completed", "output_file_id": "f"},
    "anthropic": {"id": "b1", "processing_status": "ended"},
    "google": {"metadata": {"state": "BATCH_STATE_SUCCEEDED"}, "response": {"responsesFile": "f"}},
}
GOOD_ROW = {
    "openai": {"custom_id": "t-1", "response": {"status_code": 200, "body": {}}},
    "anthropic": {"custom_id": "t-1", "result": {"type": "succeeded", "message": {}}},
    "google": {"key": "t-1", "response": {}},
}
BAD_ROWS: list[Any] = [
    5, [], None, {"custom_id": "t-2", "key": "t-2", "result": 5, "response": {"status_code": "x"}, "error": 5},
    {"custom_id": "t-3", "result": {"type": "errored", "error": "x"}, "error": {"code": "zz"}, "response": 5},
]  # fmt: skip


@pytest.mark.parametrize(
    ("vendor", "is_inline"),
    [("openai", False), ("anthropic", False), ("google", False), ("google", True)],
)
def test_rows_that_cannot_be_read_cost_no_others(call, fault_server, vendor, is_inline):
    path = {
        "openai": "/files/f/content",
        "anthropic": "/v1/messages/batches/b1/results",
        "google": "/download/v1/f:download",
    }[vendor]
    ended: dict[str, Any] = ENDED[vendor]
    if is_inline:
        rows = [*BAD_ROWS, {"metadata": {"key": "t-1"}, "response": {}}, {"metadata": 5}]
        ended = {**ended, "response": {"inlinedResponses": {"inlinedResponses": rows}}}
    lines = b"\n".join(json.dumps(row).encode() for row in [*BAD_ROWS, GOOD_ROW[vendor]])
    url = f"{fault_server.url}/v1" if vendor == "google" else fault_server.url
    fault_server.script(path, Answer([lines[:7], lines[7:60], lines[60:]], framing="chunked"))
    status_path = {
        "openai": "/batches/b1",
        "anthropic": "/v1/messages/batches/b1",
        "google": "/v1/b1",
    }
    fault_server.script(status_path[vendor], json_answer(ended))

    answers = run(call, read(api_of(vendor, url), io_of(call)))

    assert [answer.status for answer in answers if answer.custom_id == "t-1"] == [200]


def test_a_long_line_of_results_takes_time_in_proportion(fault_server):
    row = {**GOOD_ROW["openai"], "filler": "x" * 30_000_000}
    fault_server.script("/batches/b1", json_answer(ENDED["openai"]))
    fault_server.script("/files/f/content", json_answer(row))

    began = time.process_time()
    answers = drive(read(api_of("openai", fault_server.url), BLOCKING))

    assert len(answers) == 1
    assert time.process_time() - began < 2


@pytest.mark.parametrize("name", ["{other}/steal", "//other/steal", "../steal", "b?x=http://y"])
def test_F_H08_the_key_goes_to_no_address_that_a_batch_names(call, fault_server, name):
    name = name.format(other=fault_server.other_url)
    fault_server.script("/models/m:batchGenerateContent", json_answer({"name": name}))
    fault_server.script("/steal", json_answer({}))
    api, io = api_of("google", fault_server.url), io_of(call)

    identifier = run(call, api.submit([b"{}"], PART, "models/m:x", io))
    with pytest.raises(FoldlineError):
        run(call, api.status(identifier, io))

    assert fault_server.hits("/steal") == 0


def test_F_H08_an_upload_goes_to_no_other_host(call, fault_server, monkeypatch):
    monkeypatch.setattr(google_batches, "INLINE_BYTES", 0)
    target = f"{fault_server.other_url}/steal"
    answer = json_answer({}, headers={"x-goog-upload-url": target})
    fault_server.script("/upload/v1/files", answer)
    fault_server.script("/steal", json_answer({"file": {"name": "files/f"}}))
    api = api_of("google", f"{fault_server.url}/v1")

    with pytest.raises(SecurityError, match="another host"):
        run(call, api.submit([b"{}"], PART, "models/m:x", io_of(call)))

    assert fault_server.hits("/steal") == 0


@pytest.mark.parametrize(
    "number", ["\u00b2", "9" * 5000, "-1", "1.0", ""], ids=lambda text: text[:5]
)
def test_a_number_that_is_none_is_of_no_item(number):
    assert _number_of(f"t-{number}", PART) is None
    assert _number_of("t-7", PART) == 7
