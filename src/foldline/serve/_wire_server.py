"""`Server` and `WireCall`: what all wires share: authentication, the choice of the app, starting and following runs."""

from __future__ import annotations

import logging
from base64 import b64decode
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

from starlette.requests import Request
from starlette.responses import Response

from foldline._items.base import BaseStore
from foldline.serve._answers import AnyRun, claims_of, earlier_run, repeated_run
from foldline.serve._forwarded import FORWARDED, is_loopback, is_unix_socket
from foldline.serve._idempotency import HEADER, RequestKeys
from foldline.serve._json_body import Body, body_of, read_bytes
from foldline.serve._json_object import JsonObject
from foldline.serve._keys import Caller, KeyStore
from foldline.serve._live_runs import LiveRun
from foldline.serve._log.answers import Claim
from foldline.serve._log.events import EncodedEvent, Events, decode_event, method_of
from foldline.serve._log.records import RunRecord
from foldline.serve._log.requests import Repeat
from foldline.serve._request_facts import REQUEST
from foldline.serve._run_host import PING, RunHost
from foldline.serve._sse import SendLimit, SseResponse, cancel_on_disconnect, dump
from foldline.serve.apps import RunRequest, ServedApp
from foldline.serve.errors import ServeError
from foldline.serve.settings import ServeSettings
from foldline.utils.strings import suggestion
from foldline.utils.uuid import uuid7

__all__ = ["ClientLeftError", "Handler", "JsonResponse", "Server", "Wire", "WireCall"]

logger = logging.getLogger("foldline.serve")

LOCAL_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})


class Wire(Protocol):
    """A protocol of clients: its name, and how it encodes errors."""

    name: str
    cancels: bool
    """Whether a client that disconnects ends its run, unless the app decides."""

    def error_body(self, error: ServeError) -> JsonObject:
        """Return the JSON of an error."""


class ClientLeftError(ServeError):
    """The client disconnected: what is left of its request is not done."""

    def __init__(self) -> None:
        super().__init__("invalid_request", "the client disconnected")


