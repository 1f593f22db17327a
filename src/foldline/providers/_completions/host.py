"""`Host`: one host of the chat-completions API as data: address, key, differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from foldline.exceptions import ModelError

__all__ = ["Host"]


@dataclass(frozen=True, slots=True)
class Host:
    """The properties of one host. The defaults are those of most compatible hosts."""

    name: str
    base_url: str
    keys: tuple[str, ...] = ()
    """Environment variables that may hold the key, in order of preference."""
    needs_key: bool = True
    root_path: str = ""
    """The path of the API, appended to a URL without a path."""
    api_path: str = ""
    """The path of the API, appended to a URL that does not end with it: one server has several APIs."""
    url_variables: tuple[str, ...] = ()
    """Environment variables that may hold another URL."""
    reasoning_field: str | None = "reasoning_content"
    """The field for reasoning in an assistant message that is sent back; None if there is none."""
    reasoning_back: Literal["always", "tool_calls", "never"] = "always"
    """Which assistant messages are sent back with reasoning: some hosts refuse it, some require it with tool calls."""
    reasoning_parts: bool = False
    """Whether reasoning is a part of the content (Mistral) instead of a field."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    system_role: Literal["system", "developer"] = "system"
    asks_for_usage: bool = True
    """Whether a stream sends usage only if `stream_options` requests it."""
    usage_mode: Literal["last", "sum"] = "last"
    """Whether the usage in chunks is a running total ("last") or must be added up ("sum")."""
    takes_strict: bool = True
    """Whether tools may have `strict`."""
    takes_empty_tools: bool = False
    takes_parallel_tool_calls: bool = True
    any_tool: Literal["required", "any"] = "required"
    """The tool choice that requires some tool call."""
    schema_as: Literal["json_schema", "json_object"] = "json_schema"
    """The response format that is sent for a schema."""
    call_id_length: int | None = None
    """The exact length of tool call ids, if the host checks it."""
    may_end_silently: bool = False
    """Whether a complete stream may end without `[DONE]` and finish_reason (disables E3)."""
    renames: Mapping[str, str] = field(default_factory=dict)
    """Parameter -> its name on this host."""
    errors: Mapping[str, type[ModelError]] = field(default_factory=dict)
    """Error code of this host -> class."""
    tells_nulls: bool = False
    """Whether messages contain null `refusal` and `logprobs`, as LangChain's messages of OpenAI do."""
    default_model: str | None = None
