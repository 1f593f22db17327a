"""The stream of a turn: ask until an answer comes, fold what passes, hold back what came before the first content."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from weft.exceptions import ModelError, StreamTruncatedError
from weft.language_models._again import reset_event, summed_finish
from weft.language_models._closing import close_message, error_of, open_message
from weft.language_models._whole import run_message_id
from weft.language_models.request import ChatRequest
from weft.messages import AIMessage
from weft.messages._view import ChunkView
from weft.outputs import ChatGeneration
from weft.protocol.events import Event
from weft.protocol.fold import MessageBuilder
from weft.protocol.replay import message_to_events

if TYPE_CHECKING:
    from weft.language_models._turn import Turn

DELIVERED = frozenset(
    {"content-block-start", "content-block-delta", "content-block-finish", "message-finish"}
)
"""What a consumer has seen cannot be taken back: from the first of these on nothing is tried again."""
KNOWN = DELIVERED | {"message-start", "error"}


async def spoken(turn: Turn, view: ChunkView | None) -> AsyncGenerator[Any, None]:
    """Give a turn piece by piece, from its opening to its end; as events, or as what the view shows of them."""
    request = await turn._open()
    is_told = turn._is_watched or turn._tells_tokens
    is_shown = view is not None
    if view is None and turn._tells_tokens:
        view = ChunkView(turn.model._output_version)
    try:
        cache, kept = await turn._found(request)
        said = attempts(turn, request) if kept is None else _replayed(turn, kept)
        async with aclosing(said):
            async for event in said:
                chunk = None if view is None else view.feed(event)
                if is_told:
                    await turn._tell(event, chunk)
                if not is_shown:
                    yield event
                elif chunk is not None:
                    yield chunk
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


async def attempts(  # noqa: C901  one body, because each generator layer costs every delta
    turn: Turn, request: ChatRequest
) -> AsyncGenerator[Event, None]:
    """Ask until an answer comes, or an error that may not be tried again; fold what passes."""
    care = turn.care
    while True:
        turn.attempts += 1
        held: list[Event] | None = []
        """What came before the first content; None from then on."""
        feed = turn.builder.feed
        failure: Exception | None = None
        try:
            if turn.model.rate_limiter is not None:
                await turn.model._wait_for_turn(turn.run)
            async with aclosing(_speaking(turn, request)) as events:
                async for event in events:
                    if (
                        held is None
                        and type(event) is dict
                        and event.get("event") == "content-block-delta"
                    ):
                        feed(event)  # by far the most
                        yield event
                        continue
                    seen = [*(held or ()), *_checked(turn, event)]
                    held = seen if held is not None and not _delivers(seen) else None
                    for one in seen if held is None else ():
                        yield one
                    if turn.builder.error is not None:
                        raise error_of(turn.builder.error, **turn._where())
            for closing in [*(held or ()), *_closing(turn)]:
                yield closing
            return
        except Exception as error:
            if care is None and not isinstance(error, ModelError):
                raise
            failure = error
        if turn._goes_on(failure, is_delivered=held is None):
            if held is None:
                yield reset_event(turn.builder.id, turn.attempts, failure)
            request = await turn._before_retry(failure, request)
            continue
        async for last in _given_up(turn, request, failure, held):
            yield last
        return


async def _given_up(
    turn: Turn, request: ChatRequest, error: Exception, held: list[Event] | None
) -> AsyncGenerator[Event, None]:
    """Raise the error that ends the turn, or what the call's hook gives instead of it."""
    outcome = error if turn.care is None else await turn._recovered(turn.care, request, error)
    if isinstance(outcome, AIMessage) and held is not None:
        turn.builder = MessageBuilder()
        for one in message_to_events(outcome):
            turn.builder.feed(one)
            yield one
        return
    for one in held or ():
        yield one
    if isinstance(outcome, Exception) and outcome is not error:
        raise outcome from error
    raise error


async def _replayed(turn: Turn, kept: list[ChatGeneration]) -> AsyncGenerator[Event, None]:
    """Give an answer from the cache, with the id that is returned."""
    for event in message_to_events(kept[0].message):
        turn.builder.feed(event)
        yield event


def _speaking(turn: Turn, request: ChatRequest) -> AsyncGenerator[Event, None]:
    if turn.care is not None and turn.care.is_watching:
        return turn.care.speak(request)
    return turn.source(request)


def _checked(turn: Turn, event: Event) -> Iterator[Event]:
    """Fold an event; begin the message where the source did not."""
    builder = turn.builder
    given: Any = event
    kind = given.get("event") if isinstance(given, dict) else None
    if not builder.is_started and kind in KNOWN:
        opening = open_message(event, run_message_id(turn.run))
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
