"""Document 004, the reading of runnables, chains and agents: the orders and names it prints."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

import pytest

from foldline.agents import AgentExecutor, create_react_agent
from foldline.callbacks import BaseCallbackHandler
from foldline.chains import Chain
from foldline.language_models import FakeListLLM
from foldline.memory import BaseMemory
from foldline.outputs.agent import AgentAction, AgentFinish, AgentStep
from foldline.prompts import PromptTemplate
from foldline.runnables import RunnableLambda, RunnableParallel
from foldline.tools import tool

STEPS: list[str] = []
REACT = PromptTemplate.from_template("{tools} {tool_names} {input} {agent_scratchpad}")
ACT = "Thought: t\nAction: shout\nAction Input: hi"
END = "Final Answer: HI!"


@tool
def shout(text: str) -> str:
    """Say it louder."""
    return text.upper() + "!"


class Recorder(BaseCallbackHandler):
    run_inline = True

    def on_chain_start(self, serialized: Any, inputs: Any, **kwargs: Any) -> None:
        STEPS.append(f"start {sorted(inputs)}")

    def on_chain_end(self, outputs: Any, **kwargs: Any) -> None:
        STEPS.append(f"end {sorted(outputs)}")

    def on_chain_error(self, error: BaseException, **kwargs: Any) -> None:
        STEPS.append(f"error {type(error).__name__}")


class Remembering(BaseMemory):
    """Notes when it is read and written, in the list of the callbacks."""

    @property
    def memory_variables(self) -> list[str]:
        return ["past"]

    def load_memory_variables(self, inputs: dict[str, Any]) -> dict[str, Any]:
        STEPS.append("load")
        return {"past": "p"}

    def save_context(self, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
        STEPS.append(f"save {sorted(outputs)}")

    def clear(self) -> None:
        STEPS.append("clear")


class Shout(Chain):
    input_keys: ClassVar = ["text"]
    output_keys: ClassVar = ["loud"]

    def _call(self, inputs: dict[str, Any], run_manager: Any = None) -> dict[str, Any]:
        STEPS.append(f"call {sorted(inputs)} {run_manager is not None}")
        return {"loud": inputs["text"].upper()}


@pytest.fixture(autouse=True)
def _no_steps() -> None:
    STEPS.clear()


def test_a_chain_goes_through_the_steps_of_the_document_in_their_order(call: Any):
    call.invoke(Shout(memory=Remembering(), callbacks=[Recorder()]), {"text": "hi"})

    assert STEPS == [
        "load",
        "start ['past', 'text']",
        "call ['past', 'text'] True",
        "end ['loud']",
        "save ['loud']",
    ]


def test_a_chain_that_fails_reports_the_error_and_writes_no_memory(call: Any):
    class Broken(Shout):
        def _call(self, inputs: dict[str, Any], run_manager: Any = None) -> dict[str, Any]:
            raise KeyError("no")

    with pytest.raises(KeyError):
        call.invoke(Broken(memory=Remembering(), callbacks=[Recorder()]), {"text": "hi"})

    assert STEPS == ["load", "start ['past', 'text']", "error KeyError"]


def test_a_chain_whose_call_takes_no_manager_is_called_without_one(call: Any):
    class Old(Shout):
        def _call(self, inputs: dict[str, Any]) -> dict[str, Any]:  # type: ignore[override]
            return {"loud": inputs["text"].upper()}

    assert call.invoke(Old(), {"text": "hi"})["loud"] == "HI"


def test_the_samples_of_sequences_and_of_parallel_steps(call: Any):
    sequence = RunnableLambda(lambda x: x + 1) | {
        "mul_2": RunnableLambda(lambda x: x * 2),
        "mul_5": RunnableLambda(lambda x: x * 5),
    }

    assert call.invoke(sequence, 1) == {"mul_2": 4, "mul_5": 10}
    assert isinstance(sequence.last, RunnableParallel)
    parallel = RunnableParallel({"mul_2": lambda x: x * 2, "mul_5": lambda x: x * 5})
    assert call.invoke(parallel, 2) == {"mul_2": 4, "mul_5": 10}


# -- the agent executor


def executor(*answers: str, **options: Any) -> AgentExecutor:
    agent = create_react_agent(FakeListLLM(responses=list(answers)), [shout], REACT)
    return AgentExecutor(agent=agent, tools=[shout], **options)


def test_an_executor_is_invoked_as_every_chain():
    assert AgentExecutor.invoke is Chain.invoke
    assert AgentExecutor.ainvoke is Chain.ainvoke


def test_the_signatures_of_the_loop_are_those_of_the_document():
    names = ["name_to_tool_map", "color_mapping", "inputs", "intermediate_steps", "run_manager"]
    for method in ("_take_next_step", "_iter_next_step"):
        parameters = inspect.signature(getattr(AgentExecutor, method)).parameters
        assert list(parameters)[1:] == names
    assert list(inspect.signature(AgentExecutor._call).parameters) == [
        "self",
        "inputs",
        "run_manager",
    ]


def test_an_iteration_that_acts_gives_the_action_and_then_its_step():
    acting = executor(ACT)
    tools = {"shout": shout}

    outputs = list(acting._iter_next_step(tools, {}, {"input": "?"}, []))

    assert [type(output) for output in outputs] == [AgentAction, AgentStep]
    assert outputs[1].observation == "HI!"
    assert acting._consume_next_step(outputs) == [(outputs[0], "HI!")]


def test_an_iteration_that_finishes_gives_the_finish_alone():
    finishing = executor(END)

    [finish] = finishing._iter_next_step({"shout": shout}, {}, {"input": "?"}, [])

    assert isinstance(finish, AgentFinish)
    assert finishing._consume_next_step([finish]) is finish


def test_the_loop_ends_at_the_most_iterations_and_at_the_most_time(call: Any):
    bounded = executor(ACT, max_iterations=2, max_execution_time=5.0)

    assert bounded._should_continue(1, 1.0)
    assert not bounded._should_continue(2, 1.0)
    assert not bounded._should_continue(1, 5.0)
    answer = call.invoke(executor(ACT, max_iterations=2), {"input": "?"})["output"]
    assert "stopped" in answer


def test_an_executor_reads_and_writes_its_memory_as_every_chain(call: Any):
    memory = Remembering()

    call.invoke(executor(END, memory=memory), {"input": "?"})

    assert STEPS == ["load", "save ['output']"]
