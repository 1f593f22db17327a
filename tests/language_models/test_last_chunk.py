"""The last piece of content is marked as the last where the model knows; an empty piece ends other streams."""

from __future__ import annotations

import pytest

from foldline.exceptions import EmptyStreamError
from foldline.language_models import (
    BaseChatModel,
    FakeListChatModel,
    FakeMessagesListChatModel,
    GenericFakeChatModel,
)
from foldline.messages import AIMessage, AIMessageChunk
from foldline.outputs import ChatGenerationChunk


class Scripted(BaseChatModel):
    """Streams the chunks it was given."""

    chunks: list[AIMessageChunk]
    error: Exception | None = None

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        raise NotImplementedError

    def _stream(self, messages, stop=None, run_manager=None, **kwargs):
        for chunk in self.chunks:
            yield ChatGenerationChunk(message=chunk)
        if self.error is not None:
            raise self.error


def shape(chunks: list[AIMessageChunk]) -> list[tuple[object, str | None]]:
    return [(chunk.content, chunk.chunk_position) for chunk in chunks]


def last(content: str, **fields) -> AIMessageChunk:
    return AIMessageChunk(content, chunk_position="last", **fields)


@pytest.mark.parametrize(
    "model",
    [
        lambda: FakeListChatModel(responses=["ab"]),
        lambda: Scripted(chunks=[AIMessageChunk("a"), last("b")]),
    ],
)
def test_the_piece_that_its_model_marks_is_the_last(call, model):
    assert shape(call.stream(model(), "?")) == [("a", None), ("b", "last")]


def test_a_whole_answer_is_one_piece(call):
    model = FakeMessagesListChatModel(responses=[AIMessage("ab")])

    assert shape(call.stream(model, "?")) == [("ab", "last")]


def test_the_last_piece_carries_what_the_end_says(call):
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    answer = AIMessage("a b", usage_metadata=usage, response_metadata={"model_name": "m"})

    *_, end = call.stream(GenericFakeChatModel(messages=iter([answer])), "?")

    assert (end.content, end.usage_metadata, end.response_metadata["model_name"]) == (
        "b",
        usage,
        "m",
    )


def test_a_stream_whose_model_marks_nothing_ends_with_an_empty_piece(call):
    model = Scripted(chunks=[AIMessageChunk("a"), AIMessageChunk("b")])

    assert shape(call.stream(model, "?")) == [("a", None), ("b", None), ("", "last")]


def test_usage_that_comes_after_the_mark_is_kept(call):
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    model = Scripted(chunks=[last("a"), AIMessageChunk("", usage_metadata=usage)])

    (only,) = call.stream(model, "?")

    assert (only.content, only.usage_metadata, only.chunk_position) == ("a", usage, "last")


def test_what_was_marked_is_in_the_error_of_a_stream_that_breaks_behind_it(call):
    model = Scripted(chunks=[last("a")], error=OSError("gone"), retry_on_error=0)

    with pytest.raises(Exception, match="gone") as excinfo:
        call.stream(model, "?")

    assert getattr(excinfo.value, "partial", AIMessage("a")).content == "a"


def test_a_stream_without_any_piece_is_a_value_error(call):
    with pytest.raises(EmptyStreamError, match="No generation chunks were returned") as excinfo:
        call.stream(Scripted(chunks=[]), "?")
    assert isinstance(excinfo.value, ValueError)


@pytest.mark.parametrize("version", [None, "v1"])
def test_the_output_version_of_the_environment_counts(call, monkeypatch, version):
    if version is not None:
        monkeypatch.setenv("LC_OUTPUT_VERSION", version)

    content = call.invoke(FakeMessagesListChatModel(responses=[AIMessage("a")]), "?").content

    assert content == ("a" if version is None else [{"type": "text", "text": "a"}])
