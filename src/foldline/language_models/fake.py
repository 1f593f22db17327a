"""Fake text models for tests and examples: they answer from a list, without a network."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from pydantic import Field

from foldline._io import ASYNC, BLOCKING
from foldline._io.drive import drive
from foldline.exceptions import FoldlineError
from foldline.language_models.llms import LLM
from foldline.outputs import GenerationChunk

__all__ = ["FakeListLLM", "FakeListLLMError", "FakeStreamingListLLM"]


class FakeListLLMError(FoldlineError):
    """Raised at `error_on_chunk_number`."""


class FakeListLLM(LLM):
    """Answers with the given texts in turn, starting over after the last.

    ```python
    from foldline.language_models import FakeListLLM

    print(FakeListLLM(responses=["one", "two"]).batch(["?", "?", "?"]))
    #> ['one', 'two', 'one']
    ```
    """

    responses: list[str]
    """The answers."""
    sleep: float | None = None
    """Seconds to wait before an answer."""
    i: int = Field(default=0)
    """The index of the next answer."""

    @property
    def _llm_type(self) -> str:
        return "fake-list"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"responses": self.responses}

    def _next_response(self) -> str:
        response = self.responses[self.i]
        self.i = self.i + 1 if self.i < len(self.responses) - 1 else 0
        return response

    def _call(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: object = None,
        **kwargs: object,
    ) -> str:
        if self.sleep is not None:
            drive(BLOCKING.sleep(self.sleep))
        return self._next_response()

    async def _acall(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: object = None,
        **kwargs: object,
    ) -> str:
        if self.sleep is not None:
            await ASYNC.sleep(self.sleep)
        return self._next_response()


class FakeStreamingListLLM(FakeListLLM):
    """Answers with the given texts in turn, character by character."""

    error_on_chunk_number: int | None = None
    """The chunk at which to fail."""

    def _stream(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: object = None,
        **kwargs: object,
    ) -> Iterator[GenerationChunk]:
        for index, character in enumerate(self._next_response()):
            if self.sleep is not None:
                drive(BLOCKING.sleep(self.sleep))
            yield self._chunk(index, character)

    async def _astream(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: object = None,
        **kwargs: object,
    ) -> AsyncIterator[GenerationChunk]:
        for index, character in enumerate(self._next_response()):
            if self.sleep is not None:
                await ASYNC.sleep(self.sleep)
            yield self._chunk(index, character)

    def _chunk(self, index: int, character: str) -> GenerationChunk:
        if self.error_on_chunk_number is not None and index == self.error_on_chunk_number:
            raise FakeListLLMError(f"failed at piece {index}, as asked")
        return GenerationChunk._trusted(character)
