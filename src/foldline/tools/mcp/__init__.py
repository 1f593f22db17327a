"""The Model Context Protocol: tools of an MCP server as tools of foldline, and tools of foldline as an MCP server.

Needs the extra `mcp`, the protocol's official package, which is imported when it is used.
"""

from foldline.tools.mcp.client import (
    MCPClient,
    MCPConnectionError,
    MCPTool,
    aload_mcp_tools,
    load_mcp_tools,
)
from foldline.tools.mcp.serve import aserve_mcp, mcp_app, mcp_server, serve_mcp

__all__ = [
    "MCPClient",
    "MCPConnectionError",
    "MCPTool",
    "aload_mcp_tools",
    "aserve_mcp",
    "load_mcp_tools",
    "mcp_app",
    "mcp_server",
    "serve_mcp",
]


def __dir__() -> list[str]:
    return sorted(__all__)
