"""What the model or a tool gave to the middleware around it: kept when the middleware stops for a person.

The middleware is called again when the run goes on; its handler then gives what it gave before, and the model or the
tool is not asked a second time. A request that differs from the kept one is another call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar

from foldline.agents.context import AgentContext
from foldline.workflows.journal import Journal
from foldline.workflows.scope import current_scope
from foldline.workflows.steps import digest_of

__all__ = ["HandlerCalls", "HandlerForm"]

Request = TypeVar("Request")
Asked = TypeVar("Asked", contravariant=True)
Response = TypeVar("Response")


class HandlerForm(Protocol[Asked, Response]):
    """How the calls of a handler are written down."""

    def describe(self, request: Asked) -> object:
        """Return what tells one request from another."""

    def encode(self, response: Response) -> object:
        """Return a response as JSON; raise SchemaError where that is not possible."""

    def decode(self, packed: Any) -> Response:  # noqa: ANN401  JSON, which the form that wrote it knows
        """Return the response that was kept."""


class HandlerCalls(Generic[Request, Response]):
    """The calls that one middleware chain makes of its innermost handler. Made inside the step's scope."""

    def __init__(self, context: AgentContext, form: HandlerForm[Request, Response]) -> None:
        self.context = context
        self.form = form
        self.is_resumed = bool(context.thread.answers)
        scope = current_scope.get()
        self._journal: Journal | None = None if scope is None else scope.journal
        self._count = 0
        self._new: list[tuple[str, Request, Response]] = []

    async def call(
        self, request: Request, body: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        """Return what the handler gave for this request before the person was asked, or call it."""
        if self._journal is not None and self.is_resumed:
            await self._journal.load(self.context.io)
            record = self._journal.steps.get(f"handler#{self._count}")
            if record is not None and record.get("args") == self._digest(request):
                self._count += 1
                return self.form.decode(record.get("value"))
        response = await body(request)
        self._new.append((f"handler#{self._count}", request, response))
        self._count += 1
        return response

    async def keep(self) -> None:
        """Write down what was given: the middleware stops for a person now."""
        if self._journal is None or not self._new:
            return
        io = self.context.io
        await self._journal.load(io)
        for place, request, response in self._new:
            value = self.form.encode(response)
            await self._journal.write(
                io, "step", place=place, args=self._digest(request), value=value
            )

    def _digest(self, request: Request) -> str:
        return digest_of((self.form.describe(request),), {})
