"""The only producer of well-formed events.

A provider's decoder, or the bridge from v1 chunks, calls the writer with what it received. The writer decides which
block that belongs to (`identity`), what changed, and which events to send. Methods return the events to send, usually
one. A block ends when the decoder says so (`close`), when another block is written after one without an index, or at
the end of the message.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal, cast

from foldline.exceptions import MalformedStreamError
from foldline.protocol._block_writer import DELTA_OF, TEXT_KINDS, BlockWriter
from foldline.protocol._identity import CALL_KINDS, Key, kind_of
from foldline.protocol.blocks import MEDIA_TYPES, UsageInfo
from foldline.protocol.events import (
    Event,
    FinishReason,
    MessageFinish,
    MessageStart,
    MetadataScalar,
    Role,
    StreamError,
)
from foldline.protocol.folded_message import counts_of, normalize_finish_reason
from foldline.protocol.merge import add_usage, copy_json, grow_metadata, merge_dicts, replace_usage
from foldline.utils._short_repr import short_repr
from foldline.utils.json import mend_surrogates, to_jsonable

COMPLETE_CALLS: Final = frozenset({"tool_call", "server_tool_call", "invalid_tool_call"})
REASON_KEYS: Final = ("done_reason", "stop_reason", "finish_reason")
"""Where response metadata has a provider's finish reason."""


