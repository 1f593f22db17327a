"""`AIMessage`: a message of a model. Its chunks are in `ai_chunk`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Literal, Self, cast

from pydantic import Field, model_validator

from foldline.messages._calls import add_calls_of_blocks, split_calls
from foldline.messages.base import BaseMessage, BaseMessageChunk, Content, check_blocks, safe_repr
from foldline.messages.tool import default_tool_chunk_parser, default_tool_parser
from foldline.messages.usage import UsageMetadata, complete_usage
from foldline.protocol.blocks import ContentBlock, InvalidToolCall, ToolCall
from foldline.protocol.events import FinishReason
from foldline.protocol.fold import FoldedMessage
from foldline.protocol.merge import copy_json
from foldline.protocol.tool_call_parser import is_server_call
from foldline.utils._trusted import build_trusted

__all__ = [
    "LC_AUTO_PREFIX",
    "LC_ID_PREFIX",
    "AIMessage",
]

LC_AUTO_PREFIX = "lc_"
"""The prefix of generated ids, used if the provider sends none."""
LC_ID_PREFIX = f"{LC_AUTO_PREFIX}run-"
"""The prefix of ids that contain the id of the run."""

CALL_FIELDS = {
    "tool_calls": "tool_call",
    "invalid_tool_calls": "invalid_tool_call",
    "tool_call_chunks": "tool_call_chunk",
}
FIELDS_WITH_CALLS = frozenset({*CALL_FIELDS, "additional_kwargs"})


class AIMessage(BaseMessage):
    """A message from the model.

    ```python
    from foldline.messages import AIMessage

    message = AIMessage("", tool_calls=[{"name": "add", "args": {"a": 1}, "id": "call_1"}])
    print(message.tool_calls[0]["args"])
    #> {'a': 1}
    ```
    """

    _has_own_metadata: ClassVar[bool] = True
    """Whether the metadata is about this content only: that of a chunk is about the chunks before it, too."""
    tool_calls: list[ToolCall] = Field(default_factory=list)
    """Calls of tools that the program should run."""
    invalid_tool_calls: list[InvalidToolCall] = Field(default_factory=list)
    """Calls whose arguments did not parse."""
    usage_metadata: UsageMetadata | None = None
    """The token counts of this message."""
    finish_reason: FinishReason | None = None
    """Why the model stopped, the same for all providers; the provider's own reason is in `response_metadata`."""
    status: Literal["complete", "incomplete"] = "complete"
    """Whether the model finished: an interrupted stream leaves an incomplete message."""
    type: Literal["ai"] = "ai"

    def __init__(
        self,
        content: Content | None = None,
        content_blocks: Sequence[ContentBlock] | None = None,
        **kwargs: object,
    ) -> None:
        """Create a message; tool calls in `content_blocks` are also set as `tool_calls`."""
        if content_blocks is not None:
            add_calls_of_blocks(check_blocks(content_blocks), kwargs)
        super().__init__(content, content_blocks, **kwargs)

    @model_validator(mode="before")
    @classmethod
    def _read_calls(cls, values: object) -> object:
        if not isinstance(values, dict) or not FIELDS_WITH_CALLS & values.keys():
            return values
        values = dict(values)
        additional_kwargs = values.get("additional_kwargs")
        raw = additional_kwargs.get("tool_calls") if isinstance(additional_kwargs, dict) else None
        has_calls = any(values.get(name) for name in CALL_FIELDS)
        if isinstance(raw, list) and not has_calls:
            _calls_of_kwargs(cls, raw, values)
        for name, kind in CALL_FIELDS.items():
            if values.get(name) is None:
                values.pop(name, None)
            elif isinstance(values[name], list):
                values[name] = [
                    {**call, "type": kind} if isinstance(call, dict) else call
                    for call in values[name]
                ]
        return values

    @classmethod
    def from_fold(cls, folded: FoldedMessage, output_version: Literal["v0", "v1"] = "v0") -> Self:
        """Create a message from folded events, without validation."""
        fields = fields_of_fold(folded, output_version)
        plain, factories = defaults_of(cls, ALWAYS_FOLDED)
        values = plain | fields
        for name, make in factories:
            values[name] = make()
        return build_trusted(cls, values, set(fields), {})

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        plain, factories = defaults_of(cls)
        return {**plain, **{name: make() for name, make in factories}}

    @property
    def lc_attributes(self) -> dict[str, Any]:
        """Fields that are serialized although they may be empty."""
        return {"tool_calls": self.tool_calls, "invalid_tool_calls": self.invalid_tool_calls}

    @property
    def content_blocks(self) -> list[ContentBlock]:
        """The content, reasoning and tool calls as standard blocks, for any provider."""
        from foldline.messages.block_translators import CUSTOM_TRANSLATORS  # noqa: PLC0415  see base.py
        from foldline.messages.block_translators._pipeline import (  # noqa: PLC0415  see base.py
            standard_blocks,
            with_refusal,
        )

        provider = self.response_metadata.get("model_provider")
        if provider in CUSTOM_TRANSLATORS:
            is_chunk = isinstance(self, BaseMessageChunk)
            return CUSTOM_TRANSLATORS[provider][f"translate_content{'_chunk' if is_chunk else ''}"](
                self
            )
        metadata = self.response_metadata
        blocks = standard_blocks(
            self.content,
            provider,
            metadata=metadata,
            additional_kwargs=self.additional_kwargs,
            calls=cast("list[dict[str, Any]]", self._calls_of_blocks()),
            message_id=self.id,
        )
        return with_refusal(metadata, blocks) if self._has_own_metadata else blocks

    def _calls_of_blocks(self) -> list[Any]:
        """Return the calls for `content_blocks`."""
        return [*self.tool_calls, *self.invalid_tool_calls]

    def pretty_repr(self, html: bool = False) -> str:  # noqa: FBT001, FBT002  LangChain's signature
        """Return the message and its tool calls under a title line."""
        lines = [super().pretty_repr(html=html)]
        if self.tool_calls:
            lines.append("Tool Calls:")
            for call in self.tool_calls:
                lines += [f"  {call['name']} ({call['id']})", f" Call ID: {call['id']}", "  Args:"]
                lines += [
                    f"    {name}: {value if isinstance(value, str) else safe_repr(value)}"
                    for name, value in call["args"].items()
                ]
        if self.invalid_tool_calls:
            lines.append("Invalid Tool Calls:")
            for invalid_call in self.invalid_tool_calls:
                lines += [
                    f"  {invalid_call['name']} ({invalid_call['id']})",
                    f" Call ID: {invalid_call['id']}",
                ]
                lines += [f"  Error: {invalid_call['error']}"] if invalid_call.get("error") else []
                lines += ["  Args:", f"    {invalid_call['args']}"]
        return "\n".join(lines).strip()


