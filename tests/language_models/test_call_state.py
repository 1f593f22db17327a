"""The states of a call: its table, who moves it, and calls that are driven at random."""

from __future__ import annotations

import ast
import asyncio
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import foldline
from foldline._io import ASYNC, BLOCKING
from foldline._io.drive import drive, drive_each
from foldline._run import Run
from foldline._streams import state as states
from foldline._streams.state import ATTEMPT_MOVES, MOVES, OWNERS, CallState
from foldline.caches import InMemoryCache
from foldline.exceptions import ModelError
from foldline.language_models import ModelHooks, RetryPolicy
from foldline.language_models._call.attempt import _Attempt
from foldline.language_models._call.call import ChatCall
from foldline.messages import AIMessage
from foldline.testing import Fail, ScriptedChatModel

HOME = Path(foldline.__file__).parent
FINAL = {state for state, moves in MOVES.items() if not moves}


def test_every_state_can_be_reached_and_every_state_before_the_end_can_end():
    reached = {states.NEW}
    for _ in MOVES:
        reached |= {after for state in reached for after in MOVES[state].values()}

    assert reached == set(MOVES)
    for state, moves in MOVES.items():
        assert not moves or {"fail", "close"} <= moves.keys(), state
    assert {repr(state) for state in FINAL} == {"CONCLUDED", "FAILED", "CLOSED"}


@pytest.mark.parametrize("state", MOVES, ids=repr)
@pytest.mark.parametrize("move", CallState.__slots__)
def test_a_move_that_is_not_in_the_table_does_not_exist(state: CallState, move: str):
    if move in MOVES[state]:
        assert getattr(state, move) is MOVES[state][move]
    else:
        with pytest.raises(AttributeError, match=f"'{state!r}' object has no attribute '{move}'"):
            getattr(state, move)


class Moves(ast.NodeVisitor):
    """Finds `x.state.<move>` in a file, and the function around it."""

    def __init__(self) -> None:
        self.found: set[tuple[str, str]] = set()
        self._path: list[str] = []

    def _enter(self, node: Any) -> None:
        self._path.append(node.name)
        self.generic_visit(node)
        self._path.pop()

    visit_ClassDef = visit_FunctionDef = visit_AsyncFunctionDef = _enter

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr in CallState.__slots__ and getattr(node.value, "attr", None) == "state":
            self.found.add((node.attr, ".".join(self._path)))
        self.generic_visit(node)


def test_only_the_owners_that_the_table_names_move_a_call():
    moves = Moves()
    for folder in ("_streams", "language_models", "runnables", "agents", "providers"):
        for path in (HOME / folder).rglob("*.py"):
            moves.visit(ast.parse(path.read_text(encoding="utf-8")))

    assert moves.found == {(move, owner) for move, owners in OWNERS.items() for owner in owners}


# -- calls at random


class WatchedCall(ChatCall):
    """A call that keeps the states it was in."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.states: list[CallState] = [states.NEW]
        super().__init__(*args, **kwargs)

    @property
    def state(self) -> CallState:  # type: ignore[override]
        return self.states[-1]

    @state.setter
    def state(self, state: CallState) -> None:
        self.states.append(state)


class WatchedAttempt(_Attempt):
    """An attempt whose moves are compared with the table."""

    __slots__ = ("_state",)

    @property
    def state(self) -> Any:  # type: ignore[override]
        return self._state

    @state.setter
    def state(self, state: Any) -> None:
        before = getattr(self, "_state", None)
        assert before is None or before is state or state in ATTEMPT_MOVES[before], (before, state)
        self._state = state


PIECES = st.lists(
    st.sampled_from(["a", "b ", Fail(ModelError("no", is_retryable=True))]), max_size=4
)
ENDS = st.sampled_from(["whole", "fails", "refuses"])


@st.composite
def scenarios(draw: Any) -> dict[str, Any]:
    turns = []
    for pieces, end in draw(st.lists(st.tuples(PIECES, ENDS), min_size=1, max_size=4)):
        errors = {
            "fails": [Fail(ModelError("late", is_retryable=True))],
            "refuses": [Fail(KeyError("x"))],
        }
        turns.append([*pieces, *errors.get(end, [])] or ["x"])
    return {
        "turns": turns,
        "retries": draw(st.integers(0, 3)),
        "on_partial": draw(st.sampled_from(["raise", "reset"])),
        "rescues": draw(st.booleans()),
        "is_cached": draw(st.booleans()),
        "breaks_in": draw(st.sampled_from([None, None, "before", "after"])),
        "view": draw(st.sampled_from(["message", "chunks", "events"])),
        "leaves_after": draw(st.one_of(st.none(), st.integers(0, 4))),
        "is_async": draw(st.booleans()),
    }


def fail(*_: Any) -> Any:
    raise ModelError("a hook failed")


def watched_call(scenario: dict[str, Any], io: Any) -> WatchedCall:
    retry = RetryPolicy(
        scenario["retries"], initial=0.0, jitter=False, on_partial=scenario["on_partial"]
    )
    hooks: dict[str, Any] = {}
    if scenario["rescues"]:
        hooks["on_error"] = lambda *_: AIMessage("rescued")
    if scenario["breaks_in"]:
        hooks[scenario["breaks_in"]] = fail
    cache = InMemoryCache() if scenario["is_cached"] else None
    if cache is not None:
        ScriptedChatModel(script=["kept"], cache=cache).invoke("hi")
    model = ScriptedChatModel(
        script=scenario["turns"],
        is_cyclic=True,
        retry_on_error=retry,
        hooks=ModelHooks(**hooks) if hooks else None,
        cache=cache,
    )
    return WatchedCall(model, "hi", Run(io, {}, None, {}), stream=scenario["view"] != "message")


def read(call: WatchedCall, scenario: dict[str, Any]) -> None:
    if scenario["view"] == "message":
        drive(call.answer_once())
        return
    items = drive_each(call.chunks() if scenario["view"] == "chunks" else call.batches())
    for count, _ in enumerate(items):
        if count == scenario["leaves_after"]:
            items.close()
            return


async def read_async(call: WatchedCall, scenario: dict[str, Any]) -> None:
    if scenario["view"] == "message":
        await call.answer_once()
        return
    items = call.chunks() if scenario["view"] == "chunks" else call.batches()
    count = 0
    async for _ in items:
        if count == scenario["leaves_after"]:
            await items.aclose()
            return
        count += 1


@given(scenario=scenarios())
@settings(deadline=None)
def test_a_call_makes_only_moves_of_the_table_and_ends_in_a_final_state(scenario: dict[str, Any]):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("foldline.language_models._call.attempt._Attempt", WatchedAttempt)
        random.seed(1)
        call = watched_call(scenario, ASYNC if scenario["is_async"] else BLOCKING)
        with suppress(ModelError, KeyError):
            if scenario["is_async"]:
                asyncio.run(read_async(call, scenario))
            else:
                read(call, scenario)

    for before, after in zip(call.states, call.states[1:], strict=False):
        assert after in MOVES[before].values(), call.states
    assert call.state in FINAL, call.states
    assert (call.state is states.CONCLUDED) == (call.error is None)
