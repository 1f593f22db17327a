"""The stream of a turn: ask until an answer comes, fold what passes, hold back what came before the first content."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from foldline.exceptions import ModelError, StreamTruncatedError
from foldline.language_models._again import reset_event, summed_finish
from foldline.language_models._closing import close_message, error_of, open_message
from foldline.language_models._whole import run_message_id
from foldline.language_models._written import written_by
from foldline.language_models.request import ChatRequest
from foldline.messages import AIMessage, AIMessageChunk
from foldline.messages._view import ChunkView
from foldline.outputs import ChatGeneration
from foldline.protocol.events import Event
from foldline.protocol.fold import FoldedMessage, MessageBuilder
from foldline.protocol.replay import message_to_events

if TYPE_CHECKING:
    from foldline.language_models._turn import Turn

DELIVERED = frozenset(
    {"content-block-start", "content-block-delta", "content-block-finish", "message-finish"}
)
"""What a consumer has seen cannot be taken back: from the first of these on nothing is tried again."""
KNOWN = DELIVERED | {"message-start", "error"}


async def spoken(  # noqa: C901, PLR0912
    turn: Turn, view: ChunkView | None, request: ChatRequest | None = None
) -> AsyncGenerator[Any, None]:
    """Give a turn piece by piece, from its opening to its end; as events, or as what the view shows of them.

    Ask until an answer comes, or an error that may not be tried again; fold what passes. All in one body, because
    each generator between the model and the reader costs every delta.
    """
    if request is None:
        request = await turn._open()
    show = _Showing(turn, view)
    is_told, look = show.is_told, None if view is None else view.grow
    try:
        cache, kept = await turn._found(request)
        asking = _Asking(turn, request, kept)
        while not asking.is_over:
            await asking.pause()
            try:
                async with aclosing(await asking.begin()) as events:
                    grow, is_delivered = turn.builder.grow, False
                    async for event in events:
                        if (
                            is_delivered
                            and type(event) is dict
                            and event.get("event") == "content-block-delta"
                        ):
                            grow(event)  # by far the most
                            if not is_told:
                                shown = event if look is None else look(event)
                                if shown is not None:
                                    yield shown
                                continue
                            passing = [event]
                        else:
                            passing = asking.take(event)
                            is_delivered = asking.held is None
                        for one in passing:
                            shown = await show.piece(one)
                            if shown is not None:
                                yield shown
                        if turn.builder.error is not None:
                            raise error_of(turn.builder.error, **turn._where())
                passing = asking.end()
            except Exception as error:
                if error is show.error:
                    raise
                passing = await asking.fail(error)
            for one in passing:
                shown = await show.piece(one)
                if shown is not None:
                    yield shown
        if asking.error is not None:
            raise asking.error
        result = await turn._conclude(request, kept)
        if cache is not None and kept is None and not turn._is_rescued:
            await cache.update(result.generations)
        if turn.care is not None:
            result = await turn.care.conclude(request, result)
            turn.message = cast("AIMessage", result.generations[0].message)
    except BaseException as error:
        await turn._fail(error)
        raise
    await turn._end(result)


async def folded(turn: Turn, request: ChatRequest) -> FoldedMessage:
    """Ask once, for a caller who gets the end only: fold what the model says, hand on nothing."""
    builder, is_begun = turn.builder, False

    def hear(events: Sequence[Event]) -> None:
        nonlocal is_begun
        for event in events:
            if is_begun or (turn.attempts == 1 and _is_opening(event)):
                is_begun = True
                builder.feed(event)  # there is nothing to add to it
            else:
                for _ in _checked(turn, event):
                    pass
                is_begun = turn.attempts == 1 and builder.is_started
            if builder.error is not None:
                raise error_of(builder.error, **turn._where())

    if written_by(type(turn.model)).tells_events:
        builder.is_sole_owner = True
        await turn.model._tell_events(request, turn.run, hear)
    else:
        async with aclosing(turn.source(request)) as events:
            async for event in events:
                hear((event,))
    if not builder.is_finished:
        for _ in _closing(turn):
            pass
    return builder.result(last=True)


class _Showing:
    """What becomes of an event on its way out: listeners are told; the reader gets it, or the chunk that shows it."""

    __slots__ = ("_is_shown", "_turn", "_view", "error", "is_told")

    def __init__(self, turn: Turn, view: ChunkView | None) -> None:
        self._turn = turn
        self._is_shown = view is not None
        self.is_told = turn._is_watched or turn._tells_tokens
        if view is None and turn._tells_tokens:
            view = ChunkView(turn.model._output_version)
        self._view = view
        self.error: Exception | None = None
        """What a listener raised: no failure of the model."""

    async def piece(self, event: Event) -> Event | AIMessageChunk | None:
        """Tell the listeners; give what the reader sees of the event."""
        chunk = None if self._view is None else self._view.feed(event)
        if self.is_told:
            try:
                await self._turn._tell(event, chunk)
            except Exception as error:
                self.error = error
                raise
        return chunk if self._is_shown else event


class _Asking:
    """The attempts of a turn, one after the other: what is held back, what passes, what follows a failure."""

    __slots__ = ("_failure", "_kept", "_request", "_turn", "error", "held", "is_over")

    def __init__(self, turn: Turn, request: ChatRequest, kept: list[ChatGeneration] | None) -> None:
        self._turn = turn
        self._request = request
        self._kept = kept
        self._failure: Exception | None = None
        self.held: list[Event] | None = []
        """What came before the first content; None from then on."""
        self.is_over = False
        self.error: Exception | None = None
        """What the turn ends with, once what was held back is out."""

    async def pause(self) -> None:
        """Wait before another attempt, listeners told: what fails here is no failure of an attempt."""
        if self._failure is not None:
            self._request = await self._turn._before_retry(self._failure, self._request)
            self._failure = None

    async def begin(self) -> AsyncGenerator[Event, None]:
        """Ask, or ask again."""
        turn = self._turn
        if self._kept is not None:  # an answer from the cache, with the id that is returned
            return _replayed(self._kept)
        self.held = []
        turn.attempts += 1
        if turn.model.rate_limiter is not None:
            await turn.model._wait_for_turn(turn.run)
        if turn.care is not None and turn.care.is_watching:
            return turn.care.speak(self._request)
        return turn.source(self._request)

    def take(self, event: Event) -> list[Event]:
        """Fold an event; give those that may go out."""
        seen = [*(self.held or ()), *_checked(self._turn, event)]
        if self.held is not None and not _delivers(seen):
            self.held = seen
            return []
        self.held = None
        return seen

    def end(self) -> list[Event]:
        """Give what ends the message."""
        last = [*(self.held or ()), *_closing(self._turn)]
        self.is_over = True
        return last

    async def fail(self, error: Exception) -> list[Event]:
        """Give what goes out after a failure: that it begins again, or the last of it; raise what is no model's."""
        turn, care = self._turn, self._turn.care
        if self._kept is not None or (care is None and not isinstance(error, ModelError)):
            raise error
        if turn._goes_on(error, is_delivered=self.held is None):
            self._failure = error
            is_out = self.held is None
            return [reset_event(turn.builder.id, turn.attempts, error)] if is_out else []
        self.is_over = True
        outcome = error if care is None else await turn._recovered(care, self._request, error)
        if isinstance(outcome, AIMessage) and self.held is not None:
            turn.builder = MessageBuilder()
            rescue = list(message_to_events(outcome))
            for one in rescue:
                turn.builder.feed(one)
            return rescue
        self.error = error
        if isinstance(outcome, Exception) and outcome is not error:
            outcome.__cause__ = error
            self.error = outcome
        return self.held or []


