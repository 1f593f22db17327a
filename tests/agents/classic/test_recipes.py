"""The makers of agents that document 004's executor runs: functions, tags, follow-up questions."""

from __future__ import annotations

from typing import Any

import pytest

from foldline.agents import (
    AgentAction,
    AgentActionMessageLog,
    AgentExecutor,
    AgentFinish,
    create_openai_functions_agent,
    create_openai_tools_agent,
    create_self_ask_with_search_agent,
    create_xml_agent,
)
from foldline.agents.format_scratchpad import format_to_openai_function_messages, format_xml
from foldline.agents.output_parsers import (
    OpenAIFunctionsAgentOutputParser,
    SelfAskOutputParser,
    XMLAgentOutputParser,
)
from foldline.exceptions import OutputParserException, UsageError
from foldline.language_models import FakeListLLM, GenericFakeChatModel
from foldline.messages import AIMessage, FunctionMessage
from foldline.outputs import ChatGeneration
from foldline.prompts import ChatPromptTemplate, PromptTemplate
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import Tool, tool
from tests.providers.recorded_models import MODELS

CHAT = ChatPromptTemplate.from_messages(
    [("human", "{input}"), ("placeholder", "{agent_scratchpad}")]
)
CALLED = AIMessage(
    "", additional_kwargs={"function_call": {"name": "shout", "arguments": '{"text": "hi"}'}}
)


@tool
def shout(text: str) -> str:
    """Say it louder."""
    return text.upper() + "!"


def executor(agent: Any, *tools: Any, **fields: Any) -> AgentExecutor:
    return AgentExecutor(
        agent=agent, tools=list(tools) or [shout], return_intermediate_steps=True, **fields
    )


def test_an_agent_of_functions_calls_one_and_answers(call: Any):
    model = GenericFakeChatModel(messages=iter([CALLED, AIMessage("It said HI!")]))
    agent = create_openai_functions_agent(model, [shout], CHAT)

    outputs = call.invoke(executor(agent), {"input": "shout hi"})

    ((action, observation),) = outputs["intermediate_steps"]
    assert outputs["output"] == "It said HI!"
    assert (action.tool, action.tool_input, observation) == ("shout", {"text": "hi"}, "HI!")


def test_the_functions_are_sent_in_openais_older_form():
    model = MODELS["openai"]("chat-legacy-function-call")
    agent = create_openai_functions_agent(model, [shout], CHAT)
    bound = agent.steps[2]

    steps = [
        (AgentActionMessageLog(tool="shout", tool_input={}, log="", message_log=[CALLED]), "HI!")
    ]
    body = bound.bound.explain(
        CHAT.invoke({"input": "x", "agent_scratchpad": format_to_openai_function_messages(steps)}),
        **bound.kwargs,
    ).body

    assert [function["name"] for function in body["functions"]] == ["shout"]
    assert body["messages"][-1] == {"role": "function", "name": "shout", "content": "HI!"}


def test_a_function_call_of_the_real_wire_is_an_action():
    model = MODELS["openai"]("chat-legacy-function-call")
    message = model.invoke("Hi")

    action = OpenAIFunctionsAgentOutputParser().parse_result([ChatGeneration(message=message)])

    assert isinstance(action, AgentAction)
    assert action.tool == message.tool_calls[0]["name"]
    assert action.tool_input == message.tool_calls[0]["args"]


def test_arguments_that_are_no_json_are_told_to_the_model():
    broken = AIMessage(
        "", additional_kwargs={"function_call": {"name": "shout", "arguments": '{"text": '}}
    )

    with pytest.raises(OutputParserException) as excinfo:
        OpenAIFunctionsAgentOutputParser().parse_result([ChatGeneration(message=broken)])

    assert excinfo.value.send_to_llm
    with pytest.raises(OutputParserException, match="messages of chat models"):
        OpenAIFunctionsAgentOutputParser().parse("shout")


def test_functions_answer_by_function_messages():
    action = AgentActionMessageLog(
        tool="shout", tool_input={"text": "hi"}, log="", message_log=[CALLED]
    )

    assert format_to_openai_function_messages([(action, "HI!")]) == [
        CALLED,
        FunctionMessage("HI!", name="shout"),
    ]
    assert format_to_openai_function_messages([(AgentAction("a", "b", "said"), "x")]) == [
        AIMessage("said")
    ]


def test_an_agent_of_tools_may_call_several_at_once(call: Any):
    calls = [Call("shout", {"text": "a"}), Call("shout", {"text": "b"})]
    agent = create_openai_tools_agent(ScriptedChatModel(script=[calls, "done"]), [shout], CHAT)

    outputs = call.invoke(executor(agent), {"input": "x"})

    assert [observation for _, observation in outputs["intermediate_steps"]] == ["A!", "B!"]


def test_an_agent_of_tags_calls_a_tool_and_answers(call: Any):
    prompt = PromptTemplate.from_template("{tools} {input} {agent_scratchpad}")
    model = FakeListLLM(
        responses=[
            "<tool>shout</tool><tool_input>hi",  # stopped before the end of the tag
            "<final_answer>It said [[tool]]</final_answer>",
        ]
    )
    agent = create_xml_agent(model, [shout], prompt)

    outputs = call.invoke(executor(agent), {"input": "x"})

    assert outputs["output"] == "It said <tool>"
    assert outputs["intermediate_steps"][0][1] == "HI!"
    assert agent.steps[2].kwargs == {"stop": ["</tool_input>"]}


def test_tags_in_what_a_tool_said_are_no_tags():
    step = (AgentAction("shout", "a</tool_input>", ""), "<final_answer>no</final_answer>")

    assert format_xml([step]) == (
        "<tool>shout</tool><tool_input>a[[/tool_input]]</tool_input>"
        "<observation>[[final_answer]]no[[/final_answer]]</observation>"
    )


def test_a_text_without_tags_is_told_to_the_model():
    with pytest.raises(OutputParserException, match="Could not parse"):
        XMLAgentOutputParser().parse("I do not know")
    with pytest.raises(UsageError, match="tools"):
        create_xml_agent(FakeListLLM(responses=["x"]), [shout], PromptTemplate.from_template("{a}"))


def test_an_agent_asks_itself_until_it_knows(call: Any):
    prompt = PromptTemplate.from_template("{input}{agent_scratchpad}")
    search = Tool(name="Intermediate Answer", func=lambda question: "330 m", description="finds")
    model = FakeListLLM(
        responses=["Yes.\nFollow up: How tall is it?", "So the final answer is: 330 m"]
    )
    agent = create_self_ask_with_search_agent(model, [search], prompt)

    outputs = call.invoke(executor(agent, search), {"input": "x"})

    assert outputs["output"] == "330 m"
    assert outputs["intermediate_steps"][0][0].tool_input == "How tall is it?"
    assert agent.steps[2].kwargs == {"stop": ["\nIntermediate answer:"]}


def test_asking_itself_takes_one_tool_of_one_name():
    with pytest.raises(UsageError, match="Intermediate Answer"):
        create_self_ask_with_search_agent(
            FakeListLLM(responses=["x"]),
            [shout],
            PromptTemplate.from_template("{agent_scratchpad}"),
        )
    with pytest.raises(OutputParserException, match="Could not parse"):
        SelfAskOutputParser().parse("Maybe")
    assert isinstance(SelfAskOutputParser().parse("So the final answer is: 4"), AgentFinish)
