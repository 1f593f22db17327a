"""The agent of the studio's example: it asks a person before it books. `scripts/demo --studio` shows its thread.

It needs no model: its answers are scripted here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from foldline.agents import Agent, create_agent
from foldline.checkpoint import SqliteSaver
from foldline.testing import ScriptedChatModel
from foldline.tools import tool
from foldline.utils._data_places import data_dir
from foldline.workflows import interrupt

__all__ = ["make_booking_agent"]


@tool
def book(city: str) -> str:
    """Book a trip, once a person has agreed."""
    answer = interrupt(f"Book a trip to {city}?")
    return f"{city}: {answer}"


def make_booking_agent(folder: Path, script: list[Any]) -> Agent[Any]:
    """Return the agent, with its threads in a file of the folder."""
    saver = SqliteSaver(folder / "threads.db")
    return create_agent(
        ScriptedChatModel(script=script), [book], checkpointer=saver, name="booking agent"
    )


def __getattr__(name: str) -> Agent[Any]:
    if name != "booking":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return make_booking_agent(data_dir(), ["Done. Have a good journey."] * 1_000)
