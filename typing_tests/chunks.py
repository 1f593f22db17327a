"""What a type checker knows of chunks: those of a model are `AIMessageChunk`, wherever it stands. Never run."""

from collections.abc import AsyncGenerator, Iterator
from typing import Any, assert_type

from foldline.language_models import BaseChatModel
from foldline.messages import AIMessage, AIMessageChunk
from foldline.output_parsers import StrOutputParser
from foldline.prompts import ChatPromptTemplate
from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.openai import ChatOpenAI
from foldline.runnables import ConfigurableField, Runnable, RunnableSequence
from foldline.tools import tool


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


MODEL = ChatOpenAI(model="gpt-5", api_key="k")
CLAUDE = ChatAnthropic(model="claude-sonnet-4-5", api_key="k")
PROMPT = ChatPromptTemplate.from_messages([("human", "{question}")])


def test_what_changes_a_model_keeps_its_chunks() -> None:
    assert_type(MODEL.bind(stop=["x"]).stream("x"), Iterator[AIMessageChunk])
    assert_type(MODEL.bind_tools([add]).stream("x"), Iterator[AIMessageChunk])
    assert_type(MODEL.with_config(tags=["x"]).stream("x"), Iterator[AIMessageChunk])
    assert_type(MODEL.with_retry().stream("x"), Iterator[AIMessageChunk])
    assert_type(MODEL.with_fallbacks([CLAUDE]).stream("x"), Iterator[AIMessageChunk])
    assert_type(MODEL.with_listeners().stream("x"), Iterator[AIMessageChunk])
    assert_type(MODEL.with_types(input_type=str).stream("x"), Iterator[AIMessageChunk])
    field = ConfigurableField(id="t")
    assert_type(MODEL.configurable_fields(temperature=field).stream("x"), Iterator[AIMessageChunk])
    either = MODEL.configurable_alternatives(field, other=CLAUDE)
    assert_type(either.stream("x"), Iterator[AIMessageChunk])
    many = MODEL.bind_tools([add]).with_retry().with_config(tags=["x"]).with_fallbacks([CLAUDE])
    assert_type(many.stream("x"), Iterator[AIMessageChunk])
    assert_type(many.invoke("x"), AIMessage)


def test_a_sequence_has_the_chunks_of_its_last_step() -> None:
    assert_type((PROMPT | MODEL).stream({}), Iterator[AIMessageChunk])
    assert_type((PROMPT | MODEL.bind_tools([add])).stream({}), Iterator[AIMessageChunk])
    assert_type(PROMPT.pipe(MODEL).stream({}), Iterator[AIMessageChunk])
    assert_type(({"question": str.upper} | PROMPT | MODEL).stream("x"), Iterator[AIMessageChunk])
    assert_type((PROMPT | MODEL).with_retry().stream({}), Iterator[AIMessageChunk])
    assert_type((PROMPT | MODEL).invoke({}), AIMessage)
    assert_type((PROMPT | MODEL | StrOutputParser()).stream({}), Iterator[str])
    assert_type((PROMPT | MODEL).transform([{}]), Iterator[AIMessageChunk])


async def test_async_streams_have_them_too() -> None:
    assert_type(MODEL.bind(stop=["x"]).astream("x"), AsyncGenerator[AIMessageChunk, None])
    assert_type((PROMPT | MODEL).astream({}), AsyncGenerator[AIMessageChunk, None])
    assert_type((PROMPT | MODEL).atransform([{}]), AsyncGenerator[AIMessageChunk, None])
    whole: AIMessageChunk | None = None
    async for chunk in MODEL.bind_tools([add]).astream("x"):
        whole = chunk if whole is None else whole + chunk
        print(chunk.tool_call_chunks)


def test_two_types_are_enough_to_name_a_runnable(model: BaseChatModel) -> None:
    answers: Runnable[Any, AIMessage] = PROMPT | model
    texts: Runnable[Any, str] = answers | StrOutputParser()
    pair: RunnableSequence[dict[str, Any], AIMessage] = PROMPT | model
    assert_type(texts.stream({}), Iterator[str])
    assert_type(pair.invoke({}), AIMessage)


class Upper(Runnable[str, str]):
    pass


def test_other_runnables_have_chunks_like_their_output() -> None:
    assert_type(Upper().stream("x"), Iterator[str])
    assert_type(Upper().bind(a=1).stream("x"), Iterator[str])
    assert_type((Upper() | Upper()).with_retry().stream("x"), Iterator[str])
