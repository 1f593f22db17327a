"""Programs written for LangGraph give here what they gave there (`programs.json`, measured with langgraph 1.2.20)."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

import foldline.graph
from foldline.messages import AIMessage, HumanMessage, RemoveMessage
from tests.graph.programs import PROGRAMS

EXPECTED = json.loads(Path(__file__).with_name("programs.json").read_text())
NAMES = SimpleNamespace(
    **{name: getattr(foldline.graph, name) for name in foldline.graph.__all__},
    AIMessage=AIMessage,
    HumanMessage=HumanMessage,
    RemoveMessage=RemoveMessage,
)


def test_every_program_has_a_measured_result():
    assert set(EXPECTED) == set(PROGRAMS)
    assert len(PROGRAMS) >= 30


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_what_it_gave_with_langgraph(name):
    assert json.loads(json.dumps(PROGRAMS[name](NAMES))) == EXPECTED[name]
