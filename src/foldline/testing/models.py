"""`ScriptedChatModel`: a chat model that answers as its script says, and records its requests.

A script is a list of turns. A turn is a text, a message, an error to raise, a step, or a list of steps, which the model
takes in order: a `str` is a slice of text, the classes below are other steps, a dict is a raw event and a chunk is a v1
chunk, both passed on unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from pydantic import Field, PrivateAttr

from foldline._run import Run
from foldline.exceptions import StreamInterruptedError, UsageError
from foldline.language_models._call.bridge import ChunkBridge
from foldline.language_models._call.request import ChatRequest
from foldline.language_models.chat_models import BaseChatModel
from foldline.messages import AIMessageChunk, BaseMessage
from foldline.outputs import ChatGenerationChunk
from foldline.protocol.events import Event
from foldline.protocol.replay import message_to_events
from foldline.protocol.writer import EventWriter

FOREVER = 3600.0


@dataclass(frozen=True, slots=True)
class Reason:
    """A slice of reasoning."""

    text: str
    extras: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call, its arguments in slices of `slice_size` characters."""

    name: str
    args: Mapping[str, Any] | str = field(default_factory=dict)
    id: str | None = None
    slice_size: int = 8


@dataclass(frozen=True, slots=True)
class Stall:
    """A wait, by default of an hour."""

    seconds: float = FOREVER


@dataclass(frozen=True, slots=True)
class Fail:
    """An error raised in the middle of an answer."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Finish:
    """The end: finish reason and usage. A script without one ends with "stop", or "tool_use" after a call."""

    reason: str | None = "stop"
    usage: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


Step: TypeAlias = (
    str
    | Reason
    | Call
    | Stall
    | Fail
    | Finish
    | dict[str, Any]
    | AIMessageChunk
    | ChatGenerationChunk
)
Turn: TypeAlias = "str | BaseMessage | BaseException | Step | Iterable[Step]"
STEP_CLASSES = (Reason, Call, Stall, Fail, Finish, BaseMessage, ChatGenerationChunk, dict)
Script: TypeAlias = "Sequence[Turn] | Callable[[ChatRequest], Turn]"


class ScriptedChatModel(BaseChatModel):
    """Answers as scripted, in chunks, sync and async.

    ```python
    from foldline.testing import Call, ScriptedChatModel

    model = ScriptedChatModel(script=["Hello there!", ["Let me see. ", Call("add", {"a": 1, "b": 2})]])
    print(list(model.stream_v2("Hi").text))
    #> ['Hello', ' there!']
    print(model.invoke("1 + 2?").tool_calls[0]["args"])
    #> {'a': 1, 'b': 2}
    print(len(model.requests))
    #> 2
    ```
    """

    script: Any
    """The turns, one per request, or a function from the request to its turn."""
    model: str = "scripted"
    """The name of the model."""
    fail_at: int | None = None
    """The event before which every answer breaks, counted from 0."""
    fail_with: Any = None
    """The error to raise there; by default a `StreamInterruptedError`."""
    is_cyclic: bool = False
    """Whether the script begins again after its last turn."""
    usage: dict[str, int] | None = Field(default=None)
    """The usage of answers whose script has none."""

    _requests: list[ChatRequest] = PrivateAttr(default_factory=list)
    _interrupted: int = PrivateAttr(default=0)

    @property
    def requests(self) -> list[ChatRequest]:
        """The requests, in order."""
        return self._requests

    @property
    def interrupted(self) -> int:
        """How many answers were closed, cancelled or broken before their end."""
        return self._interrupted

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def _provider(self) -> str:
        return "scripted"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": self.model}

    async def _events(self, request: ChatRequest, run: Run) -> AsyncGenerator[Event, None]:
        turn = self._next_turn(request)
        self._requests.append(request)
        is_complete = False
        try:
            for count, item in enumerate(self._items(turn)):
                if count == self.fail_at:
                    raise self.fail_with or _interruption(count)
                if isinstance(item, Stall):
                    await run.io.sleep(item.seconds)
                    continue
                yield item
            is_complete = True
        finally:
            self._interrupted += not is_complete

    def _next_turn(self, request: ChatRequest) -> Turn:
        if callable(self.script):
            return cast("Turn", self.script(request))
        index = len(self._requests)
        if self.is_cyclic and self.script:
            index %= len(self.script)
        if index >= len(self.script):
            raise UsageError(
                f"the script has {len(self.script)} turns and this is request {index + 1}: write more turns, "
                "or is_cyclic=True"
            )
        return cast("Turn", self.script[index])

    def _items(self, turn: Turn) -> Iterator[Any]:
        """Return the events of a turn, and the waits between them."""
        if isinstance(turn, BaseException):
            raise turn
        if isinstance(turn, BaseMessage) and not isinstance(turn, AIMessageChunk):
            yield from message_to_events(turn)
            return
        steps: Any = turn
        if isinstance(turn, str):
            steps = _words(turn)
        elif isinstance(turn, STEP_CLASSES):
            steps = [turn]
        elif not isinstance(turn, Iterable):
            raise UsageError(
                f"the script has a turn of type {type(turn).__name__}: write a text, a message, an error, or a list of "
                "steps (Call, Reason, Fail, ...)"
            )
        yield from _TurnWriter(self, f"msg_{len(self._requests)}").write_all(steps)


class _TurnWriter:
    """Writes the events of one turn."""

    def __init__(self, model: ScriptedChatModel, id: str) -> None:
        self._model = model
        self._id = id
        self._writer = EventWriter(id, metadata={"provider": "scripted", "model": model.model})
        self._bridge = ChunkBridge(self._writer)
        self._calls = 0
        self._is_raw = False

    def write_all(self, steps: Iterable[Any]) -> Iterator[Any]:
        for step in steps:
            yield from [step] if isinstance(step, Stall) else self._write_step(step)
        if self._is_raw or self._writer.is_over:
            return
        yield from self._write_step(Finish("tool_use" if self._calls else "stop"))

    def _write_step(self, step: Step) -> list[Event]:
        if isinstance(step, str):
            return self._writer.text(step)
        if isinstance(step, Reason):
            return self._writer.reasoning(step.text, extras=step.extras or None)
        if isinstance(step, Call):
            return self._call(step)
        if isinstance(step, Finish):
            usage = step.usage or self._model.usage
            return self._writer.finish(step.reason, usage=usage, metadata=step.metadata)
        if isinstance(step, Fail):
            raise step.error
        if isinstance(step, dict):
            self._is_raw = True
            return [step]  # type: ignore[list-item]  # invalid events too, for tests of those
        chunk = step if isinstance(step, ChatGenerationChunk) else ChatGenerationChunk(message=step)
        return self._bridge.feed(chunk)

    def _call(self, call: Call) -> list[Event]:
        key, self._calls = f"call-{self._calls}", self._calls + 1
        args = call.args if isinstance(call.args, str) else json.dumps(dict(call.args))
        id = call.id or f"{self._id}_call_{self._calls}"
        events = self._writer.tool_call(key, id=id, name=call.name)
        for start in range(0, len(args), call.slice_size):
            events += self._writer.tool_call(key, args=args[start : start + call.slice_size])
        return events + self._writer.close(key)


def _words(text: str) -> list[str]:
    return re.findall(r"\s*\S+|\s+", text)


def _interruption(count: int) -> BaseException:
    return StreamInterruptedError(f"the scripted stream broke before event {count}")
