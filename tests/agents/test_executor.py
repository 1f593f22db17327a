"""`AgentExecutor`, seed 004's loop: plan, act, until there is an answer."""

from __future__ import annotations

import asyncio
import time

import pytest

from foldline.agents import (
    AgentAction,
    AgentExecutor,
    AgentFinish,
    AgentStep,
    BaseMultiActionAgent,
    BaseSingleActionAgent,
    RunnableAgent,
    RunnableMultiActionAgent,
    create_json_chat_agent,
    create_react_agent,
    create_structured_chat_agent,
    create_tool_calling_agent,
)
from foldline.agents.format_scratchpad import (
    format_log_to_messages,
    format_log_to_str,
    format_to_tool_messages,
)
from foldline.exceptions import OutputParserException, UsageError
from foldline.language_models import FakeListChatModel, FakeListLLM
from foldline.memory import ConversationBufferMemory
from foldline.messages import AIMessage, HumanMessage, ToolMessage
from foldline.prompts import ChatPromptTemplate, PromptTemplate
from foldline.testing import Call, Finish, ScriptedChatModel
from foldline.tools import tool
from tests.agents.conftest import Recorder

pytestmark = pytest.mark.timing

REACT = PromptTemplate.from_template("{tools} {tool_names} {input} {agent_scratchpad}")
TOOLS = ChatPromptTemplate.from_messages(
    [("human", "{input}"), ("placeholder", "{agent_scratchpad}")]
)
JSON = ChatPromptTemplate.from_messages(
    [
        ("system", "{tools} {tool_names}"),
        ("human", "{input}"),
        ("placeholder", "{agent_scratchpad}"),
    ]
)
ACT = "Thought: let me see\nAction: shout\nAction Input: hi"
END = "I know\nFinal Answer: HI!"


@tool
def shout(text: str) -> str:
    """Say it louder."""
    return text.upper() + "!"


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def react(*answers, **kwargs):
    model = FakeListLLM(responses=list(answers))
    return AgentExecutor(agent=create_react_agent(model, [shout], REACT), tools=[shout], **kwargs)


def test_a_react_agent_acts_and_answers(call):
    outputs = call.invoke(react(ACT, END, return_intermediate_steps=True), {"input": "?"})

    assert outputs["output"] == "HI!"
    assert outputs["input"] == "?"
    (step,) = outputs["intermediate_steps"]
    assert (step[0].tool, step[0].tool_input, step[1]) == ("shout", "hi", "HI!")


def test_stream_gives_actions_steps_and_the_answer(call):
    pieces = call.stream(react(ACT, END), {"input": "?"})

    assert [sorted(piece) for piece in pieces] == [
        ["actions", "messages"],
        ["messages", "steps"],
        ["messages", "output"],
    ]
    assert isinstance(pieces[0]["actions"][0], AgentAction)
    assert isinstance(pieces[1]["steps"][0], AgentStep)
    assert pieces[2]["output"] == "HI!"


def test_iter_gives_step_by_step(call):
    executor = react(ACT, END)

    async def collect():
        return [step async for step in executor.iter({"input": "?"})]

    steps = list(executor.iter({"input": "?"})) if not call.is_async else asyncio.run(collect())

    assert steps[0]["intermediate_step"][0][1] == "HI!"
    assert steps[-1]["output"] == "HI!"


def test_an_unknown_tool_is_told_to_the_agent(call):
    outputs = call.invoke(
        react("Action: whisper\nAction Input: hi", END, return_intermediate_steps=True),
        {"input": "?"},
    )

    assert outputs["intermediate_steps"][0][1] == "whisper is not a valid tool, try one of [shout]."


