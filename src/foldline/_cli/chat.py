"""`foldline chat PROMPT`: one question, one answer. Without a prompt, `foldline._cli.interactive` runs a session."""

from __future__ import annotations

import json
import os
import select
import stat
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foldline._cli import places
from foldline._cli.approve import Approval
from foldline._cli.attach import human_message
from foldline._cli.choices import fill_template, read_template, save_template
from foldline._cli.choose import (
    choose_mcp_tools,
    choose_model,
    choose_tool,
    prepare,
    read_options,
)
from foldline._cli.conversation import Conversation
from foldline._cli.exchange import ChatExchange, Show
from foldline._cli.inputs import fragment_text
from foldline._cli.logs import is_logging
from foldline._cli.markdown import extract_code
from foldline._cli.short_schema import read_schema
from foldline._cli.shows import EventShow, NoShow, TextShow, answer_to_json
from foldline._cli.start import Code
from foldline._cli.terminal import echo, is_terminal, note, readable
from foldline.exceptions import StoreError, StructuredOutputError, UsageError
from foldline.messages import AIMessage, HumanMessage
from foldline.messages._refusal import text_and_refusal

if TYPE_CHECKING:
    from foldline.language_models.base_chat_model import BaseChatModel

__all__ = ["chat", "open_log", "with_piped"]

