"""Output of `astream_events` and `astream_log`, compared with langchain-core 1.7.2 for the same programs.

Two differences of foldline's models are written into the comparison: a stream ends with an empty chunk (as LangChain's
own providers' streams do, not its fake ones), and the end of a streamed run says the whole message, not a chunk.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from foldline.callbacks import adispatch_custom_event
from foldline.exceptions import UsageError
from foldline.language_models.fake_chat_models import FakeListChatModel
from foldline.runnables import Runnable, RunnableLambda

pytestmark = pytest.mark.timing

RECORDED = json.loads(
    (Path(__file__).parent / "langchain_events.json")
    .read_text()
    .replace("AIMessageChunk(", "AIMessage(")
    .replace("ChatGenerationChunk", "ChatGeneration")
)
LAST = "AIMessage('', id=lc_run--ID)"
"""The empty chunk that ends a stream."""


def without_last(events: list[Any]) -> list[Any]:
    """Leave out what tells of the empty chunk at the end."""
    shown_events = [
        event for event in events if not (isinstance(event, dict) and LAST in sources_of(event))
    ]
    shown_events = [
        event
        for event in shown_events
        if not (isinstance(event, dict) and event.get("value") == "")
    ]
    return [
        event
        for place, event in enumerate(shown_events)
        if place == 0 or event != shown_events[place - 1]
    ]


def sources_of(event: dict[str, Any]) -> list[Any]:
    return [event["value"]] if "value" in event else [(event["data"] or {}).get("chunk")]


def increment(x: int) -> int:
    return x + 1


def ask(x: str) -> str:
    return FakeListChatModel(responses=["ok"]).invoke(x).content


def fail(x: int) -> int:
    raise ValueError("no")


async def report(x: int, config: Any) -> int:
    await adispatch_custom_event("prog", {"x": x}, config=config)
    return x


def step_named(function: Any, name: str) -> Any:
    return RunnableLambda(function).with_config(run_name=name)


def programs() -> dict[str, tuple[Runnable[Any, Any], Any, dict[str, Any]]]:
    """The programs whose events were recorded: runnable, input, config."""
    model = FakeListChatModel(responses=["hi"])
    return {
        "lambda": (step_named(lambda x: x + 1, "one"), 1, {}),
        "seq": (
            step_named(increment, "inc") | RunnableLambda(lambda x: x * 2),
            1,
            {"tags": ["t"], "metadata": {"m": 1}},
        ),
        "model": (model, "hello", {}),
        "inner": (step_named(ask, "call"), "hello", {}),
        "err": (step_named(fail, "err"), 1, {}),
        "custom": (step_named(report, "cust"), 1, {"tags": ["q"]}),
        "modelseq": (
            step_named(lambda x: x, "p") | model | step_named(lambda m: m.content, "last"),
            "q",
            {},
        ),
    }


class Normal:
    """Writes values with ids numbered as they come, messages as text, times left out."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}

    def __call__(self, value: Any) -> Any:
        if isinstance(value, UUID | str) and re.fullmatch(
            r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", str(value)
        ):
            return self.ids.setdefault(str(value), f"id{len(self.ids)}")
        if isinstance(value, str) and re.match(r"20\d\d-\d\d-\d\dT", value):
            return "TIME"
        if isinstance(value, dict):
            return {key: self._field(key, item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self(item) for item in value]
        if hasattr(value, "content"):
            kind, said_by = (
                type(value).__name__.removesuffix("Chunk"),
                "lc_run--ID" if value.id else "None",
            )
            return f"{kind}({value.content!r}, id={said_by})"
        return value

    def _field(self, key: str, item: Any) -> Any:
        if key == "metadata" and isinstance(item, dict):
            return {name: value for name, value in item.items() if name == "m"}
        return self(item)


def events(call: Any, runnable: Any, input: Any, config: Any, **kwargs: Any) -> list[Any]:
    normal, normalized = Normal(), []

    async def read() -> None:
        async for event in runnable.astream_events(input, config, **kwargs):
            normalized.append(normal(event))  # noqa: PERF401  what came before an error counts

    try:
        if call.is_async:
            asyncio.run(read())
        else:
            for event in runnable.stream_events(input, config, **kwargs):
                normalized.append(normal(event))  # noqa: PERF401
    except ValueError as error:
        normalized.append(f"raised {error!r}")
    return normalized


@pytest.mark.slow
@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("name", list(RECORDED["v2"]))
def test_events_are_those_of_langchain(call: Any, name: str, version: str, no_leaks: Any):
    if name == "custom" and not call.is_async:
        name = "lambda"  # an async function has no blocking run
    runnable, input, config = programs()[name]

    assert (
        without_last(events(call, runnable, input, config, version=version))
        == RECORDED[version][name]
    )


@pytest.mark.parametrize("name", list(RECORDED["log"]))
def test_a_log_has_the_patches_of_langchain(name: str):
    runnable, input, config = programs()[name]
    normal, operations = Normal(), []

    async def read() -> None:
        async for patch in runnable.astream_log(input, config):
            operations.extend(normal(op) for op in patch.ops)

    try:
        asyncio.run(read())
    except ValueError as error:
        operations.append(f"raised {error!r}")

    assert without_last(operations) == RECORDED["log"][name]


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"include_names": ["inc"]}, {"inc"}),
        ({"include_tags": ["seq:step:2"]}, {"twice"}),
        ({"include_types": ["chat_model"]}, set()),
        ({"include_types": ["chain"]}, {"RunnableSequence", "inc", "twice"}),
        ({"exclude_names": ["inc"]}, {"RunnableSequence", "twice"}),
        ({"exclude_tags": ["seq:step:1", "seq:step:2"]}, {"RunnableSequence"}),
        ({"include_names": ["inc", "twice"], "exclude_names": ["inc"]}, {"twice"}),
    ],
)
def test_filters_show_what_they_name(call: Any, filters: dict[str, Any], names: set[str]):
    chain = step_named(increment, "inc") | step_named(lambda x: x * 2, "twice")

    shown_events = events(call, chain, 1, None, **filters)

    assert {event["name"] for event in shown_events} == names


