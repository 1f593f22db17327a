"""Guards: checks of a finished answer before anybody gets it.

A guard is a function of the message. It gives None or True to let it pass, False or a reason (text) to refuse it, or a
message to give instead; raising refuses too. While streaming, everything is held back until the guards have passed
(`"buffer"`); with `"post"` the pieces go out at once and a refusal ends the stream with an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from foldline._io import IO
from foldline.exceptions import OutputRejectedError, UsageError
from foldline.messages import AIMessage

__all__ = ["Guard", "GuardMode", "run_guards"]

Guard = Callable[[AIMessage], Any]
GuardMode = Literal["buffer", "post"]


async def run_guards(guards: Sequence[Guard], message: AIMessage, io: IO) -> AIMessage:
    """Let every guard see the message, in order; give the message that passed."""
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
