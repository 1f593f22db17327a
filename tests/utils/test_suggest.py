"""A mistyped name is met with the name that was meant."""

import asyncio
import subprocess
import sys
import warnings
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel

from foldline import _config
from foldline.agents import create_agent
from foldline.chat_models import init_chat_model
from foldline.exceptions import ModelConnectionError, UsageError
from foldline.graph import START, MessagesState, StateGraph
from foldline.language_models import FakeListChatModel
from foldline.load import dumpd, load
from foldline.messages import AIMessage, HumanMessage, convert_to_messages
from foldline.prompts import ChatPromptTemplate
from foldline.providers.anthropic import ChatAnthropic
from foldline.providers.openai import ChatOpenAI
from foldline.runnables import RunnableLambda
from foldline.tools import tool
from foldline.utils import _suggest as suggest
from foldline.utils._suggest import nearest

KNOWN = ["temperature", "top_p", "top_k", "stop", "n", "tools"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("temprature", "temperature"),  # one left out
        ("tempertaure", "temperature"),  # two swapped
        ("Temperature", "temperature"),
        ("temperatur3s", "temperature"),  # two away
        ("stpo", "stop"),
        ("temper", None),
        ("m", None),  # short names are near everything
        ("soup", None),
        ("x" * 1000, None),
    ],
)
def test_the_nearest_known_name_is_found(name: str, expected: str | None):
    assert nearest(name, KNOWN) == expected


@given(st.text(alphabet="abcdef_", min_size=5, max_size=20), st.data())
def test_one_letter_left_out_is_always_found(name: str, data: Any):
    place = data.draw(st.integers(0, len(name) - 1))

    assert nearest(name[:place] + name[place + 1 :], [name]) == (name if len(name) > 3 else None)


def openai() -> ChatOpenAI:
    """A model without a server: a call of it warns, and then fails."""
    return ChatOpenAI(model="m", api_key="k", base_url="http://127.0.0.1:1/v1", max_retries=0)