def test_words_that_do_not_parse_raise_or_are_told_to_the_agent(call):
    def observation_for(handle):
        executor = react(
            "gibberish", END, handle_parsing_errors=handle, return_intermediate_steps=True
        )
        return call.invoke(executor, {"input": "?"})["intermediate_steps"][0]

    assert observation_for(True)[1] == "Invalid Format: Missing 'Action:' after 'Thought:'"
    assert observation_for(True)[0].tool == "_Exception"
    assert observation_for("speak clearly")[1] == "speak clearly"
    assert observation_for(lambda error: f"what? {error.llm_output}")[1] == "what? gibberish"
    with pytest.raises(OutputParserException, match="handle_parsing_errors=True"):
        call.invoke(react("gibberish"), {"input": "?"})


def test_an_answer_that_never_parses_stops_at_the_limit(call):
    executor = react(
        "gibberish", handle_parsing_errors=True, max_iterations=3, return_intermediate_steps=True
    )

    outputs = call.invoke(executor, {"input": "?"})

    assert outputs["output"] == "Agent stopped due to iteration limit or time limit."
    assert len(outputs["intermediate_steps"]) == 3


def test_a_stopped_agent_may_generate_its_last_words(call):
    executor = react(ACT, ACT, END, max_iterations=2, early_stopping_method="generate")

    assert call.invoke(executor, {"input": "?"})["output"] == "HI!"
    with pytest.raises(UsageError):
        call.invoke(react(ACT, max_iterations=1, early_stopping_method="shrug"), {"input": "?"})


def test_a_time_limit_stops_it(call):
    @tool
    def nap(text: str) -> str:
        """Sleep."""
        time.sleep(0.15)
        return text

    model = FakeListLLM(responses=["Action: nap\nAction Input: x"])
    agent = create_react_agent(model, [nap], REACT)
    executor = AgentExecutor(agent=agent, tools=[nap], max_execution_time=0.2, max_iterations=None)
    start = time.monotonic()

    assert call.invoke(executor, {"input": "?"})["output"].startswith("Agent stopped")
    assert time.monotonic() - start < 5


def test_a_tool_that_returns_direct_is_the_answer(call):
    @tool(return_direct=True)
    def shout(text: str) -> str:
        """Say it louder."""
        return text.upper()

    agent = create_react_agent(FakeListLLM(responses=[ACT]), [shout], REACT)

    assert call.invoke(AgentExecutor(agent=agent, tools=[shout]), {"input": "?"})["output"] == "HI"


def test_only_the_last_steps_are_shown_to_the_agent(call):
    step_counts = []

    class Watching(BaseSingleActionAgent):
        @property
        def input_keys(self):
            return ["input"]

        def plan(self, intermediate_steps, callbacks=None, **kwargs):
            step_counts.append(len(intermediate_steps))
            if len(step_counts) < 4:
                return AgentAction("shout", "hi", "")
            return AgentFinish({"output": "done"}, "")

    executor = AgentExecutor(agent=Watching(), tools=[shout], trim_intermediate_steps=2)

    assert call.invoke(executor, "?")["output"] == "done"
    assert step_counts == [0, 1, 2, 2]


def test_an_agent_may_plan_several_actions_at_once(call):
    class TwoActionAgent(BaseMultiActionAgent):
        @property
        def input_keys(self):
            return ["input"]

        def plan(self, intermediate_steps, callbacks=None, **kwargs):
            if intermediate_steps:
                return AgentFinish({"output": [step for _, step in intermediate_steps]}, "")
            return [AgentAction("shout", "a", ""), AgentAction("shout", "b", "")]

    assert call.invoke(AgentExecutor(agent=TwoActionAgent(), tools=[shout]), "?")["output"] == [
        "A!",
        "B!",
    ]


def test_a_tool_calling_agent_sends_results_back_with_their_ids(call):
    model = ScriptedChatModel(
        script=[
            [Call("add", {"a": 1, "b": 2}, id="c1"), Call("add", {"a": 3, "b": 4}, id="c2")],
            "3 and 7",
        ]
    )
    executor = AgentExecutor(agent=create_tool_calling_agent(model, [add], TOOLS), tools=[add])

    outputs = call.invoke(executor, {"input": "?"})

    assert isinstance(executor.agent, RunnableMultiActionAgent)
    assert outputs["output"] == "3 and 7"
    messages = model.requests[1].messages
    assert [type(message) for message in messages] == [
        HumanMessage,
        AIMessage,
        ToolMessage,
        ToolMessage,
    ]
    assert [(message.tool_call_id, message.content) for message in messages[2:]] == [
        ("c1", "3"),
        ("c2", "7"),
    ]


