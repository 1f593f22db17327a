"""Fits a conversation that a client sends in full to the thread that the server stores.

Chat pages send all messages each time. The thread has the older ones, so only the new ones are added. Where the user
regenerated an answer or edited an earlier question, the thread continues from before that question, and later messages
are replaced. Messages are identified by the ids of the client.
"""

from __future__ import annotations

from typing import Any, Final

from foldline.agents.state import REMOVE_ALL_MESSAGES
from foldline.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage
from foldline.serve._json_body import Body
from foldline.serve._wire_server import WireCall, thread_key
from foldline.serve._wires.approvals import latest_run
from foldline.serve.apps import RunRequest, ServedApp, Snapshot
from foldline.serve.errors import failure_of

__all__ = ["client_id", "set_conversation"]

LONGEST_ID: Final = 256


def client_id(item: Body) -> str | None:
    """Return the client's id of a message; None where it has no valid one."""
    id = item.get("id")
    return id if isinstance(id, str) and 0 < len(id) <= LONGEST_ID and "\x00" not in id else None


async def set_conversation(
    call: WireCall,
    app: ServedApp,
    request: RunRequest,
    thread: str | None,
    messages: list[BaseMessage],
) -> None:
    """Make a conversation the input of a run; for an existing thread, only its new messages."""
    if thread is not None and app.has_threads and await latest_run(call, thread) is not None:
        messages = await _fit_to_thread(call, app, request, thread, messages)
    try:
        request.input = app.input_of_chat(messages)
    except ValueError as error:
        raise failure_of(error) from error


async def _fit_to_thread(
    call: WireCall, app: ServedApp, request: RunRequest, thread: str, messages: list[BaseMessage]
) -> list[BaseMessage]:
    names: dict[str, Any] = {"thread_id": thread_key(call.caller, thread)}
    state = await app.target.aget_state({"configurable": names})
    cut = _first_replaced(_human_ids(_messages_of(state)), _human_ids(messages))
    if cut is None:
        return _after_last_answer(messages)
    async for snapshot in app.target.aget_state_history({"configurable": names}):
        earlier = _messages_of(snapshot)
        checkpoint = snapshot.config.get("configurable", {}).get("checkpoint_id")
        if checkpoint is not None and cut not in {message.id for message in earlier}:
            request.config["configurable"] = {"checkpoint_id": checkpoint}
            return _after_last_answer(messages) if earlier else messages
    return [RemoveMessage(id=REMOVE_ALL_MESSAGES), *messages]


def _messages_of(snapshot: Snapshot) -> list[BaseMessage]:
    values = snapshot.values
    messages = values.get("messages") if isinstance(values, dict) else None
    return messages if isinstance(messages, list) else []


def _human_ids(messages: list[BaseMessage]) -> list[str]:
    return [message.id for message in messages if isinstance(message, HumanMessage) and message.id]


def _first_replaced(stored_ids: list[str], sent_ids: list[str]) -> str | None:
    """Return the id of the first question of the thread that the client repeats or has dropped; else None."""
    if not sent_ids:
        return None
    if sent_ids[-1] in stored_ids:
        return sent_ids[-1]
    common = [id for id in sent_ids if id in stored_ids]
    if not common:
        return None
    later = stored_ids[stored_ids.index(common[-1]) + 1 :]
    return later[0] if later else None


def _after_last_answer(messages: list[BaseMessage]) -> list[BaseMessage]:
    places = [place for place, message in enumerate(messages) if isinstance(message, AIMessage)]
    after = messages[places[-1] + 1 :] if places else []
    return after or messages[-1:]
