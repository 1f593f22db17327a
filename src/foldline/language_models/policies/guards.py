"""Guards: checks of a finished answer before anybody gets it.

A guard is a function of the message. It returns None or True to let it pass, False or a reason (text) to refuse it, or
a message to give instead; raising refuses too. While streaming, everything is held back until the guards have passed
(`"buffer"`); with `"post"` the pieces go out at once and a refusal ends the stream with an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from foldline._io import IO
from foldline.exceptions import OutputRejectedError, UsageError
from foldline.language_models.call.batch import Batch, CompleteAnswer
from foldline.language_models.call.request import ChatRequest
from foldline.language_models.policies.base import (
    CallContext,
    FoldedAttempt,
    Policy,
    ends_message,
)
from foldline.language_models.policies.settings import Guard
from foldline.messages import AIMessage
from foldline.outputs import ChatGeneration
from foldline.protocol.events import Event
from foldline.protocol.replay import message_to_events

__all__ = ["GuardsPolicy", "approve_cached", "run_guards"]


class GuardsPolicy(Policy):
    """Lets the guards see every answer before the caller does."""

    __slots__ = ("_guards", "_held", "_io", "_received", "_replacement", "holds_back")
    watches_events = True
    sees_further_answers = True

    def __init__(self, call: CallContext) -> None:
        self._guards = call.settings.guards
        self._io = call.run.io
        self._received = cast("FoldedAttempt", call.received)
        self.holds_back: bool = call.settings.guard_mode == "buffer"
        """Whether nothing goes out before the guards have passed."""
        self._held: list[Event] = []
        self._replacement: AIMessage | None = None

    def begin(self) -> None:
        """Forget the attempt before."""
        self._held = []
        self._replacement = None

    async def on_events(self, batch: Batch) -> Batch:
        """Hold the events back, and run the guards at the finish."""
        if not ends_message(batch):
            if not self.holds_back:
                return batch
            self._held += batch
            return [event for event in batch if event["event"] == "error"]
        if type(batch) is CompleteAnswer:
            messages = [cast("AIMessage", one.message) for one in batch.result.generations]
            return batch.replace(
                [await run_guards(self._guards, one, self._io) for one in messages]
            )
        message = self._received.message
        passed = await run_guards(self._guards, message, self._io)
        if passed is message:
            return [*self._held, *batch]
        if self.holds_back:
            return list(message_to_events(passed))
        self._replacement = passed
        return batch

    async def after(self, request: ChatRequest, message: AIMessage) -> AIMessage:
        """Return what a guard gave instead of an answer whose pieces were out."""
        return self._replacement or message


async def run_guards(guards: Sequence[Guard], message: AIMessage, io: IO) -> AIMessage:
    """Let every guard see the message, in order; return the message that passed."""
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
            f"the guard {name} gave {verdict!r}: give True, False, a reason or a message"
        )
    return message


async def approve_cached(
    guards: Sequence[Guard], generations: list[ChatGeneration], io: IO
) -> list[ChatGeneration] | None:
    """Let the guards see a cached answer, maybe of somebody else; one that they refuse counts as not cached."""
    if not guards:
        return generations
    try:
        messages = [cast("AIMessage", one.message) for one in generations]
        passed = [await run_guards(guards, message, io) for message in messages]
    except OutputRejectedError:
        return None
    return [ChatGeneration._trusted(message) for message in passed]
