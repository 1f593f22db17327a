"""Fake chat models for tests and examples: they answer from a list, in chunks, without a network.

For a model that fails, stalls or calls tools as scripted see `foldline.testing`.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from foldline._config import Configs
from foldline._io import BLOCKING, IO
from foldline._io.drive import drive
from foldline._run import Run
from foldline._streams.answer import Batch, chat_result
from foldline.exceptions import FoldlineError, UsageError
from foldline.language_models._call.request import ChatRequest
from foldline.language_models.chat_models import BaseChatModel
from foldline.language_models.simple import SimpleChatModel
from foldline.messages import AIMessage, AIMessageChunk, BaseMessage
from foldline.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from foldline.protocol.writer import EventWriter
from foldline.utils._trusted import build_trusted

if TYPE_CHECKING:
    from foldline.utils.progress import ProgressOption

__all__ = [
    "FakeChatModel",
    "FakeListChatModel",
    "FakeListChatModelError",
    "FakeMessagesListChatModel",
    "GenericFakeChatModel",
    "ParrotFakeChatModel",
]


class FakeListChatModelError(FoldlineError):
    """Raised at `error_on_chunk_number`."""


class _SequentialBatchModel(BaseChatModel):
    """Answers the inputs of a batch one after the other, so that every input gets its answer."""

    async def _run_each(
        self,
        inputs: Sequence[Any],
        config: Configs,
        io: IO,
        kwargs: dict[str, Any],
        *,
        keep_errors: bool,
        progress: ProgressOption = None,
    ) -> list[Any]:
        limit = {"max_concurrency": 1}
        if config is None or isinstance(config, dict):
            limited_config: Any = {**(config or {}), **limit}
        else:
            limited_config = [{**(input_config or {}), **limit} for input_config in config]
        return await super()._run_each(
            inputs, limited_config, io, kwargs, keep_errors=keep_errors, progress=progress
        )


class FakeListChatModel(_SequentialBatchModel):
    """Answers with the given texts in turn, starting over after the last; streams character by character.

    ```python
    from foldline.language_models import FakeListChatModel

    model = FakeListChatModel(responses=["one", "two"])
    print(model.invoke("?").text, model.invoke("?").text, model.invoke("?").text)
    #> one two one
    ```
    """

    responses: list[str]
    """The answers."""
    sleep: float | None = None
    """Seconds to wait before an answer, and between chunks."""
    i: int = 0
    """The index of the next answer."""
    error_on_chunk_number: int | None = None
    """The chunk at which to fail."""

    @property
    def _llm_type(self) -> str:
        return "fake-list-chat-model"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"responses": self.responses}

    def _next_response(self) -> str:
        index, count = self.i, len(self.responses)
        if count > 1:
            self.i = index + 1 if index < count - 1 else 0
        return self.responses[index]

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: object = None,
        **kwargs: object,
    ) -> ChatResult:
        if self.sleep is not None:
            drive(BLOCKING.sleep(self.sleep))
        return chat_result(_text_message(self._next_response()))

    async def _events(self, request: ChatRequest, run: Run) -> AsyncGenerator[Batch, None]:
        response = self._next_response()
        writer = EventWriter()
        yield writer.start()
        slices: Sequence[str] = response if request.stream else [response]
        text: Batch = []
        for index, slice_ in enumerate(slices):
            if text:
                yield text
            if self.sleep is not None:
                await run.io.sleep(self.sleep)
            if self.error_on_chunk_number is not None and index == self.error_on_chunk_number:
                raise FakeListChatModelError(f"failed at piece {index}, as asked")
            text = writer.text(slice_)
        yield [*text, *writer.finish()]  # together, so that the last chunk is marked as the last


class FakeMessagesListChatModel(_SequentialBatchModel):
    """Answers with the given messages in turn, starting over after the last."""

    responses: list[BaseMessage]
    """The answers."""
    sleep: float | None = None
    """Seconds to wait before an answer."""
    i: int = 0
    """The index of the next answer."""

    @property
    def _llm_type(self) -> str:
        return "fake-messages-list-chat-model"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"responses": self.responses}

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: object = None,
        **kwargs: object,
    ) -> ChatResult:
        if self.sleep is not None:
            drive(BLOCKING.sleep(self.sleep))
        response = self.responses[self.i]
        self.i = self.i + 1 if self.i < len(self.responses) - 1 else 0
        # A copy: the call sets the id of its message, but not of the script's.
        return ChatResult(generations=[ChatGeneration(message=response.model_copy(deep=True))])


class FakeChatModel(SimpleChatModel):
    """Always answers "fake response"."""

    def _call(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: object = None,
        **kwargs: object,
    ) -> str:
        return "fake response"

    @property
    def _llm_type(self) -> str:
        return "fake-chat-model"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"key": "fake"}


class GenericFakeChatModel(BaseChatModel):
    """Answers with the messages (or texts) of an iterator; streams text word by word, with the spaces between.

    ```python
    from foldline.language_models import GenericFakeChatModel

    model = GenericFakeChatModel(messages=iter(["hello big world"]))
    print([chunk.text for chunk in model.stream("?") if chunk.text])
    #> ['hello', ' ', 'big', ' ', 'world']
    ```
    """

    messages: Iterator[AIMessage | str]
    """The answers; may be endless."""

    @property
    def _llm_type(self) -> str:
        return "generic-fake-chat-model"

    def _next_response(self) -> AIMessage:
        answer = next(self.messages, None)
        if answer is None:
            raise UsageError("GenericFakeChatModel has no answer left: give it more `messages`")
        return AIMessage(content=answer) if isinstance(answer, str) else answer

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: object = None,
        **kwargs: object,
    ) -> ChatResult:
        answer = self._next_response().model_copy(deep=True)
        return ChatResult(generations=[ChatGeneration(message=answer)])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: object = None,
        **kwargs: object,
    ) -> Iterator[ChatGenerationChunk]:
        answer = self._next_response()
        *chunks, last = _chunks_of(answer) or [AIMessageChunk(content="")]
        for chunk in chunks:
            chunk.id = answer.id
            yield ChatGenerationChunk(message=chunk)
        for name in ("id", "usage_metadata", "finish_reason"):
            setattr(last, name, getattr(answer, name))
        last.response_metadata = dict(answer.response_metadata)
        last.chunk_position = "last"
        yield ChatGenerationChunk(message=last)


class ParrotFakeChatModel(BaseChatModel):
    """Answers with the last message of the input."""

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: object = None,
        **kwargs: object,
    ) -> ChatResult:
        if not messages:
            raise UsageError("ParrotFakeChatModel repeats the last message: give it at least one")
        message = messages[-1].model_copy(deep=True)
        return ChatResult(generations=[ChatGeneration(message=message)])

    @property
    def _llm_type(self) -> str:
        return "parrot-fake-chat-model"


def _text_message(text: str) -> AIMessage:
    """Return an answer that is plain text, without validation if it is ASCII."""
    if not text.isascii():
        return AIMessage(content=text)
    fields: dict[str, Any] = {
        "content": text,
        "additional_kwargs": {},
        "response_metadata": {},
        "type": "ai",
        "name": None,
        "id": None,
        "tool_calls": [],
        "invalid_tool_calls": [],
        "usage_metadata": None,
        "finish_reason": None,
        "status": "complete",
    }
    return build_trusted(AIMessage, fields, {"content"}, {})


def _chunks_of(message: AIMessage) -> list[AIMessageChunk]:
    """Return a message as chunks: words, slices of calls, other arguments."""
    return list(_iterate_chunks(message))


def _iterate_chunks(message: AIMessage) -> Iterator[AIMessageChunk]:
    content: Any = message.content
    if isinstance(content, str):
        for word in re.split(r"(\s)", content) if content else []:
            yield AIMessageChunk(content=word)
    else:
        for index, block in enumerate(content):
            part = {"type": "text", "text": block} if isinstance(block, str) else dict(block)
            yield AIMessageChunk(content=[{**part, "index": index}])
    content_ids = (
        {block.get("id") for block in content if isinstance(block, dict)} if content else set()
    )
    for index, call in enumerate(message.tool_calls):
        if call["id"] is None or call["id"] not in content_ids:
            yield from _slices_of(dict(call), index)
    for key, value in message.additional_kwargs.items():
        yield from _kwargs_chunks(key, value)


def _slices_of(call: dict[str, Any], index: int) -> Iterator[AIMessageChunk]:

    args_slices = re.split(r"(,)", json.dumps(call["args"]))
    first_slice = {"name": call["name"], "args": "", "id": call["id"], "index": index}
    for fields in [first_slice, *({"args": text, "index": index} for text in args_slices)]:
        slice_ = {"name": None, "id": None, "type": "tool_call_chunk", **fields}
        yield AIMessageChunk(content="", tool_call_chunks=[slice_])


def _kwargs_chunks(key: str, value: object) -> Iterator[AIMessageChunk]:
    if key != "function_call" or not isinstance(value, dict):
        yield AIMessageChunk(content="", additional_kwargs={key: value})
        return
    for name, part in value.items():
        slices = re.split(r"(,)", part) if name == "arguments" and isinstance(part, str) else [part]
        for slice_ in slices:
            yield AIMessageChunk(content="", additional_kwargs={key: {name: slice_}})