@cache
def defaults_of(
    cls: type[AIMessage], excluded: frozenset[str] = frozenset()
) -> tuple[dict[str, Any], list[tuple[str, Callable[[], Any]]]]:
    """Return the default values of a class's fields, and the factories of mutable defaults, without `excluded`."""
    fields = cls.model_fields
    factories = [
        (name, cast("Callable[[], Any]", field.default_factory))
        for name, field in fields.items()
        if field.default_factory is not None and name not in excluded
    ]
    return {name: field.default for name, field in fields.items()}, factories


def _calls_of_kwargs(cls: type[AIMessage], raw: list[Any], values: dict[str, Any]) -> None:
    """Set the calls that older programs pass in `additional_kwargs`."""
    if issubclass(cls, BaseMessageChunk):
        values["tool_call_chunks"] = default_tool_chunk_parser(
            [call for call in raw if isinstance(call, dict)]
        )
        return
    calls, invalid = default_tool_parser([call for call in raw if isinstance(call, dict)])
    values["tool_calls"] = calls
    values["invalid_tool_calls"] = invalid


# -- from folded events to fields

CALL_TYPES = frozenset({"tool_call", "invalid_tool_call"})
ALWAYS_FOLDED = frozenset(
    {"additional_kwargs", "response_metadata", "tool_calls", "invalid_tool_calls"}
)
"""Fields with a default factory that every folded message sets."""
TEXT_KEYS = frozenset({"type", "text"})
PLAIN_TEXT_KEYS = frozenset({"type", "text", "index"})


def fields_of_fold(folded: FoldedMessage, output_version: str) -> dict[str, Any]:
    """Return the fields of a folded message."""
    blocks: list[dict[str, Any]] = folded.blocks  # type: ignore[assignment]
    is_text = len(blocks) == 1 and blocks[0].keys() == TEXT_KEYS and blocks[0]["type"] == "text"
    call_blocks = [] if is_text else client_calls(blocks)
    calls, invalid = split_calls(copy_json(call_blocks)) if call_blocks else ([], [])
    metadata = dict(folded.metadata)
    if output_version == "v1":
        metadata["output_version"] = "v1"
    if is_text and output_version == "v0":
        content, additional_kwargs = blocks[0]["text"], folded.additional_kwargs
    else:
        content, additional_kwargs = _content(folded, output_version)
    fields: dict[str, Any] = {
        "content": content,
        "additional_kwargs": additional_kwargs,
        "response_metadata": metadata,
        "id": folded.id,
        "tool_calls": calls,
        "invalid_tool_calls": invalid,
        "status": folded.status,
    }
    if folded.usage is not None:
        fields["usage_metadata"] = complete_usage(folded.usage)
    if folded.finish_reason is not None:
        fields["finish_reason"] = folded.finish_reason
    if folded.fields.get("name"):
        fields["name"] = folded.fields["name"]
    return fields


def client_calls(blocks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the calls among blocks that the program, not the provider, runs."""
    return [
        dict(block)
        for block in blocks
        if block.get("type") in CALL_TYPES and not is_server_call(dict(block))
    ]


def is_plain(blocks: Sequence[Mapping[str, Any]]) -> bool:
    """Whether blocks are at most one plain text, and tool calls without extras."""
    texts = 0
    for block in blocks:
        if block.get("type") == "text":
            texts += 1
            if texts > 1 or any(
                value for key, value in block.items() if key not in PLAIN_TEXT_KEYS
            ):
                return False
        elif block.get("type") not in CALL_TYPES or block.get("extras"):
            return False
    return True


def _content(folded: FoldedMessage, output_version: str) -> tuple[Any, dict[str, Any]]:
    """Return the content in the requested version, and its `additional_kwargs`."""
    from foldline.messages._native_content import native_content  # noqa: PLC0415  it imports the translators

    blocks: list[dict[str, Any]] = folded.blocks  # type: ignore[assignment]
    additional_kwargs = folded.additional_kwargs
    if output_version == "v1":
        return blocks, additional_kwargs
    native = native_content(blocks, folded.metadata)
    if native is not None:
        return native[0], {**additional_kwargs, **native[1]} if native[1] else additional_kwargs
    if not is_plain(blocks):
        return blocks, additional_kwargs
    return "".join(
        block["text"] for block in blocks if block.get("type") == "text"
    ), additional_kwargs
