"""`foldline studio`: the web page over traces, playground, threads and datasets."""

from __future__ import annotations

import os
import secrets
import socket
import webbrowser
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from foldline._cli import places
from foldline._cli.choose import choose_model, choose_tool, own_object
from foldline._cli.terminal import echo, note
from foldline.exceptions import MissingExtraError, UsageError

if TYPE_CHECKING:
    from foldline.language_models.base_chat_model import BaseChatModel

__all__ = ["studio"]

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def studio(
    apps: Sequence[str],
    *,
    host: str,
    port: int,
    file: str | None,
    models: Sequence[str],
    tools: Sequence[str],
    open_browser: bool,
) -> int:
    """Serve the page until interrupted."""
    try:
        import uvicorn

        from foldline.studio import StudioSettings, create_app
    except ImportError as error:
        raise MissingExtraError('the studio needs: pip install "foldline[studio]"') from error
    token = os.environ.get("FOLDLINE_STUDIO_KEY") or secrets.token_urlsafe(24)
    if host not in LOOPBACK and not os.environ.get("FOLDLINE_STUDIO_KEY"):
        raise UsageError(
            f"--host {host}: others could reach the studio: set FOLDLINE_STUDIO_KEY to a long secret of your own first"
        )
    tool_objects = [choose_tool(place) for place in tools]
    settings = StudioSettings(
        traces=places.traces_place(file),
        token=token,
        hosts=LOOPBACK if host in LOOPBACK else (*LOOPBACK, host, *_names(host)),
        models=tuple(models),
        tools={tool.name: tool for tool in tool_objects},
        apps=dict(_app(place) for place in apps),
        make_model=_model_maker(models),
    )
    server = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server.bind((host, port))
    except OSError as error:
        server.close()
        raise UsageError(
            f"--port {port}: cannot listen there: {error.strerror}; try another, or 0"
        ) from error
    shown_host = f"[{host}]" if ":" in host else host
    address = f"http://{shown_host}:{server.getsockname()[1]}/?token={token}"
    echo(address)
    note(f"(the studio shows {places.place_name(settings.traces)}; Ctrl-C ends)")
    if open_browser:
        webbrowser.open(address)
    config = uvicorn.Config(
        create_app(settings), log_level="warning", access_log=False, timeout_graceful_shutdown=2
    )
    uvicorn.Server(config).run(sockets=[server])
    return 0


def _names(host: str) -> tuple[str, ...]:
    """Return the names of this machine, where the studio listens on all addresses."""
    return (socket.gethostname(), socket.getfqdn()) if host in ("0.0.0.0", "::") else ()


def _app(place: str) -> tuple[str, Any]:
    name, equals, path = place.partition("=")
    if not equals:
        name, path = place.rpartition(":")[2], place
    app = own_object(path, "")
    if not hasattr(app, "get_state_history"):
        raise UsageError(
            f"{path} is not an agent or a graph but a {type(app).__name__}: "
            "name what create_agent or a graph's compile returns"
        )
    return name, app


def _model_maker(
    models: Sequence[str],
) -> Callable[[str, dict[str, Any]], BaseChatModel] | None:
    """Return a function that makes the models of the command line; None where it names none."""
    if not models:
        return None

    def make(name: str, parameters: dict[str, Any]) -> BaseChatModel:
        if name not in models:
            raise UsageError(
                f"this studio has no model {name!r}: choose one of {', '.join(models)}"
            )
        return choose_model(name, parameters)

    return make
