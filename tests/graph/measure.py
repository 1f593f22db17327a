"""Run the programs with LangGraph, where it is installed, and write what they gave: `python -m tests.graph.measure`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.graph.programs import PROGRAMS, results


def langgraph_names() -> Any:
    from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.config import get_stream_writer
    from langgraph.errors import GraphRecursionError
    from langgraph.func import entrypoint, task
    from langgraph.graph import END, START, MessagesState, StateGraph, add_messages
    from langgraph.prebuilt import ToolNode, tools_condition
    from langgraph.runtime import Runtime
    from langgraph.store.base import BaseStore
    from langgraph.store.memory import InMemoryStore
    from langgraph.types import Command, RetryPolicy, Send, interrupt

    return SimpleNamespace(**{key: value for key, value in locals().items()})


if __name__ == "__main__":
    page = Path(__file__).with_name("programs.json")
    page.write_text(json.dumps(results(langgraph_names()), indent=1, sort_keys=True) + "\n")
    print(len(PROGRAMS), "programs", file=sys.stderr)
