"""Options of a call about what it returns and prints."""

from __future__ import annotations

import pytest

from foldline.exceptions import UsageError
from foldline.graph import START, StateGraph
from tests.graph.lines import Log, ask, line

INPUT = {"log": ["in"]}


class Pair(Log):
    name: str


def pair(saver=None):
    builder = StateGraph(Pair)
    builder.add_node("a", lambda _: {"log": ["a"], "name": "ann"})
    builder.add_edge(START, "a")
    return builder.compile(checkpointer=saver)


def test_a_call_returns_the_keys_that_it_names(call):
    graph = pair()

    assert call.invoke(graph, INPUT, output_keys=["name"]) == {"name": "ann"}
    assert call.invoke(graph, INPUT, output_keys="name") == "ann"
    assert call.stream(graph, INPUT, output_keys=["name"]) == [{"a": {"name": "ann"}}]
    assert call.stream(graph, INPUT, output_keys="name") == [{"a": "ann"}]
    values = call.stream(graph, INPUT, stream_mode="values", output_keys=["name"])
    assert values[-1] == {"name": "ann"}


def test_a_call_that_names_one_key_returns_its_questions_too(call, saver, thread):
    graph = line(("a", ask("a")), saver=saver)

    result = call.invoke(graph, INPUT, thread, output_keys="log")

    assert [question.value for question in result["__interrupt__"]] == ["a"]


def test_a_key_that_the_state_does_not_have_is_named(call):
    with pytest.raises(UsageError, match="did you mean 'name'"):
        call.invoke(pair(), INPUT, output_keys=["nam"])


@pytest.mark.parametrize("options", [{"debug": True}, {"print_mode": ["updates", "values"]}])
def test_a_call_prints_its_updates_and_states_and_returns_what_it_did_before(call, capsys, options):
    graph = line("a")

    assert call.invoke(graph, INPUT, **options) == {"log": ["in", "a"]}
    assert capsys.readouterr().out.splitlines() == [
        "[values] {'log': ['in']}",
        "[updates] {'a': {'log': ['a']}}",
        "[values] {'log': ['in', 'a']}",
    ]
    assert call.stream(graph, INPUT, print_mode="updates") == [{"a": {"log": ["a"]}}]
    assert capsys.readouterr().out == "[updates] {'a': {'log': ['a']}}\n"


def test_a_graph_compiled_for_debugging_prints_and_a_call_may_turn_it_off(call, capsys):
    graph = line("a", debug=True)

    call.invoke(graph, INPUT, debug=False)
    assert capsys.readouterr().out == ""
    call.invoke(graph, INPUT)
    assert "[updates] {'a': {'log': ['a']}}" in capsys.readouterr().out


def test_invoke_takes_subgraphs_and_prints_what_they_do(call, capsys):
    graph = line(("inner", line("a")))

    assert call.invoke(graph, INPUT, subgraphs=True, print_mode="updates")["log"][-1] == "a"
    assert "[updates] inner:" in capsys.readouterr().out
