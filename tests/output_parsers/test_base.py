"""The base class of parsers, parsers that users write, and `StrOutputParser`."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from foldline.exceptions import OutputParserException, UsageError
from foldline.load import dumps, loads
from foldline.messages import AIMessage, AIMessageChunk, HumanMessage
from foldline.output_parsers import (
    BaseCumulativeTransformOutputParser,
    BaseGenerationOutputParser,
    BaseOutputParser,
    BaseTransformOutputParser,
    CommaSeparatedListOutputParser,
    JsonOutputParser,
    MarkdownListOutputParser,
    NumberedListOutputParser,
    StrOutputParser,
    XMLOutputParser,
)
from foldline.prompt_values import StringPromptValue
from foldline.runnables import RunnableLambda


class YesOrNo(BaseOutputParser[bool]):
    def parse(self, text: str) -> bool:
        if text not in ("yes", "no"):
            raise OutputParserException(f"neither yes nor no: {text}", llm_output=text)
        return text == "yes"


def test_an_author_writes_parse_and_it_works_everywhere(call):
    parser = YesOrNo()

    assert call.invoke(parser, "yes") is True
    assert call.invoke(parser, AIMessage("no")) is False
    assert call.batch(parser, ["yes", "no"]) == [True, False]
    assert call.transform(parser, ["y", "es"]) == [True]
    assert call.invoke(RunnableLambda(lambda x: x) | parser, "yes") is True
    assert parser.OutputType is bool
    assert parser.parse_with_prompt("yes", StringPromptValue(text="?")) is True
    with pytest.raises(OutputParserException) as excinfo:
        call.invoke(parser, "perhaps")
    assert excinfo.value.llm_output == "perhaps"


def test_what_an_author_did_not_write_says_so():
    with pytest.raises(NotImplementedError, match="YesOrNo"):
        YesOrNo().get_format_instructions()
    assert YesOrNo().asdict() == {"name": None}
    assert StrOutputParser().dict() == {"name": None, "_type": "default"}


def test_an_authors_slow_parser_does_not_block_the_loop():
    threads: list[threading.Thread] = []

    class Slow(BaseOutputParser[str]):
        def parse(self, text: str) -> str:
            threads.append(threading.current_thread())
            return text

    import asyncio

    asyncio.run(Slow().ainvoke("x"))
    assert threads[0] is not threading.main_thread()


def test_an_authors_async_twin_is_used_in_async_calls(call):
    class Twin(BaseOutputParser[str]):
        def parse(self, text: str) -> str:
            return "sync"

        async def aparse(self, text: str) -> str:
            return "async"

    assert call.invoke(Twin(), "x") == call.mode


def test_a_generation_parser_sees_the_generation(call):
    class Kind(BaseGenerationOutputParser[str]):
        def parse_result(self, result: list[Any], *, partial: bool = False) -> str:
            return result[0].type

    assert call.invoke(Kind(), "x") == "Generation"
    assert call.invoke(Kind(), AIMessage("x")) == "ChatGeneration"
    assert call.transform(Kind(), ["x", "y"]) == ["Generation"]


@pytest.mark.parametrize("value", [3, None, {"a": 1}, b"x"])
def test_what_no_model_says_is_a_typed_error(call, value):
    for parser in (StrOutputParser(), YesOrNo(), JsonOutputParser()):
        with pytest.raises(UsageError, match="a message or text"):
            call.invoke(parser, value)


def test_the_text_of_an_answer_streams_piece_by_piece(call):
    parser = StrOutputParser()
    blocks = [{"type": "text", "text": "a"}, {"type": "reasoning", "reasoning": "no"}, "b"]

    assert call.invoke(parser, AIMessage(blocks)) == "ab"
    assert type(call.invoke(parser, AIMessage("x"))) is str
    assert call.transform(parser, ["a", AIMessageChunk("b"), "", HumanMessage("c")]) == [
        "a",
        "b",
        "",
        "c",
    ]
    assert parser.OutputType is str
    assert parser.parse("z") == "z"


def test_a_subclass_of_the_text_parser_is_asked_for_every_piece(call):
    class Upper(StrOutputParser):
        def parse(self, text: str) -> str:
            return text.upper()

    assert call.invoke(Upper(), AIMessage("x")) == "X"
    assert call.transform(Upper(), ["a", "b"]) == ["A", "B"]


def test_a_transform_parser_reads_each_piece_and_a_cumulative_one_all_so_far(call):
    class Each(BaseTransformOutputParser[str]):
        def parse(self, text: str) -> str:
            return text.upper()

    class All(BaseCumulativeTransformOutputParser[str]):
        def parse(self, text: str) -> str:
            return text.upper()

    assert call.transform(Each(), ["a", "b"]) == ["A", "B"]
    assert call.transform(All(), ["a", "", "b"]) == ["A", "AB"]
    assert call.transform(All(), [AIMessageChunk("a"), AIMessageChunk("b")]) == ["A", "AB"]
    assert call.transform(All(), [AIMessage("a")]) == ["A"]
    with pytest.raises(NotImplementedError, match="diff"):
        call.transform(All(diff=True), ["a"])


def test_authors_may_write_transform_or_its_twin_or_both(call):
    class Only(BaseTransformOutputParser[str]):
        def parse(self, text: str) -> str:
            return text

        def _transform(self, input):
            for piece in input:
                yield f"<{piece}>"

    class SyncAndAsync(Only):
        async def _atransform(self, input):
            async for piece in input:
                yield f"({piece})"

    class Wrapped(StrOutputParser):
        def _transform(self, input):
            for piece in super()._transform(input):
                yield piece + "!"

    assert call.transform(Only(), ["a", "b"]) == ["<a>", "<b>"]
    assert call.transform(SyncAndAsync(), ["a"]) == (["(a)"] if call.is_async else ["<a>"])
    assert call.transform(Wrapped(), ["a", "b"]) == ["a!", "b!"]
    assert call.stream(RunnableLambda(lambda x: x) | Only(), "x") == ["<x>"]


def test_closing_a_parsed_stream_closes_its_source():
    closings: list[str] = []

    def pieces():
        try:
            yield '{"a": "x'
            yield "y"
        finally:
            closings.append("yes")

    stream = JsonOutputParser().transform(pieces())
    assert next(stream) == {"a": "x"}
    stream.close()
    assert closings == ["yes"]


@pytest.mark.parametrize(
    "parser",
    [
        StrOutputParser(),
        JsonOutputParser(diff=True),
        XMLOutputParser(tags=["a"]),
        CommaSeparatedListOutputParser(),
        NumberedListOutputParser(pattern="x(.)"),
        MarkdownListOutputParser(),
    ],
    ids=lambda parser: type(parser).__name__,
)
def test_parsers_dump_and_load(parser):
    assert loads(dumps(parser)) == parser
