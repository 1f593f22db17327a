"""The inbox of a thread: what others send to it while a run may own it: an input, a notification, a request to cancel.

Whoever sends does not own the thread, so a message is no part of its log: it is an entry of a namespace beside it, to
which anybody may append. The run that owns the thread takes messages before its next step, with a record of the log
that names the message. So a message is taken once, whatever ends the run: without that record it is still there.

No message is left behind. Who sends tries to own the thread after that; if a run owns it, that run looks once more
after it has given the thread back.
"""

from __future__ import annotations

import time
from typing import Any, Final, Literal, NamedTuple

from foldline._io import IO
from foldline._storage.workers import inbox_wait
from foldline.checkpoint.base import BaseCheckpointSaver, Entry, read_after
from foldline.exceptions import SchemaError, StoreError, ThreadConflictError
from foldline.utils.uuid import new_id
from foldline.workflows._thread_state import FIRST_BRANCH, ThreadState
from foldline.workflows.values import from_text, pack, to_text, unpack

__all__ = ["Inbox", "Message", "MessageKind", "leave"]

NAMESPACE: Final = "/inbox"
"""No step or nested run has a namespace that begins with a slash."""
FORM: Final = 1
MessageKind = Literal["input", "notification", "cancel"]


class Message(NamedTuple):
    """An entry of an inbox."""

    id: str
    what: MessageKind
    value: Any
    sender: str | None = None


def leave(
    saver: BaseCheckpointSaver,
    thread_id: str,
    what: MessageKind,
    value: object = None,
    sender: str | None = None,
) -> Message:
    """Write a message; the next step of the thread's run takes it, in this process or another."""
    body = {"v": FORM, "kind": "inbox", "what": what, "value": pack(value, "the message")}
    if sender is not None:
        body["sender"] = sender
    text = to_text(body)
    while True:
        last = saver.head(thread_id, NAMESPACE)
        after = None if last is None else last.id
        entry = Entry(new_id(), after, text)
        try:
            saver.append(thread_id, NAMESPACE, [entry], after=after)
        except ThreadConflictError:
            continue  # another sender was faster, and its message is the last one now
        return Message(entry.id, what, value, sender)


class Inbox:
    """The messages for one run."""

    def __init__(self, saver: BaseCheckpointSaver, thread_id: str, io: IO) -> None:
        self._saver = saver
        self._thread_id = thread_id
        self._io = io
        self._next_look = 0.0
        self._first: str | None = None
        """The last message when the run began: an older request to cancel was for another run."""
        self._is_open = False

    def look_now(self) -> None:
        """Let the next step look, however short the time since the last look is; the run begins, or goes on."""
        self._next_look, self._is_open = 0.0, False

    async def new_messages(self, thread: ThreadState) -> list[Message]:
        """Return the messages that the thread has not taken, and requests to cancel this run."""
        now = time.monotonic()
        if now < self._next_look:
            return []
        # A store that must be asked over a wire is not asked between steps of microseconds.
        self._next_look = now if self._saver.is_instant else now + inbox_wait()
        last = await self._call(self._saver.head, self._thread_id, NAMESPACE)
        last_id = None if last is None else last.id
        if not self._is_open:
            self._is_open, self._first = True, last_id
        if last_id in (None, thread.inbox):
            return []
        messages = [_read(entry) for entry in await self._entries(thread.inbox)]
        ids = [message.id for message in messages]
        count = ids.index(self._first) + 1 if self._first in ids else 0
        return [
            message
            for number, message in enumerate(messages)
            if (number >= count or message.what != "cancel") and _is_for(message, thread)
        ]

    async def has_messages(self, thread: ThreadState) -> bool:
        """Whether there is something that the thread has not taken."""
        self.look_now()
        return bool(await self.new_messages(thread))

    async def _entries(self, taken: str | None) -> list[Entry]:
        if taken is None:
            entries = await self._call(self._saver.read, self._thread_id, NAMESPACE)
        else:
            entries = await self._call(read_after, self._saver, self._thread_id, NAMESPACE, taken)
        return list(entries)

    async def _call(self, method: Any, *args: object) -> Any:  # noqa: ANN401  a method of the saver
        try:
            return method(*args) if self._saver.is_instant else await self._io.call(method, *args)
        except StoreError as error:
            error.ends_run = True
            raise


def _is_for(message: Message, thread: ThreadState) -> bool:
    """Whether a message was sent to this branch: one that began later does not take what the older one was sent."""
    return thread.branch == FIRST_BRANCH or message.id > thread.branch


def _read(entry: Entry) -> Message:
    body = from_text(entry.body, f"message {entry.id}")
    try:
        what = body["what"]
        if what not in ("input", "notification", "cancel"):
            raise SchemaError(
                f"message {entry.id} is of the unknown kind {what!r:.40}: update foldline"
            )
        value = unpack(body.get("value"), f"message {entry.id}")
        return Message(entry.id, what, value, body.get("sender"))
    except (KeyError, TypeError) as error:
        raise SchemaError(f"message {entry.id} is damaged and was not read: {error}") from error
