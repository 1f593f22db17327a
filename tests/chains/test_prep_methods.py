"""Overrides of `prep_inputs` and `prep_outputs`: every way to call a chain uses them, as seed 004 prints it."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from foldline.agents.classic import AgentExecutor
from foldline.callbacks import BaseCallbackHandler
from foldline.chains import Chain, LLMChain
from foldline.chains.base import UNUSED_HOOKS
from foldline.exceptions import UsageError
from foldline.language_models import FakeListChatModel
from foldline.memory import ConversationBufferMemory
from foldline.outputs.agent import AgentAction, AgentFinish
from foldline.prompts import PromptTemplate
from foldline.runnables import RunnableLambda
from foldline.tools import tool


class Greeting(Chain):
    input_keys: ClassVar = ["name"]
    output_keys: ClassVar = ["greeting"]

    def _call(self, inputs: dict[str, Any], run_manager: Any = None) -> dict[str, Any]:
        return {"greeting": f"Hello {inputs['name']}"}


class Prepared(Greeting):
    def prep_inputs(self, inputs: Any) -> dict[str, Any]:
        return {"name": "PREP"}

    def prep_outputs(
        self, inputs: Any, outputs: Any, return_only_outputs: bool = False
    ) -> dict[str, Any]:
        return {"greeting": "POST " + outputs["greeting"]}


class PreparedForBoth(Prepared):
    async def aprep_inputs(self, inputs: Any) -> dict[str, Any]:
        return {"name": "APREP"}

    async def aprep_outputs(
        self, inputs: Any, outputs: Any, return_only_outputs: bool = False
    ) -> dict[str, Any]:
        return {"greeting": "APOST " + outputs["greeting"]}


class Extended(Greeting):
    def prep_inputs(self, inputs: Any) -> dict[str, Any]:
        return {**super().prep_inputs(inputs), "name": "Ada"}

    def prep_outputs(
        self, inputs: Any, outputs: Any, return_only_outputs: bool = False
    ) -> dict[str, Any]:
        return {**super().prep_outputs(inputs, outputs, return_only_outputs), "extra": 1}


class Outputs(BaseCallbackHandler):
    def __init__(self) -> None:
        self.outputs: list[Any] = []

    def on_chain_end(self, outputs: Any, **kwargs: Any) -> None:
        self.outputs.append(outputs)


def test_a_chain_uses_overrides_of_prep_inputs_and_prep_outputs(call):
    assert call.invoke(Prepared(), {"name": "x"}) == {"greeting": "POST Hello PREP"}
    assert call.batch(Prepared(), [{"name": "x"}]) == [{"greeting": "POST Hello PREP"}]
    assert call.run(Prepared(), "run", "x") == "POST Hello PREP"


def test_a_stream_of_a_chain_with_prep_outputs_yields_the_prepared_outputs_only(call):
    assert call.stream(Prepared(), {"name": "x"}) == [{"greeting": "POST Hello PREP"}]


def test_an_async_call_prefers_the_async_overrides(call):
    expected = "APOST Hello APREP" if call.is_async else "POST Hello PREP"

    assert call.invoke(PreparedForBoth(), {"name": "x"}) == {"greeting": expected}


def test_an_override_may_extend_what_the_chain_does_with_memory(call):
    memory = ConversationBufferMemory(input_key="name", output_key="greeting")
    chain = Extended(memory=memory)

    result = call.invoke(chain, "Bob")

    assert result == {"history": "", "name": "Ada", "greeting": "Hello Ada", "extra": 1}
    assert call.invoke(chain, "Bob")["history"] == "Human: Ada\nAI: Hello Ada"


def test_return_only_outputs_reaches_the_override(call):
    result = call.invoke(Extended(), "Bob", return_only_outputs=True)

    assert result == {"greeting": "Hello Ada", "extra": 1}


def test_callbacks_get_the_outputs_before_they_are_prepared(call):
    recorder = Outputs()

    call.invoke(Prepared(), {"name": "x"}, {"callbacks": [recorder]})

    assert recorder.outputs == [{"greeting": "Hello PREP"}]


def test_a_chain_of_foldline_with_an_override_of_prep_outputs_uses_it(call):
    class Shouting(LLMChain):
        def prep_outputs(self, inputs, outputs, return_only_outputs=False):
            return {"text": outputs["text"].upper()}

    chain = Shouting(
        llm=FakeListChatModel(responses=["hello"]), prompt=PromptTemplate.from_template("{q}")
    )

    assert call.invoke(chain, {"q": "hi"}) == {"text": "HELLO"}
    assert call.stream(chain, {"q": "hi"}) == [{"text": "HELLO"}]


def test_an_executor_with_an_override_of_prep_outputs_streams_steps_and_prepared_outputs(call):
    @tool
    def search(query: str) -> str:
        """Search."""
        return "found"

    class Marked(AgentExecutor):
        def prep_outputs(self, inputs, outputs, return_only_outputs=False):
            prepared = super().prep_outputs(inputs, outputs, return_only_outputs)
            return {**prepared, "output": "POST " + prepared["output"]}

    def plan(inputs):
        if inputs["intermediate_steps"]:
            return AgentFinish({"output": "done"}, "done")
        return AgentAction("search", "a", "search a")

    executor = Marked(agent=RunnableLambda(plan), tools=[search])

    pieces = call.stream(executor, {"input": "hi"})

    assert [sorted(piece) for piece in pieces] == [
        ["actions", "messages"],
        ["messages", "steps"],
        ["messages", "output"],
    ]
    assert pieces[-1]["output"] == "POST done"
    assert call.invoke(executor, {"input": "hi"}) == {"input": "hi", "output": "POST done"}


def test_a_chain_without_call_cannot_be_made():
    class Empty(Chain):
        input_keys: ClassVar = ["a"]
        output_keys: ClassVar = ["b"]

    with pytest.raises(TypeError, match="_call"):
        Empty()


def test_the_call_of_a_chain_is_abstract_and_that_of_foldlines_chains_is_not():
    assert Chain.__abstractmethods__ == {"_call", "input_keys", "output_keys"}
    assert not LLMChain.__abstractmethods__
    assert not AgentExecutor.__abstractmethods__


@pytest.mark.parametrize("name", UNUSED_HOOKS)
def test_a_step_of_langchains_chains_that_foldline_would_not_call_is_refused(name):
    with pytest.raises(UsageError, match=rf"Mine\.{name} would never be called"):
        type("Mine", (LLMChain,), {name: lambda self, *args: None})


def test_a_chain_of_ones_own_may_have_methods_of_any_name(call):
    class Named(Greeting):
        def combine_docs(self) -> str:
            return "mine"

    assert call.invoke(Named(), {"name": "x"})["greeting"] == "Hello x"
