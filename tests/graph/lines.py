"""Small graphs for the rules: a log, nodes that add to it, and nodes that ask."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

from foldline.checkpoint import BaseCheckpointSaver
from foldline.graph import START, Command, CompiledStateGraph, StateGraph, entrypoint, interrupt

__all__ = ["Log", "adder", "answer", "ask", "at", "fan", "line", "note", "shape"]


class Log(TypedDict):
    log: Annotated[list, operator.add]


def note(text: str, effects: list[str] | None = None) -> Callable[[Log], Any]:
    """A node that adds a text."""

    def node(state: Log) -> Any:
        if effects is not None:
            effects.append(text)
        return {"log": [text]}

    return node


def ask(text: str, effects: list[str] | None = None) -> Callable[[Log], Any]:
    """A node that asks, and adds its question with the answer."""

    def node(state: Log) -> Any:
        answer = interrupt(text)
        if effects is not None:
            effects.append(text)
        return {"log": [f"{text}{answer}"]}

    return node


def line(*nodes: Any, saver: Any = None, **options: Any) -> CompiledStateGraph:
    """A graph of nodes one after another: names, functions, or (name, function)."""
    builder, last = StateGraph(Log), START
    for node in nodes:
        name, action = (node, note(node)) if isinstance(node, str) else node
        builder.add_node(name, action)
        builder.add_edge(last, name)
        last = name
    return builder.compile(checkpointer=saver, **options)


def fan(*nodes: Any, saver: Any = None, **options: Any) -> CompiledStateGraph:
    """A graph whose nodes run in one step."""
    builder = StateGraph(Log)
    for node in nodes:
        name, action = (node, note(node)) if isinstance(node, str) else node
        builder.add_node(name, action)
        builder.add_edge(START, name)
    return builder.compile(checkpointer=saver, **options)


def shape(snapshots: Any) -> list[tuple[Any, ...]]:
    """Source, step, next and log of each snapshot."""
    return [
        (
            snapshot.metadata["source"],
            snapshot.metadata["step"],
            snapshot.next,
            snapshot.values.get("log", []),
        )
        for snapshot in snapshots
    ]


def at(call: Any, graph: CompiledStateGraph, thread: Any, *names: str) -> Any:
    """The newest snapshot before these nodes."""
    return next(
        snapshot
        for snapshot in call.run(graph, "get_state_history", thread)
        if snapshot.next == names
    )


def answer(value: Any) -> Command[Any]:
    return Command(resume=value)


def adder(saver: BaseCheckpointSaver | None) -> Any:
    """An entrypoint that returns a text, and saves the numbers that it got."""

    @entrypoint(checkpointer=saver)
    def add(number: int, *, previous: Any = None) -> entrypoint.final[str, list[int]]:
        return entrypoint.final(value=f"got {number}", save=[*(previous or []), number])

    return add
