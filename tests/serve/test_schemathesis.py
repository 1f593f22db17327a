"""Schemathesis over the OpenAPI document of a server: whatever fits the document, or nearly, gets no 500."""

from __future__ import annotations

from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode

from tests.serve.process import ServeProcess

SECONDS = 30.0
ENDLESS = ("/threads/{thread_id}/stream/events",)
"""Streams that stay open for the next run."""
EXAMPLES = {GenerationMode.POSITIVE: 10, GenerationMode.NEGATIVE: 5}


@pytest.fixture(scope="module")
def api_schema(server: ServeProcess) -> Any:
    """The operations of a running server, as its own document describes them."""
    return schemathesis.openapi.from_url(f"{server.url}/openapi.json")


def send(operation: Any, mode: GenerationMode, statuses: set[int]) -> None:
    """Send valid and invalid requests of an operation."""

    @settings(
        max_examples=EXAMPLES[mode],
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case: Any) -> None:
        arguments = case.as_transport_kwargs()
        with requests.request(**arguments, timeout=SECONDS, stream=True) as answer:
            statuses.add(answer.status_code)
            text = "" if operation.path in ENDLESS else answer.text
        assert answer.status_code < 500, f"{case.as_curl_command()}\n{text[:500]}"

    check()


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_no_request_of_the_document_fails_the_server(
    api_schema: Any, server: ServeProcess, mode: GenerationMode
) -> None:
    before = len(server.stderr())  # other tests make runs of this server fail
    statuses: set[int] = set()
    failures: list[str] = []
    operations = [result.ok() for result in api_schema.get_all_operations()]
    for operation in operations:
        try:
            send(operation, mode, statuses)
        except AssertionError as error:
            failures.append(f"{operation.label}: {error}")
    assert failures == []
    assert len(operations) > 60
    assert {200, 400, 404} <= statuses if mode is GenerationMode.POSITIVE else 400 in statuses
    assert "Traceback" not in server.stderr()[before:]


@pytest.mark.slow
def test_the_document_names_every_route_and_the_apps(api_schema: Any) -> None:
    paths = api_schema.raw_schema["paths"]
    assert {"/v1/chat/completions", "/runs/{run_id}/events", "/agui/{app}", "/{app}/invoke"} <= set(
        paths
    )
    body = paths["/v1/chat/completions"]["post"]["requestBody"]["content"]["application/json"]
    assert "chat" in body["schema"]["properties"]["model"]["enum"]
