"""Types of agents as a user's type checker sees them. Never run: mypy and pyright read it in scripts/check."""

from typing import assert_type

from foldline.agents import AgentState, create_agent
from foldline.agents.checkpoint import InMemorySaver
from foldline.language_models import BaseChatModel
from foldline.messages import AnyMessage


class Shopping(AgentState):
    basket: list[str]


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
