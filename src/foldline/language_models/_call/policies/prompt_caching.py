"""Marks for a provider's prompt cache: `cache_control` on blocks, messages and tools, and automatic breakpoints. Pure.

A mark means: everything up to here may be cached. Explicit marks are respected and count; automatic ones use what is
left, from the most stable part (tools, system) to the newest messages. The arguments are not changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from foldline._lazy import publish
from foldline.exceptions import UsageError
from foldline.language_models._call.policy import CallContext, Policy
from foldline.language_models._call.request import ChatRequest
from foldline.messages import BaseMessage, SystemMessage

__all__ = ["CacheConfig", "PromptCachingPolicy", "cache_control_of", "with_cache_control"]

CONTROL = "cache_control"
MAX_MARKS = 4
"""Breakpoints that Anthropic accepts in one request."""
UNMARKABLE = frozenset({"reasoning", "thinking", "redacted_thinking"})


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """Where breakpoints are set automatically.

    ```python
    from foldline.language_models import CacheConfig

    print(CacheConfig(ttl="1h").control())
    #> {'type': 'ephemeral', 'ttl': '1h'}
    ```
    """

    tools: bool = True
    """After the last tool."""
    system: bool = True
    """After the system message."""
    messages: int = 1
    """After this many of the newest messages."""
    ttl: Literal["5m", "1h"] | None = None
    most: int = MAX_MARKS

    def __post_init__(self) -> None:
        if self.messages < 0 or self.most < 0:
            raise UsageError("CacheConfig: messages and most count from 0")

    @classmethod
    def of(cls, value: object) -> CacheConfig | None:
        """Return the config for the setting `prompt_cache`: a config, True, False or a dict."""
        if value is None or value is False:
            return None
        if value is True:
            return cls()
        if isinstance(value, CacheConfig):
            return value
        names = [config_field.name for config_field in fields(cls)]
        if not isinstance(value, Mapping) or value.keys() - set(names):
            raise UsageError(
                f"prompt_cache={value!r}: a CacheConfig, True, or a dict of {', '.join(names)}"
            )
        return cls(**value)

    def control(self) -> dict[str, Any]:
        """Return the mark."""
        return {"type": "ephemeral", **({"ttl": self.ttl} if self.ttl else {})}


def cache_control_of(value: object) -> dict[str, Any] | None:
    """Return the mark on a block, a message or a tool, in any form."""
    is_block = type(value) is dict  # first: asking whether a dict is a Pydantic model takes longer
    if not is_block and isinstance(value, BaseMessage):
        control = value.additional_kwargs.get(CONTROL)
    elif isinstance(value, Mapping):
        function, extras = value.get("function"), value.get("extras")
        control = value.get(CONTROL)
        for inner in (function, extras):
            if control is None and isinstance(inner, Mapping):
                control = inner.get(CONTROL)
    else:
        control = None
        for name in ("metadata", "extras"):
            inner = getattr(value, name, None)
            if control is None and isinstance(inner, Mapping):
                control = inner.get(CONTROL)
    return dict(control) if isinstance(control, Mapping) else None


def with_cache_control(
    messages: Sequence[BaseMessage], tools: Sequence[Any], config: CacheConfig
) -> tuple[list[BaseMessage], list[Any]]:
    """Set the marks that are still free; return messages and tools with every mark on a block or a tool's dict."""
    marked_messages = [_move_mark_to_block(message) for message in messages]
    marked_tools = [_plain_tool(tool) for tool in tools]
    free_marks = config.most - _count(marked_messages, marked_tools)
    if config.tools and free_marks > 0 and marked_tools and _markable(marked_tools[-1]):
        marked_tools[-1] = {**marked_tools[-1], CONTROL: config.control()}
        free_marks -= 1
    for index in _breakpoints(marked_messages, config):
        if free_marks <= 0:
            break
        marked_message = _mark_last(marked_messages[index], config.control())
        if marked_message is not None:
            marked_messages[index] = marked_message
            free_marks -= 1
    return marked_messages, marked_tools


def _breakpoints(messages: list[BaseMessage], config: CacheConfig) -> list[int]:
    system = [index for index, message in enumerate(messages) if isinstance(message, SystemMessage)]
    other_indexes = [index for index in range(len(messages)) if index not in system]
    newest = (
        list(reversed(other_indexes[len(other_indexes) - config.messages :]))
        if config.messages
        else []
    )
    return [*(system[-1:] if config.system else []), *newest]


def _count(messages: list[BaseMessage], tools: list[Any]) -> int:
    blocks = (block for message in messages for block in _blocks(message))
    return sum(cache_control_of(value) is not None for value in (*blocks, *tools))


def _blocks(message: BaseMessage) -> list[Any]:
    return message.content if isinstance(message.content, list) else []


def _move_mark_to_block(message: BaseMessage) -> BaseMessage:
    """Move a message's mark to its last block."""
    control = message.additional_kwargs.get(CONTROL)
    if not isinstance(control, Mapping):
        return message
    marked = _mark_last(message, dict(control)) or message
    other_kwargs = {key: value for key, value in marked.additional_kwargs.items() if key != CONTROL}
    return marked.model_copy(update={"additional_kwargs": other_kwargs})


def _mark_last(message: BaseMessage, control: dict[str, Any]) -> BaseMessage | None:
    content = message.content
    if isinstance(content, str):
        if not content:
            return None
        return message.model_copy(
            update={"content": [{"type": "text", "text": content, CONTROL: control}]}
        )
    for index in range(len(content) - 1, -1, -1):
        block: Any = content[index]
        if isinstance(block, str):
            block = {"type": "text", "text": block}
        if not isinstance(block, Mapping) or block.get("type") in UNMARKABLE:
            continue
        if cache_control_of(block) is not None:
            return None
        new_content = [*content[:index], {**block, CONTROL: control}, *content[index + 1 :]]
        return message.model_copy(update={"content": new_content})
    return None


def _plain_tool(tool: object) -> Any:  # noqa: ANN401  a tool in any form
    control = cache_control_of(tool)
    if control is None or not isinstance(tool, Mapping):
        return tool
    function = tool.get("function")
    if isinstance(function, Mapping) and CONTROL in function:
        tool = {
            **tool,
            "function": {key: value for key, value in function.items() if key != CONTROL},
        }
    return {**tool, CONTROL: control}


def _markable(tool: object) -> bool:
    return isinstance(tool, Mapping) and cache_control_of(tool) is None


class PromptCachingPolicy(Policy):
    """Sets the marks for a provider's prompt cache."""

    __slots__ = ("_config",)

    applies_to = "settings"

    @classmethod
    def applies(cls, call: CallContext, request: ChatRequest) -> bool:
        """Where the setting is on."""
        return bool(call.settings.prompt_cache)

    def __init__(self, call: CallContext) -> None:
        self._config = CacheConfig.of(call.settings.prompt_cache) or CacheConfig()

    async def before(self, request: ChatRequest) -> ChatRequest:
        """Mark messages and tools."""
        messages, tools = with_cache_control(request.messages, request.tools, self._config)
        options = {**request.options, "tools": tools} if tools else request.options
        return request.replace(messages=messages, options=options)


publish("foldline.language_models", CacheConfig)
