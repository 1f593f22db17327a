"""`TextAuthor`: the methods that the author of a text model wrote, and their answer as batches of events.

A prompt is a request with one human message. An answer is a message with its text; its `generation_info` is the
`response_metadata`. Chunks of a stream are the deltas of one block of text, each with the author's chunk beside it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import aclosing, closing
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from foldline._run import Run
from foldline._streams.answer import Batch, CompleteAnswer
from foldline.callbacks.manager import TokenState
from foldline.exceptions import UsageError
from foldline.language_models._call.author import (
    Author,
    Positions,
    Source,
    method_arguments,
    run_message_id,
)
from foldline.language_models._call.model import CallModel
from foldline.language_models._call.request import ChatRequest
from foldline.messages import AIMessage, HumanMessage, get_buffer_string
from foldline.messages.usage import complete_usage
from foldline.outputs import ChatGeneration, ChatResult, Generation, GenerationChunk, LLMResult
from foldline.outputs.generation import join_info
from foldline.protocol.events import Event
from foldline.protocol.folded_message import normalize_finish_reason
from foldline.utils._trusted import build_trusted

if TYPE_CHECKING:  # it makes these
    from foldline.language_models.text.base_llm import BaseLLM

__all__ = ["TextAuthor", "TextGeneration", "chunks_of", "prompt_of", "read_counts"]

COUNT_KEYS: Final = ("token_usage", "usage")
"""The keys under which authors put the counts of an answer."""
COUNT_NAMES: Final = {
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "total_tokens": "total_tokens",
}
REASON_KEYS: Final = ("finish_reason", "stop_reason", "done_reason")
COMPLETE: Final[Positions] = {"_generate": 0, "_agenerate": 0}
"""Every text model has both: one of them calls the other."""


class TextGeneration(ChatGeneration):
    """An answer of a text model as a message, with the author's own object."""

    source: Generation

    @classmethod
    def of(cls, source: Generation, usage: Mapping[str, Any] | None = None) -> TextGeneration:
        """Return the answer as a message; `usage` is what its request took."""
        info = source.generation_info
        fields: dict[str, Any] = {
            "text": source.text,
            "generation_info": info,
            "type": cls._kind,
            "message": _message(source.text, info or {}, usage),
            "source": source,
        }
        return build_trusted(cls, fields)


def _message(text: str, info: Mapping[str, Any], usage: Mapping[str, Any] | None) -> AIMessage:
    """Return a message, without validation."""
    fields: dict[str, Any] = {
        "content": text,
        "additional_kwargs": {},
        "response_metadata": dict(info),
        "type": "ai",
        "name": None,
        "id": None,
        "tool_calls": [],
        "invalid_tool_calls": [],
        "usage_metadata": complete_usage(dict(usage)) if usage else None,
        "finish_reason": _finish_reason(info) if info else None,
        "status": "complete",
    }
    return build_trusted(AIMessage, fields, {"content", "response_metadata"}, {})


class TextAuthor(Author):
    """The methods of a text model's class: `_generate` for many prompts, and `_stream` if its author wrote it."""

    __slots__ = ()

    @staticmethod
    @cache
    def of(cls: type[BaseLLM], base: type[BaseLLM]) -> TextAuthor:
        """Return the author of a class, by the methods that it does not inherit from the base."""
        names = ("_stream", "_astream", "_preprocess", "_postprocess")
        written = {name: 0 for name in names if getattr(cls, name) is not getattr(base, name)}
        return TextAuthor({**COMPLETE, **written})

    def input_tokens(self, model: CallModel, request: ChatRequest) -> int:
        """Return the tokens of the prompt."""
        return self._count([prompt_of(request)], model)

    def output_limit(self, model: CallModel, request: ChatRequest) -> int | None:
        """Return the tokens that the answers have at most."""
        return cast("BaseLLM", model)._output_limit(request.options)

    def _count(self, prompts: Sequence[str], model: CallModel) -> int:
        return sum(map(cast("BaseLLM", model).get_num_tokens, prompts))

    def events(self, model: CallModel, request: ChatRequest, run: Run) -> Source:
        """Return the answer: of `_stream` where the caller streams, else complete."""
        if request.stream and (hook := self.chunks[not run.io.blocking]):
            return _stream_events(cast("BaseLLM", model), hook, request, run)
        return self._generate_events(model, request, run)

    async def generate(self, model: CallModel, request: ChatRequest, run: Run) -> CompleteAnswer:
        """Call `_generate` or `_agenerate` with the prompt."""
        return (await self.answer_prompts(model, [prompt_of(request)], request, run))[0]

    async def answer_prompts(
        self, model: CallModel, prompts: list[str], request: ChatRequest, run: Run
    ) -> list[CompleteAnswer]:
        """Call `_generate` or `_agenerate` once for prompts with the same options; return an answer for each."""
        text_model = cast("BaseLLM", model)
        if run.io.blocking:
            arguments = method_arguments(model, "_generate", request, run, TokenState())
            result = text_model._generate(prompts, **arguments)
        else:
            arguments = method_arguments(model, "_agenerate", request, run, TokenState())
            result = await text_model._agenerate(prompts, **arguments)
        if len(result.generations) != len(prompts) or not all(result.generations):
            raise UsageError(
                f"{type(model).__name__}._generate must give at least one generation for each of "
                f"{len(prompts)} prompts"
            )
        return _complete_answers(result, text_model._read_usage(result.llm_output))


