"""Tool names on the wire: a reversible code per call, because providers allow few characters and 64 of them. Pure.

`NameCodec` knows every name of a call: of tools, of history, of the tool choice. Valid names stay as they are; each
other name gets a unique valid one, so that every answer can be decoded. The caller's objects are not changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, cast

from foldline._streams.answer import Batch, CompleteAnswer
from foldline.language_models._call.call_options import read_tool_choice
from foldline.language_models._call.policy import CallContext, Policy
from foldline.language_models._call.request import CallOptions, ChatRequest
from foldline.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from foldline.protocol.events import Event

__all__ = ["NameCodec", "ToolNamesPolicy"]

LENGTH: Final = 64
CLASS: Final = "[A-Za-z0-9_-]"
MESSAGES_WITHOUT_TOOLS: Final = frozenset({HumanMessage, SystemMessage})
"""Messages that contain no tool names."""
NAMED_BLOCKS: Final = frozenset(
    {
        "tool_call",
        "tool_call_chunk",
        "invalid_tool_call",
        "tool_use",
        "function_call",
        "tool_result",
    }
)


@lru_cache(maxsize=64)
def _invalid_characters(characters: str) -> re.Pattern[str]:
    return re.compile(f"(?!{characters}).", re.DOTALL)


class NameCodec:
    """Names of tools -> names on the wire, and back.

    ```python
    codec = NameCodec(["files.read", "files_read"])
    print(codec.encode("files.read"), codec.encode("files_read"), codec.decode("files_read_2"))
    #> files_read_2 files_read files.read
    ```
    """

    __slots__ = ("_tool_names", "_wire_names")

    def __init__(self, names: Iterable[str], characters: str = CLASS, length: int = LENGTH) -> None:
        invalid = _invalid_characters(characters)
        unique_names = list(dict.fromkeys(names))
        valid_names = {
            name
            for name in unique_names
            if name and len(name) <= length and not invalid.search(name)
        }
        self._wire_names: dict[str, str] = {}
        # Valid names first: a changed name must give way to one that is sent as it is.
        used_names = set(valid_names)
        for name in unique_names:
            if name not in valid_names:
                wire_name = _unused_name(invalid.sub("_", name) or "tool", used_names, length)
                used_names.add(wire_name)
                self._wire_names[name] = wire_name
        self._tool_names = {wire_name: name for name, wire_name in self._wire_names.items()}

    @property
    def changes(self) -> Mapping[str, str]:
        """The names that are encoded differently."""
        return self._wire_names

    def encode(self, name: str) -> str:
        """Return the name on the wire."""
        return self._wire_names.get(name, name)

    def decode(self, name: str) -> str:
        """Return the tool's name; a name that was never sent stays as it is."""
        return self._tool_names.get(name, name)

    # -- request

    def encode_options(self, options: CallOptions) -> CallOptions:
        """Rename tools and tool choice."""
        new_options = dict(options)
        if options.get("tools"):
            new_options["tools"] = [self._tool(tool) for tool in options["tools"]]
        if options.get("tool_choice") is not None:
            new_options["tool_choice"] = self._choice(options["tool_choice"])
        return new_options

    def encode_messages(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Rename calls and results in history; messages without them are the same objects."""
        return [_rename_calls(message, self._wire_names) for message in messages]

    def _tool(self, tool: object) -> object:
        if not isinstance(tool, Mapping):
            return tool
        function = tool.get("function")
        if isinstance(function, Mapping) and function.get("name") in self._wire_names:
            return {**tool, "function": {**function, "name": self._wire_names[function["name"]]}}
        if _is_function(tool) and tool.get("name") in self._wire_names:
            return {**tool, "name": self._wire_names[tool["name"]]}
        return tool

    def _choice(self, choice: object) -> object:
        if not isinstance(choice, Mapping):
            return self.encode(choice) if isinstance(choice, str) else choice
        new_choice = dict(choice)
        if isinstance(choice.get("name"), str):
            new_choice["name"] = self.encode(choice["name"])
        for key in ("function", "allowed_tools"):
            if isinstance(choice.get(key), Mapping):
                new_choice[key] = self._choice(choice[key])
        if isinstance(choice.get("tools"), list):
            new_choice["tools"] = [self._choice(tool) for tool in choice["tools"]]
        return new_choice

    # -- answer

    def decode_event(self, event: Event) -> Event:
        """Rename the calls in an event."""
        kind = event["event"]
        if kind == "content-block-start" or kind == "content-block-finish":
            content = cast("dict[str, Any]", event["content"])  # type: ignore[typeddict-item]
            if content.get("type") in NAMED_BLOCKS and content.get("name") in self._tool_names:
                content = {**content, "name": self._tool_names[content["name"]]}
                return cast("Event", {**event, "content": content})
        elif kind == "content-block-delta":
            fields = event["delta"].get("fields")  # type: ignore[typeddict-item]
            if isinstance(fields, dict) and fields.get("name") in self._tool_names:
                fields = {**fields, "name": self._tool_names[fields["name"]]}
                return cast("Event", {**event, "delta": {**event["delta"], "fields": fields}})  # type: ignore[typeddict-item]
        return event

    def decode_message(self, message: BaseMessage) -> BaseMessage:
        """Rename the calls of a complete answer; its class and the form of its content stay."""
        return _rename_calls(message, self._tool_names)


class ToolNamesPolicy(Policy):
    """Sends tools under names that the provider allows, and restores the names in the answer."""

    __slots__ = ("_call", "_codec", "_pattern")
    sees_further_answers = True

    @classmethod
    def applies(cls, call: CallContext, request: ChatRequest) -> bool:
        """Where the provider restricts names, and the request may contain some."""
        if not (call.model._tool_name_pattern or call.profile.get("tool_name_pattern")):
            return False
        return (
            bool(request.options)
            or call.settings.hooks is not None
            or not MESSAGES_WITHOUT_TOOLS.issuperset(map(type, request.messages))
        )

    def __init__(self, call: CallContext) -> None:
        self._call = call
        self._pattern = (
            call.profile.get("tool_name_pattern") or call.model._tool_name_pattern or CLASS
        )
        self._codec: NameCodec | None = None

    def notes(self) -> Iterable[str]:
        """Return the tools that are sent under other names."""
        changes = {} if self._codec is None else self._codec.changes
        return [f"the tool {name!r} is sent as {wire!r}" for name, wire in changes.items()]

    @property
    def watches_events(self) -> bool:  # type: ignore[override]  # known when the names are
        """Whether a name was changed."""
        return self._codec is not None

    async def before(self, request: ChatRequest) -> ChatRequest:
        """Rename tools, tool choice and history, if a name is not valid."""
        names = _names_of_call(request.messages, request.options)
        length = self._call.profile.get("tool_name_length") or LENGTH
        # All names of the call at once, history included: a call in it must be renamed as its tool is.
        codec = NameCodec(names, self._pattern, length) if names else None
        if codec is None or not codec.changes:
            return request
        self._codec = codec
        messages = codec.encode_messages(request.messages)
        return request.replace(messages=messages, options=codec.encode_options(request.options))

    def encode(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Rename the calls in messages that are added after `before`."""
        return list(messages) if self._codec is None else self._codec.encode_messages(messages)

    async def on_events(self, batch: Batch) -> Batch:
        """Restore the names."""
        codec = cast("NameCodec", self._codec)
        if type(batch) is CompleteAnswer:
            return batch.map(codec.decode_message)
        return [codec.decode_event(event) for event in batch]


def _names_of_call(messages: Iterable[BaseMessage], options: Mapping[str, Any]) -> list[str]:
    """Collect every tool name of a call: tools first, then the choice, then history."""
    names: list[str] = []
    for tool in options.get("tools") or ():
        if isinstance(tool, Mapping):
            function = tool.get("function")
            function_tool = (
                function if isinstance(function, Mapping) else tool if _is_function(tool) else {}
            )
            names.append(function_tool.get("name", ""))
    if options.get("tool_choice") is not None:
        choice = read_tool_choice(options["tool_choice"])
        names += [choice.name or "", *choice.allowed]
    for message in messages:
        if isinstance(message, AIMessage):
            names += [
                str(call.get("name") or "")
                for call in (*message.tool_calls, *message.invalid_tool_calls)
            ]
        elif message.type in ("tool", "function"):
            names.append(message.name or "")
    return [name for name in names if name]


def _is_function(tool: Mapping[str, Any]) -> bool:
    """Return whether a tool dict describes a function of the caller, not a tool of the provider."""
    return (
        any(key in tool for key in ("parameters", "input_schema", "inputSchema"))
        or tool.get("type") == "custom"
    )


def _unused_name(base_name: str, used_names: set[str], length: int) -> str:
    name, number = base_name[:length], 2
    while name in used_names:
        suffix = f"_{number}"
        name = base_name[: length - len(suffix)] + suffix
        number += 1
    return name


def _rename_calls(message: BaseMessage, names: Mapping[str, str]) -> BaseMessage:
    changes: dict[str, Any] = {}
    if isinstance(message, AIMessage):
        # A message has its calls in up to three places; all of them are sent by one vendor or another.
        for field in ("tool_calls", "invalid_tool_calls"):
            calls = getattr(message, field)
            if any(call.get("name") in names for call in calls):
                changes[field] = [
                    {**call, "name": names.get(call.get("name"), call.get("name"))}
                    for call in calls
                ]
        if isinstance(message.content, list):
            content = [_block(block, names) for block in message.content]
            if any(
                new_block is not old_block
                for new_block, old_block in zip(content, message.content, strict=True)
            ):
                changes["content"] = content
        raw_calls = message.additional_kwargs.get("tool_calls")
        if isinstance(raw_calls, list):
            renamed_calls = [_raw_call(call, names) for call in raw_calls]
            changes["additional_kwargs"] = {
                **message.additional_kwargs,
                "tool_calls": renamed_calls,
            }
    elif message.type in ("tool", "function") and message.name and message.name in names:
        changes["name"] = names[message.name]
    return message.model_copy(update=changes) if changes else message


def _block(block: object, names: Mapping[str, str]) -> object:
    if (
        isinstance(block, Mapping)
        and block.get("type") in NAMED_BLOCKS
        and block.get("name") in names
    ):
        return {**block, "name": names[block["name"]]}
    return block


def _raw_call(call: object, names: Mapping[str, str]) -> object:
    if not isinstance(call, Mapping):
        return call
    function = call.get("function")
    if isinstance(function, Mapping) and function.get("name") in names:
        return {**call, "function": {**function, "name": names[function["name"]]}}
    return call
