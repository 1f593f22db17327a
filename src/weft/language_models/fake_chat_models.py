"""Fake chat models for tests and examples: they answer from a list, piece by piece, without a network."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from typing import Any

from weft._run import Run
from weft.exceptions import WeftError
from weft.language_models.chat_models import BaseChatModel, SimpleChatModel
from weft.language_models.request import ChatRequest
from weft.messages import AIMessage, BaseMessage
from weft.outputs import ChatGeneration, ChatResult
from weft.protocol.events import Event
from weft.protocol.writer import EventWriter


class FakeListChatModelError(WeftError):
    """Raised where `error_on_chunk_number` says so."""


class FakeListChatModel(BaseChatModel):
    """Answers with the given texts in turn, beginning again after the last; streams character by character.

    ```python
    from weft.language_models import FakeListChatModel

    model = FakeListChatModel(responses=["one", "two"])
    print(model.invoke("?").text, model.invoke("?").text, model.invoke("?").text)
    #> one two one
    ```
    """

    responses: list[str]
    """The answers."""
    sleep: float | None = None
    """Seconds to wait before an answer, and between pieces."""
    i: int = 0
    """The place of the next answer."""
    error_on_chunk_number: int | None = None
    """The piece at which to fail."""

    @property
    def _llm_type(self) -> str:
        return "fake-list-chat-model"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"responses": self.responses}

    def _next(self) -> str:
        response = self.responses[self.i]
        self.i = self.i + 1 if self.i < len(self.responses) - 1 else 0
        return response

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration._trusted(AIMessage(content=self._next()))])

    async def _events(self, request: ChatRequest, run: Run) -> AsyncGenerator[Event, None]:
        response = self._next()
        writer = EventWriter()
        pieces = response if request.stream else [response]
        for place, piece in enumerate(pieces):
            if self.sleep is not None:
                await run.io.sleep(self.sleep)
            if self.error_on_chunk_number is not None and place == self.error_on_chunk_number:
                raise FakeListChatModelError(f"failed at piece {place}, as asked")
            for event in writer.text(piece):
                yield event
        for event in writer.finish("stop"):
            yield event