PATIENCE = 60.0
"""Seconds to wait for the first byte of a pipe."""
PATIENCE_SHOWN = 3.0
"""Seconds after which the terminal shows that the command waits for piped input."""
LONGEST = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerForm:
    """The form of the answer."""

    as_json: bool = False
    events: bool = False
    no_stream: bool = False
    is_styled: bool = True
    schema: dict[str, Any] | None = None
    extract: bool = False
    extract_last: bool = False

    @property
    def takes_code(self) -> bool:
        """Whether only a block of code is printed."""
        return self.extract or self.extract_last

    def show(self) -> Show:
        """Return the `Show` for the answer."""
        if self.events:
            return EventShow()
        is_whole = self.as_json or self.no_stream or self.takes_code
        return NoShow() if is_whole else TextShow(is_styled=self.is_styled)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The prompt, its model, tools and options; a template supplies what is missing."""

    text: str = ""
    model: str | None = None
    system: str | None = None
    schema: str | None = None
    tools: Sequence[str] = ()
    options: Sequence[str] = ()
    fragments: Sequence[str] = ()

    def with_template(self, name: str, parameters: Sequence[str]) -> Prompt:
        """Return the prompt with missing parts from a template."""
        parts = read_template(name)
        values = {str(key): str(value) for key, value in read_options(parameters).items()}
        system = self.system or parts.get("system")
        return replace(
            self,
            text=fill_template(parts.get("prompt") or "", values, self.text),
            model=self.model or parts.get("model"),
            system=fill_template(system, values, "") if system else None,
            schema=self.schema or parts.get("schema"),
            tools=[*parts.get("tools", ()), *self.tools],
            options=[*parts.get("options", ()), *self.options],
            fragments=[*parts.get("fragments", ()), *self.fragments],
        )

    def whole_text(self) -> str:
        """Return the text with its fragments before it."""
        fragments = fragment_text(self.fragments)
        return f"{fragments}\n\n{self.text}".strip() if fragments else self.text


def chat(
    prompt: str,
    *,
    model: str | None,
    system: str | None,
    schema: str | None,
    schema_list: bool,
    tools: Sequence[str],
    mcp: Sequence[Path],
    ask: bool,
    options: Sequence[str],
    fragments: Sequence[str],
    template: str | None,
    parameters: Sequence[str],
    save: str | None,
    attach: Sequence[str],
    session: str | None,
    resume: bool,
    trace: bool,
    no_log: bool,
    **form: bool,
) -> int:
    """Run a prompt, or open a session; or save the prompt as a template."""
    request = Prompt(
        text=readable(prompt),
        model=model,
        system=system and readable(system),
        schema=schema,
        tools=tools,
        options=options,
        fragments=fragments,
    )
    if save is not None:
        return _save(save, request)
    if "-" not in attach:
        request = replace(request, text=with_piped(request.text))
    if template is not None:
        request = request.with_template(template, parameters)
    json_schema = read_schema(request.schema, is_list=schema_list) if request.schema else None
    answer_form = AnswerForm(schema=json_schema, **form)
    if json_schema and (request.tools or mcp or answer_form.events):
        raise UsageError("--schema goes with neither tools nor --events: leave one of them out")
    text = request.whole_text()
    is_session = _is_session(text, attach)
    chat_model = choose_model(request.model, read_options(request.options))
    chosen_tools = [
        *map(choose_tool, request.tools),
        *(tool for file in mcp for tool in choose_mcp_tools(file)),
    ]
    approve = Approval() if ask else None
    with ExitStack() as stack:
        conversation = Conversation.open(
            session, resume=resume, is_kept=is_session, system=request.system
        )
        stack.callback(conversation.close)
        callbacks = open_log(
            stack, is_wanted=trace or (not no_log and is_logging()), is_needed=trace
        )
        human = human_message(text, attach, chat_model)
        prepare(chat_model, has_tools=bool(chosen_tools))
        if is_session:
            from foldline._cli.interactive import Session

            return Session(
                chat_model,
                chosen_tools,
                conversation,
                callbacks,
                approve,
                is_styled=answer_form.is_styled,
            ).run()
        if json_schema is not None:
            return _ask_for_schema(chat_model, conversation, human, json_schema, callbacks)
        exchange = ChatExchange(
            chat_model,
            chosen_tools,
            answer_form.show(),
            approve=approve,
            metadata={"session_id": conversation.name} if conversation.name else None,
        )
        return _run_exchange(exchange, conversation, human, answer_form, callbacks)


def _is_session(text: str, attach: Sequence[str]) -> bool:
    """Whether nothing is asked, so that a session opens; raise where nobody could type in it."""
    if text.strip() or attach:
        return False
    if not is_terminal(sys.stdin):
        raise UsageError('there is nothing to ask: foldline chat "a question", or pipe one in')
    return True


def _save(name: str, request: Prompt) -> int:
    save_template(
        name,
        prompt=request.text,
        model=request.model,
        system=request.system,
        schema=request.schema,
        tools=list(request.tools),
        options=list(request.options),
        fragments=list(request.fragments),
    )
    return Code.FINE


def with_piped(prompt: str) -> str:
    """Return a prompt followed by the piped input."""
    if sys.stdin is None or is_terminal(sys.stdin):
        return prompt
    _await_input()
    piped = readable(sys.stdin.read())
    return f"{prompt}\n\n{piped}" if prompt and piped.strip() else prompt or piped


def _await_input() -> None:
    """Wait for the first byte or the end of a pipe; some services pass one that is never written or closed."""
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
    value = os.environ.get("FOLDLINE_STDIN_TIMEOUT") or PATIENCE
    try:
        return min(max(float(value), 0.0), LONGEST)
    except ValueError:
        raise UsageError(
            f"FOLDLINE_STDIN_TIMEOUT={value!r} is not a number of seconds: write one, such as 60"
        ) from None


def open_log(stack: ExitStack, *, is_wanted: bool, is_needed: bool = False) -> list[Any]:
    """Open the trace file, where the run is logged; a log that cannot be written is only a warning."""
    if not is_wanted:
        return []
    from foldline.tracers._environment import file_tracer
    from foldline.tracers._open import open_tracer

    if file_tracer() is not None:  # FOLDLINE_TRACES has added the tracer already
        return []
    try:
        return [stack.enter_context(open_tracer(places.traces_place()))]
    except (StoreError, OSError) as error:
        if is_needed:
            raise
        note(f"(not logged: {error})")
        return []


def _run_exchange(
    exchange: ChatExchange,
    conversation: Conversation,
    human: HumanMessage,
    form: AnswerForm,
    callbacks: Sequence[Any],
) -> int:
    try:
        answer = exchange.run([*conversation.messages, human], callbacks)
    except KeyboardInterrupt:
        _print_whole(exchange.answer, form)
        remark = "; the answer so far is kept" if conversation.is_kept and exchange.messages else ""
        note(f"(stopped{remark})")
        return Code.INTERRUPTED
    finally:
        conversation.add(human, exchange.messages)
    _print_whole(answer, form)
    return Code.FINE


def _print_whole(answer: AIMessage | None, form: AnswerForm) -> None:
    if answer is None or form.events:
        return
    if form.takes_code:
        code = extract_code(str(answer.text), is_last=form.extract_last)
        echo(str(answer.text) if code is None else code.rstrip("\n"))
    elif form.as_json:
        echo(_dump(answer_to_json(answer)))
    elif form.no_stream:
        echo(text_and_refusal(answer))


def _ask_for_schema(
    model: BaseChatModel,
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
        reason = outcome.get("parsing_error") or "it holds no JSON"
        raise StructuredOutputError(
            f"the answer does not fit the schema: {reason}; try again, a larger model, or a simpler schema"
        )
    echo(_dump(outcome["parsed"]))
    return Code.FINE


def _dump(value: object) -> str:
    indent = 2 if is_terminal(sys.stdout) else None
    return json.dumps(value, ensure_ascii=False, indent=indent, default=str)
