"""Connects to an MCP server: a command with stdio pipes, or a URL with streamable HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

from foldline.exceptions import UsageError
from foldline.tools.mcp._package import import_extra

READ_SECONDS = 300.0
"""How long an open HTTP stream may be silent."""


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a server; either `command` or `url` is set."""

    command: tuple[str, ...] = ()
    url: str = ""
    env: Mapping[str, str] | None = None
    cwd: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # may contain tokens

    @property
    def name(self) -> str:
        """The name of the server in errors, without secrets."""
        if self.command:
            words = [word for word in self.command[1:] if word[0] != "-" and word.isprintable()]
            return PurePath(words[0] if words else self.command[0]).name
        parts = urlsplit(self.url)
        return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)


def read_address(server: str | Sequence[str] | Mapping[str, Any]) -> Address:
    """Parse an address: a URL, a command as a list, or a dict with `url` or `command` as other programs write it."""
    if isinstance(server, Address):
        return server
    if isinstance(server, str):
        return _http(server, {})
    if not isinstance(server, Mapping):
        return Address(command=_command(list(server)))
    unknown = server.keys() - {
        "command",
        "args",
        "env",
        "cwd",
        "url",
        "headers",
        "transport",
        "type",
    }
    if unknown:
        raise UsageError(f"an MCP server has no setting {sorted(unknown)[0]!r}")
    if "url" in server:
        return _http(server["url"], server.get("headers") or {})
    if "command" in server:
        return Address(
            command=_command([server["command"], *server.get("args", ())]),
            env=server.get("env"),
            cwd=server.get("cwd"),
        )
    raise UsageError('an MCP server needs a "url" or a "command"')


def _command(words: list[Any]) -> tuple[str, ...]:
    if not words or not all(isinstance(word, str) and word for word in words):
        raise UsageError(
            f"the command of an MCP server must be a list of words, not {words!r:.200}"
        )
    return tuple(words)


def _http(url: object, headers: Mapping[str, str]) -> Address:
    if (
        not isinstance(url, str)
        or urlsplit(url).scheme not in ("http", "https")
        or not urlsplit(url).hostname
    ):
        raise UsageError(
            f"{url!r:.200} is not the address of an MCP server: pass http://… or https://…, or a list of words"
        )
    return Address(url=url, headers=headers)


@asynccontextmanager
async def connect(
    address: Address, seconds: float, call_seconds: float | None
) -> AsyncGenerator[Any, None]:
    """Connect; yield a client of the official package, each of whose requests may take `call_seconds`."""
    client = import_extra("mcp").Client
    async with AsyncExitStack() as stack:
        if address.command:
            command, *args = address.command
            env = None if address.env is None else dict(address.env)
            transport = import_extra("mcp").StdioServerParameters(
                command=command, args=args, env=env, cwd=address.cwd
            )
        else:
            httpx = import_extra("httpx2")
            # Redirects and environment settings must not send the headers to other hosts.
            http = httpx.AsyncClient(
                headers=dict(address.headers),
                timeout=httpx.Timeout(seconds, read=READ_SECONDS),
                follow_redirects=False,
                trust_env=False,
            )
            await stack.enter_async_context(http)
            open_http = import_extra("mcp.client.streamable_http").streamable_http_client
            transport = open_http(address.url, http_client=http)
        yield await stack.enter_async_context(client(transport, read_timeout_seconds=call_seconds))
