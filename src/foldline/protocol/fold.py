"""The fold: takes events and returns the message so far. One state machine, no I/O, O(1) per delta.

Slices of text are collected in lists and joined when they are read. The content of a `content-block-finish` is
authoritative; a block that was never finished counts with its deltas. Unknown events and deltas are ignored. An event
out of order (after the end, for a block that is not open) raises `MalformedStreamError`; earlier events stay folded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias, assert_never, cast

from foldline.exceptions import FoldlineError, LimitExceededError, MalformedStreamError
from foldline.protocol.blocks import FinalizedContentBlock, UsageInfo
from foldline.protocol.events import (
    DELTA_FIELDS,
    EVENT_KINDS,
    DeltaKind,
    Event,
    EventKind,
    FinishReason,
    Role,
    StreamError,
)
from foldline.protocol.folded_message import (
    EMPTY_TEXT,
    EMPTY_VALUE,
    MESSAGE_KEYS,
    Block,
    Bounds,
    FoldedMessage,
    FoldLimits,
    OpenBlock,
    response_names,
    weight,
)
from foldline.protocol.merge import copy_json
from foldline.protocol.tool_call_parser import promote
from foldline.utils._short_repr import short_repr
from foldline.utils.json import mend_surrogates

__all__ = ["FoldLimits", "FoldedMessage", "MessageBuilder", "fold"]

DEFAULT_LIMITS: Final = FoldLimits()

UNFINISHED: Final = "the stream ended before the call was complete"


class MessageBuilder:
    """Folds events into a message.

    ```python
    builder = MessageBuilder()
    builder.feed({"event": "message-start", "role": "ai", "id": "msg_1"})
    builder.feed({"event": "content-block-start", "index": 0, "content": {"type": "text"}})
    delta = {"type": "text-delta", "text": "Hello"}
    builder.feed({"event": "content-block-delta", "index": 0, "delta": delta})
    print(builder.blocks())
    #> [{'type': 'text', 'text': 'Hello'}]
    ```
    """

    __repr__ = short_repr

    __slots__ = (
        "_blocks",
        "_finish_metadata",
        "_limits",
        "_open",
        "_room",
        "_start_metadata",
        "_started",
        "accepted_count",
        "additional_kwargs",
        "error",
        "fault",
        "finish_reason",
        "id",
        "is_finished",
        "is_sole_owner",
        "role",
        "unstreamed_text",
        "usage",
    )

    def __init__(self, limits: Bounds | None = None) -> None:
        self._limits = limits or DEFAULT_LIMITS
        self._room = self._limits.message
        self._open: dict[int, OpenBlock] = {}
        self._blocks: dict[int, Block | OpenBlock] = {}
        self._started = False
        self._start_metadata: dict[str, Any] = {}
        self._finish_metadata: dict[str, Any] = {}
        self.role: Role = "ai"
        self.id: str | None = None
        self.usage: UsageInfo | None = None
        self.finish_reason: FinishReason | None = None
        self.additional_kwargs: dict[str, Any] = {}
        self.is_finished: bool = False
        """Whether `message-finish` was seen."""
        self.error: StreamError | None = None
        """The `error` event that ended the stream, if one did."""
        self.fault: Exception | None = None
        """The error at which `feed_all` stopped: an event that is out of order."""
        self.accepted_count: int = 0
        """How many events of the last batch were accepted."""
        self.unstreamed_text: dict[int, str] = {}
        """Index -> the text in the finish of a block that its deltas did not carry (T15); empty for most blocks."""
        self.is_sole_owner: bool = False
        """Whether the builder is the only owner of the events it is fed, so that they need not be copied."""

    @property
    def is_started(self) -> bool:
        """Whether the message has begun."""
        return self._started or bool(self._blocks)

    @property
    def has_content(self) -> bool:
        """Whether a block has begun, or the message has ended."""
        return bool(self._blocks) or self.is_finished

    def open_indexes(self) -> list[int]:
        """Return the indexes of the blocks that were started and not finished."""
        return sorted(self._open)

    def feed(self, event: Mapping[str, Any]) -> None:
        """Fold one event into the message."""
        if type(event) is not dict and not isinstance(event, Mapping):
            raise MalformedStreamError(f"an event is a dict, not {type(event).__name__}")
        kind = event.get("event")
        if not isinstance(kind, str):
            raise MalformedStreamError(f"an event has its kind in `event`, not {kind!r:.80}")
        handler = HANDLERS.get(kind)
        if handler is None:
            return
        if self.is_finished or self.error is not None:
            self._refuse_more(kind)
        handler(self, event)

    def feed_all(self, events: Iterable[Mapping[str, Any]]) -> bool:
        """Fold events in order, up to an `error` or one that is out of order; return whether the message goes on.

        If it does not, it is finished, or `error` or `fault` holds the reason; `accepted_count` events were folded.
        """
        accepted, blocks = 0, self._open
        try:
            for event in events:
                try:
                    # The hot path: a slice for a block that grows by such slices. Everything else goes through `feed`.
                    delta = event["delta"]
                    block = blocks[event["index"]]
                    piece = delta[block.field]
                    size = len(piece)
                    if (
                        delta["type"] == block.delta
                        and piece.__class__ is str
                        and size <= block.room
                        and size <= self._room
                        and event["event"] == "content-block-delta"
                    ):
                        block.room -= size
                        self._room -= size
                        block.parts.append(piece)
                        accepted += 1
                        continue
                except (KeyError, TypeError):
                    pass
                self.feed(event)
                accepted += 1
                if self.error is not None:
                    break
        except FoldlineError as error:
            self.fault = error
        self.accepted_count = accepted
        return not self.is_finished and self.error is None and self.fault is None

    def _on_message_start(self, event: Mapping[str, Any]) -> None:
        if self._started or self._blocks:
            raise MalformedStreamError("message-start in the middle of a message")
        self._started = True
        self.role = event.get("role") or "ai"
        self.id = event.get("id") or None
        self._start_metadata = self._dict_of(event, "metadata")

    def _on_reset(self, event: Mapping[str, Any]) -> None:
        """Drop everything so far: the message begins again (docs/managed-models.md)."""
        self.__init__(self._limits)  # type: ignore[misc]

    def _on_start(self, event: Mapping[str, Any]) -> None:
        index = event.get("index")
        if type(index) is not int or index < 0:
            _refuse_index(event)
        if index in self._blocks:
            raise MalformedStreamError(f"content-block-start: block {index} was started before")
        if len(self._blocks) >= self._limits.blocks:
            raise LimitExceededError(f"the message has more than {self._limits.blocks} blocks")
        content = self._content_of(event)
        if content != EMPTY_TEXT:
            self._spend(weight(content))
        self._open[index] = self._blocks[index] = OpenBlock(content, self._limits)

    def _on_delta(self, event: Mapping[str, Any]) -> None:
        index = event.get("index")
        if type(index) is not int or index < 0:
            _refuse_index(event)
        block = self._open.get(index)
        if block is None:
            where = "is finished" if index in self._blocks else "was never started"
            raise MalformedStreamError(f"content-block-delta: block {index} {where}")
        delta = event.get("delta")
        if not isinstance(delta, Mapping) or not isinstance(delta.get("type"), str):
            raise MalformedStreamError(
                f"content-block-delta: no delta for block {index}: {delta!r:.80}"
            )
        kind: DeltaKind = delta["type"]
        match kind:
            case "block-delta":
                self._replace(block, delta, index)
            case (
                "text-delta"
                | "reasoning-delta"
                | "refusal-delta"
                | "data-delta"
                | "tool-call-delta"
            ):
                self._append(block, delta, index)
            case _:  # of a later protocol: ignored
                if TYPE_CHECKING:
                    assert_never(kind)

    def _append(self, block: OpenBlock, delta: Mapping[str, Any], index: int) -> None:
        kind = delta["type"]
        if not block.delta:
            block.delta = kind
            block.field = DELTA_FIELDS[kind][0]
        if kind != block.delta:
            raise MalformedStreamError(
                f"{kind}: block {index} is a {block.content['type']!r} block, which grows by {block.delta}"
            )
        piece = delta.get(block.field)
        if not isinstance(piece, str):
            raise MalformedStreamError(
                f"{kind}: block {index}: {block.field!r} is {piece!r:.80}, not text"
            )
        self._spend(len(piece))
        if len(piece) > block.room:
            self._refuse_args(index)
        block.room -= len(piece)
        block.parts.append(piece)

    def _replace(self, block: OpenBlock, delta: Mapping[str, Any], index: int) -> None:
        fields = delta.get("fields")
        if not isinstance(fields, dict):
            raise MalformedStreamError(
                f"block-delta: block {index}: `fields` is {fields!r:.80}, not a dict"
            )
        fields = copy_json(fields)
        self._spend(weight(fields))
        target = DELTA_FIELDS[block.delta][1] if block.delta else ""
        for key, value in fields.items():
            if key == "type":
                continue
            if key == target and isinstance(value, str):
                block.parts[:] = [value] if value else []
            else:
                block.content[key] = value

    def _on_finish(self, event: Mapping[str, Any]) -> None:
        index = event.get("index")
        if type(index) is not int or index < 0:
            _refuse_index(event)
        block = self._open.get(index)
        if block is None:
            where = "was finished before" if index in self._blocks else "was never started"
            raise MalformedStreamError(f"content-block-finish: block {index} {where}")
        content = self._content_of(event)
        streamed_text = "".join(block.parts)
        if content == {"type": "text", "text": streamed_text}:  # as most finishes are
            del self._open[index]
            self._blocks[index] = content
            return
        target = DELTA_FIELDS[block.delta][1] if block.delta else ""
        final = content.get(target)
        if (
            target
            and isinstance(final, str)
            and len(final) > len(streamed_text)
            and final.startswith(streamed_text)
        ):
            self.unstreamed_text[index] = final[len(streamed_text) :]
        extra_size = weight(content) - len(streamed_text)
        if extra_size > 0:
            self._spend(extra_size)
        if "args" in content and weight(content["args"]) > self._limits.tool_args:
            self._refuse_args(index)
        if (
            streamed_text
            and target in ("text", "reasoning", "refusal", "base64")
            and content.get(target) is None
        ):
            content[target] = mend_surrogates(streamed_text)
        if content["type"] in ("tool_call_chunk", "server_tool_call_chunk"):
            content = promote(content)
        del self._open[index]
        self._blocks[index] = content

    def _on_message_finish(self, event: Mapping[str, Any]) -> None:
        self._finish_metadata = self._dict_of(event, "metadata")
        if "additional_kwargs" in event:
            self.additional_kwargs = self._dict_of(event, "additional_kwargs")
        if isinstance(usage := event.get("usage"), dict):
            usage_copy: UsageInfo = usage if self.is_sole_owner else copy_json(usage)  # type: ignore[assignment]
            self.usage = usage_copy
        if isinstance(reason := event.get("finish_reason"), str):
            self.finish_reason = reason  # type: ignore[assignment]
        self.is_finished = True

    def _on_error(self, event: Mapping[str, Any]) -> None:
        self.error = copy_json(dict(event))

    def _content_of(self, event: Mapping[str, Any]) -> Block:
        content: Any = event.get("content")
        if not isinstance(content, dict) or not isinstance(content.get("type"), str):
            raise MalformedStreamError(f"{event['event']}: content is not a block: {content!r:.80}")
        return content if self.is_sole_owner else copy_json(content)

    def _dict_of(self, event: Mapping[str, Any], key: str) -> dict[str, Any]:
        value: Any = event.get(key)
        if not isinstance(value, dict):
            return {}
        return value if self.is_sole_owner else copy_json(value)

    def _refuse_more(self, kind: object) -> NoReturn:
        end = "message-finish" if self.is_finished else "error"
        raise MalformedStreamError(f"{kind} after {end}: the message was over")

    def _refuse_args(self, index: int) -> NoReturn:
        raise LimitExceededError(
            f"block {index}: arguments are longer than {self._limits.tool_args} characters"
        )

    def _spend(self, size: int) -> None:
        if size > self._room:
            raise LimitExceededError(
                f"the message is longer than {self._limits.message} characters"
            )
        self._room -= size

    def note(
        self,
        *,
        usage: UsageInfo | None = None,
        metadata: dict[str, Any] | None = None,
        blocks: Iterable[Block] = (),
    ) -> None:
        """Add what is known of a message that ended early: usage, metadata, and blocks that were never streamed."""
        for block in blocks:
            self._blocks[max(self._blocks, default=-1) + 1] = copy_json(block)
        if usage and self.usage is None:
            self.usage = copy_json(usage)
        for key, value in (metadata or {}).items():
            self._finish_metadata.setdefault(key, copy_json(value))

    @property
    def metadata(self) -> dict[str, Any]:
        """Start metadata merged with finish metadata, under the names of response metadata; a copy."""
        return cast("dict[str, Any]", copy_json(self._all_metadata()))

    def _all_metadata(self) -> dict[str, Any]:
        return {**response_names(self._start_metadata), **self._finish_metadata}

    @property
    def start_metadata(self) -> dict[str, Any]:
        """The metadata of `message-start` as received; a copy."""
        return cast("dict[str, Any]", copy_json(self._start_metadata))

    def block(self, index: int, *, partial: bool = False) -> Block | None:
        """Return one block, finalized or so far, as a copy; None if there is no such block."""
        block = self._blocks.get(index)
        if block is None:
            return None
        if not isinstance(block, OpenBlock):
            return cast("Block", copy_json(block))
        if partial:
            return promote(block.so_far(), unfinished=UNFINISHED)
        return promote(block.so_far()) if self.is_finished else block.so_far()

    def blocks(self, *, partial: bool = False) -> list[FinalizedContentBlock]:
        """Return the blocks in order, finalized or so far, as copies.

        With `partial=True` the stream is taken to be over: unfinished calls become invalid calls.
        """
        blocks = [self.block(index, partial=partial) for index in sorted(self._blocks)]
        if partial:
            blocks = [block for block in blocks if block != EMPTY_VALUE]
        return cast("list[FinalizedContentBlock]", blocks)

    def result(self, *, partial: bool = False, last: bool = False) -> FoldedMessage:
        """Return the message; before its end only with `partial=True`, and then marked incomplete.

        With `last=True` the builder is not used again: its contents are handed over without a copy.
        """
        if not self.is_finished and not partial:
            reason = (
                f"it failed: {self.error['message']}" if self.error else "no message-finish came"
            )
            raise MalformedStreamError(f"the message is not complete: {reason}")
        fields = {}
        if not MESSAGE_KEYS.isdisjoint(self._start_metadata):
            metadata = self._start_metadata
            fields = {key: metadata[key] for key in metadata if key in MESSAGE_KEYS}
        incomplete = not self.is_finished or fields.get("status") == "incomplete"
        is_handed_over = last and not self._open
        indexes = sorted(self._blocks) if len(self._blocks) > 1 else self._blocks
        return FoldedMessage(
            role=self.role,
            id=self.id,
            blocks=[self._blocks[index] for index in indexes]  # type: ignore[misc]
            if is_handed_over
            else self.blocks(partial=partial and not self.is_finished),
            usage=self.usage if last else copy_json(self.usage),
            finish_reason=self.finish_reason,
            metadata=self._all_metadata() if last else self.metadata,
            additional_kwargs=self.additional_kwargs if last else copy_json(self.additional_kwargs),
            status="incomplete" if incomplete else "complete",
            fields=fields,
        )


Handler: TypeAlias = Callable[[MessageBuilder, Mapping[str, Any]], None]


def _handler_of(kind: EventKind) -> Handler:  # noqa: PLR0911  one case per event
    match kind:
        case "message-start":
            return MessageBuilder._on_message_start
        case "message-reset":
            return MessageBuilder._on_reset
        case "content-block-start":
            return MessageBuilder._on_start
        case "content-block-delta":
            return MessageBuilder._on_delta
        case "content-block-finish":
            return MessageBuilder._on_finish
        case "message-finish":
            return MessageBuilder._on_message_finish
        case "error":
            return MessageBuilder._on_error
        case _:
            assert_never(kind)


HANDLERS: Final[dict[str, Handler]] = {kind: _handler_of(kind) for kind in EVENT_KINDS}


def fold(
    events: Iterable[Event], *, partial: bool = False, limits: Bounds | None = None
) -> FoldedMessage:
    """Fold a complete stream of events into a message."""
    builder = MessageBuilder(limits)
    for event in events:
        builder.feed(event)
    return builder.result(partial=partial)


def fold_complete(events: list[Event], limits: Bounds) -> FoldedMessage | None:
    """Return the message of the complete events of one `EventWriter`, read from the ends of its blocks.

    None if they are not such: then `MessageBuilder` folds them, or says what is wrong. The events are used up.
    """
    start: Any = events[0] if events else None
    finish: Any = events[-1] if events else None
    if not start or start["event"] != "message-start" or finish["event"] != "message-finish":
        return None
    blocks: dict[int, Any] = {}
    for event in events:
        if event["event"] == "content-block-finish":
            blocks[event["index"]] = event["content"]
    start_metadata = start.get("metadata") or {}
    if len(blocks) > limits.blocks or not MESSAGE_KEYS.isdisjoint(start_metadata):
        return None
    indexes = sorted(blocks) if len(blocks) > 1 else blocks
    return FoldedMessage(
        role=start["role"],
        id=start["id"] or None,
        blocks=[blocks[index] for index in indexes],
        usage=finish.get("usage"),
        finish_reason=finish.get("finish_reason"),
        metadata={**response_names(start_metadata), **(finish.get("metadata") or {})},
        additional_kwargs=finish.get("additional_kwargs") or {},
    )


def _refuse_index(event: Mapping[str, Any]) -> NoReturn:
    index = event.get("index")
    raise MalformedStreamError(
        f"{event['event']}: index is {index!r:.80}, not a whole number from 0"
    )