def _complete_answers(result: LLMResult, usage: Mapping[str, Any] | None) -> list[CompleteAnswer]:
    """Return the answer to each prompt; the first one has what the request took."""
    answers: list[CompleteAnswer] = []
    output = result.llm_output
    for texts in result.generations:
        generations = [TextGeneration.of(texts[0], usage), *map(TextGeneration.of, texts[1:])]
        fields = {"generations": generations, "llm_output": output}
        answers.append(CompleteAnswer(build_trusted(ChatResult, fields), is_generated=True))
        usage, output = None, output and {**output, "token_usage": {}}
    return answers


async def _stream_events(
    model: BaseLLM, hook: str, request: ChatRequest, run: Run
) -> AsyncGenerator[Batch, None]:
    writer = _TextWriter(model, run_message_id(run))
    # Handlers get the chunks as they are yielded, not by the author's own calls.
    arguments = method_arguments(model, hook, request, run, TokenState(is_ignored=True))
    chunks = getattr(model, hook)(prompt_of(request), **arguments)
    try:
        if run.io.blocking and isinstance(chunks, Generator):
            with closing(chunks):
                for chunk in chunks:
                    yield writer.write(chunk)
        else:
            async with aclosing(run.io.adapt(chunks)) as adapted:
                async for chunk in adapted:
                    yield writer.write(chunk)
    except BaseException:
        request.note(usage=writer.usage, metadata=writer.info)
        raise
    if not writer.parts:
        raise UsageError(f"{type(model).__name__}.{hook} yielded no chunk at all")
    yield writer.finish()


class _TextWriter:
    """Chunks of text -> events of a message with one block."""

    __slots__ = ("_id", "_model", "info", "parts", "usage")

    def __init__(self, model: BaseLLM, id: str) -> None:
        self._model = model
        self._id = id
        self.parts: list[str] = []
        self.info: dict[str, Any] | None = None
        self.usage: dict[str, Any] | None = None

    def write(self, chunk: GenerationChunk) -> list[Event]:
        text = chunk.text
        delta: Any = {
            "event": "content-block-delta",
            "index": 0,
            "delta": {"type": "text-delta", "text": text},
            "chunk": chunk,
        }
        is_first = not self.parts
        self.parts.append(text)
        if info := chunk.generation_info:
            self.info = join_info(self.info, info)
            self.usage = self._model._read_usage(info) or self.usage
        if not is_first:
            return [delta]
        block: Any = {"type": "text", "text": ""}
        return [
            {"event": "message-start", "role": "ai", "id": self._id},
            {"event": "content-block-start", "index": 0, "content": block},
            delta,
        ]

    def finish(self) -> list[Event]:
        block: Any = {"type": "text", "text": "".join(self.parts)}
        finish: Any = {"event": "message-finish", "metadata": self.info or {}}
        if self.usage:
            finish["usage"] = self.usage
        if reason := _finish_reason(self.info or {}):
            finish["finish_reason"] = reason
        return [{"event": "content-block-finish", "index": 0, "content": block}, finish]


def _finish_reason(info: Mapping[str, Any]) -> str | None:
    raw_reason = next((info[key] for key in REASON_KEYS if info.get(key)), None)
    return normalize_finish_reason(raw_reason if isinstance(raw_reason, str) else None)


def chunks_of(batch: Batch) -> list[GenerationChunk]:
    """Return the chunks of text in a batch: the author's, or new ones where a policy has made other events."""
    if len(batch) == 1 and (chunk := cast("Any", batch[0]).get("chunk")) is not None:
        return [chunk]  # the usual case
    return [
        cast("Any", event).get("chunk") or GenerationChunk._trusted(event["delta"]["text"])
        for event in batch
        if event["event"] == "content-block-delta" and event["delta"]["type"] == "text-delta"
    ]


def prompt_of(request: ChatRequest) -> str:
    """Return the prompt of a request: the text of its message, or of all that policies made of it."""
    messages = request.messages
    if len(messages) != 1 or type(messages[0]) is not HumanMessage:
        return get_buffer_string(messages)
    content = messages[0].content
    return content if type(content) is str else str(messages[0].text)


def read_counts(output: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the counts in the metadata of an answer under the names of `UsageMetadata`; None if it has none."""
    for key in COUNT_KEYS if output else ():
        counts = cast("Mapping[str, Any]", output).get(key)
        if isinstance(counts, Mapping):
            renamed = {COUNT_NAMES[name]: n for name, n in counts.items() if name in COUNT_NAMES}
            return {name: n for name, n in renamed.items() if type(n) is int} or None
    return None
