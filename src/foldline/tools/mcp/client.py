"""Tools of an MCP server as tools of foldline, sync and async.

The official client is async and its session belongs to one event loop, so the session runs on a private loop, which
also runs the sync and async calls from any thread or loop. If a server dies, its active calls fail with a typed error
and the next call connects again: a call that may have run is never sent twice.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Self

from pydantic import PrivateAttr, ValidationError

from foldline._io import ASYNC, BLOCKING, IO, OutOfTime, PrivateLoop, mutex
from foldline._io.drive import drive
from foldline.exceptions import FoldlineError, ToolException, UsageError
from foldline.tools.base import BaseTool, HandleToolError, ResponseFormat, tools_by_name
from foldline.tools.errors import ToolTimeoutError
from foldline.tools.mcp._connect import connect, read_address
from foldline.tools.mcp._content import from_mcp
from foldline.tools.mcp._package import import_extra
from foldline.tracers._trace_out import current_trace_headers
from foldline.utils._short_repr import short_repr
from foldline.utils.strings import suggestion

__all__ = ["MCPClient", "MCPConnectionError", "MCPTool", "aload_mcp_tools", "load_mcp_tools"]

Server = str | Sequence[str] | Mapping[str, Any]

CONNECTION_CLOSED_CODE = -32000
TIMEOUT_CODE = -32001
MAX_PAGES = 1000


class MCPConnectionError(FoldlineError):
    """An MCP server cannot be reached or closed the connection; `server` is its name."""

    def __init__(self, message: str, *, server: str = "") -> None:
        self.server = server
        super().__init__(f"{server}: {message}" if server else message)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (str(self),), self.__dict__)


class MCPClient:
    """A connection to one MCP server, opened on first use and closed by `close` or a `with` block.

    ```python {test="skip: needs a server"}
    with MCPClient(["python", "server.py"]) as client:
        print([tool.name for tool in client.tools()])
    ```
    """

    __repr__ = short_repr

    def __init__(
        self,
        server: Server,
        *,
        prefix: str | None = None,
        connect_timeout: float = 30.0,
        timeout: float | None = 300.0,
        **options: object,
    ) -> None:
        """Take an address: a URL, a command as a list of words, or a dict with "url" or "command".

        `prefix` is put before the names of its tools; `timeout` bounds each request; `options` are fields of the
        tools, and an unknown one raises `UsageError`.
        """
        import_extra("mcp")
        _check_options(options, connect_timeout=connect_timeout, timeout=timeout)
        self._address = read_address(server)
        self._prefix = prefix
        self._timeout = timeout
        self._options = options
        # Holds the address but not the client: the session must not keep the client alive.
        self._open = partial(connect, self._address, connect_timeout, timeout)
        self._connect_timeout = connect_timeout
        self._lock = mutex()
        self._loop: PrivateLoop | None = None
        self._finalizer: Any = None

    @property
    def server(self) -> str:
        """The name of the server in errors."""
        return self._address.name

    # -- tools

    def tools(self) -> list[BaseTool]:
        """Return the server's tools."""
        return drive(self._tools(BLOCKING))

    async def atools(self) -> list[BaseTool]:
        """Return the server's tools."""
        return await self._tools(ASYNC)

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401  an object of the mcp package, which is optional
        """Call a tool by the server's name; return the result of the official package."""
        return drive(self._call(BLOCKING, name, arguments))

    async def acall(self, name: str, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401  an object of the mcp package, which is optional
        """Call a tool by the server's name; return the result of the official package."""
        return await self._call(ASYNC, name, arguments)

    async def _tools(self, io: IO) -> list[BaseTool]:
        descriptions: list[Any] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await self._page(io, cursor)
            descriptions += page.tools
            if not page.next_cursor or page.next_cursor == cursor:
                break
            cursor = page.next_cursor
        else:
            raise ToolException(f"{self.server} lists its tools on over {MAX_PAGES} pages")
        tools: list[BaseTool] = [self._tool(description) for description in descriptions]
        tools_by_name(tools)
        return tools

    async def _page(self, io: IO, cursor: str | None) -> Any:  # noqa: ANN401  an object of the mcp package, which is optional
        return await self._use(
            io, lambda client: client.list_tools(cursor=cursor, cache_mode="bypass")
        )

    def _tool(self, description: Any) -> MCPTool:  # noqa: ANN401  an object of the mcp package, which is optional
        annotations = description.annotations
        annotation_fields = (
            {} if annotations is None else annotations.model_dump(mode="json", exclude_none=True)
        )
        name = f"{self._prefix}_{description.name}" if self._prefix else description.name
        fields: dict[str, Any] = {
            "name": name,
            "description": description.description or description.title or description.name,
            "args_schema": dict(description.input_schema),
            "metadata": {
                "mcp_server": self.server,
                **({"mcp_annotations": annotation_fields} if annotation_fields else {}),
            },
            **self._options,
        }
        tool = MCPTool(**fields)
        tool._client, tool._server_name = self, description.name
        return tool

    async def _call(self, io: IO, name: str, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401  an object of the mcp package, which is optional
        # On this side of the session: its loop does not know whose call this is.
        meta = current_trace_headers() or None
        return await self._use(
            io, lambda client: client.call_tool(name, dict(arguments), meta=meta)
        )

    # -- the session

    async def _use(self, io: IO, body: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:  # noqa: ANN401  an object of the mcp package, which is optional
        """Run a body with the session, on its loop."""
        loop = self._running_loop()
        failures = (
            import_extra("mcp").MCPError,
            OSError,
            OutOfTime,
            ExceptionGroup,
            import_extra("httpx2").HTTPError,
        )

        async def read(client: Any) -> Any:  # noqa: ANN401  objects of the mcp package, which is optional
            try:
                return await body(client)
            except (ValidationError, RuntimeError) as error:  # what the package raises for it
                raise ToolException(
                    f"{self.server} sent an answer that is not valid: {_describe(error)}"
                ) from error

        try:
            return await loop.use(
                self._open, read, blocking=io.blocking, enter_seconds=self._connect_timeout
            )
        except failures as error:
            raise self._convert_error(error, loop) from error

    def _running_loop(self) -> PrivateLoop:
        with self._lock:
            if self._loop is None or not self._loop.is_running:
                if self._finalizer is not None:
                    self._finalizer.detach()
                self._loop = PrivateLoop()
                # Closes the loop at exit, or when the last tool is collected, if `close` is not called.
                self._finalizer = weakref.finalize(self, self._loop.close)
            return self._loop

    def _convert_error(self, error: BaseException, loop: PrivateLoop) -> FoldlineError:
        cause = _first(error)
        code = getattr(getattr(cause, "error", None), "code", None)
        if code == TIMEOUT_CODE:
            return ToolTimeoutError(f"{self.server} did not answer within {self._timeout:g} s")
        if code is not None and code != CONNECTION_CLOSED_CODE:
            return ToolException(f"{self.server} refused: {cause}")
        with self._lock:  # the next call connects again
            if self._loop is loop:
                self._loop = None
                if (
                    self._finalizer is not None
                ):  # it would wait for the end of a server that is slow to end
                    self._finalizer.detach()
        loop.close(patience=0)
        is_closed = code == CONNECTION_CLOSED_CODE or isinstance(cause, ConnectionAbortedError)
        problem = "went away" if is_closed else "cannot be reached"
        return MCPConnectionError(
            f"the MCP server {problem}: {str(cause) or type(cause).__name__}", server=self.server
        )

    def close(self) -> None:
        """End the session, and the process of a server that this client started."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.close()

    async def aclose(self) -> None:
        """End the session, and the process of a server that this client started."""
        await ASYNC.call(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class MCPTool(BaseTool):
    """A tool of an MCP server; made by `MCPClient.tools` and `load_mcp_tools`.

    An error of the server becomes a message with status "error"; structured content is in the artifact.
    """

    handle_tool_error: HandleToolError = True
    response_format: ResponseFormat = "content_and_artifact"

    _client: MCPClient | None = PrivateAttr(default=None)
    _server_name: str = PrivateAttr(default="")

    def _run(self, **kwargs: Any) -> Any:  # noqa: ANN401  an object of the mcp package, which is optional
        return drive(self._call_server(BLOCKING, kwargs))

    async def _arun(self, **kwargs: Any) -> Any:  # noqa: ANN401  an object of the mcp package, which is optional
        return await self._call_server(ASYNC, kwargs)

    async def _call_server(self, io: IO, arguments: dict[str, Any]) -> object:
        if self._client is None:
            raise UsageError(f"{self.name} has no MCP client: get it from MCPClient.tools()")
        result = await self._client._call(io, self._server_name, arguments)
        content = from_mcp(result)
        if result.is_error:
            raise ToolException(content)
        structured = result.structured_content
        return content, None if structured is None else {"structured_content": structured}


def _check_options(options: dict[str, Any], **seconds: Any) -> None:
    """Raise `UsageError` for an option that no tool has, or a value that none takes."""
    for name, value in seconds.items():
        if value is not None and not (isinstance(value, int | float) and value > 0):
            raise UsageError(
                f"MCPClient: {name} must be a number of seconds above 0, not {value!r}"
            )
    known = MCPTool.model_fields.keys() - {"name", "description", "args_schema"}
    for name in options:
        if name not in known:
            near = suggestion(name, [*known, *seconds, "prefix"])
            raise UsageError(
                f"MCPClient has no option {name!r}{near}: it takes prefix, {', '.join(seconds)} and "
                f"these fields of its tools: {', '.join(sorted(known))}"
            )
    try:
        MCPTool(name="tool", description="a tool", args_schema={"type": "object"}, **options)
    except ValidationError as error:
        raise UsageError(f"MCPClient: {_describe(error)}") from error


def _describe(error: ValidationError | RuntimeError) -> str:
    if isinstance(error, RuntimeError):
        return str(error)
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def load_mcp_tools(server: Server | Mapping[str, Server], **options: object) -> list[BaseTool]:
    """Return the tools of one server, or of several by name (`{"math": ["python", "math.py"], "web": "https://…"}`).

    With several servers, the names of the tools begin with the name of their server. Connections stay open while the
    tools are in use.
    """
    return [tool for client in _clients(server, options) for tool in client.tools()]


async def aload_mcp_tools(
    server: Server | Mapping[str, Server], **options: object
) -> list[BaseTool]:
    """Return the tools of one server, or of several by name."""
    return [tool for client in _clients(server, options) for tool in await client.atools()]


def _clients(
    server: str | Sequence[str] | Mapping[str, Any], options: dict[str, Any]
) -> list[MCPClient]:
    if isinstance(server, Mapping) and not {"url", "command"} & server.keys():
        servers = server.get("mcpServers", server)
        return [
            MCPClient(address, **{"prefix": name, **options}) for name, address in servers.items()
        ]
    return [MCPClient(server, **options)]
