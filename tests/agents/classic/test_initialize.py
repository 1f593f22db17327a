"""`initialize_agent`: every kind of agent runs from its name alone, with prompts of our own."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.agents import AgentExecutor, AgentType, initialize_agent
from foldline.agents.classic.initialize import KINDS
from foldline.callbacks import BaseCallbackHandler
from foldline.exceptions import UsageError
from foldline.language_models import FakeListChatModel, FakeListLLM, GenericFakeChatModel
from foldline.memory import ConversationBufferMemory
from foldline.messages import AIMessage, SystemMessage
from foldline.prompts import MessagesPlaceholder
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import Tool, tool


@tool
def shout(text: str) -> str:
    """Say it louder."""
    return text.upper() + "!"


def tool_named(name: str) -> Tool:
    return Tool(name=name, func=lambda text: text.upper() + "!", description="finds")


def functions() -> GenericFakeChatModel:
    function_call = {"function_call": {"name": "shout", "arguments": '{"text": "hi"}'}}
    return GenericFakeChatModel(
        messages=iter([AIMessage("", additional_kwargs=function_call), AIMessage("HI!")])
    )


ACTION = "Thought: so\nAction: shout\nAction Input: hi"
BLOB = '```\n{"action": "shout", "action_input": "hi"}\n```'
STRUCTURED = '```\n{"action": "shout", "action_input": {"text": "hi"}}\n```'
END = '```\n{"action": "Final Answer", "action_input": "HI!"}\n```'
RUNS: dict[AgentType, tuple[list[Any], Any]] = {
    AgentType.ZERO_SHOT_REACT_DESCRIPTION: (
        [shout],
        lambda: FakeListLLM(responses=[ACTION, "Final Answer: HI!"]),
    ),
    AgentType.REACT_DOCSTORE: (
        [tool_named("Search"), tool_named("Lookup")],
        lambda: FakeListLLM(responses=["I search.\nAction: Search[hi]", "Action: Finish[HI!]"]),
    ),
    AgentType.SELF_ASK_WITH_SEARCH: (
        [tool_named("Intermediate Answer")],
        lambda: FakeListLLM(responses=[" Yes.\nFollow up: hi", "So the final answer is: HI!"]),
    ),
    AgentType.CONVERSATIONAL_REACT_DESCRIPTION: (
        [shout],
        lambda: FakeListLLM(responses=[ACTION, "Thought: Do I need a tool? No\nAI: HI!"]),
    ),
    AgentType.CHAT_ZERO_SHOT_REACT_DESCRIPTION: (
        [shout],
        lambda: FakeListChatModel(responses=[f"Thought: so\nAction:\n{BLOB}", "Final Answer: HI!"]),
    ),
    AgentType.CHAT_CONVERSATIONAL_REACT_DESCRIPTION: (
        [shout],
        lambda: FakeListChatModel(responses=[BLOB, END]),
    ),
    AgentType.STRUCTURED_CHAT_ZERO_SHOT_REACT_DESCRIPTION: (
        [shout],
        lambda: FakeListChatModel(responses=[f"Action:\n{STRUCTURED}", f"Action:\n{END}"]),
    ),
    AgentType.OPENAI_FUNCTIONS: ([shout], functions),
    AgentType.OPENAI_MULTI_FUNCTIONS: (
        [shout],
        lambda: ScriptedChatModel(script=[[Call("shout", {"text": "hi"})], "HI!"]),
    ),
}


class Recorder(BaseCallbackHandler):
    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.tags: list[str] = []

    def on_chain_start(self, serialized: Any, inputs: Any, **kwargs: Any) -> None:
        self.tags = self.tags or kwargs["tags"]

    def on_llm_start(self, serialized: Any, prompts: list[str], **kwargs: Any) -> None:
        self.prompts += prompts

    def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
        self.prompts.append("\n".join(str(message.text) for message in messages[0]))


@pytest.mark.parametrize("kind", AgentType)
def test_every_kind_uses_its_tool_and_answers(kind: AgentType, call: Any):
    tools, model = RUNS[kind]
    recorder = Recorder()
    executor = initialize_agent(tools, model(), agent=kind, return_intermediate_steps=True)
    inputs: dict[str, Any] = {"input": "shout hi"}
    if kind == AgentType.CONVERSATIONAL_REACT_DESCRIPTION:
        inputs["chat_history"] = ""

    outputs = call.invoke(executor, inputs, {"callbacks": [recorder]})

    assert isinstance(executor, AgentExecutor)
    assert outputs["output"] == "HI!"
    assert [observation for _, observation in outputs["intermediate_steps"]] == ["HI!"]
    assert kind.value in recorder.tags
    assert "shout hi" in recorder.prompts[0]


def test_the_default_thinks_aloud_and_a_name_will_do():
    model = FakeListLLM(responses=["Final Answer: HI!"])

    assert initialize_agent([shout], model).run("x") == "HI!"
    assert initialize_agent([shout], model, "zero-shot-react-description").run("x") == "HI!"


def test_a_conversation_is_remembered(call: Any):
    recorder = Recorder()
    memory = ConversationBufferMemory(memory_key="chat_history")
    model = FakeListLLM(responses=["AI: Hello Ann!", "AI: You are Ann."])
    kind = AgentType.CONVERSATIONAL_REACT_DESCRIPTION
    executor = initialize_agent([shout], model, agent=kind, memory=memory)

    call.invoke(executor, {"input": "I am Ann"})
    outputs = call.invoke(executor, {"input": "Who am I?"}, {"callbacks": [recorder]})

    assert outputs["output"] == "You are Ann."
    assert "Human: I am Ann\nAI: Hello Ann!" in recorder.prompts[0]


def test_the_words_of_a_prompt_can_be_replaced():
    recorder = Recorder()
    model = FakeListLLM(responses=["Final Answer: HI!"])
    agent_kwargs = {"prefix": "PREFIX", "suffix": "SUFFIX {input} {agent_scratchpad}"}

    initialize_agent([shout], model, agent_kwargs=agent_kwargs).run("x", callbacks=[recorder])

    assert recorder.prompts[0].startswith("PREFIX")
    assert "SUFFIX x" in recorder.prompts[0]


def test_messages_can_stand_before_the_question():
    recorder = Recorder()
    model = ScriptedChatModel(script=["HI!"])
    agent_kwargs = {
        "system_message": SystemMessage("SYSTEM"),
        "extra_prompt_messages": [MessagesPlaceholder("chat_history")],
    }
    kind = AgentType.OPENAI_MULTI_FUNCTIONS
    executor = initialize_agent([shout], model, agent=kind, agent_kwargs=agent_kwargs)

    executor.invoke(
        {"input": "x", "chat_history": [AIMessage("BEFORE")]}, {"callbacks": [recorder]}
    )

    assert recorder.prompts[0].split("\n") == ["SYSTEM", "BEFORE", "x"]


def test_what_is_not_known_is_refused_by_name():
    model = FakeListLLM(responses=["x"])

    with pytest.raises(UsageError, match="there is no agent 'unheard-of'"):
        initialize_agent([shout], model, "unheard-of")
    with pytest.raises(
        UsageError, match=r"agent_kwargs of zero-shot-react-description are .*not bogus"
    ):
        initialize_agent([shout], model, agent_kwargs={"bogus": 1})
    with pytest.raises(UsageError, match="Search and Lookup"):
        initialize_agent([shout], model, AgentType.REACT_DOCSTORE)
    with pytest.raises(UsageError, match="not loaded from files"):
        initialize_agent([shout], model, agent_path="agent.json")


def test_every_kind_has_a_row():
    assert set(KINDS) == set(AgentType)
