"""Messages as text for a person: the role, the text, and the tool calls."""

from __future__ import annotations

import json

from foldline.messages import AIMessage, BaseMessage
from foldline.messages._refusal import refusal_of
from foldline.utils.json import to_jsonable

__all__ = ["heading", "text_and_calls"]


def heading(message: BaseMessage) -> str:
    """Return the role of a message; an incomplete answer is marked."""
    is_cut = isinstance(message, AIMessage) and message.status == "incomplete"
    return f"{message.type}{' (cut)' if is_cut else ''}"


def text_and_calls(message: BaseMessage) -> str:
    """Return the text of a message, and a line for each tool it calls."""
    lines = [str(message.text)] if str(message.text) else []
    if isinstance(message, AIMessage):
        if (refusal := refusal_of(message)) is not None and refusal["refusal"] not in lines:
            lines.append(f"refuses: {refusal['refusal'] or 'without a reason'}")
        for call in message.tool_calls:
            args = json.dumps(to_jsonable(call["args"]), ensure_ascii=False)
            lines.append(f"calls {call['name']}({args})")
        lines += [f"calls {call.get('name')} (invalid)" for call in message.invalid_tool_calls]
    return "\n".join(lines)