def test_keyword_arguments_that_are_no_filters_reach_the_runnable(call: Any):
    def add(x: int, *, much: int) -> int:
        return x + much

    run_events = events(call, RunnableLambda(add), 1, None, much=5)

    assert run_events[-1]["data"] == {"output": 6}


def test_events_arrive_while_the_function_runs(call: Any):
    """A model called inside a plain function streams before the function returns."""
    event_names: list[str] = []

    def slow(x: str) -> str:
        answer = FakeListChatModel(responses=["ab"]).invoke(x).content
        deadline = time.monotonic() + 5
        while "on_chat_model_end" not in event_names and time.monotonic() < deadline:
            time.sleep(0.005)
        return "in time" if "on_chat_model_end" in event_names else answer

    runnable = RunnableLambda(slow)
    if not call.is_async:
        for event in runnable.stream_events("x"):
            event_names.append(event["event"])
            last = event
    else:

        async def read() -> Any:
            async for event in runnable.astream_events("x"):
                event_names.append(event["event"])
            return event

        last = asyncio.run(read())

    assert last["data"]["output"] == "in time"


@pytest.mark.slow
def test_a_reader_that_leaves_early_stops_the_run(call: Any, no_leaks: Any):
    values: list[int] = []

    def count(_: Any) -> Iterator[int]:
        for number in range(100_000):
            values.append(number)
            yield number

    runnable = RunnableLambda(count)
    if not call.is_async:
        stream = runnable.stream_events(1)
        next(stream), next(stream)
        stream.close()
    else:

        async def read() -> None:
            stream = runnable.astream_events(1)
            await anext(stream), await anext(stream)
            await stream.aclose()

        asyncio.run(read())

    assert len(values) < 100_000


def test_an_unknown_version_is_refused(call: Any):
    assert events(call, RunnableLambda(increment), 1, None, version="v9") == [
        'raised UsageError(\'astream_events knows the versions "v1" and "v2" '
        "(and \"v3\" of a chat model), not \\'v9\\'')"
    ]
    assert issubclass(UsageError, ValueError)


def test_v3_is_the_stream_of_a_chat_model(call: Any):
    model = FakeListChatModel(responses=["hi"])

    async def read() -> list[Any]:
        return [event async for event in await model.astream_events("x", version="v3")]

    message_events = (
        list(model.stream_events("x", version="v3")) if not call.is_async else asyncio.run(read())
    )

    assert (message_events[0]["event"], message_events[-1]["event"]) == (
        "message-start",
        "message-finish",
    )