class EventWriter:
    """Turns what a provider sends into events.

    ```python
    writer = EventWriter(id="msg_1", metadata={"provider": "acme"})
    events = writer.text("Hel") + writer.text("lo") + writer.finish("stop")
    print(len(events), events[2]["delta"], events[-1]["finish_reason"])
    #> 6 {'type': 'text-delta', 'text': 'Hel'} stop
    ```
    """

    __repr__ = short_repr

    __slots__ = (
        "_additional_kwargs",
        "_blocks",
        "_id",
        "_is_over",
        "_is_started",
        "_metadata",
        "_raw_reason",
        "_reason",
        "_role",
        "_start_metadata",
        "_usage",
        "_usage_mode",
    )

    def __init__(
        self,
        id: str | None = None,
        role: Role = "ai",
        metadata: Mapping[str, object] | None = None,
        usage_mode: Literal["sum", "last"] = "sum",
        *,
        allow_repeated_ids: bool = False,
    ) -> None:
        self._id = None if id is None else _id_of(id)
        self._role: Role = role
        self._start_metadata: dict[str, MetadataScalar] = {}
        self._metadata: dict[str, Any] = {}
        self._additional_kwargs: dict[str, Any] = {}
        self._usage: dict[str, Any] | None = None
        self._usage_mode = usage_mode
        self._reason: FinishReason | None = None
        self._raw_reason: str | None = None
        self._blocks = BlockWriter(allow_repeated_ids=allow_repeated_ids)
        self._is_started = False
        self._is_over = False
        if metadata:
            self._take_metadata(metadata)

    # The message

    @property
    def is_started(self) -> bool:
        """Whether `message-start` was sent."""
        return self._is_started

    @property
    def has_blocks(self) -> bool:
        """Whether a block was written."""
        return not self._blocks.is_empty

    @property
    def is_over(self) -> bool:
        """Whether `message-finish` or `error` was sent."""
        return self._is_over

    @property
    def usage_so_far(self) -> UsageInfo | None:
        """The usage received so far: for the partial message of a stream that broke."""
        return cast("UsageInfo | None", copy_json(self._usage))

    @property
    def metadata_so_far(self) -> dict[str, Any]:
        """The metadata received so far, beyond that of the start."""
        return cast("dict[str, Any]", copy_json(self._metadata))

    def start(
        self, id: str | None = None, metadata: Mapping[str, object] | None = None
    ) -> list[Event]:
        """Begin the message now; otherwise it begins with its first content."""
        if self._is_started:
            grow_metadata(self._metadata, to_jsonable(metadata or {}))
            return []
        self._id = _id_of(id) or self._id
        if metadata:
            self._take_metadata(metadata)
        return self._begin()

    def usage(self, usage: Mapping[str, object] | None) -> list[Event]:
        """Record token counts: added up, or the newest of each counter where the provider reports running totals."""
        if not usage:
            return []
        counts = counts_of(usage)
        if counts:
            combine = add_usage if self._usage_mode == "sum" else replace_usage
            self._usage = counts if self._usage is None else combine(self._usage, counts)
        return []

    def metadata(self, values: Mapping[str, object]) -> list[Event]:
        """Record raw response metadata for the end; the last value that is not empty wins (T63, T64).

        A finish reason in it counts, unless `reason` or `finish` is called with one.
        """
        grow_metadata(self._metadata, to_jsonable(values))
        for key in REASON_KEYS:
            if isinstance(raw := self._metadata.get(key), str):
                self._raw_reason = raw
        return []

    def additional_kwargs(self, values: Mapping[str, object]) -> list[Event]:
        """Record provider fields that have no block, for the end; text comes in slices."""
        plain = to_jsonable(values)
        before = self._additional_kwargs
        self._additional_kwargs = merge_dicts(before, plain) if before else plain
        return []

    def reason(self, reason: str | None) -> list[Event]:
        """Record why the message ends; the last reason that is not empty wins (T63)."""
        self._reason = normalize_finish_reason(reason) or self._reason
        return []

    # The content

    def text(
        self, text: str | None, key: Key | None = None, id: str | None = None, **fields: object
    ) -> list[Event]:
        """Write a slice of text; `fields` are `annotations`, `extras` and the like."""
        block = self._blocks.current
        if (
            text
            and block is not None
            and block.kind == "text"
            and block.key == key
            and id is None
            and not fields
            and block.joiner is None
            and text.isascii()
        ):
            block.parts.append(text)
            return [
                {
                    "event": "content-block-delta",
                    "index": block.index,
                    "delta": {"type": "text-delta", "text": text},
                }
            ]
        return self._check_open(self._blocks.write("text", text, key, id, fields))

    def reasoning(
        self,
        reasoning: str | None = None,
        key: Key | None = None,
        id: str | None = None,
        extras: dict[str, Any] | None = None,
        **fields: object,
    ) -> list[Event]:
        """Write a slice of reasoning, or record that there was reasoning (an id, a signature) without its text."""
        if reasoning and id is None and not extras and not fields:
            quick = self._blocks.quick("reasoning", reasoning, key)
            if quick is not None:
                return [quick]
        if extras:
            fields["extras"] = extras
        return self._check_open(self._blocks.write("reasoning", reasoning, key, id, fields))

    def refusal(
        self,
        refusal: str | None = None,
        key: Key | None = None,
        id: str | None = None,
        extras: dict[str, Any] | None = None,
    ) -> list[Event]:
        """Write a slice of a refusal, or record that the model refused without a word; extras say why."""
        fields = {"extras": extras} if extras else {}
        return self._check_open(self._blocks.write("refusal", refusal, key, id, fields))

    def tool_call(
        self,
        key: Key | None = None,
        id: str | None = None,
        name: str | None = None,
        args: str | Mapping[str, object] | None = None,
        extras: dict[str, Any] | None = None,
        server: bool = False,  # noqa: FBT001, FBT002  a flag decoders pass by name
        **fields: object,
    ) -> list[Event]:
        """Write a slice of a tool call; `args` is a slice of JSON text, or the complete object."""
        if args and id is None and not name and not extras and not fields:
            quick = self._blocks.quick("server_tool_call" if server else "tool_call", args, key)
            if quick is not None:
                return [quick]
        if extras:
            fields["extras"] = extras
        kind = "server_tool_call" if server else "tool_call"
        return self._call(kind, key, id, name, args, fields)

    def data(
        self,
        data: str,
        type: str = "audio",
        key: Key | None = None,
        id: str | None = None,
        **fields: object,
    ) -> list[Event]:
        """Write a slice of base64 of an image, audio, video or file, and send it at once."""
        if type not in MEDIA_TYPES:
            raise MalformedStreamError(f"data is of {sorted(MEDIA_TYPES)}, not of {type!r}")
        return self._check_open(self._blocks.data(type, data, key, id, fields))

    def block(
        self, block: Mapping[str, Any], key: Key | None = None, *, is_complete: bool | None = None
    ) -> list[Event]:
        """Write a block, or a part of one as a v1 chunk carries it (its `index` is then the key).

        A block is taken to be complete, and is finished at once, if it is a finalized call, or of a type that does not
        grow and without index and id. `is_complete=True` says so for any other.
        """
        block_type = _type_of(block)
        kind = kind_of(block_type)
        key = block.get("index") if key is None else key
        if is_complete is None:
            grows = kind in DELTA_OF and kind not in MEDIA_TYPES
            is_identified = key is not None or block.get("id")
            is_complete = block_type in COMPLETE_CALLS or not (grows or is_identified)
        if is_complete:
            return self._check_open(self._blocks.write_block(block))
        part = {name: value for name, value in block.items() if name not in ("type", "index", "id")}
        if kind in CALL_KINDS:
            name, args = part.pop("name", None), part.pop("args", None)
            return self._call(kind, key, block.get("id"), name, args, part)
        if kind in TEXT_KINDS:
            text = part.pop(kind, None)
            return self._check_open(self._blocks.write(kind, text, key, block.get("id"), part))
        return self._check_open(self._blocks.part(kind, part, key, block.get("id")))

    def fields(
        self, fields: Mapping[str, Any], key: Key | None = None, *, kind: str | None = None
    ) -> list[Event]:
        """Add fields to an open block (a late id, a signature, a citation); merged by `RULES`."""
        return self._check_open(self._blocks.update(dict(fields), key, kind))

    def close(self, key: Key | None = None, *, kind: str | None = None) -> list[Event]:
        """Finish a block; with neither key nor kind, the one that was written last."""
        return self._check_open(self._blocks.close(key, kind))

    def finish(
        self,
        reason: str | None = None,
        usage: Mapping[str, object] | None = None,
        metadata: Mapping[str, object] | None = None,
        additional_kwargs: Mapping[str, object] | None = None,
    ) -> list[Event]:
        """Finish the open blocks and end the message; a second call writes nothing."""
        if self._is_over:
            return []
        if reason or self._reason is None:
            self.reason(reason or self._raw_reason)
        if usage:
            self.usage(usage)
        if metadata and not self._metadata:
            self._metadata = to_jsonable(metadata)
        elif metadata:
            grow_metadata(self._metadata, to_jsonable(metadata))
        if additional_kwargs:
            self.additional_kwargs(additional_kwargs)
        events = [] if self._is_started else self._begin()
        events += self._blocks.close_all()
        self._is_over = True
        events.append(self._message_finish())
        return events

    def error(
        self,
        message: str,
        code: str | None = None,
        retryable: bool | None = None,  # noqa: FBT001
    ) -> list[Event]:
        """End the message with an error; open blocks stay open, and what was sent stays valid."""
        if self._is_over:
            return []
        events = self._begin()
        failure: StreamError = {"event": "error", "message": message}
        if code is not None:
            failure["code"] = code
        if retryable is not None:
            failure["retryable"] = retryable
        self._is_over = True
        self._blocks.current = None
        return [*events, failure]

    # Helpers

    def _check_open(self, events: list[Event]) -> list[Event]:
        if self._is_over:
            raise MalformedStreamError("the message is over: nothing can be written after its end")
        return self._begin() + events if events and not self._is_started else events

    def _call(
        self,
        kind: str,
        key: Key | None,
        id: str | None,
        name: str | None,
        args: str | Mapping[str, object] | None,
        fields: dict[str, Any],
    ) -> list[Event]:
        if isinstance(args, Mapping):
            args = json.dumps(args, ensure_ascii=False, default=str) if args else ""
        return self._check_open(self._blocks.write(kind, args, key, id, fields, name))

    def _begin(self) -> list[Event]:
        if self._is_started:
            return []
        self._is_started = True
        start: MessageStart = {"event": "message-start", "role": self._role, "id": self._id or ""}
        if self._start_metadata:
            start["metadata"] = dict(self._start_metadata)
        return [start]

    def _take_metadata(self, metadata: Mapping[str, object]) -> None:
        """Sort metadata: scalars are sent with the start, nested values with the end."""
        for key, value in metadata.items():
            if type(value) is str and type(key) is str and value.isascii() and key.isascii():
                self._start_metadata[key] = value  # the usual case
                continue
            for name, json_value in to_jsonable({key: value}).items():
                if isinstance(json_value, (dict, list)):
                    self._metadata[name] = json_value
                else:
                    self._start_metadata[name] = json_value

    def _message_finish(self) -> Event:
        finish: MessageFinish = {"event": "message-finish"}
        if self._usage is not None:
            finish["usage"] = self._usage  # type: ignore[typeddict-item]  # the combined counts
        if self._reason is not None:
            finish["finish_reason"] = self._reason
        if self._metadata:
            finish["metadata"] = self._metadata
        if self._additional_kwargs:
            finish["additional_kwargs"] = self._additional_kwargs
        return finish


def _type_of(block: object) -> str:
    kind = block.get("type") if isinstance(block, Mapping) else None
    if not isinstance(kind, str):
        raise MalformedStreamError(f"a content block is a dict with a type, not {block!r:.80}")
    return kind


def _id_of(id: object) -> str | None:
    """Return a provider's id as text; None if it is neither text nor a number."""
    if isinstance(id, str):
        return id if id.isascii() else mend_surrogates(id)
    return str(id) if isinstance(id, int) and not isinstance(id, bool) else None
