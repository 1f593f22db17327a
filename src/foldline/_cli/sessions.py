"""`foldline sessions`: the stored conversations, which are in the trace file."""

from __future__ import annotations

import json
import time

from foldline._cli.conversation import list_sessions, open_history
from foldline._cli.message_text import heading, text_and_calls
from foldline._cli.places import sessions_file, traces_place
from foldline._cli.terminal import echo, note, table
from foldline.exceptions import UsageError
from foldline.messages import messages_to_dict
from foldline.tracers import TraceStore
from foldline.utils.strings import suggestion

__all__ = ["sessions"]


def sessions(name: str | None, *, delete: bool, as_json: bool) -> int:
    """List, show or delete."""
    if name is None:
        if delete:
            raise UsageError("which one? foldline sessions NAME --delete")
        return _list(as_json=as_json)
    if name not in [names for names, _, _ in list_sessions()]:
        names = [session for session, _, _ in list_sessions()]
        raise UsageError(
            f"there is no session {name!r}{suggestion(name, names)}: foldline sessions lists them"
        )
    history = open_history(name)
    try:
        if delete:
            history.clear()
            count = TraceStore(traces_place()).delete(session=name)
            note(f"{name} is deleted{f', and {count} runs of the log' if count else ''}")
        elif as_json:
            echo(json.dumps(messages_to_dict(history.messages), ensure_ascii=False, default=str))
        else:
            for message in history.messages:
                echo(f"{heading(message)}:", style="bold")
                echo(f"{text_and_calls(message)}\n")
    finally:
        history.close()
    return 0


def _list(*, as_json: bool) -> int:
    conversations = list_sessions()
    if as_json:
        keys = ("session", "messages", "last")
        echo(
            json.dumps(
                [dict(zip(keys, row, strict=True)) for row in conversations], ensure_ascii=False
            )
        )
    elif not conversations:
        note(
            f"no sessions in {sessions_file()}; `foldline chat` or `foldline chat --session NAME` makes one"
        )
    else:
        rows = [
            (name, str(count), time.strftime("%Y-%m-%d %H:%M", time.localtime(last)))
            for name, count, last in conversations
        ]
        table(("session", "messages", "last"), rows)
    return 0
