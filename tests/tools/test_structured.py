from __future__ import annotations

import asyncio
from types import MappingProxyType
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from foldline.exceptions import BlockingCallError, UsageError
from foldline.runnables import RunnableConfig, RunnableLambda
from foldline.tools import StructuredTool, describe_validation_error, render_text_description, tool
from foldline.utils.function_calling import convert_to_openai_tool
from tests.tools.helpers import Recorder, add


def double(a: int) -> int:
    """Double."""
    return 2 * a


async def adouble(a: int) -> str:
    """Double."""
    return f"awaited {2 * a}"


def test_each_mode_has_its_function(call):
    double_tool = StructuredTool.from_function(double, adouble)

    assert call.invoke(double_tool, {"a": 2}) == (4 if not call.is_async else "awaited 4")


def test_run_and_arun_may_be_called_directly():
    def see(a: int, config: RunnableConfig, run_manager: Any = None, callbacks: Any = None) -> Any:
        """See."""
        return a, config, run_manager, callbacks

    seeing = StructuredTool.from_function(see)

    assert seeing._run(1, config={"tags": ["t"]}) == (1, {"tags": ["t"]}, None, None)
    assert asyncio.run(seeing._arun(a=1)) == (1, {}, None, None)
    assert asyncio.run(StructuredTool.from_function(coroutine=adouble)._arun(2)) == "awaited 4"
    with pytest.raises(BlockingCallError, match="adouble is async"):
        StructuredTool.from_function(coroutine=adouble)._run(2)
    with pytest.raises(UsageError, match="has no function"):
        asyncio.run(StructuredTool(name="none", description="d")._arun())


def test_a_tool_with_a_schema_and_without_a_function_is_described_and_cannot_be_run(call):
    class Answer(BaseModel):
        value: int

    answer = StructuredTool(name="Answer", description="The answer.", args_schema=Answer)

    description = convert_to_openai_tool(answer)["function"]
    assert (description["name"], list(description["parameters"]["properties"])) == (
        "Answer",
        ["value"],
    )
    with pytest.raises(UsageError, match="Answer has no function"):
        call.invoke(answer, {"value": 1})


def test_a_subclass_may_override_run(call):
    class Logged(StructuredTool):
        def _run(self, a: int) -> Any:
            return "logged", self.func(a)

    assert call.invoke(Logged.from_function(double), {"a": 2}) == ("logged", 4)


def test_a_mapping_and_an_open_schema_are_arguments_too(call):
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        a: int

    open_tool = StructuredTool(
        name="e", description="d", args_schema=Open, func=lambda **kwargs: kwargs
    )

    assert call.invoke(open_tool, MappingProxyType({"a": "1", "b": 2})) == {"a": 1, "b": 2}


def test_a_string_is_the_first_argument_that_a_model_may_give(call):
    class Words(StructuredTool):
        pass

    untyped = StructuredTool(name="u", description="d", func=lambda **kwargs: kwargs)

    assert call.invoke(untyped, "text") == {"tool_input": "text"}
    assert call.invoke(tool(description="none")(lambda: "nothing"), "ignored") == "nothing"
    assert call.invoke(Words.from_function(double), "2") == 4


def test_options_of_a_call_are_told(call):
    recorder = Recorder()

    call.invoke(
        add, {"a": 1}, {"callbacks": [recorder]}, color="red", tool_call_id=7, llm_prefix="x"
    )

    assert (recorder.records[0][2]["tool_call_id"], recorder.records[0][2]["llm_prefix"]) == (
        "7",
        "x",
    )
    assert recorder.records[1][2]["color"] == "red"


def test_a_dict_that_only_looks_like_a_call_is_arguments(call):
    @tool
    def kind(type: str, name: str = "n") -> str:
        """Say."""
        return type + name

    assert call.invoke(kind, {"type": "tool_call"}) == "tool_calln"
    assert call.invoke(kind, {"type": "other", "name": "x"}) == "otherx"


def test_many_complaints_are_shortened():
    failing_tool = StructuredTool.from_function(lambda: 0, name="f", description="d")
    failing_tool.handle_validation_error = describe_validation_error

    assert failing_tool.invoke({str(n): n for n in range(30)}).endswith("and 20 more")


def test_tools_without_a_signature_are_said_by_name_alone():
    async_only = StructuredTool.from_function(coroutine=adouble)
    mute = StructuredTool(name="mute", description="d", func=dict)

    assert render_text_description([async_only, mute]) == "adouble - Double.\nmute - d"


def test_a_runnable_that_takes_a_model_or_a_typed_mapping_is_a_tool(call):
    class Pair(BaseModel):
        a: int
        b: int = 2

    pair: Any = RunnableLambda(lambda d: d).with_types(input_type=Pair)
    numbers: Any = RunnableLambda(lambda d: d).with_types(input_type=dict[str, int])

    assert call.invoke(pair.as_tool(name="p"), {"a": 1}) == {"a": 1, "b": 2}
    assert call.invoke(numbers.as_tool(name="n"), {"x": 1}) == {"x": 1}
