"""A server made of foldline's tools; `python foldline_server.py stdio|http PORT [TOKEN]`."""

from __future__ import annotations

import sys
from typing import Annotated, Any

from foldline.tools import InjectedToolArg, ToolException, tool
from foldline.tools.mcp import serve_mcp


@tool
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    print("a word on standard output, which is the wire")
    return a + b


@tool
async def weather(city: Annotated[str, "where"]) -> dict[str, Any]:
    """Say the weather."""
    return {"city": city, "degrees": 21}


@tool
def secret(question: str, token: Annotated[str, InjectedToolArg]) -> str:
    """Answer with a token."""
    return f"{question} {token}"


@tool
def fail(how: str) -> Any:
    """Fail."""
    if how == "politely":
        raise ToolException("no such city")
    raise ValueError("a secret of the server")


@tool
def picture() -> list[Any]:
    """Draw."""
    return [
        {"type": "text", "text": "here"},
        {"type": "image", "base64": "ZGF0YQ==", "mime_type": "image/png"},
    ]


if __name__ == "__main__":
    kind, port, token = (*sys.argv[1:], *["0", ""][len(sys.argv) - 2 :])
    serve_mcp(
        [add, weather, secret, fail, picture],
        "http" if kind == "http" else "stdio",
        port=int(port),
        token=token or None,
        injected={"token": "real"},
    )
