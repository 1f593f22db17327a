"""`Overwrite`: a value that replaces the old one, alone among the updates of a step."""

from __future__ import annotations

import pytest

from foldline.graph import Command, InvalidUpdateError, Overwrite
from tests.graph.lines import fan, line

INPUT = {"log": ["in"]}
FORMS = [Overwrite, lambda value: {"__overwrite__": value}]


def writes(value):
    return lambda state: {"log": value}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("first", "second"), [("b", "c"), ("c", "b")])
def test_G31_an_overwrite_wins_over_the_other_updates_of_its_step(
    call, saver, thread, form, first, second
):
    graph = fan((first, writes(form(["B"]))), (second, writes(["C"])), saver=saver)

    assert call.invoke(graph, INPUT, thread) == {"log": ["B"]}
    assert call.run(graph, "get_state", thread).values == {"log": ["B"]}


@pytest.mark.parametrize("form", FORMS)
def test_G31_later_steps_add_to_the_new_value(call, saver, thread, form):
    graph = line(("a", writes(form(["A"]))), "b", saver=saver)

    assert call.invoke(graph, INPUT, thread) == {"log": ["A", "b"]}
    assert call.run(graph, "get_state", thread).values == {"log": ["A", "b"]}


@pytest.mark.parametrize("form", FORMS)
def test_G31_two_overwrites_of_a_key_in_one_step_are_refused(call, saver, thread, form):
    graph = fan(("b", writes(form(["B"]))), ("c", writes(form(["C"]))), saver=saver)

    with pytest.raises(InvalidUpdateError, match="receive only one Overwrite value per super-step"):
        call.invoke(graph, INPUT, thread)


def test_G31_an_overwrite_among_the_commands_of_one_node_wins_too(call, saver, thread):
    def node(state):
        return [
            Command(update={"log": ["x"]}),
            Command(update={"log": Overwrite(["B"])}),
            Command(update={"log": ["y"]}),
        ]

    graph = line(("a", node), saver=saver)

    assert call.invoke(graph, INPUT, thread) == {"log": ["B"]}
