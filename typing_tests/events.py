"""What a type checker knows of events, by their version. Never run."""

from collections.abc import AsyncGenerator, Iterator
from typing import Any, assert_type

from foldline.agents import create_agent
from foldline.language_models.chat_model_stream import AsyncChatModelStream, ChatModelStream
from foldline.output_parsers import StrOutputParser
from foldline.prompts import ChatPromptTemplate
from foldline.protocol import Event
from foldline.providers.openai import ChatOpenAI
from foldline.runnables.schema import StreamEvent

MODEL = ChatOpenAI(model="gpt-5", api_key="k")
PROMPT = ChatPromptTemplate.from_messages([("human", "{question}")])
CHAIN = PROMPT | MODEL | StrOutputParser()


def test_v1_and_v2_are_dicts() -> None:
    assert_type(MODEL.stream_events("x"), Iterator[StreamEvent])
    assert_type(MODEL.stream_events("x", version="v1"), Iterator[StreamEvent])
    assert_type(CHAIN.stream_events({}, version="v2"), Iterator[StreamEvent])
    assert_type(MODEL.bind(stop=["x"]).stream_events("x"), Iterator[StreamEvent])
    for event in CHAIN.stream_events({}):
        assert_type(event["event"], str)
        assert_type(event["run_id"], str)
        print(event["name"], event["data"], event.get("tags"))


async def test_async_too() -> None:
    assert_type(MODEL.astream_events("x"), AsyncGenerator[StreamEvent, None])
    async for event in CHAIN.astream_events({}, version="v2", include_names=["x"]):
        assert_type(event, StreamEvent)
        if event["event"] == "on_chat_model_stream":
            print(event["data"]["chunk"])


def test_v3_is_the_stream_of_a_model() -> None:
    assert_type(MODEL.stream_events("x", version="v3"), ChatModelStream)
    assert_type((PROMPT | MODEL).stream_events({}, version="v3"), ChatModelStream)
    assert_type(MODEL.bind(stop=["x"]).stream_events("x", version="v3"), ChatModelStream)
    for event in MODEL.stream_events("x", version="v3"):
        assert_type(event, Event)
        if event["event"] == "content-block-delta":
            print(event["delta"])


async def test_async_v3() -> None:
    stream = await MODEL.astream_events("x", version="v3")
    assert_type(stream, AsyncChatModelStream)
    assert_type(await (PROMPT | MODEL).astream_events({}, version="v3"), AsyncChatModelStream)


def test_stream_v2_of_what_ends_in_a_model() -> None:
    assert_type(MODEL.bind(stop=["x"]).stream_v2("x"), ChatModelStream)
    assert_type((PROMPT | MODEL).stream_v2({}), ChatModelStream)


def test_an_agent_has_its_own_v3() -> None:
    agent = create_agent(MODEL)
    assert_type(agent.stream_events("x"), Iterator[StreamEvent])
    assert_type(agent.stream_events("x", version="v3"), Iterator[dict[str, Any]])
    assert_type(agent.astream_events("x"), AsyncGenerator[StreamEvent, None])
    assert_type(agent.astream_events("x", version="v3"), AsyncGenerator[dict[str, Any], None])