@pytest.mark.parametrize(
    "turn", [[Call("add", '{"a": 1')], [Call("add", {"a": 1, "b": 2}), Finish("length")]]
)
def test_E5_a_tool_calling_agent_runs_no_broken_or_cut_call(call, turn):
    model = ScriptedChatModel(script=[turn, "sorry"])
    executor = AgentExecutor(
        agent=create_tool_calling_agent(model, [add], TOOLS), tools=[add],
        handle_parsing_errors=True, return_intermediate_steps=True,
    )  # fmt: skip

    outputs = call.invoke(executor, {"input": "?"})

    assert outputs["intermediate_steps"][0][0].tool == "_Exception"
    assert "Not run: add" in outputs["intermediate_steps"][0][1]


def test_agents_that_speak_json(call):
    act = '```json\n{"action": "add", "action_input": {"a": 1, "b": 2}}\n```'
    end = 'Action:\n```\n{"action": "Final Answer", "action_input": "3"}\n```'
    for make in (create_structured_chat_agent, create_json_chat_agent):
        prompt = REACT if make is create_structured_chat_agent else JSON
        agent = make(FakeListChatModel(responses=[act, end]), [add], prompt)
        assert call.invoke(AgentExecutor(agent=agent, tools=[add]), {"input": "?"})["output"] == "3"


def test_a_prompt_without_its_variables_is_refused():
    with pytest.raises(UsageError, match="agent_scratchpad"):
        create_react_agent(
            FakeListLLM(responses=["x"]), [shout], PromptTemplate.from_template("{input}")
        )
    with pytest.raises(UsageError, match="takes no tools"):
        create_tool_calling_agent(FakeListLLM(responses=["x"]), [shout], TOOLS)


def test_memory_is_read_and_written(call):
    memory = ConversationBufferMemory(memory_key="history", input_key="input", output_key="output")
    prompt = PromptTemplate.from_template(
        "{history} {tools} {tool_names} {input} {agent_scratchpad}"
    )
    model = FakeListLLM(responses=[ACT, END, END])
    executor = AgentExecutor(
        agent=create_react_agent(model, [shout], prompt), tools=[shout], memory=memory
    )

    call.invoke(executor, {"input": "first"})
    call.stream(executor, {"input": "second"})

    assert "Human: first\nAI: HI!" in memory.load_memory_variables({})["history"]
    assert "Human: second\nAI: HI!" in memory.load_memory_variables({})["history"]


def test_callbacks_nest_and_actions_are_told(call):
    recorder = Recorder()
    tools_called = []
    recorder.on_agent_action = lambda action, **kwargs: tools_called.append(action.tool)  # type: ignore[method-assign]
    recorder.on_agent_finish = lambda finish, **kwargs: tools_called.append("finish")  # type: ignore[method-assign]
    recorder.on_llm_start = lambda serialized, prompts, *, run_id, parent_run_id=None, **kwargs: (
        recorder._start("llm", "llm", run_id, parent_run_id)
    )

    call.invoke(react(ACT, END), {"input": "?"}, {"callbacks": [recorder]})

    assert tools_called == ["shout", "finish"]
    assert recorder.parents["shout"] == "AgentExecutor"
    assert recorder.parents["RunnableSequence"] == "AgentExecutor"
    assert recorder.starts() == recorder.ends()


