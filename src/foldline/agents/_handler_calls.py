"""Stores the results of a middleware's handler calls when the middleware interrupts the run for a person.

When the run resumes, the middleware is called again; its handler then returns the stored result, and the model or tool
is not called a second time. A request that differs from the stored one is a new call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar

from foldline.agents._run_context import AgentContext
from foldline.workflows._flow_scope import current_scope
from foldline.workflows._journal import Journal
from foldline.workflows.steps import digest_of

__all__ = ["HandlerCalls", "HandlerForm"]

Request = TypeVar("Request")
RequestIn = TypeVar("RequestIn", contravariant=True)
Response = TypeVar("Response")


class HandlerForm(Protocol[RequestIn, Response]):
    """How the calls of a handler are stored."""

    def describe(self, request: RequestIn) -> object:
        """Return what identifies a request."""

    def encode(self, response: Response) -> object:
        """Return a response as JSON; raise `SchemaError` if that is not possible."""

    def decode(self, packed: Any) -> Response:  # noqa: ANN401  JSON as `encode` returned it
        """Return the stored response."""


class HandlerCalls(Generic[Request, Response]):
    """The calls of one middleware chain to its innermost handler. Created inside the step's scope."""

    def __init__(self, context: AgentContext, form: HandlerForm[Request, Response]) -> None:
        self.context = context
        self.form = form
        self.is_resumed: bool = bool(context.thread.answers)
        scope = current_scope.get()
        self._journal: Journal | None = None if scope is None else scope.journal
        self._count = 0
        self._new_calls: list[tuple[str, Request, Response]] = []

    async def call(
        self, request: Request, body: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        """Return the handler's stored result for this request, or call the handler."""
        if self._journal is not None and self.is_resumed:
            await self._journal.load(self.context.io)
            record = self._journal.steps.get(f"handler#{self._count}")
            if record is not None and record.get("args") == self._digest(request):
                self._count += 1
                return self.form.decode(record.get("value"))
        response = await body(request)
        self._new_calls.append((f"handler#{self._count}", request, response))
        self._count += 1
        return response

    async def keep(self) -> None:
        """Store the results: the middleware interrupts the run now."""
        if self._journal is None or not self._new_calls:
            return
        io = self.context.io
        await self._journal.load(io)
        for place, request, response in self._new_calls:
            value = self.form.encode(response)
            await self._journal.write(
                io, "step", place=place, args=self._digest(request), value=value
            )

    def _digest(self, request: Request) -> str:
        return digest_of((self.form.describe(request),), {})