async def _replayed(kept: list[ChatGeneration]) -> AsyncGenerator[Event, None]:
    for event in message_to_events(kept[0].message):
        yield event


def _checked(turn: Turn, event: Event) -> Iterator[Event]:
    """Fold an event; begin the message where the source did not."""
    builder = turn.builder
    given: Any = event
    kind = given.get("event") if isinstance(given, dict) else None
    if not builder.is_started and kind in KNOWN:
        is_named = _is_opening(event)
        opening = event if is_named else open_message(event, run_message_id(turn.run))
        builder.feed(opening)
        yield opening
        if kind == "message-start":
            return
    turn.tail = builder.tail(event) if kind == "content-block-finish" else ""
    if kind == "message-finish" and turn.attempts > 1:
        event = summed_finish(event, turn.spent, turn.attempts - 1)
    builder.feed(event)
    if builder.is_started:  # what nobody knows passes, but not before the start
        yield event


def _is_opening(event: Event) -> bool:
    """Say whether an event begins a message as it should: with the message's id."""
    return type(event) is dict and event.get("event") == "message-start" and bool(event.get("id"))


def _closing(turn: Turn) -> Iterator[Event]:
    """End the message where the source did not."""
    if not turn.builder.is_started:
        raise StreamTruncatedError(
            "the model gave no event at all", is_retryable=False, **turn._where()
        )
    if not turn.builder.is_finished:
        for closing in close_message(turn.builder):
            if closing["event"] == "message-finish" and turn.attempts > 1:
                closing = summed_finish(closing, turn.spent, turn.attempts - 1)
            turn.builder.feed(closing)
            yield closing


def _delivers(events: list[Event]) -> bool:
    return any(event["event"] in DELIVERED for event in events)