def test_FU10_a_tool_that_floods_is_cut_with_a_notice(call):
    @tool
    def flood(text: str) -> str:
        """Flood."""
        return text * 1000

    flood.max_output = 200
    agent = create_react_agent(
        FakeListLLM(responses=[ACT.replace("shout", "flood"), END]), [flood], REACT
    )
    executor = AgentExecutor(agent=agent, tools=[flood], return_intermediate_steps=True)

    (step,) = call.invoke(executor, {"input": "?"})["intermediate_steps"]

    assert step[1].startswith("hihihi")
    assert len(step[1]) < 400


def test_FU11_a_time_limit_in_the_middle_of_several_actions_keeps_those_that_are_done():
    @tool
    async def nap(seconds: float) -> str:
        """Sleep."""
        await asyncio.sleep(seconds)
        return f"{seconds} s"

    model = ScriptedChatModel(
        script=[[Call("nap", {"seconds": seconds}) for seconds in (5.0, 0.01)]]
    )
    executor = AgentExecutor(
        agent=create_tool_calling_agent(model, [nap], TOOLS),
        tools=[nap],
        max_execution_time=0.3,
        return_intermediate_steps=True,
    )

    outputs = asyncio.run(executor.ainvoke({"input": "?"}))

    assert outputs["output"] == "Agent stopped due to iteration limit or time limit."
    assert [output for _, output in outputs["intermediate_steps"]] == ["0.01 s"]


def test_a_subclass_that_iterates_its_steps_otherwise_is_obeyed(call):
    class Hasty(AgentExecutor):
        def _iter_next_step(self, *args, **kwargs):
            for step in super()._iter_next_step(*args, **kwargs):
                if isinstance(step, AgentStep):
                    yield AgentFinish({"output": "enough"}, "")

    executor = react(ACT, END)
    hasty = Hasty(agent=executor.agent, tools=executor.tools)

    assert call.invoke(hasty, {"input": "?"})["output"] == "enough"


@pytest.mark.parametrize("order", [1, -1])
def test_a_step_that_finishes_beside_other_values_is_an_error(call, order):
    class Hasty(AgentExecutor):
        def _iter_next_step(self, *args, **kwargs):
            steps = list(super()._iter_next_step(*args, **kwargs))
            yield from [*steps, AgentFinish({"output": "enough"}, "")][::order]

    executor = react(ACT, END)
    hasty = Hasty(agent=executor.agent, tools=executor.tools)

    with pytest.raises(UsageError, match="AgentFinish beside 2 other values"):
        call.invoke(hasty, {"input": "?"})


def test_a_tool_that_raises_ends_the_run_with_its_steps(call):
    @tool
    def shout(text: str) -> str:
        """Say it louder."""
        raise OSError("no voice")

    agent = create_react_agent(FakeListLLM(responses=[ACT]), [shout], REACT)

    with pytest.raises(OSError, match="no voice") as excinfo:
        call.invoke(AgentExecutor(agent=agent, tools=[shout]), {"input": "?"})
    assert excinfo.value.intermediate_steps == []


def test_a_subclass_that_overrides_a_step_is_obeyed(call):
    class Counting(AgentExecutor):
        taken: list[int] = []  # noqa: RUF012

        def _take_next_step(
            self, name_to_tool_map, color_mapping, inputs, intermediate_steps, run_manager=None
        ):
            self.taken.append(len(intermediate_steps))
            return super()._take_next_step(
                name_to_tool_map, color_mapping, inputs, intermediate_steps, run_manager
            )

    agent = create_react_agent(FakeListLLM(responses=[ACT, END]), [shout], REACT)
    executor = Counting(agent=agent, tools=[shout], taken=[])

    assert call.invoke(executor, {"input": "?"})["output"] == "HI!"
    assert executor.taken == [0, 1]


