"""A server written with the official package alone; `python official_server.py stdio|http PORT`."""

from __future__ import annotations

import base64
import os
import sys
import time
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.types import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

server = MCPServer("official", log_level="CRITICAL")
DATA = base64.b64encode(b"data").decode()


@server.tool(description="Add two numbers.", structured_output=False)
def add(a: int, b: int = 2) -> str:
    return str(a + b)


@server.tool(description="Answer with structure.")
def structured(city: str) -> dict[str, Any]:
    return {"city": city, "degrees": 21}


@server.tool(description="Fail.")
def fail() -> str:
    raise ValueError("it failed")


@server.tool(description="Answer with many kinds of content.", structured_output=False)
def mixed() -> list[Any]:
    return [
        TextContent(type="text", text="words"),
        ImageContent(type="image", data=DATA, mime_type="image/png"),
        AudioContent(type="audio", data=DATA, mime_type="audio/wav"),
        ResourceLink(type="resource_link", name="file", uri="file:///etc/passwd"),
        EmbeddedResource(
            type="resource",
            resource=TextResourceContents(uri="memo://1", text="memo", mime_type="text/plain"),
        ),
    ]


@server.tool(description="Die.")
def die() -> str:
    os._exit(3)


@server.tool(description="Take long.", structured_output=False)
def hang(seconds: float) -> str:
    time.sleep(seconds)
    return "done"


@server.tool(description="Say the id of the process.", structured_output=False)
def process() -> str:
    return str(os.getpid())


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
