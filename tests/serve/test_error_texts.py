"""What reaches a client of the text of an error: three kinds alone, on every API."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import BaseModel, ValidationError

from foldline.embeddings import Embeddings
from foldline.exceptions import (
    BudgetExceeded,
    ContextOverflowError,
    FlowError,
    LimitExceededError,
    ModelInvalidRequestError,
    SchemaError,
    SecurityError,
    UsageError,
)
from foldline.graph import END, START, MessagesState, StateGraph
from foldline.messages import AIMessage
from foldline.prompts import ChatPromptTemplate
from foldline.runnables import RunnableLambda
from foldline.serve import PublicError, create_app
from foldline.testing import ScriptedChatModel

HIDDEN = "the table customers_2026 at /srv/internal"


class Order(BaseModel):
    customers_2026: int


def validation_error() -> ValidationError:
    try:
        Order(customers_2026="/srv/internal")  # type: ignore[arg-type]
    except ValidationError as error:
        return error
    raise AssertionError


ERRORS: dict[str, tuple[Any, int]] = {
    "usage": (UsageError(HIDDEN), 500),
    "flow": (FlowError(HIDDEN), 500),
    "schema": (SchemaError(HIDDEN), 500),
    "security": (SecurityError(HIDDEN), 500),
    "limit": (LimitExceededError(HIDDEN), 500),
    "validation": (validation_error(), 500),
    "value": (ValueError(HIDDEN), 500),
    "budget": (BudgetExceeded(HIDDEN), 402),
    "invalid": (ModelInvalidRequestError(HIDDEN), 400),
    "overflow": (ContextOverflowError(HIDDEN), 400),
    "public": (PublicError("no seats are left", status=409), 409),
}
MESSAGES = [{"role": "user", "content": "hi"}]
UI = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "hi"}]}
AGUI = {"threadId": "t", "runId": "r", "state": {}, "tools": [], "context": [], "forwardedProps": {},
        "messages": [{"id": "1", "role": "user", "content": "hi"}]}  # fmt: skip
REQUESTS: dict[str, tuple[str, Any]] = {
    "chat": ("/v1/chat/completions", {"model": "app", "messages": MESSAGES}),
    "chat stream": ("/v1/chat/completions", {"model": "app", "stream": True, "messages": MESSAGES}),
    "responses": ("/v1/responses", {"model": "app", "input": "hi"}),
    "messages": ("/v1/messages", {"model": "app", "max_tokens": 9, "messages": MESSAGES}),
    "runs": ("/runs", {"app": "app", "input": {"messages": MESSAGES}, "wait": True}),
    "runs stream": ("/runs", {"app": "app", "input": {"messages": MESSAGES}, "stream": True}),
    "langserve": ("/app/invoke", {"input": {"messages": MESSAGES}}),
    "langserve stream": ("/app/stream", {"input": {"messages": MESSAGES}}),
    "langserve batch": ("/app/batch", {"inputs": [{"messages": MESSAGES}]}),
    "langgraph": ("/runs/wait", {"assistant_id": "app", "input": {"messages": MESSAGES}}),
    "vercel": ("/api/chat/app", {"id": "c", "messages": [UI]}),
    "agui": ("/agui/app", AGUI),
    "mcp": (
        "/mcp",
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
         "params": {"name": "app", "arguments": {"message": "hi"}}},
    ),
}  # fmt: skip


def failing_graph(error: Exception) -> Any:
    async def fail(_: MessagesState) -> Any:
        raise error

    builder = StateGraph(MessagesState)
    builder.add_node("fail", fail)
    builder.add_edge(START, "fail")
    builder.add_edge("fail", END)
    return builder.compile()


def post(app: Any, *requests: tuple[str, Any]) -> list[httpx.Response]:
    async def main() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=app)
        headers = {"accept": "application/json, text/event-stream"}
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(
                transport=transport, base_url="http://localhost", headers=headers, timeout=30
            ) as client,
        ):
            return [await client.post(path, json=body) for path, body in requests]

    return asyncio.run(main())


def serve(tmp_path: Path, target: Any) -> Any:
    return create_app({"app": target}, log=str(tmp_path / "runs.db"), studio=False)


@pytest.mark.parametrize("kind", ERRORS)
def test_S47_the_text_of_an_error_inside_a_run_stays_on_the_server(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    error, status = ERRORS[kind]
    caplog.set_level(logging.WARNING, "foldline.serve")
    answers = post(serve(tmp_path, failing_graph(error)), *REQUESTS.values())

    statuses = {name: answer.status_code for name, answer in zip(REQUESTS, answers, strict=True)}
    for name, answer in zip(REQUESTS, answers, strict=True):
        assert "customers_2026" not in answer.text, name
        assert "/srv/internal" not in answer.text, name
        assert ("no seats are left" in answer.text) is (kind == "public"), name
    assert statuses["chat"] == statuses["runs"] == statuses["langserve"] == status
    if status == 500:
        assert "the app failed: run " in answers[0].text
    if kind != "public":
        assert "customers_2026" in caplog.text


def test_S47_a_failed_embedding_keeps_its_text(tmp_path: Path) -> None:
    class Vectors(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            raise UsageError(HIDDEN)

        def embed_query(self, text: str) -> list[float]:
            raise UsageError(HIDDEN)

    (answer,) = post(
        serve(tmp_path, Vectors()), ("/v1/embeddings", {"model": "app", "input": "hi"})
    )
    assert (answer.status_code, "customers" in answer.text) == (500, False)


@pytest.mark.parametrize(
    ("target", "value", "text"),
    [
        (ScriptedChatModel(script=["x"]), 3, "messages are a list"),
        (ScriptedChatModel(script=["x"]), {"messages": []}, "the input has no message"),
        (failing_graph(ValueError()), {"nonsense": 1}, "not a key of the state"),
        (failing_graph(ValueError()), [3], "an object with some of messages"),
        (
            ChatPromptTemplate([("human", "{one} {two}")]) | ScriptedChatModel(script=["x"]),
            {"one": 1},
            "the input has no two",
        ),
    ],
)
def test_S47_an_input_that_does_not_fit_is_told_before_the_run(
    tmp_path: Path, target: Any, value: Any, text: str
) -> None:
    app = serve(tmp_path, target)
    answers = post(
        app, ("/app/invoke", {"input": value}), ("/runs", {"app": "app", "input": value})
    )
    for answer in answers:
        assert (answer.status_code, text in answer.text) == (400, True), answer.text


def test_S47_an_input_of_one_field_may_be_given_as_it_is(tmp_path: Path) -> None:
    chain = ChatPromptTemplate([("human", "{one}")]) | ScriptedChatModel(script=["x"])
    (answer,) = post(serve(tmp_path, chain), ("/app/invoke", {"input": "hi"}))
    assert answer.status_code == 200


def test_S47_a_public_error_has_the_status_that_the_app_gives(tmp_path: Path) -> None:
    def book(seats: int) -> AIMessage:
        raise PublicError(f"{seats} seats are too many", status=422)

    (answer,) = post(serve(tmp_path, RunnableLambda(book)), ("/app/invoke", {"input": 12}))
    assert (answer.status_code, "12 seats are too many" in answer.text) == (422, True)
    with pytest.raises(UsageError, match="the statuses are 400, 401"):
        PublicError("x", status=200)
