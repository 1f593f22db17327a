"""A streamed answer as AIGNE's delta records, which add up to the `ChatModelOutput`. Pure.

`{"delta": {"text": {...}}}` appends to fields of the record, `{"delta": {"json": {...}}}` replaces fields. Text and
thoughts are sent as they arrive, tool calls when they are finished, all other fields with the last record. The last
record also corrects what changed after it was sent (a new attempt, `postprocess`), so that the sum is the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from foldline._streams.answer import Batch
from foldline.exceptions import UsageError
from foldline.language_models.records.parts import ChatModelOutputDelta
from foldline.language_models.records.records import ChatModelOutput
from foldline.language_models.structured._output import StructuredCheck
from foldline.utils._spelling import snake_keys

__all__ = [
    "add_deltas",
]

GROWING: Final = {"text-delta": ("text", "text"), "reasoning-delta": ("reasoning", "thoughts")}
"""Kinds of delta events -> their key, and the field of the record that grows."""


class DeltaView:
    """Converts events to delta records, and tracks their sum."""

    def __init__(self, check: StructuredCheck | None = None) -> None:
        """Convert an answer; if a check reads it as JSON, the text of that JSON is not sent."""
        self._shows_text = check is None or check.method == "tool"
        self._answer_tool = check.schema.name if check and check.method == "tool" else None
        self._sum: dict[str, Any] = {}

    def show(self, batch: Batch) -> list[ChatModelOutputDelta]:
        """Return the records of a batch of events."""
        deltas = [self._show(cast("Mapping[str, Any]", event)) for event in batch]
        return [delta for delta in deltas if delta is not None]

    def finish(self, output: ChatModelOutput) -> list[ChatModelOutputDelta]:
        """Return the last record: every field that differs from what was sent."""
        fields = output.model_dump()
        fields["json"] = fields.pop("json_")
        changed_fields = {
            name: value
            for name, value in fields.items()
            if (value or None) != (self._sum.get(name) or None)
        }
        return [{"delta": {"json": changed_fields}}] if changed_fields else []

    def _show(self, event: Mapping[str, Any]) -> ChatModelOutputDelta | None:
        kind = event.get("event")
        if kind == "content-block-delta":
            return self._grow(event["delta"])
        if kind == "content-block-finish" and event["content"].get("type") == "tool_call":
            return self._call(event["content"])
        if kind == "message-reset":
            cleared_fields, self._sum = dict.fromkeys(self._sum), {}
            return {"delta": {"json": cleared_fields}} if cleared_fields else None
        return None

    def _grow(self, delta: Mapping[str, Any]) -> ChatModelOutputDelta | None:
        key, name = GROWING.get(str(delta.get("type")), ("", ""))
        slice_ = delta.get(key)
        if not slice_ or (name == "text" and not self._shows_text):
            return None
        self._sum[name] = self._sum.get(name, "") + slice_
        return {"delta": {"text": {name: slice_}}}

    def _call(self, block: Mapping[str, Any]) -> ChatModelOutputDelta | None:
        if self._answer_tool is not None and block.get("name") == self._answer_tool:
            return None
        call = {
            "id": block.get("id"),
            "type": "function",
            "function": {"name": block.get("name"), "arguments": block.get("args")},
        }
        if block.get("extras"):
            call["metadata"] = dict(block["extras"])
        self._sum["tool_calls"] = [*self._sum.get("tool_calls", []), call]
        return {"delta": {"json": {"tool_calls": self._sum["tool_calls"]}}}


def add_deltas(deltas: Iterable[Mapping[str, Any]]) -> ChatModelOutput:
    """Return the answer that delta records, in snake_case or camelCase, add up to."""
    fields: dict[str, Any] = {}
    for record in deltas:
        delta = record.get("delta")
        if not isinstance(delta, Mapping):
            raise UsageError(f'a delta record is {{"delta": {{...}}}}, not {record!r:.80}')
        for name, slice_ in snake_keys(delta.get("text") or {}).items():
            fields[name] = (fields.get(name) or "") + slice_
        fields |= snake_keys(delta.get("json") or {})
    set_fields = {name: value for name, value in fields.items() if value is not None}
    return ChatModelOutput.model_validate(set_fields)
