"""Checks the input of an app before its run: what is said about it is about the request, and may reach the client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from foldline.agents.agent import Agent
from foldline.exceptions import FoldlineError
from foldline.messages import BaseMessage, convert_to_messages
from foldline.serve._run_app import messages_from
from foldline.serve.apps import RunRequest, ServedApp
from foldline.serve.errors import ServeError, mask_secrets, validation_sentence
from foldline.workflows._loop_runnable import LoopRunnable
from foldline.workflows.flow import Workflow
from foldline.workflows.interrupts import Command

__all__ = ["check_input"]


def check_input(app: ServedApp, request: RunRequest) -> None:
    """Raise `ServeError` for an input that the app does not take."""
    if request.command is None and request.input is None:
        return
    try:
        if request.command is not None:
            _check_command(app, request.command)
        elif app.kind == "model":
            messages_from(request.input)
        elif isinstance(app.target, Agent):
            _check_agent(app.target, request.input)
        elif isinstance(app.target, LoopRunnable):
            _check_graph(app.target, request.input)
        else:
            _check_fields(app, request.input)
    except ServeError:
        raise
    except ValidationError as error:
        raise ServeError("invalid_request", mask_secrets(validation_sentence(error))) from error
    except (FoldlineError, ValueError, TypeError, KeyError) as error:
        raise ServeError("invalid_request", mask_secrets(str(error))) from error


def _check_command(app: ServedApp, command: Command[Any]) -> None:
    """Check what a command changes; whether its answer fits is for the thread to say."""
    if isinstance(app.target, LoopRunnable):
        app.target._check_command(command)
        return
    changes = command.update is not None or command.goto is not None
    if app.kind == "model" or (changes and isinstance(app.target, Workflow)):
        raise ServeError("invalid_request", f"{app.name} takes no command that changes its state")


def _check_agent(agent: Agent[Any], value: object) -> None:
    if isinstance(value, str | list | tuple | BaseMessage):
        convert_to_messages([value] if isinstance(value, BaseMessage) else value)
    elif isinstance(value, Mapping):
        agent.setup.schema.prepare(value, "the input")
    else:
        raise ServeError("invalid_request", 'an agent takes {"messages": [...]}')


def _check_graph(graph: object, value: object) -> None:
    plan = getattr(graph, "plan", None)
    if plan is None or plan.keys.is_root:
        return
    if isinstance(value, Mapping):
        plan.keys.check(value, "the input")
    elif not isinstance(value, BaseMessage):
        names = ", ".join(plan.input.names)
        raise ServeError("invalid_request", f"the input must be an object with some of {names}")


def _check_fields(app: ServedApp, value: object) -> None:
    """Check the fields of a prompt or a chain; a single one may be given as it is."""
    needed = app.needed_fields
    given = value if isinstance(value, Mapping) else needed if len(needed) == 1 else ()
    if missing := needed.difference(given):
        raise ServeError("invalid_request", f"the input has no {', '.join(sorted(missing))}")
