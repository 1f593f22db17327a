"""The types of graphs: what a compiled graph takes and returns."""

from __future__ import annotations

from typing import TypedDict, assert_type

from foldline.graph import START, Command, CompiledStateGraph, StateGraph, interrupt


class State(TypedDict):
    text: str


class Answer(TypedDict):
    number: int


class Person:
    name: str = ""


def count(state: State) -> Answer:
    return {"number": len(state["text"])}


builder = StateGraph(State, Person, output_schema=Answer)
builder.add_node("count", count)
builder.add_edge(START, "count")
app: CompiledStateGraph[State, Person, State, Answer] = builder.compile()

assert_type(app.invoke({"text": "pears"}), Answer)
assert_type(app.invoke(None), Answer)
assert_type(app.invoke(Command(resume=True)), Answer)
anything: CompiledStateGraph = app


def ask() -> None:
    assert_type(interrupt("how many?", response_schema=int), int)
