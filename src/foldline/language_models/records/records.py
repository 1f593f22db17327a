"""`ChatModelInput` and `ChatModelOutput`: a call and its answer as plain records, in AIGNE's words.

Snake case in Python; camel case is read from JSON too. Roles `agent` and `assistant` are both the model's. The output
keeps the ordered blocks in `.message`; its other fields are views of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic.alias_generators import to_camel

from foldline.exceptions import UsageError
from foldline.language_models.call.request import messages_of
from foldline.language_models.profile import ModelProfile
from foldline.language_models.structured.output import StructuredCheck, structured_options
from foldline.language_models.structured.tool_binding import bound_tools
from foldline.messages import AIMessage, BaseMessage
from foldline.utils.json import to_jsonable

__all__ = ["ChatModelInput", "ChatModelOutput", "ChatModelUsage", "input_of", "output_of"]

MEDIA = frozenset({"image", "audio", "video", "file"})
Options = dict[str, Any]


class _Record(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        arbitrary_types_allowed=True,
        protected_namespaces=(),
        defer_build=True,
    )


class ChatModelInput(_Record):
    """One call: messages, and how to answer them."""

    messages: list[BaseMessage]
    response_format: Options | None = None
    """`{"type": "json_schema", "json_schema": {...}}`, or None for text."""
    output_file_type: Literal["local", "file", "url"] | None = None
    tools: list[Any] | None = None
    tool_choice: Any = None
    model_options: Options = Field(default_factory=dict)

    @field_validator("messages", mode="before")
    @classmethod
    def _read_messages(cls, value: Any) -> list[BaseMessage]:
        if isinstance(value, list):
            value = [_message(one) for one in value]
        return messages_of(value)

    def call_options(self, profile: ModelProfile | None) -> tuple[Options, StructuredCheck | None]:
        """Give the call options of this record, and the check that reads its JSON."""
        options: Options = {}
        if self.model_options:
            options["model_options"] = dict(self.model_options)
        if self.output_file_type is not None:
            options["output_file_type"] = self.output_file_type
        if self.tools:
            options |= bound_tools(self.tools, tool_choice=self.tool_choice)
        elif self.tool_choice is not None:
            options["tool_choice"] = self.tool_choice
        schema = self._schema()
        if schema is None:
            return options, None
        described, check = structured_options(
            schema,
            profile,
            include_raw=True,
            tools=self.tools or None,
            method="auto" if profile else "json_schema",
        )
        check.gives_up_quietly = False
        return {**options, **described}, check

    def _schema(self) -> Any:
        wanted = self.response_format
        if wanted is None or wanted.get("type") in ("text", None):
            return None
        described = wanted.get("json_schema") or wanted.get("jsonSchema")
        if not isinstance(described, Mapping) or not isinstance(described.get("schema"), Mapping):
            raise UsageError(
                'response_format needs {"type": "json_schema", "json_schema": {"name": …, "schema": {…}}}'
            )
        return {"title": described.get("name") or "Answer", **described["schema"]}


class ChatModelUsage(_Record):
    """Tokens of a call, every attempt included."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0


class ChatModelOutput(_Record):
    """One answer."""

    text: str | None = None
    json_: Any = Field(default=None, alias="json")
    tool_calls: list[Any] = Field(default_factory=list)
    """`{"id", "type": "function", "function": {"name", "arguments"}}`, arguments as an object."""
    usage: ChatModelUsage | None = None
    model: str | None = None
    files: list[Any] = Field(default_factory=list)
    thoughts: str | None = None
    message: AIMessage | None = Field(default=None, exclude=True)
    """The answer with its blocks in order; the other fields are views of it."""

    def __getattribute__(self, name: str) -> Any:
        # `json` is a method of every Pydantic model, long deprecated; here it is the answer's JSON.
        return super().__getattribute__("json_" if name == "json" else name)


