"""Serves foldline's tools as an MCP server, over stdio or HTTP.

Over HTTP the server listens on loopback by default, answers only requests whose Host and Origin are its own (against
DNS rebinding by web pages), and requires a token on other addresses.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack, cast

from pydantic import ValidationError

from foldline._io import run_loop
from foldline.exceptions import SecurityError, ToolException, UsageError
from foldline.messages.tool import ToolCall, ToolMessage
from foldline.tools._content import content_of
from foldline.tools.base import BaseTool, inject, tools_by_name
from foldline.tools.errors import describe_validation_error
from foldline.tools.mcp._content import to_mcp
from foldline.tools.mcp._package import import_extra

__all__ = ["aserve_mcp", "mcp_app", "mcp_server", "serve_mcp"]

Transport = Literal["stdio", "http"]
logger: logging.Logger = logging.getLogger("foldline.tools.mcp")

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
MAX_BODY = 4 * 1024 * 1024


class ServeOptions(TypedDict, total=False):
    """Options of `serve_mcp`."""

    host: str
    """The address to listen on ("127.0.0.1"); other than loopback it requires a token."""
    port: int
    """The port (8000)."""
    name: str
    """The name of the server ("foldline")."""
    token: str | None
    """The token that clients must send as `Authorization: Bearer …`."""
    allowed_hosts: Sequence[str]
    """The host names that clients use."""
    injected: Mapping[str, Any] | None
    """The injected arguments of the tools."""


def serve_mcp(
    tools: Sequence[BaseTool], transport: Transport = "stdio", **options: Unpack[ServeOptions]
) -> None:
    """Serve tools until the client disconnects (stdio) or the process is stopped (http)."""
    run_loop(aserve_mcp(tools, transport, **options))


async def aserve_mcp(
    tools: Sequence[BaseTool], transport: Transport = "stdio", **options: Unpack[ServeOptions]
) -> None:
    """Serve tools until the client disconnects (stdio) or the process is stopped (http)."""
    unknown = options.keys() - ServeOptions.__annotations__.keys()
    if unknown:
        raise UsageError(f"serve_mcp has no option {sorted(unknown)}")
    if transport == "http":
        app_options: dict[str, Any] = dict(options)
        port, host = app_options.pop("port", 8000), app_options.get("host", "127.0.0.1")
        app = mcp_app(tools, **app_options)
        uvicorn = import_extra("uvicorn")
        config = uvicorn.Config(app, host=host, port=port, log_level="warning", lifespan="on")
        await uvicorn.Server(config).serve()
        return
    if transport != "stdio":
        raise UsageError(f'transport={transport!r}: "stdio" or "http"')
    server = mcp_server(
        tools, name=options.get("name", "foldline"), injected=options.get("injected")
    )
    async with import_extra("mcp.server.stdio").stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


def mcp_app(
    tools: Sequence[BaseTool],
    *,
    host: str = "127.0.0.1",
    path: str = "/mcp",
    name: str = "foldline",
    token: str | None = None,
    allowed_hosts: Sequence[str] = (),
    injected: Mapping[str, Any] | None = None,
) -> Any:  # noqa: ANN401  an object of the mcp package, which is optional
    """Return an ASGI application that serves tools; `allowed_hosts` are the host names that clients use."""
    if not _is_loopback(host) and not token:
        raise SecurityError(
            f"host={host!r} is open to other machines: pass token=, which clients send as `Authorization: Bearer …`"
        )
    local_names = LOOPBACK if _is_loopback(host) or not allowed_hosts else ()
    host_names = [*local_names, *allowed_hosts]
    hosts = [pattern for host_name in host_names for pattern in (host_name, f"{host_name}:*")]
    origins = [f"{scheme}://{pattern}" for scheme in ("http", "https") for pattern in hosts]
    settings = import_extra("mcp.server.transport_security").TransportSecuritySettings(
        enable_dns_rebinding_protection=True, allowed_hosts=hosts, allowed_origins=origins
    )
    server = mcp_server(tools, name=name, injected=injected)
    app = server.streamable_http_app(
        streamable_http_path=path,
        transport_security=settings,
        host=host,
        max_request_body_size=MAX_BODY,
    )
    return _with_token(app, token) if token else app


def mcp_server(
    tools: Sequence[BaseTool], *, name: str = "foldline", injected: Mapping[str, Any] | None = None
) -> Any:  # noqa: ANN401  an object of the mcp package, which is optional
    """Return a server of the official package with these tools; `injected` are their injected arguments."""
    types, by_name = import_extra("mcp.types"), tools_by_name(tools)
    descriptions = [
        types.Tool(name=tool.name, description=tool.description, input_schema=_schema(tool))
        for tool in tools
    ]

    async def list_tools(context: object, params: object) -> object:
        return types.ListToolsResult(tools=descriptions)

    async def call_tool(context: object, params: Any) -> object:  # noqa: ANN401  an object of the mcp package, which is optional
        tool = by_name.get(params.name)
        if tool is None:
            return to_mcp(f"there is no tool named {params.name!r}", is_error=True)
        return await _call_tool(tool, params.arguments or {}, injected or {})

    return import_extra("mcp.server.lowlevel").Server(
        name, on_list_tools=list_tools, on_call_tool=call_tool
    )


def _schema(tool: BaseTool) -> dict[str, Any]:
    schema = tool.tool_call_schema
    json_schema = dict(schema) if isinstance(schema, dict) else schema.model_json_schema()
    return {
        "type": "object",
        **{key: value for key, value in json_schema.items() if key not in ("title", "description")},
    }


async def _call_tool(
    tool: BaseTool, arguments: dict[str, Any], injected: Mapping[str, Any]
) -> object:
    call = cast(
        "ToolCall", {"type": "tool_call", "name": tool.name, "args": arguments, "id": "mcp"}
    )
    try:
        output = await tool.ainvoke(inject(tool, call, injected))
    except ValidationError as error:
        return to_mcp(describe_validation_error(error), is_error=True)
    except ToolException as error:
        return to_mcp(content_of(error.args[0] if error.args else "the tool failed"), is_error=True)
    except Exception as error:  # the client gets the type of the error, not its text
        logger.warning("the tool %s failed", tool.name, exc_info=True)
        return to_mcp(f"{tool.name} failed ({type(error).__name__})", is_error=True)
    is_error = isinstance(output, ToolMessage) and output.status == "error"
    return to_mcp(content_of(output), is_error=is_error)


# -- access


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _with_token(app: Callable[..., Any], token: str) -> Callable[..., Any]:
    expected = f"Bearer {token}".encode()

    async def guarded(
        scope: dict[str, Any],
        receive: Callable[..., Awaitable[Any]],
        send: Callable[..., Awaitable[Any]],
    ) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        authorization = dict(scope["headers"]).get(b"authorization", b"")
        if hmac.compare_digest(authorization, expected):
            await app(scope, receive, send)
            return
        headers = [(b"www-authenticate", b"Bearer"), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    return guarded