def test_the_steps_of_the_loop_under_their_names():
    executor = react(ACT, END, return_intermediate_steps=True)
    tools = {"shout": shout}

    steps = executor._take_next_step(tools, {}, {"input": "?"}, [])
    outputs = list(executor._iter_next_step(tools, {}, {"input": "?"}, steps))

    assert steps[0][1] == "HI!"
    assert isinstance(outputs[0], AgentFinish)
    assert executor._consume_next_step(outputs) is outputs[0]
    assert executor._return(outputs[0], steps)["intermediate_steps"] == steps
    assert executor._should_continue(14, 0.0)
    assert not executor._should_continue(15, 0.0)
    assert executor._perform_agent_action(tools, {}, steps[0][0]).observation == "HI!"
    assert executor._get_tool_return(steps[0]) is None


def test_wrong_agents_are_refused():
    with pytest.raises(ValueError, match="agent must be a runnable"):
        AgentExecutor(agent=3, tools=[shout])
    assert isinstance(react("x").agent, RunnableAgent)


def test_scratchpads():
    steps = [(AgentAction("shout", "hi", "Thought: x"), "HI!")]

    assert format_log_to_str(steps) == "Thought: x\nObservation: HI!\nThought: "
    assert [message.content for message in format_log_to_messages(steps, "got {observation}")] == [
        "Thought: x",
        "got HI!",
    ]
    assert format_to_tool_messages(steps) == [AIMessage("Thought: x")]


def test_hostile_words_are_read_in_linear_time():
    from foldline.agents.output_parsers import ReActSingleInputOutputParser

    parser = ReActSingleInputOutputParser()
    start = time.monotonic()
    for hostile in ("Action" + " " * 200_000, "Action:" * 50_000, "Action Input:" * 50_000):
        with pytest.raises(OutputParserException):
            parser.parse(hostile)
    assert time.monotonic() - start < 2


def test_the_awaited_steps_of_the_loop_under_their_names():
    executor = react(ACT, END)
    tools = {"shout": executor.lookup_tool("shout")}
    action = AgentAction("shout", "hi", "")

    async def steps():
        step = await executor._aperform_agent_action(tools, {}, action)
        next_steps = await executor._atake_next_step(tools, {}, {"input": "?"}, [])
        return (
            step,
            next_steps,
            await executor._areturn(AgentFinish({"output": "x"}, ""), next_steps),
        )

    step, next_steps, final = asyncio.run(steps())

    assert step.observation == "HI!"
    assert [observation for _, observation in next_steps] == ["HI!"]
    assert final == {"output": "x"}


def test_iter_tells_the_id_of_its_run_where_asked(call):
    executor = AgentExecutor.from_agent_and_tools(react(ACT, END).agent, [shout])

    async def collect():
        return [step async for step in executor.iter({"input": "?"}, include_run_info=True)]

    steps = (
        list(executor.iter({"input": "?"}, include_run_info=True))
        if not call.is_async
        else asyncio.run(collect())
    )

    assert steps[-2]["output"] == "HI!"
    assert steps[-1]["__run"].run_id


def test_a_subclass_that_writes_the_whole_loop_is_obeyed(call):
    class BracketExecutor(AgentExecutor):
        def _call(self, inputs, run_manager=None):
            outputs = super()._call(inputs, run_manager=run_manager)
            return {"output": f"<{outputs['output']}>"}

    executor = react(ACT, END)

    assert (
        call.invoke(BracketExecutor(agent=executor.agent, tools=executor.tools), {"input": "?"})[
            "output"
        ]
        == "<HI!>"
    )


def test_a_plan_that_a_subclass_of_a_runnable_agent_writes_is_obeyed(call):
    class Hesitant(RunnableAgent):
        def plan(self, intermediate_steps, callbacks=None, **kwargs):
            planned = super().plan(intermediate_steps, callbacks, **kwargs)
            return planned if intermediate_steps else AgentAction("shout", "wait", "")

    agent = Hesitant(runnable=create_react_agent(FakeListLLM(responses=[END]), [shout], REACT))
    executor = AgentExecutor(agent=agent, tools=[shout], return_intermediate_steps=True)

    outputs = call.invoke(executor, {"input": "?"})

    assert [output for _, output in outputs["intermediate_steps"]] == ["WAIT!"]
    assert outputs["output"] == "HI!"