def input_of(value: Any) -> ChatModelInput:
    """Read a record, or a dict in snake or camel case; a key nobody knows is an error."""
    if isinstance(value, ChatModelInput):
        return value
    if not isinstance(value, Mapping):
        raise UsageError(
            f"`run` takes a ChatModelInput or a dict of its fields, not {type(value).__name__}: "
            'write {"messages": …}, or use `invoke`'
        )
    known = {
        name for field, info in ChatModelInput.model_fields.items() for name in (field, info.alias)
    }
    unknown = sorted(set(value) - known)
    if unknown:
        raise UsageError(
            f"ChatModelInput has no {unknown[0]!r}: put options of the model in model_options"
        )
    return ChatModelInput.model_validate(dict(value))


def output_of(message: AIMessage, check: StructuredCheck | None = None) -> ChatModelOutput:
    """Give an answer as a record."""
    blocks = message.content_blocks
    said = message.response_metadata
    thoughts = "".join(
        str(block.get("reasoning") or "") for block in blocks if block.get("type") == "reasoning"
    )
    value = None
    if check is not None and not check.calls_others(message):
        value = to_jsonable(check.read(message).value)
    elif check is None and isinstance(said.get("json"), dict | list):
        value = said["json"]
    own = check.schema.name if check is not None and check.method == "tool" else None
    calls = [call for call in message.tool_calls if call["name"] != own]
    return ChatModelOutput(
        text=str(message.text) or None,
        json_=value,
        tool_calls=[_call(call) for call in calls],
        usage=_usage(message.usage_metadata),
        model=said.get("model_name") or said.get("model"),
        files=[dict(block) for block in blocks if block.get("type") in MEDIA],
        thoughts=thoughts or None,
        message=message,
    )


def _call(call: Any) -> Options:
    return {
        "id": call.get("id"),
        "type": "function",
        "function": {"name": call["name"], "arguments": call["args"]},
    }


def _usage(usage: Any) -> ChatModelUsage | None:
    if not usage:
        return None
    details = usage.get("input_token_details") or {}
    return ChatModelUsage(
        input_tokens=usage["input_tokens"],
        output_tokens=usage["output_tokens"],
        cache_read_input_tokens=details.get("cache_read") or 0,
        cache_creation_input_tokens=details.get("cache_creation") or 0,
    )


def _message(value: Any) -> Any:
    """Read a message of AIGNE's: role `agent`, `toolCalls` with arguments as an object, `toolCallId`."""
    if not isinstance(value, Mapping) or "role" not in value:
        return value
    role = {"agent": "assistant"}.get(value["role"], value["role"])
    message: Options = {"role": role, "content": _content(value.get("content"))}
    for key in ("name", "id"):
        if value.get(key) is not None:
            message[key] = value[key]
    calls = value.get("tool_calls") or value.get("toolCalls")
    if calls:
        message["tool_calls"] = [_read_call(call) for call in calls]
    result_of = value.get("tool_call_id") or value.get("toolCallId")
    if result_of is not None:
        message["tool_call_id"] = result_of
    return message


def _content(content: Any) -> Any:
    if content is None:
        return ""
    if not isinstance(content, list):
        return content
    return [_block(block) for block in content]


def _block(block: Any) -> Any:
    """Read a content block of AIGNE's: `{"type": "url" | "file" | "local", "mimeType": …}` become media blocks."""
    if not isinstance(block, Mapping):
        return block
    kind, mime = block.get("type"), block.get("mime_type") or block.get("mimeType")
    source = {"url": "url", "file": "data", "local": "path"}.get(str(kind))
    if source is None or source not in block or "base64" in block:
        return dict(block)
    media = (mime or "").split("/")[0]
    made: Options = {"type": media if media in MEDIA else "file"}
    made["base64" if source == "data" else source] = block[source]
    if mime:
        made["mime_type"] = mime
    if name := block.get("filename"):
        made["filename"] = name
    return made


def _read_call(call: Mapping[str, Any]) -> Options:
    function = call.get("function")
    if not isinstance(function, Mapping):
        return dict(call)
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments or {}, ensure_ascii=False)
    return {
        "id": call.get("id"),
        "type": "function",
        "function": {"name": function["name"], "arguments": arguments},
    }
