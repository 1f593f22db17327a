"""Messages as `foldline sessions NAME` and `/save` write them."""

from __future__ import annotations

import pytest

from foldline._cli.message_text import heading, text_and_calls
from foldline.messages import AIMessage, HumanMessage

CALL = {"name": "look", "args": {"where": "up"}, "id": "c1", "type": "tool_call"}
BROKEN = {"name": "look", "args": "{", "id": "c1", "error": "cut", "type": "invalid_tool_call"}


@pytest.mark.parametrize(
    ("message", "who", "text"),
    [
        (HumanMessage("hi"), "human", "hi"),
        (AIMessage("hel", status="incomplete"), "ai (cut)", "hel"),
        (AIMessage("", tool_calls=[CALL]), "ai", 'calls look({"where": "up"})'),
        (AIMessage("So:", tool_calls=[CALL]), "ai", 'So:\ncalls look({"where": "up"})'),
        (AIMessage([{"type": "refusal", "refusal": "No."}]), "ai", "refuses: No."),
        (AIMessage("", invalid_tool_calls=[BROKEN]), "ai", "calls look (invalid)"),
    ],
)
def test_a_message_shows_who_speaks_what_is_said_and_what_is_called(message, who, text):
    assert (heading(message), text_and_calls(message)) == (who, text)