@pytest.mark.parametrize("method", ["invoke", "stream"])
def test_an_option_of_a_call_is_warned_of_once(method: str):
    typo = f"temper{'a' if method == 'stream' else ''}turee"

    def call() -> None:
        with pytest.raises(ModelConnectionError):
            list(getattr(openai(), method)("hi", **{typo: 0}))

    with pytest.warns(UserWarning, match="did you mean 'temperature'") as warning_records:
        call()
    assert warning_records[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call()


def test_a_bound_option_is_warned_of():
    with (
        pytest.warns(UserWarning, match="max_tokns .did you mean 'max_tokens'"),
        pytest.raises(ModelConnectionError),
    ):
        openai().bind(max_tokns=5).invoke("hi")


class Answer(BaseModel):
    """An answer."""

    text: str


def scripted() -> FakeListChatModel:
    return FakeListChatModel(responses=["x"] * 9)


@tool
def add(a: int) -> int:
    """Add."""
    return a


MISTYPED = {
    "include_raw": lambda: openai().with_structured_output(Answer, include_rw=True),
    "tool_choice": lambda: scripted().bind_tools([add], tool_choce="any"),
    "config": lambda: openai().bind(cnfig={}),
    "response_format": lambda: scripted().invoke("hi", respones_format={}),
    "tools": lambda: scripted().bind(stop=["x"]).bind(tols=[]),
    "max_tokens": lambda: openai().bind(max_tokenz=5),
    "method": lambda: init_chat_model(temperature=0).with_structured_output(Answer, mthod="auto"),
    "stop_sequences": lambda: ChatAnthropic(model="m", api_key="k").bind(stop_sequnces=["a"]),
    "name": lambda: HumanMessage("hi", nmae="Ada"),
    "tool_calls": lambda: AIMessage("hi", tool_cals=[]),
}


MISTYPED_RUN_OPTIONS = {
    "context": lambda: create_agent(scripted()).invoke({"messages": "hi"}, contxt={}),
    "stream_mode": lambda: list(
        create_agent(scripted()).stream({"messages": "hi"}, stream_mod="values")
    ),
    "durability": lambda: graph().invoke({"messages": "hi"}, durabilty="sync"),
}
"""Options of agents and graphs: nothing else could take them, so they are errors."""


def graph() -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("think", lambda state: {})
    builder.add_edge(START, "think")
    return builder.compile()


@pytest.mark.parametrize("meant", MISTYPED_RUN_OPTIONS)
def test_a_mistyped_option_of_an_agent_or_a_graph_is_an_error(meant: str):
    with pytest.raises(UsageError, match=rf"did you mean '{meant}'"):
        MISTYPED_RUN_OPTIONS[meant]()


@pytest.mark.parametrize("meant", MISTYPED)
def test_every_kind_of_option_is_warned_of_where_it_is_written(meant: str):
    suggest.checked_names.clear()
    with pytest.warns(UserWarning, match=rf"did you mean '{meant}'") as caught:
        MISTYPED[meant]()

    assert [warning.filename for warning in caught] == [__file__]
    with warnings.catch_warnings():  # once
        warnings.simplefilter("error")
        MISTYPED[meant]()


def test_an_async_call_is_warned_of_where_it_is_written():
    suggest.checked_names.clear()
    with pytest.warns(UserWarning, match="did you mean 'tool_choice'") as caught:
        asyncio.run(scripted().ainvoke("hi", tool_choic="any"))

    assert caught[0].filename == __file__


def test_options_that_are_known_are_not_warned_of():
    suggest.checked_names.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        openai().bind(maxTokens=3, top_k=3, stop=["a"], tools=[], max_completion_tokens=4)
        scripted().bind_tools([add], tool_choice="any").invoke("hi", temperature=0)
        create_agent(scripted()).invoke({"messages": "hi"}, context={}, durability=None)
        AIMessage("hi", example=True)


def test_a_schema_for_a_model_that_is_not_chosen_yet_is_checked_now():
    with pytest.raises(UsageError, match="is not a JSON Schema"):
        init_chat_model(temperature=0).with_structured_output({"a": 1})


def test_a_field_of_a_constructor_is_warned_of_where_it_is_written():
    with pytest.warns(UserWarning, match="did you mean 'temperature'") as warning_records:
        ChatOpenAI(model="m", api_key="k", temprature=0)

    assert warning_records[0].filename == __file__


def test_a_key_of_the_config_is_warned_of_in_every_runnable():
    _config._warn_misspelt.cache_clear()  # another test may have made the same mistake
    with pytest.warns(UserWarning, match="did you mean 'callbacks'"):
        RunnableLambda(str).invoke(1, {"callback": []})  # type: ignore[typeddict-unknown-key]
    with pytest.warns(UserWarning, match="did you mean 'metadata'"):
        RunnableLambda(str).with_config({"metdata": {}}).invoke(1)  # type: ignore[typeddict-unknown-key]


def test_values_for_configurable_are_let_pass():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RunnableLambda(str).invoke(1, {"thread_id": "7", "user_id": "8", "model": "m"})  # type: ignore[typeddict-unknown-key]


def test_the_keyword_config_is_known_to_be_meant():
    with pytest.warns(UserWarning, match="did you mean 'config'"):
        ChatPromptTemplate([("human", "hi")]).invoke({}, confg={"tags": ["a"]})


@pytest.mark.parametrize("single_input", ["abc", b"abc", {"q": "abc"}, HumanMessage("abc")])
def test_one_input_is_no_batch(call: Any, single_input: Any):
    with pytest.raises(UsageError, match=r"batch takes a list of inputs"):
        call.batch(FakeListChatModel(responses=["x"]), single_input)


def test_one_input_is_no_batch_as_completed():
    with pytest.raises(UsageError, match="batch takes a list of inputs"):
        list(FakeListChatModel(responses=["x"]).batch_as_completed("abc"))


def test_an_example_of_an_answer_is_no_schema():
    with pytest.raises(UsageError, match="is not a JSON Schema"):
        openai().with_structured_output({"a": 1})


def test_a_mistyped_provider_is_met_with_the_one_meant():
    with pytest.raises(UsageError, match="did you mean 'openai'"):
        init_chat_model("opnai:gpt-5")
    with pytest.raises(UsageError, match=r"did you mean 'anthropic'"):
        init_chat_model("claude", model_provider="antropic")
    with pytest.raises(UsageError, match=r"did you mean 'openai'.*Write 'provider:gpt-5'"):
        init_chat_model("opnai/gpt-5")
    with pytest.raises(UsageError, match="Write 'provider:meta-llama/llama-3'"):
        init_chat_model("meta-llama/llama-3")
    with pytest.raises(UsageError, match="whose model is 'llama3:8b'"):
        init_chat_model("llama3:8b")


def test_a_warning_names_the_line_of_the_program(tmp_path: Any):
    program = tmp_path / "app.py"
    program.write_text(
        "from foldline.runnables import RunnableLambda\n\nRunnableLambda(str).invoke(1, {'tag': ['a']})\n"
    )

    result = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, check=True
    )

    assert (
        "app.py:3: UserWarning: 'tag' is not a key of a config (did you mean 'tags'?)"
        in result.stderr
    )


def test_fields_of_messages_that_come_as_data_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        [message] = convert_to_messages([{"role": "user", "content": "hi", "nmae": "ann"}])
        loaded = load(dumpd(message))

    assert isinstance(loaded, HumanMessage)
    with pytest.warns(UserWarning, match="did you mean 'name'"):
        HumanMessage("hi", nmae="ann")
