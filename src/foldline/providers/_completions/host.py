"""`Host`: one server of the chat-completions wire as a row of data: where it is, its key, its quirks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from foldline.exceptions import ModelError

__all__ = ["Host"]


@dataclass(frozen=True, slots=True)
class Host:
    """What one host does its own way. The defaults are what most compatible hosts do."""

    name: str
    base_url: str
    keys: tuple[str, ...] = ()
    """Variables of the environment that may hold the key, in order."""
    needs_key: bool = True
    root_path: str = ""
    """Where the API lives, for an address that names the machine only."""
    api_path: str = ""
    """Where the API lives below an address that does not end in it: one address serves several APIs."""
    url_variables: tuple[str, ...] = ()
    """Variables of the environment that may hold another address."""
    reasoning_field: str | None = "reasoning_content"
    """Under which name an assistant message gives reasoning back; None where there is no place for it."""
    reasoning_back: Literal["always", "tool_calls", "never"] = "always"
    """With which assistant messages reasoning goes back: some hosts refuse it, some want it while tools run."""
    reasoning_parts: bool = False
    """Whether reasoning is a part of the content (Mistral), not a field beside it."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    system_role: Literal["system", "developer"] = "system"
    asks_for_usage: bool = True
    """Whether a stream must be asked for its usage by `stream_options`."""
    usage_mode: Literal["last", "sum"] = "last"
    """Whether usage is a running total, or what each chunk cost."""
    takes_strict: bool = True
    """Whether tools may say `strict`."""
    takes_empty_tools: bool = False
    takes_parallel_tool_calls: bool = True
    any_tool: Literal["required", "any"] = "required"
    """The word for: call some tool."""
    schema_as: Literal["json_schema", "json_object"] = "json_schema"
    """How a schema of the answer is asked for."""
    call_id_length: int | None = None
    """The exact length of ids of tool calls, where the host checks it."""
    may_end_silently: bool = False
    """The host closes a stream that is complete without `[DONE]` and without a finish_reason (E3 is then off)."""
    renames: Mapping[str, str] = field(default_factory=dict)
    """Parameters that this host calls otherwise."""
    errors: Mapping[str, type[ModelError]] = field(default_factory=dict)
    """Codes of errors that only this host has."""
    tells_nulls: bool = False
    """Whether a message says that there is no refusal and no probability, as LangChain's messages of OpenAI do."""
    default_model: str | None = None