class JsonResponse(Response):
    """A JSON response, encoded like the events of streams."""

    media_type = "application/json"

    def __init__(
        self,
        content: object = None,
        status_code: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        # A browser must not take text of an app for a page.
        super().__init__(
            content, status_code, {"x-content-type-options": "nosniff", **(headers or {})}
        )

    def render(self, content: object) -> bytes:
        """Encode the content."""
        return dump(content)


@dataclass(slots=True)
class WireCall:
    """One request to a wire."""

    server: Server
    wire: Wire
    request: Request
    caller: Caller
    request_keys: RequestKeys | None = field(init=False)
    """None if the request may not be repeated."""

    def __post_init__(self) -> None:
        key = self.request.headers.get(HEADER)
        self.request_keys = RequestKeys(key, self.request.url.path) if key is not None else None

    async def body(self, *, may_be_empty: bool = False) -> Body:
        """Read the JSON of the request."""
        return body_of(await self.bytes(), may_be_empty=may_be_empty)

    async def bytes(self) -> bytes:
        """Read the body of the request."""
        data = await read_bytes(self.request, self.server.settings.max_body)
        if self.request_keys is not None:
            self.request_keys.add_body(data)
        return data

    def path(self, name: str) -> str:
        """Return a parameter of the path."""
        return str(self.request.path_params[name])

    def app(self, name: str | None) -> ServedApp:
        """Return an app by name; raise `ServeError` where the caller may not use it."""
        app = self.server.app(name)
        if self.caller.key is not None and not self.caller.key.allows(app.name):
            raise ServeError("permission", f"this key may not use {app.name!r}")
        return app

    async def start(
        self,
        app: ServedApp,
        request: RunRequest,
        *,
        thread: str | None = None,
        run_id: str | None = None,
        logged_request: JsonObject | None = None,
    ) -> AnyRun:
        """Start a run; return that of an earlier request with the same `Idempotency-Key`."""
        run = await self._start(
            app, request, thread=thread, run_id=run_id, logged_request=logged_request
        )
        if isinstance(run.refusal, Repeat):
            return await repeated_run(self.server.host, self.caller, run.refusal)
        return run

    async def _start(
        self,
        app: ServedApp,
        request: RunRequest,
        *,
        thread: str | None = None,
        run_id: str | None = None,
        logged_request: JsonObject | None = None,
        resumes: RunRecord | None = None,
        claims: Sequence[Claim] = (),
    ) -> LiveRun:
        run_id = run_id or str(uuid7())
        if app.has_threads:
            # A run without a thread gets one, so that its questions can be answered.
            thread = thread if thread is not None else run_id
            request.thread = thread_key(self.caller, thread)
        return await self.server.host.start(
            self.caller,
            app,
            request,
            wire=self.wire.name,
            thread=thread,
            run_id=run_id,
            logged_request=logged_request,
            resumes=resumes,
            claims=claims,
            request_key=self.request_keys.next() if self.request_keys is not None else None,
        )

    async def resume(
        self,
        app: ServedApp,
        request: RunRequest,
        asking_run: RunRecord,
        *,
        logged_request: JsonObject | None = None,
    ) -> AnyRun:
        """Start the run that continues another; return that of an earlier request with equal answers."""
        claims = claims_of(asking_run, request)
        run = await self._start(
            app,
            request,
            thread=asking_run.thread,
            resumes=asking_run,
            claims=claims,
            logged_request=logged_request,
        )
        if run.refusal is None:
            return run
        if isinstance(run.refusal, Repeat):
            return await repeated_run(self.server.host, self.caller, run.refusal)
        return await earlier_run(self.server.host, self.caller, claims, run.refusal)

    def cancels(self, app: ServedApp) -> bool:
        """Whether the run ends when the client disconnects."""
        if app.on_disconnect is not None:
            return app.on_disconnect == "cancel"
        return self.wire.cancels

    @asynccontextmanager
    async def cancel_on_leave(self) -> AsyncGenerator[None, None]:
        """Cancel the body and raise `ServeError` when the client disconnects."""
        async with cancel_on_disconnect(self.request.receive) as watch:
            yield
        if watch.has_fired:
            raise ClientLeftError

    async def wait(self, app: ServedApp, *runs: AnyRun) -> None:
        """Wait for the end of runs; where the client disconnects, stop them if they are to be cancelled."""
        async with cancel_on_disconnect(self.request.receive) as watch:
            for run in runs:
                await run.wait_for_end()
        if watch.has_fired:
            await self._leave(app, runs)
            raise ClientLeftError

    def on_leave(self, app: ServedApp, *runs: AnyRun) -> Callable[[], Awaitable[None]]:
        """Return the callback for a client that disconnects from a stream."""

        async def leave() -> None:
            await self._leave(app, runs)

        return leave

    async def _leave(self, app: ServedApp, runs: Sequence[AnyRun]) -> None:
        if self.cancels(app):
            await self.stop(*runs)

    async def stop(self, *runs: AnyRun) -> None:
        """End runs that are under way."""
        for run in runs:
            if not run.is_ending:
                await self.server.host.stop(run.info)

    async def open_stream(self, run: AnyRun, app: ServedApp) -> AsyncGenerator[Events, None]:
        """Return the events of a run once it has content; raise its error where it fails before that.

        So a failure before the first content is an HTTP error, not a stream.
        """
        first_events: Events = []
        async with (
            cancel_on_disconnect(self.request.receive) as watch,
            aclosing(run.follow(0, PING)) as batches,
        ):
            async for batch in batches:
                first_events += batch
                if _has_content(batch):
                    break
        if watch.has_fired:
            await self._leave(app, [run])
            raise ClientLeftError
        if run.info.is_over and run.info.status == "error" and not _has_content(first_events):
            raise error_of(run.info)
        return run.follow(
            0, PING
        )  # from the start: a stream that began with these would cost all events a step


def _is_content(event: EncodedEvent) -> bool:
    method = method_of(event)
    if method == b"messages":
        return bool(decode_event(event)["params"]["data"]["event"] != "message-start")
    return method not in (b"run", b"lifecycle", b"values", b"checkpoints")


def _has_content(events: Events) -> bool:
    return any(_is_content(event) for _, event in events)


def error_of(info: RunRecord) -> ServeError:
    """Return the error for a run that did not succeed."""
    error = _error_of(info)
    error.run_id = info.id
    return error


def _error_of(info: RunRecord) -> ServeError:
    if info.status == "error":
        return ServeError.from_json((info.result or {}).get("error") or {})
    if info.status == "interrupted":
        return ServeError("unavailable", "the server went away while the run was under way", 1.0)
    if info.status == "stopped":
        return ServeError("conflict", "the run was stopped", code="stopped")
    if info.status == "waiting":
        return ServeError(
            "conflict",
            f"the app asks a person, which this wire does not support: answer at POST /runs/{info.id}/resume",
            code="interrupted",
        )
    return ServeError("internal", "the run ended without saying how")


def thread_key(caller: Caller, thread: str) -> str:
    """Return a thread's name for the checkpointer, which differs for each owner."""
    return f"{caller.owner}:{thread}" if caller.owner else thread


Handler = Callable[[WireCall], Awaitable[Response]]


class Server:
    """The apps, the runs and the keys of one server."""

    def __init__(
        self,
        apps: dict[str, ServedApp],
        settings: ServeSettings,
        host: RunHost,
        keys: KeyStore,
        store: BaseStore | None = None,
    ) -> None:
        self.apps = apps
        self.store = store
        """What the apps share beside their threads, and clients of LangGraph read and write."""
        self.settings = settings
        self.host = host
        self.keys = keys
        self._streams = 0

    def app(self, name: str | None) -> ServedApp:
        """Return an app by name; without a name, the only one."""
        if name is None:
            chat_apps = [app for app in self.apps.values() if app.kind != "embeddings"]
            if len(chat_apps) == 1:
                return chat_apps[0]
            raise ServeError(
                "invalid_request", f"say which app: one of {', '.join(self.apps)[:400]}"
            )
        app = self.apps.get(name) or self._by_short_name(name)
        if app is None:
            near = suggestion(name[:80], list(self.apps))
            raise ServeError("not_found", f"there is no app or model {name[:80]!r}{near}")
        return app

    def _by_short_name(self, name: str) -> ServedApp | None:
        """Return `openai:gpt-5` for `gpt-5`, where no other model has that name."""
        matches = [app for key, app in self.apps.items() if key.partition(":")[2] == name]
        return matches[0] if len(matches) == 1 else None

    def endpoint(self, wire: Wire, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """Return a Starlette endpoint that authenticates the caller and encodes errors as the wire does."""

        async def call(request: Request) -> Response:
            facts = REQUEST.get()
            if facts is not None:
                facts.wire = wire.name
            try:
                if not self.host.is_open:  # mounted into an app that does not run our lifespan
                    await self.host.open()
                _check_address(request)
                caller = await self.caller(request)
                if facts is not None and caller.key is not None:
                    facts.key = caller.key.name
                response = await handler(WireCall(self, wire, request, caller))
                if isinstance(response, SseResponse):
                    await self._admit(response)
                return response
            except ServeError as error:
                return self.error_response(wire, error)
            except RecursionError:
                return self.error_response(
                    wire, ServeError("invalid_request", "the request nests too deep")
                )
            except Exception:
                logger.exception("%s %s failed", request.method, request.url.path)
                return self.error_response(
                    wire, ServeError("internal", "the server failed: see its log")
                )

        return call

    async def _admit(self, stream: SseResponse) -> None:
        """Count a stream; refuse it where too many are open."""
        if self._streams >= self.settings.max_streams:
            await stream.discard()
            raise ServeError("overloaded", "the server has too many streams open", 1.0)
        self._streams += 1
        stream.on_close = self._note_closed
        stream.send_limit = SendLimit(self.host.timers, self.settings.send_timeout)

    @property
    def open_streams(self) -> int:
        """The number of open streams."""
        return self._streams

    def _note_closed(self) -> None:
        self._streams -= 1

    def error_response(self, wire: Wire, error: ServeError) -> Response:
        """Return an error as the wire encodes it."""
        headers = dict(error.headers)
        if error.kind == "authentication":
            headers["www-authenticate"] = "Bearer"
        return JsonResponse(wire.error_body(error), status_code=error.status, headers=headers)

    # -- who calls

    async def caller(self, request: Request) -> Caller:
        """Return the caller of a request; raise `ServeError` where it is refused."""
        keys = self.keys
        has_keys = keys.has_keys() if keys.is_fresh else await self.host.call(keys.has_keys)
        if not has_keys:
            return self._without_key(request)
        text = _key_text(request)
        if not text:
            raise ServeError(
                "authentication", "this server needs a key: Authorization: Bearer fl_…"
            )
        key = keys.cached_key(text) or await self.host.call(keys.find, text)
        if key is None:
            raise ServeError("authentication", "the key is unknown here, or was removed")
        return Caller(key.id, key)

    def _without_key(self, request: Request) -> Caller:
        if not self.settings.no_auth:
            self.check_local(request)
        return Caller("")

    def check_local(self, request: Request) -> None:
        """Refuse requests from other machines, for other host names, and from pages of other origins."""
        if not self._is_of_this_machine(request):
            raise ServeError(
                "authentication",
                "this server has no keys and serves its own machine only: `foldline serve keys add NAME`",
            )
        host = request.headers.get("host", "")
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if name not in LOCAL_NAMES and name not in self.settings.allowed_hosts:
            raise ServeError(
                "permission", "a server without keys answers to localhost only: add a key"
            )
        origin = request.headers.get("origin")
        if origin and not self._is_allowed(origin, host):
            raise ServeError(
                "permission", "pages of other origins may not call a server without keys"
            )
        if not origin and request.headers.get("sec-fetch-site") == "cross-site":
            raise ServeError(
                "permission", "pages of other sites may not call a server without keys"
            )

    def _is_of_this_machine(self, request: Request) -> bool:
        is_forwarded = not FORWARDED.isdisjoint(name for name, _ in request.scope["headers"])
        if is_forwarded and not self.settings.trusted_proxies:
            return False  # it came through a proxy on this machine, from wherever
        if request.client is None:
            return is_unix_socket(request.scope)
        return is_loopback(request.client.host)

    def _is_allowed(self, origin: str, host: str) -> bool:
        origins = self.settings.cors_origins
        return (
            origin in origins or "*" in origins or origin in (f"http://{host}", f"https://{host}")
        )


def _check_address(request: Request) -> None:
    """Refuse NUL in the path and in the query: no id and no name holds it, and PostgreSQL does not take it."""
    texts = [*request.path_params.values(), *request.query_params.values()]
    if any("\x00" in str(text) for text in texts):
        raise ServeError("invalid_request", "the path and the query must not hold NUL")


def _key_text(request: Request) -> str:
    header = request.headers.get("authorization", "")
    scheme, _, text = header.partition(" ")
    if scheme.lower() == "bearer" and text.strip():
        return text.strip()
    if scheme.lower() == "basic":
        return _password(text)
    return request.headers.get("x-api-key", "").strip()


def _password(text: str) -> str:
    """Return the password of HTTP basic authentication, in which a browser sends a key."""
    try:
        return b64decode(text.strip(), validate=True).decode().partition(":")[2].strip()
    except ValueError:
        return ""
