"""Calls an author's methods in AIGNE's style: `process`, `preprocess`, `postprocess`, sync or async.

A request becomes the record they get, and what they return becomes a request, events or a message again.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from typing import Any, cast

from foldline._run import Run
from foldline._streams.answer import Batch
from foldline.language_models._call.call_options import read_option_names
from foldline.language_models._call.model import CallModel
from foldline.language_models._call.request import ChatRequest
from foldline.language_models._call.settings import option_names
from foldline.language_models.records.invoke_options import AgentInvokeOptions
from foldline.language_models.records.process import RecordWriter, replace_message
from foldline.language_models.records.records import ChatModelInput, input_of, output_of
from foldline.messages import AIMessage
from foldline.outputs import ChatGeneration, ChatResult

__all__ = ["call_postprocess", "call_preprocess", "process_events", "record_of", "request_of"]


async def call_preprocess(model: CallModel, request: ChatRequest, run: Run) -> ChatRequest:
    """Call an author's `preprocess` with the request as a record; return the resulting request."""
    new_record = await _call(run, model.preprocess, record_of(request), _options(request, run))
    return request if new_record is None else request_of(model, input_of(new_record), request)


async def call_postprocess(
    model: CallModel, request: ChatRequest, result: ChatResult, run: Run
) -> ChatResult:
    """Call an author's `postprocess` with the answer as a record; return the resulting answer."""
    message = cast("AIMessage", result.generations[0].message)
    arguments = record_of(request), output_of(message), _options(request, run)
    new_record = await _call(run, model.postprocess, *arguments)
    if new_record is None:
        return result
    generation = ChatGeneration(message=replace_message(new_record, message))
    return ChatResult(
        generations=[generation, *result.generations[1:]], llm_output=result.llm_output
    )


async def process_events(
    method: Callable[..., Any], model_name: str | None, request: ChatRequest, run: Run
) -> AsyncGenerator[Batch, None]:
    """Yield the answer of an author's `process`, a record or deltas, as events."""
    name = request.options.get("model") or model_name
    writer = RecordWriter(name if isinstance(name, str) else None)
    record = record_of(request)
    options = _options(request, run, stream=request.stream)
    if inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method):
        outcome = method(record, options)
    else:
        outcome = await _call(run, method, record, options)
    if not hasattr(outcome, "__aiter__") and not isinstance(outcome, Iterator):
        yield [*writer.write(outcome), *writer.end()]
        return
    async with aclosing(run.io.adapt(outcome)) as deltas:
        async for delta in deltas:
            if batch := writer.write(delta):
                yield batch
    yield writer.end()


async def _call(run: Run, method: Callable[..., Any], *arguments: object) -> Any:  # noqa: ANN401  the result of an author's method
    """Call an author's method, sync or async: an async method gets a separate loop in a sync call."""
    if run.io.blocking and inspect.iscoroutinefunction(method):
        return await run.io.settle(method(*arguments))
    return await run.io.call(method, *arguments)


def _options(request: ChatRequest, run: Run, **other_options: object) -> AgentInvokeOptions:
    return AgentInvokeOptions({**request.options, **other_options}, run)


def record_of(request: ChatRequest) -> ChatModelInput:
    """Return a request as the record for `process`."""
    options = dict(request.options)
    tools, choice = options.pop("tools", None), options.pop("tool_choice", None)
    response_format = options.pop("response_format", None)
    if request.stop:
        options["stop"] = request.stop
    return ChatModelInput(
        messages=request.messages,
        response_format=response_format,
        output_file_type=request.output_file_type,
        tools=tools,
        tool_choice=choice,
        model_options=options,
    )


def request_of(model: CallModel, record: ChatModelInput, request: ChatRequest) -> ChatRequest:
    """Return a request with the content of a record, based on another request."""
    options, _ = read_option_names(record.model_options, option_names(type(model)))
    stop = options.pop("stop", request.stop)
    for key in ("tools", "tool_choice", "response_format"):
        if (value := getattr(record, key)) is not None:
            options[key] = value
    return request.replace(
        messages=record.messages,
        options=options,
        stop=stop,
        output_file_type=record.output_file_type or request.output_file_type,
    )
