"""Types of the JSON that the messages API sends. No field is required, because none is always present.

Blocks that are kept unchanged (results of server tools, compactions, unknown types) are plain JSON.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from typing_extensions import TypedDict

Block: TypeAlias = dict[str, Any]
"""A content block; its fields depend on its `type`."""


class Usage(TypedDict, total=False):
    """Token counts; on `message_delta` they are running totals."""

    input_tokens: int | None
    output_tokens: int | None
    cache_read_input_tokens: int | None
    cache_creation_input_tokens: int | None
    cache_creation: dict[str, int] | None
    output_tokens_details: dict[str, int] | None
    server_tool_use: dict[str, int] | None
    service_tier: str | None


class Message(TypedDict, total=False):
    """An answer, or the start of a streamed one."""

    id: str
    type: str
    role: str
    model: str
    content: list[Block]
    stop_reason: str | None
    stop_sequence: str | None
    stop_details: dict[str, Any] | None
    usage: Usage
    container: dict[str, Any] | None
    context_management: dict[str, Any] | None


class Delta(TypedDict, total=False):
    """A change to a block or to the message."""

    type: str
    text: str
    thinking: str
    signature: str
    partial_json: str
    citation: dict[str, Any]
    content: str | None
    encrypted_content: str | None
    stop_reason: str | None
    stop_sequence: str | None


class StreamEvent(TypedDict, total=False):
    """One event of a stream, of any `type`."""

    type: str
    index: int
    message: Message
    content_block: Block
    delta: Delta
    usage: Usage
    error: dict[str, Any]
    context_management: dict[str, Any] | None


MESSAGE_FIELDS: Final = frozenset({"type", "role", "content", "usage", "model"})
"""Fields of a message that are read; all others are kept as response metadata."""
EVENT_FIELDS: Final = frozenset({"type", "delta", "usage", "index"})
CALLS: Final = {"tool_use": False, "server_tool_use": True, "mcp_tool_use": True}
"""Type of a block that calls a tool -> whether Anthropic runs the tool."""
REMOTE_TOOL: Final = "remote_mcp"
"""The name of every call over the MCP connector; the tool's own name is in `extras["tool_name"]`."""
VERSION: Final = "2023-06-01"

TOOL_BETAS: Final = {
    "advisor_20260301": "advisor-tool-2026-03-01",
    "code_execution_20250522": "code-execution-2025-05-22",
    "computer_20250124": "computer-use-2025-01-24",
    "computer_20251124": "computer-use-2025-11-24",
    "mcp_toolset": "mcp-client-2025-11-20",
    "memory_20250818": "context-management-2025-06-27",
}
"""Type of a tool -> the beta that a request with it requires."""
OPTION_BETAS: Final = {
    "compaction": "compact-2026-09-04",
    "context_management": "context-management-2025-06-27",
    "diagnostics": "cache-diagnosis-2026-04-07",
    "fallback_credit_token": "fallback-credit-2026-07-01",
    "fallbacks": "server-side-fallback-2026-07-01",
    "mcp_servers": "mcp-client-2025-11-20",
    "thread": "message-threads-2026-08-12",
}
"""Option -> the beta that a request with it requires."""
FILES_BETA: Final = "files-api-2025-04-14"
COMPACT_BETA: Final = "compact-2026-01-12"
BUDGET_BETA: Final = "task-budgets-2026-03-13"
FAST_BETA: Final = "fast-mode-2026-02-01"
