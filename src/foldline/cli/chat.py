"""`foldline chat PROMPT`: one question, one answer. Without a prompt, `foldline.cli.interactive` takes over."""

from __future__ import annotations

import json
import os
import select
import stat
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foldline.cli import places
from foldline.cli.attach import human_message
from foldline.cli.choose import choose_model, choose_tool, prepare, read_options
from foldline.cli.conversation import Conversation
from foldline.cli.exchange import Exchange, Show
from foldline.cli.shows import EventShow, NoShow, TextShow, answer_to_json
from foldline.cli.start import Code
from foldline.cli.terminal import is_terminal, note, readable, say
from foldline.exceptions import StructuredOutputError, UsageError
from foldline.messages import AIMessage, HumanMessage

__all__ = ["chat"]

PATIENCE = 60.0
"""Seconds that a pipe may be silent before its first byte."""
PATIENCE_SHOWN = 3.0
"""Seconds after which somebody who looks is told what is waited for."""
LONGEST = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """How the answer is wanted."""

    as_json: bool
    events: bool
    no_stream: bool
    schema: dict[str, Any] | None

    def show(self) -> Show:
        """Choose who shows the answer."""
        if self.events:
            return EventShow()
        return NoShow() if self.as_json or self.no_stream else TextShow()


def chat(
    prompt: str,
    *,
    model: str | None,
    as_json: bool,
    schema: Path | None,
    events: bool,
    no_stream: bool,
    attach: Sequence[Path],
    system: str | None,
    tools: Sequence[str],
    session: str | None,
    resume: bool,
    options: Sequence[str],
    trace: bool,
) -> int:
    """Ask once, or open a session."""
    wishes = Wishes(
        as_json=as_json,
        events=events,
        no_stream=no_stream,
        schema=_read_schema(schema) if schema else None,
    )
    if schema and (tools or events):
        raise UsageError("--schema goes with neither --tool nor --events: leave one of them out")
    text = _with_piped(readable(prompt))
    is_session = not text.strip() and not attach
    if is_session and not is_terminal(sys.stdin):
        raise UsageError('there is nothing to ask: foldline chat "a question", or pipe one in')
    chosen = choose_model(model, read_options(options))
    chosen_tools = [choose_tool(place) for place in tools]
    with ExitStack() as stack:
        conversation = Conversation.open(
            session, resume=resume, is_kept=is_session, system=system and readable(system)
        )
        stack.callback(conversation.close)
        callbacks = [stack.enter_context(_tracer())] if trace else []
        human = human_message(text, attach, chosen)
        prepare(chosen, has_tools=bool(chosen_tools))
        if is_session:
            from foldline.cli.interactive import Session

            return Session(chosen, chosen_tools, conversation, callbacks).run()
        if wishes.schema is not None:
            return _ask_for_schema(chosen, conversation, human, wishes.schema, callbacks)
        return _ask(chosen, chosen_tools, conversation, human, wishes, callbacks)


def _with_piped(prompt: str) -> str:
    if sys.stdin is None or is_terminal(sys.stdin):
        return prompt
    _await_input()
    piped = readable(sys.stdin.read())
    return f"{prompt}\n\n{piped}" if prompt and piped.strip() else prompt or piped


def _await_input() -> None:
    """Wait for the first byte of a pipe, or its end; a service may hand on one that nobody writes to or closes."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return
    if sys.platform == "win32" or not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return
    patience = _patience()
    if select.select([sys.stdin], [], [], min(PATIENCE_SHOWN, patience))[0]:
        return
    note("(waiting for piped input; `< /dev/null` says that there is none)")
    if not select.select([sys.stdin], [], [], max(patience - PATIENCE_SHOWN, 0))[0]:
        raise UsageError(
            f"nothing came through the pipe on stdin in {patience:g} seconds, and nobody closed it: add `< /dev/null` "
            "where there is no input, or let FOLDLINE_STDIN_TIMEOUT be more seconds for a slow program"
        )


def _patience() -> float:
    said = os.environ.get("FOLDLINE_STDIN_TIMEOUT") or PATIENCE
    try:
        return min(max(float(said), 0.0), LONGEST)
    except ValueError:
        raise UsageError(f"FOLDLINE_STDIN_TIMEOUT={said!r} is no number of seconds") from None


def _read_schema(path: Path) -> dict[str, Any]:
    try:
        schema = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: the schema cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path}: the schema is not JSON: {error}") from error
    if not isinstance(schema, dict):
        raise UsageError(f"{path}: a JSON schema is an object, not a {type(schema).__name__}")
    return {"title": "answer", **schema}


def _tracer() -> Any:
    from foldline.tracers import SQLiteTracer

    return SQLiteTracer(places.made(places.traces_file()))


def _ask(
    model: object,
    tools: Sequence[Any],
    conversation: Conversation,
    human: HumanMessage,
    wishes: Wishes,
    callbacks: Sequence[Any],
) -> int:
    exchange = Exchange(model, tools, wishes.show())
    try:
        answer = exchange.run([*conversation.messages, human], callbacks)
    except KeyboardInterrupt:
        _print_whole(exchange.answer, wishes)
        kept = "; what came is kept" if conversation.is_kept and exchange.said else ""
        note(f"(stopped{kept})")
        return Code.INTERRUPTED
    finally:
        conversation.add(human, exchange.said)
    _print_whole(answer, wishes)
    return Code.FINE


def _print_whole(answer: AIMessage | None, wishes: Wishes) -> None:
    if answer is None or wishes.events:
        return
    if wishes.as_json:
        say(_dump(answer_to_json(answer)))
    elif wishes.no_stream:
        say(str(answer.text))


def _ask_for_schema(
    model: Any,
    conversation: Conversation,
    human: HumanMessage,
    schema: dict[str, Any],
    callbacks: Sequence[Any],
) -> int:
    structured = model.with_structured_output(schema, include_raw=True)
    outcome = structured.invoke(
        [*conversation.messages, human], {"callbacks": list(callbacks), "run_name": "foldline chat"}
    )
    conversation.add(human, [outcome["raw"]])
    if outcome.get("parsing_error") is not None or outcome["parsed"] is None:
        why = outcome.get("parsing_error") or "it holds no JSON"
        raise StructuredOutputError(
            f"the answer does not fit the schema: {why}; try again, a larger model, or a simpler schema"
        )
    say(_dump(outcome["parsed"]))
    return Code.FINE


def _dump(value: object) -> str:
    indent = 2 if is_terminal(sys.stdout) else None
    return json.dumps(value, ensure_ascii=False, indent=indent, default=str)
