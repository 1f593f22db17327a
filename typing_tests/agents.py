"""What a user's type checker must see of agents. Never run: mypy and pyright read it in scripts/check."""

from typing import Any, TypedDict, assert_type

from pydantic import BaseModel

from foldline.agents import (
    Agent,
    AgentState,
    AutoStrategy,
    ProviderStrategy,
    StructuredAgentState,
    ToolStrategy,
    create_agent,
)
from foldline.agents.checkpoint import InMemorySaver
from foldline.language_models import BaseChatModel
from foldline.messages import AnyMessage


class Shopping(AgentState):
    basket: list[str]


class Joke(BaseModel):
    setup: str


class Place(TypedDict):
    city: str


def an_agent_gives_its_state(model: BaseChatModel) -> None:
    state = create_agent(model, checkpointer=InMemorySaver()).invoke({"messages": "hi"})
    assert_type(state, AgentState)
    assert_type(state["messages"], list[AnyMessage])
    for question in state.get("__interrupt__", []):
        assert_type(question.id, str)


async def a_schema_of_the_user_is_the_state(model: BaseChatModel) -> None:
    agent = create_agent(model, state_schema=Shopping)
    assert_type(agent.invoke({"messages": "hi", "basket": []})["basket"], list[str])
    assert_type((await agent.ainvoke("hi"))["basket"], list[str])


async def a_response_format_gives_its_answer(model: BaseChatModel) -> None:
    agent = create_agent(model, response_format=Joke)
    assert_type(agent, Agent[StructuredAgentState[Joke]])
    state = agent.invoke({"messages": [{"role": "user", "content": "x"}]})
    assert_type(state["structured_response"], Joke)
    assert_type(state["messages"], list[AnyMessage])
    assert_type((await agent.ainvoke("x"))["structured_response"].setup, str)
    place = create_agent(model, response_format=Place).invoke("x")["structured_response"]
    assert_type(place, Place)


def the_ways_to_ask_for_it(model: BaseChatModel) -> None:
    tool = create_agent(model, response_format=ToolStrategy(Joke, handle_errors=False))
    assert_type(tool.invoke("x")["structured_response"], Joke)
    native = create_agent(model, response_format=ProviderStrategy(Joke, strict=True))
    assert_type(native.invoke("x")["structured_response"], Joke)
    either = create_agent(model, response_format=AutoStrategy(Place))
    assert_type(either.invoke("x")["structured_response"], Place)


def schemas_without_a_class(model: BaseChatModel) -> None:
    by_dict = create_agent(model, response_format={"title": "Joke", "type": "object"})
    assert_type(by_dict.invoke("x")["structured_response"], Any)
    by_tool = create_agent(model, response_format=ToolStrategy({"title": "Joke"}))
    assert_type(by_tool.invoke("x")["structured_response"], Any)
    # Typeshed says that `A | B` may be A, which mypy believes; here it must only be no error.
    print(create_agent(model, response_format=Joke | Place).invoke("x")["structured_response"])
    either = create_agent(model, response_format=ToolStrategy(Joke | Place))
    print(either.invoke("x")["structured_response"])


def a_format_that_may_be_none(model: BaseChatModel, format: type[Joke] | None) -> None:
    state = create_agent(model, response_format=format).invoke("x")
    assert_type(state["messages"], list[AnyMessage])
    print(state.get("structured_response"))
