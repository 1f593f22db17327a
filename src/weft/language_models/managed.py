"""`ChatModel`: AIGNE's door to a chat model. An author writes `process`: a record in, a record or deltas out.

It is a `BaseChatModel` like any other: the record is turned to events, and everything else (`invoke`, `stream`, tools,
structured output, retries, usage) comes from the turn. `preprocess` and `postprocess` may be overridden, async or not.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from typing import Any, cast

from weft._run import Run
from weft.exceptions import MalformedStreamError, UsageError
from weft.language_models.chat_models import BaseChatModel
from weft.language_models.records import (
    ChatModelInput,
    ChatModelOutput,
    ChatModelUsage,
    input_of,
    output_of,
)
from weft.language_models.request import ChatRequest
from weft.messages import AIMessage
from weft.outputs import ChatGeneration, ChatResult
from weft.protocol.events import Event
from weft.protocol.writer import EventWriter
from weft.utils.json import dumps_canonical, to_jsonable
from weft.utils.merge import merge_dicts
from weft.utils.uuid import new_id

__all__ = ["ChatModel", "ChatModelInput", "ChatModelOutput", "ChatModelUsage"]

Options = dict[str, Any]
KEYS = frozenset({"text", "json", "tool_calls", "usage", "model", "files", "thoughts", "message"})


class ChatModel(BaseChatModel):
    """A chat model whose author writes `process`.

    ```python
    from weft.language_models import ChatModel

    class Echo(ChatModel):
        def process(self, input, options):
            return {"text": input.messages[-1].text}

    print(Echo().invoke("Hi").text, Echo().run({"messages": [{"role": "user", "content": "Ho"}]}).text)
    #> Hi Ho
    ```
    """

    def process(self, input: ChatModelInput, options: Options) -> Any:
        """Answer: give a `ChatModelOutput`, a dict of its fields, or an iterator of deltas, async or not."""
        raise NotImplementedError(f"{type(self).__name__} must implement `process`")

    def preprocess(self, input: ChatModelInput, options: Options) -> Any:
        """Look at the record before `process`; give another, or None. May be async."""
        return None

    def postprocess(self, input: ChatModelInput, output: ChatModelOutput, options: Options) -> Any:
        """Look at the answer before the caller; give another, or None. May be async."""
        return None

    async def _preprocess(self, request: ChatRequest, run: Run) -> ChatRequest:
        if type(self).preprocess is ChatModel.preprocess:
            return request
        changed = await _called(run, self.preprocess, record_of(request), _options(request))
        if changed is None:
            return request
        return _changed(request, input_of(changed))

    async def _postprocess(self, request: ChatRequest, result: ChatResult, run: Run) -> ChatResult:
        if type(self).postprocess is ChatModel.postprocess:
            return result
        message = cast("AIMessage", result.generations[0].message)
        output = output_of(message)
        changed = await _called(
            run, self.postprocess, record_of(request), output, _options(request)
        )
        if changed is None:
            return result
        answer = _message_of(changed, message)
        return ChatResult(
            generations=[ChatGeneration(message=answer)], llm_output=result.llm_output
        )

    async def _events(self, request: ChatRequest, run: Run) -> AsyncGenerator[Event, None]:
        teller = _Teller()
        record, options = record_of(request), {**_options(request), "stream": request.stream}
        outcome = await self._processed(record, options, run)
        if not hasattr(outcome, "__aiter__") and not isinstance(outcome, Iterator):
            for event in (*teller.tell(outcome), *teller.end()):
                yield event
            return
        async with aclosing(run.io.adapt(outcome)) as deltas:
            async for delta in deltas:
                for event in teller.tell(delta):
                    yield event
        for event in teller.end():
            yield event

    async def _processed(self, record: ChatModelInput, options: Options, run: Run) -> Any:
        """Call `process`, whichever colour it has: one that waits for a loop gets one of its own in a blocking call."""
        if inspect.isgeneratorfunction(self.process) or inspect.isasyncgenfunction(self.process):
            return self.process(record, options)
        return await _called(run, self.process, record, options)


async def _called(run: Run, method: Any, *arguments: Any) -> Any:
    """Call what an author wrote in either colour: an async one gets a loop of its own in a blocking call."""
    if run.io.blocking and inspect.iscoroutinefunction(method):
        return await run.io.settle(method(*arguments))
    return await run.io.call(method, *arguments)


class _Teller:
    """Turns records and deltas into events: text and thoughts append, JSON merges, the rest replaces or adds."""

    def __init__(self) -> None:
        self._writer = EventWriter(usage_mode="last")
        self._json: Any = None
        self._has_calls = False

    def tell(self, said: Any) -> list[Event]:
        """Say one record or delta."""
        fields = _fields(said)
        if isinstance(message := fields.get("message"), AIMessage):
            return self._message(message)
        writer, events = self._writer, list(self._writer.start())
        if fields.get("thoughts"):
            events += writer.reasoning(str(fields["thoughts"]))
        if fields.get("text"):
            events += writer.text(str(fields["text"]))
        for call in fields.get("tool_calls") or ():
            events += self._call(call)
        for file in fields.get("files") or ():
            events += writer.block(_file(file), whole=True)
        if fields.get("json") is not None:
            self._json = _merged(self._json, fields["json"])
        if fields.get("usage") is not None:
            writer.usage(_usage(fields["usage"]))
        if fields.get("model"):
            writer.metadata({"model_name": fields["model"]})
        return events

    def end(self) -> list[Event]:
        """End the message; JSON that came beside the text is said as text where there is none."""
        events: list[Event] = []
        if self._json is not None:
            events += self._writer.block(
                {"type": "text", "text": dumps_canonical(to_jsonable(self._json))}, whole=True
            )
            self._writer.metadata({"json": self._json})
        return [*events, *self._writer.finish("tool_calls" if self._has_calls else "stop")]

    def _message(self, message: AIMessage) -> list[Event]:
        writer = self._writer
        events = list(writer.start(id=message.id, metadata=message.response_metadata))
        for block in message.content_blocks:
            events += writer.block(cast("Any", block), whole=True)
        self._has_calls = bool(message.tool_calls)
        writer.usage(cast("Any", message.usage_metadata))
        return events

    def _call(self, call: Any) -> list[Event]:
        self._has_calls = True
        function = call.get("function") or call
        arguments = function.get("arguments", function.get("args"))
        id = call.get("id") or f"call_{new_id()}"
        events = self._writer.tool_call(
            key=id, id=id, name=function.get("name"), args=arguments or {}
        )
        return [*events, *self._writer.close(id)]


def record_of(request: ChatRequest) -> ChatModelInput:
    """Give a request as the record `process` gets."""
    options = dict(request.options)
    tools, choice = options.pop("tools", None), options.pop("tool_choice", None)
    wanted = options.pop("response_format", None)
    if request.stop:
        options["stop"] = request.stop
    return ChatModelInput(
        messages=request.messages,
        response_format=wanted,
        tools=tools,
        tool_choice=choice,
        model_options=options,
    )


def _options(request: ChatRequest) -> Options:
    return dict(request.options)


def _changed(request: ChatRequest, record: ChatModelInput) -> ChatRequest:
    options = dict(record.model_options)
    stop = options.pop("stop", request.stop)
    for key in ("tools", "tool_choice", "response_format"):
        if (value := getattr(record, key)) is not None:
            options[key] = value
    return request.replace(messages=record.messages, options=options, stop=stop)


def _fields(said: Any) -> Options:
    if isinstance(said, ChatModelOutput):
        fields = {
            name: getattr(said, name) for name in ChatModelOutput.model_fields if name != "json_"
        }
        return {**fields, "json": said.json_}
    if isinstance(said, str):
        return {"text": said}
    if isinstance(said, AIMessage):
        return {"message": said}
    if not isinstance(said, Mapping):
        raise UsageError(
            f"`process` gave {type(said).__name__}: give a ChatModelOutput, a dict of its fields, or deltas"
        )
    if isinstance(delta := said.get("delta"), Mapping):  # AIGNE's response chunks
        said = {**(delta.get("json") or {}), **(delta.get("text") or {})}
    fields = {_snake(key): value for key, value in said.items()}
    unknown = sorted(fields.keys() - KEYS)
    if unknown:
        raise MalformedStreamError(
            f"`process` gave the field {unknown[0]!r}: known are {', '.join(sorted(KEYS))}"
        )
    return fields


def _message_of(changed: Any, before: AIMessage) -> AIMessage:
    """Give a replaced record as a message: its own message if that was changed, else made of its fields."""
    if (
        isinstance(changed, ChatModelOutput)
        and changed.message is not None
        and changed.message is not before
    ):
        return changed.message
    if isinstance(changed, AIMessage):
        return changed
    fields = _fields(changed)
    calls = [
        {
            "id": call.get("id"),
            "name": call["function"]["name"],
            "args": call["function"]["arguments"],
        }
        for call in fields.get("tool_calls") or ()
    ]
    kept: Options = {"tool_calls": calls}
    if (fields.get("text") or "") != str(before.text):
        kept["content"] = fields.get("text") or ""
    return before.model_copy(update=kept)


def _merged(left: Any, right: Any) -> Any:
    if isinstance(left, dict) and isinstance(right, Mapping):
        return {**left, **merge_dicts({}, dict(right))}
    return right


def _usage(usage: Any) -> Options:
    said = (
        usage.model_dump()
        if isinstance(usage, ChatModelUsage)
        else {_snake(key): value for key, value in usage.items()}
    )
    details = {
        "cache_read": said.pop("cache_read_input_tokens", 0),
        "cache_creation": said.pop("cache_creation_input_tokens", 0),
    }
    kept = {key: value for key, value in details.items() if value}
    counts = {**said, "total_tokens": said.get("input_tokens", 0) + said.get("output_tokens", 0)}
    return {**counts, **({"input_token_details": kept} if kept else {})}


def _file(file: Any) -> Options:
    read = {_snake(key): value for key, value in file.items()}
    kind = read.get("type")
    if kind in ("local", "url") or (kind == "file" and "data" in read):
        media = str(read.get("mime_type") or "").split("/")[0]
        read["type"] = media if media in ("image", "audio", "video") else "file"
        if "data" in read:
            read["base64"] = read.pop("data")
    return read


def _snake(key: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in key)
