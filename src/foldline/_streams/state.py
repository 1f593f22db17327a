"""The states of a call and of its attempts, and every move between them. Pure.

A call is in one state. What happens to it is an attribute of that state, the next state: `call.state = call.state.ask`.
A move that is not in the table does not exist: it is a defect of foldline, and raises at once.

    NEW --begin--> PREPARING --ask--> ASKING --content--> RECEIVING
                       |               | ^                  |  |
                       |               | +------retry-------+  |
                       +----answer-----+----------answer-------+--> ANSWERED --conclude--> CONCLUDED

`fail` and `close` lead from every state before CONCLUDED to FAILED and CLOSED. Three states are final. That a reader
wants to close the stream is no state: it is a wish, set from any thread, that decides between `fail` and `close`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

__all__ = ["ATTEMPT_MOVES", "MOVES", "OWNERS", "AttemptState", "CallState", "Origin", "View"]


class CallState:
    """Where a call is; the attributes are the states that may follow."""

    __slots__ = (
        "answer", "ask", "begin", "close", "conclude", "content", "fail", "retry",
    )  # fmt: skip
    begin: CallState
    """It is read for the first time."""
    ask: CallState
    """The first attempt begins."""
    content: CallState
    """Content of an attempt is delivered, which a reader would have to take back."""
    retry: CallState
    """An attempt has failed, and another one follows."""
    answer: CallState
    """The answer is complete: of the model, of the cache, of a policy or of a hook."""
    conclude: CallState
    """The message is final."""
    fail: CallState
    close: CallState
    """The reader has left."""

    def __repr__(self) -> str:
        return type(self).__name__


def _state(name: str) -> CallState:
    """Return a state of a class of its own: Python then names it where a move does not exist."""
    state: CallState = type(name, (CallState,), {"__slots__": ()})()
    return state


NEW: Final = _state("NEW")
"""Made; nothing was read, and nothing was reported."""
PREPARING: Final = _state("PREPARING")
"""Coerces the input, reports the start, runs `before` of its policies, looks into the cache."""
ASKING: Final = _state("ASKING")
"""An attempt runs, and nothing was delivered that a reader would have to take back."""
RECEIVING: Final = _state("RECEIVING")
"""Content of this attempt was delivered."""
ANSWERED: Final = _state("ANSWERED")
"""The answer is complete; hooks, the cache and `after` of the policies run. Closing waits for them."""
CONCLUDED: Final = _state("CONCLUDED")
"""The message is final. An error of a handler after this is raised, and changes nothing."""
FAILED: Final = _state("FAILED")
CLOSED: Final = _state("CLOSED")
"""The reader left before the answer was complete."""

ENDS: Final = {"fail": FAILED, "close": CLOSED}
MOVES: Final[Mapping[CallState, Mapping[str, CallState]]] = {
    NEW: {"begin": PREPARING, **ENDS},
    PREPARING: {"ask": ASKING, "answer": ANSWERED, **ENDS},
    ASKING: {"content": RECEIVING, "retry": ASKING, "answer": ANSWERED, **ENDS},
    RECEIVING: {"retry": ASKING, "answer": ANSWERED, **ENDS},
    ANSWERED: {"conclude": CONCLUDED, **ENDS},
    CONCLUDED: {},
    FAILED: {},
    CLOSED: {},
}
"""The machine: state -> what may happen -> the next state."""
OWNERS: Final[Mapping[str, frozenset[str]]] = {
    "begin": frozenset({"ChatCall._life"}),
    "ask": frozenset({"attempts"}),
    "content": frozenset({"_Attempt._take_folded"}),
    "retry": frozenset({"attempts"}),
    "answer": frozenset({"attempts", "ChatCall._replay"}),
    "conclude": frozenset({"ChatCall._conclude"}),
    "fail": frozenset({"ChatCall._fail"}),
    "close": frozenset({"ChatCall._fail"}),
}
"""what happens -> the only functions that may say so; a test reads the source for others"""
for _before, _moves in MOVES.items():
    for _input, _next in _moves.items():
        setattr(_before, _input, _next)


class AttemptState(StrEnum):
    """Where one attempt is."""

    RESERVING = "reserving"
    """Waits for its share of limits and budgets: an error is not the author's."""
    WAITING = "waiting"
    """The author's code runs; events before the first content are held back."""
    DELIVERING = "delivering"
    """Content was passed on: events are passed on as they come."""
    FINISHED = "finished"
    """`message-finish` was accepted: its batch is kept until the source has ended."""
    REJECTED = "rejected"
    """A policy raised: the error is not the author's."""


RESERVING: Final = AttemptState.RESERVING
WAITING: Final = AttemptState.WAITING
DELIVERING: Final = AttemptState.DELIVERING
FINISHED: Final = AttemptState.FINISHED
REJECTED: Final = AttemptState.REJECTED

ATTEMPT_MOVES: Final[Mapping[AttemptState, frozenset[AttemptState]]] = {
    RESERVING: frozenset({WAITING}),
    WAITING: frozenset({DELIVERING, FINISHED, REJECTED}),
    DELIVERING: frozenset({FINISHED, REJECTED}),
    FINISHED: frozenset({REJECTED}),  # by a policy that sees further answers
    REJECTED: frozenset(),
}
"""state -> the states that may follow; an attempt that fails is left where it is, and another one is made"""


class Origin(StrEnum):
    """Where an answer came from: it decides what is still done with it."""

    MODEL = "model"
    CACHE = "cache"
    """Not stored again, not postprocessed; nothing was spent."""
    HOOK = "hook"
    """Put in place of an error: no policy changes it."""
    TAPE = "tape"
    """Of a policy (`Policy.answer`), in place of the model: not stored, not postprocessed."""


class View(StrEnum):
    """What the caller reads of a call."""

    MESSAGE = "message"
    """`invoke`: the message alone."""
    CHUNKS = "chunks"
    """`stream`: v1 chunks; handlers get tokens."""
    EVENTS = "events"
    """`stream_v2`, records, batches."""


MESSAGE: Final = View.MESSAGE
CHUNKS: Final = View.CHUNKS
EVENTS: Final = View.EVENTS
