"""The JSON of the messages API, as types: what Anthropic sends. Nothing is required, for no field always comes.

Blocks that stay as they are (results of server tools, compactions, what is newer than this file) are plain JSON.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from typing_extensions import TypedDict

Block: TypeAlias = dict[str, Any]
"""A content block: it has a `type`; the other fields are its own."""


class Usage(TypedDict, total=False):
    """Counts of tokens; on `message_delta` they are running totals."""

    input_tokens: int | None
    output_tokens: int | None
    cache_read_input_tokens: int | None
    cache_creation_input_tokens: int | None
    cache_creation: dict[str, int] | None
    output_tokens_details: dict[str, int] | None
    server_tool_use: dict[str, int] | None
    service_tier: str | None


class Message(TypedDict, total=False):
    """A whole answer, or the head of a streamed one."""

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
    """What a block, or the message, says now."""

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
    """One event of a stream; `type` says which."""

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
"""Types of blocks that call a tool -> whether Anthropic runs it."""
REMOTE_TOOL: Final = "remote_mcp"
"""The name under which every call over the MCP connector is told; the tool's own is in `extras["tool_name"]`."""
VERSION: Final = "2023-06-01"

TOOL_BETAS: Final = {
    "advisor_20260301": "advisor-tool-2026-03-01",
    "code_execution_20250522": "code-execution-2025-05-22",
    "computer_20250124": "computer-use-2025-01-24",
    "computer_20251124": "computer-use-2025-11-24",
    "mcp_toolset": "mcp-client-2025-11-20",
    "memory_20250818": "context-management-2025-06-27",
}
"""Types of tools -> the beta that a request with one must name."""
OPTION_BETAS: Final = {
    "compaction": "compact-2026-09-04",
    "context_management": "context-management-2025-06-27",
    "diagnostics": "cache-diagnosis-2026-04-07",
    "fallback_credit_token": "fallback-credit-2026-07-01",
    "fallbacks": "server-side-fallback-2026-07-01",
    "mcp_servers": "mcp-client-2025-11-20",
    "thread": "message-threads-2026-08-12",
}
"""Options -> the beta that a request with one must name."""
FILES_BETA: Final = "files-api-2025-04-14"
COMPACT_BETA: Final = "compact-2026-01-12"
BUDGET_BETA: Final = "task-budgets-2026-03-13"
FAST_BETA: Final = "fast-mode-2026-02-01"
