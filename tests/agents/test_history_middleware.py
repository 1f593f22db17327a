"""Middleware that keeps long conversations short: summaries, and old tool results left out."""

from __future__ import annotations

import pytest

from foldline.agents import create_agent
from foldline.agents.middleware import (
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    SummarizationMiddleware,
)
from foldline.exceptions import UsageError
from foldline.messages import AIMessage, HumanMessage, ToolMessage
from foldline.testing import Call, ScriptedChatModel
from tests.agents.conftest import add

ADD = Call("add", {"a": 1, "b": 1})


def scripted(*turns, **kwargs):
    return ScriptedChatModel(script=list(turns), **kwargs)


def by_words(messages):
    return sum(len(str(message.text).split()) for message in messages)


def test_a_long_conversation_becomes_a_summary_and_no_call_loses_its_result(call):
    writer = scripted("They added numbers.", is_cyclic=True)
    model = scripted([ADD], [ADD], "done")
    agent = create_agent(
        model, [add],
        middleware=[SummarizationMiddleware(writer, trigger=("messages", 4), keep=("messages", 2))],
    )  # fmt: skip

    state = call.invoke(agent, "add a lot")

    assert state["messages"][0].text.endswith("They added numbers.")
    assert isinstance(state["messages"][1], AIMessage)
    assert isinstance(state["messages"][2], ToolMessage)
    assert "add a lot" in writer.requests[0].messages[0].text
    with pytest.raises(UsageError):
        SummarizationMiddleware(writer, trigger=("words", 3))


def test_old_tool_results_are_left_out_of_requests_and_kept_in_the_state(call):
    model = scripted([ADD], [ADD], [ADD], "done")
    edit = ClearToolUsesEdit(trigger=1, keep=1)
    state = call.invoke(
        create_agent(model, [add], middleware=[ContextEditingMiddleware(edits=[edit])]), "?"
    )

    texts = [
        message.text for message in model.requests[-1].messages if isinstance(message, ToolMessage)
    ]
    assert texts == ["[cleared]", "[cleared]", "2"]
    assert [message.text for message in state["messages"] if isinstance(message, ToolMessage)] == [
        "2",
        "2",
        "2",
    ]


@pytest.mark.parametrize(
    ("trigger", "keep", "expected"),
    [
        (("tokens", 8), ("tokens", 4), ["seven eight nine ten"]),
        (("tokens", 8), ("tokens", 6), ["five six", "seven eight nine ten"]),
        (("tokens", 8), ("tokens", 1), ["seven eight nine ten"]),
        (("fraction", 0.0005), ("fraction", 0.00025), ["seven eight nine ten"]),
        ([("messages", 99), ("tokens", 8)], ("messages", 1), ["seven eight nine ten"]),
        (("tokens", 80), ("messages", 1), None),
        (None, ("messages", 1), None),
    ],
)
def test_what_is_kept_is_counted_in_tokens_messages_or_parts_of_the_window(
    call, trigger, keep, expected
):
    writer = scripted("sum", is_cyclic=True, profile={"max_input_tokens": 16_000})
    middleware = SummarizationMiddleware(writer, trigger=trigger, keep=keep, token_counter=by_words)
    model = scripted("done")
    messages = [
        HumanMessage("one two three four"),
        AIMessage("five six"),
        HumanMessage("seven eight nine ten"),
    ]

    call.invoke(create_agent(model, middleware=[middleware]), {"messages": messages})

    texts = [message.text for message in model.requests[0].messages]
    if expected is None:
        assert texts == [message.text for message in messages]
    else:
        assert texts[0].endswith("sum")
        assert texts[1:] == expected


