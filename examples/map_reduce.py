"""A map-reduce over documents: python examples/map_reduce.py FILE… sums up each file and then all of them.

Every file is a task of its own; what is done stays done if one fails or the process is killed. Without a model's name
in MODEL the answers are scripted, so that the example runs anywhere.
"""

from __future__ import annotations

import operator
import os
import sys
from pathlib import Path
from typing import Annotated, Any, TypedDict

from foldline import init_chat_model
from foldline.graph import START, Send, SqliteSaver, StateGraph
from foldline.language_models import BaseChatModel
from foldline.testing import FakeChatModel


class State(TypedDict, total=False):
    """The state of the whole run."""

    paths: list[str]
    summaries: Annotated[list[str], operator.add]
    summary: str


class Document(TypedDict):
    """The input of one task."""

    path: str


def build(model: BaseChatModel) -> StateGraph:
    """Make the graph: a task for each file, then one that joins them."""

    def spread(state: State) -> list[Send]:
        return [Send("sum_up", {"path": path}) for path in state["paths"]]

    def sum_up(document: Document) -> State:
        path = Path(document["path"])
        answer = model.invoke(f"Sum up in one sentence:\n{path.read_text()[:8000]}")
        return {"summaries": [f"{path.name}: {answer.text}"]}

    def join(state: State) -> State:
        answer = model.invoke("Sum up these summaries:\n" + "\n".join(state["summaries"]))
        return {"summary": answer.text}

    graph = StateGraph(State)
    graph.add_node(sum_up)
    graph.add_node(join)
    graph.add_conditional_edges(START, spread, ["sum_up"])
    graph.add_edge("sum_up", "join")
    return graph


def main(paths: list[str], database: str = "summaries.db") -> dict[str, Any]:
    """Sum up the files, or go on with a run that did not end."""
    name = os.environ.get("MODEL")
    model = init_chat_model(name) if name else FakeChatModel(script=["short"] * (len(paths) + 1))
    graph = build(model).compile(checkpointer=SqliteSaver(database))
    config = {"configurable": {"thread_id": " ".join(paths)}, "max_concurrency": 8}
    unfinished = graph.get_state(config).next
    result: dict[str, Any] = graph.invoke(None if unfinished else {"paths": paths}, config)
    print("\n".join(result["summaries"]), result["summary"], sep="\n")
    return result


if __name__ == "__main__":
    main(sys.argv[1:])
