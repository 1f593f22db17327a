"""`RecordAuthor`: an author's methods in AIGNE's style, `process`, `preprocess`, `postprocess`, sync or async.

A request becomes the record they get, and what they return becomes a request, events or a message again.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing
from functools import cache
from typing import Any, Final, cast

from foldline._run import Run
from foldline._streams.answer import Batch
from foldline.language_models._call.author import (
    ANSWERING,
    Author,
    ByMode,
    Positions,
    Source,
    by_mode,
    fold_source,
)
from foldline.language_models._call.call_options import read_option_names
from foldline.language_models._call.model import CallModel
from foldline.language_models._call.request import ChatRequest
from foldline.language_models._call.settings import option_names
from foldline.language_models.records._process import RecordWriter, replace_message
from foldline.language_models.records.invoke_options import AgentInvokeOptions
from foldline.language_models.records.records import (
    ChatModelInput,
    ChatModelOutput,
    input_of,
    output_of,
)
from foldline.messages import AIMessage
from foldline.outputs import ChatGeneration, ChatResult

__all__ = ["RecordAuthor", "author_of", "call_process", "record_of", "request_of"]

PROCESS: Final = ("process", "aprocess")
METHODS: Final = frozenset(
    {*ANSWERING, *PROCESS, "preprocess", "postprocess", "_preprocess", "_postprocess"}
)
BASES: Final = frozenset(
    {
        ("foldline.language_models.base_chat_model", "BaseChatModel"),
        ("foldline.language_models.records.chat_model", "ChatModel"),
    }
)
"""The classes at which the search for an author's methods ends."""


@cache
def author_of(cls: type[Any]) -> Author:
    """Return the methods that a class or its ancestors below `BaseChatModel` and `ChatModel` define."""
    positions: dict[str, int] = {}
    for position, ancestor in enumerate(cls.__mro__):
        if (ancestor.__module__, ancestor.__name__) in BASES:
            break
        for method in METHODS & ancestor.__dict__.keys():
            positions.setdefault(method, position)
    has_records = not positions.keys().isdisjoint((*PROCESS, "preprocess", "postprocess"))
    return RecordAuthor(positions) if has_records else Author(positions)


class RecordAuthor(Author):
    """The methods of a class with one of AIGNE's methods, or several: they get and return records."""

    __slots__ = (
        "_has_postprocess",
        "_has_preprocess",
        "_has_record_postprocess",
        "_has_record_preprocess",
        "below_process",
        "process",
    )

    def __init__(self, positions: Positions) -> None:
        """Choose `process` if it is nearer than all of LangChain's methods."""
        self.process: ByMode = (None, None)
        below = {name: position for name, position in positions.items() if name not in PROCESS}
        self.below_process: Author = Author(below)
        """The methods that `super().process(...)` calls."""
        if _is_answered_by_process(positions):
            self.process = by_mode(positions, *PROCESS)
            below = {name: position for name, position in below.items() if name not in ANSWERING}
        super().__init__(below)
        self.streams = self.streams or self.process != (None, None)
        self._has_preprocess = self.preprocesses
        self._has_postprocess = self.postprocesses
        self._has_record_preprocess = "preprocess" in positions
        self._has_record_postprocess = "postprocess" in positions
        self.preprocesses = self._has_preprocess or self._has_record_preprocess
        self.postprocesses = self._has_postprocess or self._has_record_postprocess

    async def preprocess(self, model: CallModel, request: ChatRequest, run: Run) -> ChatRequest:
        """Call `_preprocess`, then `preprocess` with the request as a record."""
        if self._has_preprocess:
            request = await super().preprocess(model, request, run)
        if not self._has_record_preprocess:
            return request
        arguments = record_of(request), _options(request, run)
        new_record = await _call(run, cast("Any", model).preprocess, *arguments)
        return request if new_record is None else request_of(model, input_of(new_record), request)

    async def postprocess(
        self, model: CallModel, request: ChatRequest, result: ChatResult, run: Run
    ) -> ChatResult:
        """Call `_postprocess`, then `postprocess` with the answer as a record."""
        if self._has_postprocess:
            result = await super().postprocess(model, request, result, run)
        if not self._has_record_postprocess:
            return result
        return await _call_postprocess(model, request, result, run)

    def events(self, model: CallModel, request: ChatRequest, run: Run) -> Source:
        """Return the answer of `process`, else of the method that the author wrote."""
        if process := self.process[not run.io.blocking]:
            return _process_events(getattr(model, process), model._model_name, request, run)
        return super().events(model, request, run)


def _is_answered_by_process(positions: Positions) -> bool:
    """Return whether `process` answers: it does not if its class also defines one of LangChain's methods."""
    process = min((positions[name] for name in PROCESS if name in positions), default=None)
    others = min((positions[name] for name in ANSWERING if name in positions), default=None)
    return process is not None and (others is None or process < others)


async def call_process(
    model: CallModel,
    record: ChatModelInput | Mapping[str, Any],
    options: Mapping[str, Any] | None,
    run: Run,
) -> ChatModelOutput:
    """Call a model once, by the methods below `process`: no policies, no retries (`super().process(...)`)."""
    request = request_of(model, input_of(record), ChatRequest([]))
    request.options = {
        **{k: v for k, v in (options or {}).items() if k != "stream"},
        **request.options,
    }
    author = model._author
    below = author.below_process if isinstance(author, RecordAuthor) else author
    return output_of(await fold_source(model, below.events(model, request, run)))


async def _call_postprocess(
    model: CallModel, request: ChatRequest, result: ChatResult, run: Run
) -> ChatResult:
    message = cast("AIMessage", result.generations[0].message)
    arguments = record_of(request), output_of(message), _options(request, run)
    new_record = await _call(run, cast("Any", model).postprocess, *arguments)
    if new_record is None:
        return result
    generation = ChatGeneration(message=replace_message(new_record, message))
    return ChatResult(
        generations=[generation, *result.generations[1:]], llm_output=result.llm_output
    )


async def _process_events(
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
