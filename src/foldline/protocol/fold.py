"""The fold: events in, the message so far out. One state machine, no I/O, O(1) per delta.

Slices of text are kept in lists and joined when somebody reads. What a `content-block-finish` says is authoritative; a
block that nobody finished counts with what it said. Unknown events and deltas are ignored; an event in an impossible
place (after the end, for a block that is not open) raises `MalformedStreamError`, and what was folded before it stands.
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
from foldline.protocol.folded import (
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
from foldline.protocol.promote import promote
from foldline.utils.json import mend_surrogates
from foldline.utils.short_repr import short_repr

__all__ = ["FoldLimits", "FoldedMessage", "MessageBuilder", "fold"]

USUAL: Final = FoldLimits()

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
        "additional_kwargs",
        "error",
        "fault",
        "finish_reason",
        "id",
        "is_finished",
        "is_sole_owner",
        "role",
        "tails",
        "taken",
        "usage",
    )

    def __init__(self, limits: Bounds | None = None) -> None:
        self._limits = limits or USUAL
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
        """Why `feed_all` stopped at an event that has no place."""
        self.taken: int = 0
        """How many events of the last batch were taken."""
        self.tails: dict[int, str] = {}
        """Index -> what the finish of a block said beyond its deltas (T15); most say nothing."""
        self.is_sole_owner: bool = False
        """Whether nobody else holds what is fed, so that it need not be copied."""

    @property
    def is_started(self) -> bool:
        """Whether anything was said."""
        return self._started or bool(self._blocks)

    @property
    def has_content(self) -> bool:
        """Whether a block began, or the message ended."""
        return bool(self._blocks) or self.is_finished

    def open_indexes(self) -> list[int]:
        """Return the blocks that were started and not finished."""
        return sorted(self._open)

    def feed(self, event: Mapping[str, Any]) -> None:
        """Take one event."""
        if type(event) is not dict and not isinstance(event, Mapping):
            raise MalformedStreamError(f"an event is a dict, not {type(event).__name__}")
        kind = event.get("event")
        if not isinstance(kind, str):
            raise MalformedStreamError(f"an event says in `event` what it is, not {kind!r:.80}")
        handler = HANDLERS.get(kind)
        if handler is None:
            return
        if self.is_finished or self.error is not None:
            self._refuse_more(kind)
        handler(self, event)

    def feed_all(self, events: Iterable[Mapping[str, Any]]) -> bool:
        """Take events in order, up to an `error` or one that has no place; return whether the message goes on.

        Where it does not: it is finished, or `error` or `fault` say why, and `taken` how many events were.
        """
        taken, blocks = 0, self._open
        try:
            for event in events:
                try:
                    # The hot path: a slice for a block that grows by such slices. All else goes the long way.
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
                        taken += 1
                        continue
                except (KeyError, TypeError):
                    pass
                self.feed(event)
                taken += 1
                if self.error is not None:
                    break
        except FoldlineError as error:
            self.fault = error
        self.taken = taken
        return not self.is_finished and self.error is None and self.fault is None

    def _on_message_start(self, event: Mapping[str, Any]) -> None:
        if self._started or self._blocks:
            raise MalformedStreamError("message-start in the middle of a message")
        self._started = True
        self.role = event.get("role") or "ai"
        self.id = event.get("id") or None
        self._start_metadata = self._dict_of(event, "metadata")

    def _on_reset(self, event: Mapping[str, Any]) -> None:
        """Drop what was said: the message begins again (docs/managed-models.md)."""
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
            case "text-delta" | "reasoning-delta" | "data-delta" | "tool-call-delta":
                self._append(block, delta, index)
            case _:  # of a later protocol: not for us
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
        said = "".join(block.parts)
        if content == {"type": "text", "text": said}:  # as most do: it says what its deltas said
            del self._open[index]
            self._blocks[index] = content
            return
        target = DELTA_FIELDS[block.delta][1] if block.delta else ""
        final = content.get(target)
        if target and isinstance(final, str) and len(final) > len(said) and final.startswith(said):
            self.tails[index] = final[len(said) :]
        more = weight(content) - len(said)
        if more > 0:
            self._spend(more)
        if "args" in content and weight(content["args"]) > self._limits.tool_args:
            self._refuse_args(index)
        if said and target in ("text", "reasoning", "base64") and content.get(target) is None:
            content[target] = mend_surrogates(said)
        if content["type"] in ("tool_call_chunk", "server_tool_call_chunk"):
            content = promote(content)
        del self._open[index]
        self._blocks[index] = content

    def _on_message_finish(self, event: Mapping[str, Any]) -> None:
        self._finish_metadata = self._dict_of(event, "metadata")
        if "additional_kwargs" in event:
            self.additional_kwargs = self._dict_of(event, "additional_kwargs")
        if isinstance(usage := event.get("usage"), dict):
            counted: UsageInfo = usage if self.is_sole_owner else copy_json(usage)  # type: ignore[assignment]
            self.usage = counted
        if isinstance(reason := event.get("finish_reason"), str):
            self.finish_reason = reason  # type: ignore[assignment]
        self.is_finished = True

    def _on_error(self, event: Mapping[str, Any]) -> None:
        self.error = copy_json(dict(event))

    def _content_of(self, event: Mapping[str, Any]) -> Block:
        content: Any = event.get("content")
        if not isinstance(content, dict) or not isinstance(content.get("type"), str):
            raise MalformedStreamError(f"{event['event']}: content is no block: {content!r:.80}")
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
        """Keep what is known of a message that ended too early to say it: its end, and blocks told only whole."""
        for block in blocks:
            self._blocks[max(self._blocks, default=-1) + 1] = copy_json(block)
        if usage and self.usage is None:
            self.usage = copy_json(usage)
        for key, value in (metadata or {}).items():
            self._finish_metadata.setdefault(key, copy_json(value))

    @property
    def metadata(self) -> dict[str, Any]:
        """Start metadata merged with finish metadata, in the names of response metadata; a copy."""
        return cast("dict[str, Any]", copy_json(self._all_metadata()))

    def _all_metadata(self) -> dict[str, Any]:
        return {**response_names(self._start_metadata), **self._finish_metadata}

    @property
    def start_metadata(self) -> dict[str, Any]:
        """The metadata of `message-start` as it came; a copy."""
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

        With `partial=True` the stream is taken to be over: calls that were not finished are invalid calls.
        """
        found = [self.block(index, partial=partial) for index in sorted(self._blocks)]
        if partial:
            found = [block for block in found if block != EMPTY_VALUE]
        return cast("list[FinalizedContentBlock]", found)

    def result(self, *, partial: bool = False, last: bool = False) -> FoldedMessage:
        """Return the message; before its end only with `partial=True`, and then marked incomplete.

        With `last=True` nobody asks this builder again, so that what it holds is handed over and not copied.
        """
        if not self.is_finished and not partial:
            why = f"it failed: {self.error['message']}" if self.error else "no message-finish came"
            raise MalformedStreamError(f"the message is not complete: {why}")
        fields = {}
        if not MESSAGE_KEYS.isdisjoint(self._start_metadata):
            said = self._start_metadata
            fields = {key: said[key] for key in said if key in MESSAGE_KEYS}
        incomplete = not self.is_finished or fields.get("status") == "incomplete"
        is_handed_over = last and not self._open
        places = sorted(self._blocks) if len(self._blocks) > 1 else self._blocks
        return FoldedMessage(
            role=self.role,
            id=self.id,
            blocks=[self._blocks[index] for index in places]  # type: ignore[misc]
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
    """Fold a whole stream of events into a message."""
    builder = MessageBuilder(limits)
    for event in events:
        builder.feed(event)
    return builder.result(partial=partial)


def _refuse_index(event: Mapping[str, Any]) -> NoReturn:
    index = event.get("index")
    raise MalformedStreamError(
        f"{event['event']}: index is {index!r:.80}, not a whole number from 0"
    )
