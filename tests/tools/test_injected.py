from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from foldline.callbacks import (
    AsyncCallbackManagerForToolRun,
    CallbackManagerForToolRun,
)
from foldline.exceptions import UsageError
from foldline.runnables import RunnableConfig
from foldline.tools import (
    BaseTool,
    InjectedToolArg,
    InjectedToolCallId,
    inject,
    tool,
)
from foldline.tools._arguments import _DirectlyInjectedToolArg
from foldline.utils.function_calling import convert_to_openai_tool
from tests.tools.helpers import Recorder, calling

# -- what the program fills in


class Runtime(_DirectlyInjectedToolArg):
    def __init__(self, user: str) -> None:
        self.user = user


@tool
def private(
    question: str,
    token: Annotated[str, InjectedToolArg],
    call_id: Annotated[str, InjectedToolCallId],
    runtime: Runtime,
) -> str:
    """Answer."""
    return f"{question} {token} {call_id} {runtime.user}"


def test_injected_arguments_are_hidden_from_the_model_and_from_traces(call):
    recorder = Recorder()
    arguments = {"question": "q", "token": "t", "runtime": Runtime("u")}

    message = call.invoke(private, calling("private", arguments), {"callbacks": [recorder]})

    assert message.content == "q t call_1 u"
    assert list(private.args) == ["question"]
    assert list(convert_to_openai_tool(private)["function"]["parameters"]["properties"]) == [
        "question"
    ]
    assert recorder.records[0][2]["inputs"] == {"question": "q"}
    assert recorder.records[0][1][1] == "{'question': 'q'}"
    assert private.injected_args == {"token", "call_id", "runtime"}


def test_the_id_of_a_call_needs_a_call(call):
    with pytest.raises(UsageError, match="private wants the id of its call"):
        call.invoke(private, {"question": "q"})


def test_what_a_model_says_for_injected_arguments_is_thrown_away():
    forged = calling("private", {"question": "q", "token": "forged", "call_id": "forged"})

    tool_call = inject(
        private, forged, {"token": "real", "runtime": Runtime("u"), "question": "other"}
    )

    assert private.invoke(tool_call).content == "q real call_1 u"
    assert forged["args"]["token"] == "forged"


def test_injected_arguments_work_beside_a_schema_that_does_not_have_them(call):
    schema = {
        "type": "object",
        "properties": {"q": {"type": "string"}},
        "additionalProperties": False,
    }

    def find(q: str, user: Annotated[str, InjectedToolArg]) -> str:
        """Find."""
        return q + user

    class Query(BaseModel, extra="forbid"):
        q: str

    for args_schema in (schema, Query):
        find_tool = tool(args_schema=args_schema)(find)
        assert call.invoke(find_tool, {"q": "a", "user": "b"}) == "ab"
        assert list(find_tool.args) == ["q"]


def test_config_run_manager_and_callbacks_are_filled_in(call):
    @tool
    def see(a: int, config: RunnableConfig, run_manager: Any = None, callbacks: Any = None) -> Any:
        """See."""
        return config["configurable"], type(run_manager), type(callbacks).__name__

    assert list(see.args) == ["a"]
    configurable, manager, callbacks = call.invoke(see, {"a": 1}, {"configurable": {"user": 7}})
    assert configurable == {"user": 7}
    # A blocking function gets what it can use without awaiting, sync and async.
    assert (manager, callbacks) == (CallbackManagerForToolRun, "CallbackManager")


def test_an_async_function_gets_async_managers():
    class See(BaseTool):
        name: str = "see"
        description: str = "d"

        async def _arun(
            self, a: int, run_manager: AsyncCallbackManagerForToolRun | None = None
        ) -> Any:
            return type(run_manager)

    assert asyncio.run(See().ainvoke({"a": 1})) is AsyncCallbackManagerForToolRun
