"""`TodoListMiddleware`: a tool with which the model keeps a to-do list in the agent's state."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from typing_extensions import TypedDict

from foldline._run import Run
from foldline.agents.middleware.base import AgentMiddleware, ModelHandler
from foldline.agents.requests import ModelRequest, ModelResponse
from foldline.agents.state import AgentState, OmitFromSchema
from foldline.messages import SystemMessage, ToolMessage
from foldline.tools import InjectedToolCallId, tool
from foldline.utils._options import check_options
from foldline.workflows.interrupts import Command

__all__ = ["PlanningState", "Todo", "TodoListMiddleware"]

TOOL_NAME = "write_todos"
TOOL_DESCRIPTION = (
    "Write the whole list of what is to be done, each with its status: pending, in_progress or completed. Use it for "
    "tasks of three or more steps; keep one entry in progress, and update the list as soon as a step is done."
)
SYSTEM_PROMPT = (
    f"For a task of several steps keep a list with the tool `{TOOL_NAME}`: write it before you begin, mark each step "
    "as completed when it is done, and change the list where you learn more. Do not use it for simple requests."
)


class Todo(TypedDict):
    """An entry of the to-do list."""

    content: str
    status: Literal["pending", "in_progress", "completed"]


class PlanningState(AgentState):
    """The state of an agent with a to-do list."""

    todos: NotRequired[Annotated[list[Todo], OmitFromSchema(input=True, output=False)]]


class TodoListMiddleware(AgentMiddleware):
    """Gives the model a tool for a to-do list, which is in the state as `todos`."""

    state_schema = PlanningState

    @check_options()
    def __init__(
        self, *, system_prompt: str = SYSTEM_PROMPT, tool_description: str = TOOL_DESCRIPTION
    ) -> None:
        """Set the prompt and the description of the tool."""
        self.system_prompt = system_prompt
        self.tool_description = tool_description

        @tool(TOOL_NAME, description=tool_description)
        def write_todos(
            todos: list[Todo], tool_call_id: Annotated[str, InjectedToolCallId]
        ) -> Command[Any]:
            answer = ToolMessage(f"Updated todo list to {todos}", tool_call_id=tool_call_id)
            return Command(update={"todos": todos, "messages": [answer]})

        self.tools = [write_todos]

    async def _around_model(
        self, request: ModelRequest, handler: ModelHandler, run: Run
    ) -> ModelResponse:
        content: Any = request.system_message.content if request.system_message is not None else ""
        if isinstance(content, str):
            content = f"{content}\n\n{self.system_prompt}" if content else self.system_prompt
        else:
            content = [*content, {"type": "text", "text": self.system_prompt}]
        return await handler(request.override(system_message=SystemMessage(content)))
