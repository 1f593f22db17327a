"""One request of every wire that starts a run, with a text for the model."""

from __future__ import annotations

from typing import Any


def requests_of(text: str, *, stream: bool = False) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the path and the body of a request by the wire's name."""
    messages = [{"role": "user", "content": text}]
    both = {"messages": messages, "stream": stream}
    parts = [{"id": "m", "role": "user", "parts": [{"type": "text", "text": text}]}]
    agui = {
        "threadId": "t", "runId": "r", "state": {}, "tools": [], "context": [], "forwardedProps": {},
        "messages": [{"id": "m", "role": "user", "content": text}],
    }  # fmt: skip
    human = {"type": "human", "content": text}
    tool = {"name": "chat", "arguments": {"message": text}}
    return {
        "chat": ("/v1/chat/completions", {"model": "chat", **both}),
        "responses": ("/v1/responses", {"model": "chat", "input": text, "stream": stream}),
        "messages": ("/v1/messages", {"model": "chat", "max_tokens": 99, **both}),
        "runs": ("/runs", {"app": "chat", "input": text, "stream": stream, "wait": True}),
        "vercel": ("/api/chat/chat", {"id": "c", "messages": parts}),
        "agui": ("/agui/chat", agui),
        "langgraph": ("/runs/wait", {"assistant_id": "chat", "input": {"messages": [human]}}),
        "langserve": ("/chat/invoke", {"input": text}),
        "mcp": ("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool}),
    }
