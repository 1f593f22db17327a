"""`ToolErrorMiddleware`: the message for the model when a tool raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from foldline._run import Run
from foldline.agents._tool_calls import is_program_error
from foldline.agents.middleware.base import AgentMiddleware, Handler
from foldline.agents.requests import ToolCallRequest
from foldline.messages import ToolMessage
from foldline.utils._options import check_options
from foldline.utils._signature import show_defaults
from foldline.workflows._thread_log import ends_run

__all__ = ["ToolErrorMiddleware"]

OnError = Callable[[Exception, ToolCallRequest], Any]


def describe_error(error: Exception, request: ToolCallRequest) -> str:
    """Return the default message for the model about an error."""
    return f"{request.tool_call['name']} failed: {type(error).__name__}: {error}"


class ToolErrorMiddleware(AgentMiddleware):
    """Sends the model a custom message when a tool raises, and lets the agent continue.

    `on_error` takes the error and the request and returns a text, a ToolMessage, or None to leave
    the error to the agent. Without `on_error`, a wrong use of foldline inside the tool is raised.
    """

    @show_defaults
    @check_options()
    def __init__(self, on_error: OnError = describe_error) -> None:
        """Set the function that handles errors."""
        self.on_error = on_error

    async def _around_tool(self, request: ToolCallRequest, handler: Handler, run: Run) -> object:
        try:
            return await handler(request)
        except Exception as error:
            is_default = self.on_error is describe_error
            if ends_run(error) or (is_default and is_program_error(error)):
                raise
            answer = await run.io.call(self.on_error, error, request)
            if answer is None:
                raise
            if isinstance(answer, ToolMessage):
                return answer
            call = request.tool_call
            return ToolMessage(
                str(answer), tool_call_id=call["id"] or "", name=call["name"], status="error"
            )