def test_a_summary_may_be_of_the_newest_of_the_older_part_alone(call):
    writer = scripted("sum")
    middleware = SummarizationMiddleware(
        writer,
        trigger=("messages", 3),
        keep=("messages", 1),
        token_counter=by_words,
        trim_tokens_to_summarize=2,
    )
    messages = [HumanMessage("old words"), AIMessage("new words"), HumanMessage("?")]

    call.invoke(create_agent(scripted("done"), middleware=[middleware]), {"messages": messages})

    prompt = writer.requests[0].messages[0].text
    assert "new words" in prompt
    assert "old words" not in prompt


def test_a_fraction_of_an_unknown_window_is_an_error(call):
    middleware = SummarizationMiddleware(scripted("sum"), trigger=("fraction", 0.5))

    with pytest.raises(UsageError, match="max_input_tokens"):
        call.invoke(create_agent(scripted("x"), middleware=[middleware]), "?")


def tool_exchange(name, place):
    calls = [{"name": name, "args": {"q": "long " * 9}, "id": f"c{place}"}]
    return [
        AIMessage("", tool_calls=calls),
        ToolMessage("found " * 9, tool_call_id=f"c{place}", name=name, artifact=[1]),
    ]


HISTORY = [
    HumanMessage("?"),
    *tool_exchange("look", 1),
    *tool_exchange("keep", 2),
    *tool_exchange("look", 3),
]


def edited(**options):
    return ClearToolUsesEdit(trigger=1, **options).apply(HISTORY, count_tokens=by_words)


def test_some_tools_keep_their_results_and_inputs_may_go_too():
    messages = edited(keep=0, exclude_tools=["keep"], clear_tool_inputs=True, placeholder="-")

    assert [message.content for message in messages if isinstance(message, ToolMessage)] == [
        "-",
        "found " * 9,
        "-",
    ]
    assert [
        message.tool_calls[0]["args"] for message in messages if isinstance(message, AIMessage)
    ] == [
        {},
        {"q": "long " * 9},
        {},
    ]
    assert HISTORY[2].artifact == [1]


def test_only_as_much_is_left_out_as_is_asked_for():
    assert edited(keep=9) == HISTORY
    cleared = [message.content == "[cleared]" for message in edited(keep=0, clear_at_least=8)]
    assert cleared.count(True) == 1
    short = ClearToolUsesEdit(trigger=10_000).apply(HISTORY, count_tokens=by_words)
    assert short is HISTORY


def nameless_results(*names):
    """A conversation of calls with ids that repeat, and results without names."""
    messages = [HumanMessage("find it")]
    for name in names:
        call = {"name": name, "args": {}, "id": "0"}
        messages += [AIMessage("", tool_calls=[call]), ToolMessage(f"by {name}", tool_call_id="0")]
    return messages


def test_AH9_the_result_of_an_excluded_tool_without_a_name_is_found_by_its_call():
    edit = ClearToolUsesEdit(trigger=1, keep=0, exclude_tools=("search",))

    edited = edit.apply(nameless_results("search", "read", "search"), count_tokens=by_words)

    results = [message.content for message in edited if isinstance(message, ToolMessage)]
    assert results == ["by search", "[cleared]", "by search"]


def test_AH9_the_result_of_an_excluded_invalid_call_stays():
    invalid = {"name": "search", "args": "{", "id": "c", "error": "cut"}
    messages = [AIMessage("", invalid_tool_calls=[invalid]), ToolMessage("no", tool_call_id="c")]

    edited = ClearToolUsesEdit(trigger=0, keep=0, exclude_tools=("search",)).apply(
        messages, count_tokens=by_words
    )

    assert edited[1].content == "no"


def test_AH9_an_agent_sends_the_result_of_an_excluded_tool_without_a_name(call):
    model = ScriptedChatModel(script=["done"])
    edit = ClearToolUsesEdit(trigger=1, keep=0, exclude_tools=("search",))
    agent = create_agent(model, middleware=[ContextEditingMiddleware(edits=[edit])])

    call.invoke(agent, {"messages": nameless_results("search", "read")})

    contents = [message.content for message in model.requests[0].messages if message.type == "tool"]
    assert contents == ["by search", "[cleared]"]
