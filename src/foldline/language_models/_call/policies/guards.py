"""Guards: checks of a finished answer before it is delivered.

A guard is a function of the message. It returns None or True to accept it, False or a reason (text) to reject it, or a
message to return instead; raising rejects too. While streaming, everything is held back until the guards have passed
(`"buffer"`); with `"post"` the chunks are delivered at once and a rejection ends the stream with an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from foldline._io import IO
from foldline._streams.answer import Batch, CompleteAnswer
from foldline.exceptions import OutputRejectedError, UsageError
from foldline.language_models._call.policy import (
    CallContext,
    FoldedAttempt,
    Policy,
    ends_message,
)
from foldline.language_models._call.request import ChatRequest
from foldline.language_models._call.settings import Guard
from foldline.messages import AIMessage
from foldline.outputs import ChatGeneration, ChatResult
from foldline.protocol.events import Event
from foldline.protocol.replay import message_to_events

__all__ = ["GuardsPolicy", "run_guards"]


class GuardsPolicy(Policy):
    """Runs the guards on every answer before the caller gets it."""

    __slots__ = ("_guards", "_io", "_pending", "_received", "_replacement", "holds_back")
    watches_events = True
    sees_further_answers = True
    reads_message = True

    applies_to = "settings"

    @classmethod
    def applies(cls, call: CallContext, request: ChatRequest) -> bool:
        """Where the call has guards."""
        return bool(call.settings.guards)

    def __init__(self, call: CallContext) -> None:
        self._guards = call.settings.guards
        self._io = call.run.io
        self._received = cast("FoldedAttempt", call.received)
        self.holds_back: bool = call.settings.guard_mode == "buffer"
        """Whether nothing is delivered before the guards have passed."""
        self._pending: list[Event] = []
        self._replacement: AIMessage | None = None

    def begin(self) -> None:
        """Discard the previous attempt."""
        self._pending = []
        self._replacement = None

    async def on_events(self, batch: Batch) -> Batch:
        """Hold the events back, and run the guards at the finish."""
        if not ends_message(batch):
            if not self.holds_back:
                return batch
            self._pending += batch
            return [event for event in batch if event["event"] == "error"]
        if type(batch) is CompleteAnswer:
            messages = [
                cast("AIMessage", generation.message) for generation in batch.result.generations
            ]
            return batch.replace(
                [await run_guards(self._guards, message, self._io) for message in messages]
            )
        message = self._received.message
        approved = await run_guards(self._guards, message, self._io)
        if approved is message:
            return [*self._pending, *batch]
        if self.holds_back:
            return list(message_to_events(approved))
        self._replacement = approved
        return batch

    async def approve(self, answer: CompleteAnswer) -> CompleteAnswer | None:
        """Run the guards on a cached answer, maybe of another caller; a rejected one counts as not cached."""
        messages = [cast("AIMessage", choice.message) for choice in answer.result.generations]
        try:
            approved = [await run_guards(self._guards, message, self._io) for message in messages]
        except OutputRejectedError:
            return None
        generations = [ChatGeneration._trusted(message) for message in approved]
        return CompleteAnswer(ChatResult(generations=generations))

    async def after(self, request: ChatRequest, message: AIMessage) -> AIMessage:
        """Return the replacement of a guard for an answer whose chunks were delivered."""
        return self._replacement or message


async def run_guards(guards: Sequence[Guard], message: AIMessage, io: IO) -> AIMessage:
    """Run every guard on the message, in order; return the message that passed."""
    for guard in guards:
        verdict = await io.call(guard, message)
        if verdict is None or verdict is True:
            continue
        if isinstance(verdict, AIMessage):
            message = verdict
            continue
        name = getattr(guard, "__name__", type(guard).__name__)
        if verdict is False or isinstance(verdict, str):
            reason = f": {verdict}" if verdict else ""
            error = OutputRejectedError(
                f"the guard {name} refused the answer{reason}", partial=message
            )
            error.guard = name
            raise error
        raise UsageError(
            f"the guard {name} returned {verdict!r}: return True, False, a reason or a message"
        )
    return message
