"""Tables of the Responses API: items of server tools, metadata fields, events; decoding of usage."""

from __future__ import annotations

from typing import Any, Final

from foldline.providers._cost import read_cost

SERVER_TOOLS: Final[dict[str, tuple[str, str | None, str | None]]] = {
    "web_search_call": ("web_search", "action", "results"),
    "file_search_call": ("file_search", "queries", "results"),
    "code_interpreter_call": ("code_interpreter", "code", "outputs"),
    "computer_call": ("computer_use", "action", None),
    "mcp_call": ("remote_mcp", "arguments", "output"),
    "mcp_list_tools": ("mcp_list_tools", None, "tools"),
    "local_shell_call": ("local_shell", "action", None),
}
"""Item type -> (tool name, key of its arguments, key of its result): as `block_translators.openai` reads them."""
ITEM_OF_TOOL: Final = {name: kind for kind, (name, _, _) in SERVER_TOOLS.items()}
OBJECT_ARGUMENTS: Final = frozenset({"action"})
"""Argument keys whose value is an object, used directly as the call's arguments."""

METADATA_FIELDS: Final = (
    "id",
    "status",
    "created_at",
    "completed_at",
    "incomplete_details",
    "service_tier",
    "metadata",
    "previous_response_id",
    "conversation",
    "background",
    "moderation",
    "tool_usage",
    "timings",
)
"""Fields of a response that become response metadata."""
INCOMPLETE_REASONS: Final = {
    "max_output_tokens": "length",
    "content_filter": "content_filter",
    "max_messages": "length",
}
FAILURE_EVENTS: Final = frozenset({"response.failed", "response.cancelled", "error"})
"""Events after which there is no answer."""
TERMINAL_EVENTS: Final = FAILURE_EVENTS | {"response.completed", "response.incomplete"}
PENDING_EVENTS: Final = frozenset({"response.queued", "response.in_progress"})
"""Events of a response that is still in progress, because it was requested in the background."""
STATUS_EVENTS: Final = {
    status: f"response.{status}"
    for status in ("failed", "cancelled", "incomplete", "queued", "in_progress")
}
"""Status of a response -> the equivalent event of a stream; any other status means completed."""
CANCELLED_ERROR: Final = {
    "code": "response_cancelled",
    "message": "the response was cancelled before its end",
}
"""The error of a cancelled response, for which the API has none."""
INPUT_ITEMS: Final = frozenset(
    {
        "apply_patch_call_output",
        "compaction",
        "compaction_trigger",
        "computer_call_output",
        "custom_tool_call_output",
        "function_call_output",
        "item_reference",
        "local_shell_call_output",
        "mcp_approval_response",
        "shell_call_output",
        "tool_search_output",
    }
)
"""Types of blocks in a user message that are input items instead of parts of the message."""
SERVER_TOOL_TYPES: Final = frozenset(
    {
        "apply_patch",
        "code_interpreter",
        "computer",
        "computer_use_preview",
        "file_search",
        "image_generation",
        "local_shell",
        "mcp",
        "namespace",
        "programmatic_tool_calling",
        "shell",
        "tool_search",
        "web_search",
        "web_search_2025_08_26",
        "web_search_preview",
        "web_search_preview_2025_03_11",
    }
)
"""Tools that only Responses has."""


def decode_usage(usage: object) -> dict[str, Any]:
    """Return the counts of a response under our names; malformed usage must not fail the answer."""
    if not isinstance(usage, dict):
        return {}
    counts = {
        name: usage[name]
        for name in ("input_tokens", "output_tokens", "total_tokens")
        if usage.get(name) is not None
    }
    names = {
        "cached_tokens": "cache_read",
        "cache_write_tokens": "cache_creation",
        "reasoning_tokens": "reasoning",
    }
    for kind in ("input", "output"):
        native_details = usage.get(f"{kind}_tokens_details")
        if not isinstance(native_details, dict):
            continue
        details = {
            names.get(name, name): count
            for name, count in native_details.items()
            if isinstance(count, int)
        }
        if details:
            counts[f"{kind}_token_details"] = details
    if (cost := read_cost(usage)) is not None:
        counts["total_cost"] = cost
    return counts
