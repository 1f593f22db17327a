"""`foldline chat` without a prompt: a session. Lines that begin with `/` are commands, others go to the model."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foldline import __version__
from foldline._cli import places
from foldline._cli.attach import human_message
from foldline._cli.choose import choose_model, choose_tool, name_of, prepare
from foldline._cli.conversation import Conversation
from foldline._cli.exchange import Approve, ChatExchange
from foldline._cli.message_text import heading, text_and_calls
from foldline._cli.shows import TextShow
from foldline._cli.start import Code
from foldline._cli.terminal import echo, note, readable
from foldline.exceptions import FoldlineError, UsageError
from foldline.messages import messages_to_dict
from foldline.utils._private_files import open_private
from foldline.utils.strings import suggestion

if TYPE_CHECKING:
    from foldline.language_models.base_chat_model import BaseChatModel
    from foldline.tools.base import BaseTool

__all__ = ["Session"]

PROMPT, MORE = "> ", "... "
QUOTES = '"""'
WAKE = 0.2
"""Seconds between two checks for a Ctrl-C while a line is read."""
HELP = """\
/model [PROVIDER:MODEL]  show or change the model
/tools [MODULE:TOOL]     show the tools, or add one
/system [TEXT]           show or change what the model is told first
/attach FILE             send a file along with the next message
/save FILE               write the conversation (.json, else Markdown)
/new                     begin another conversation
/help                    this
/quit                    leave (also Ctrl-D)

End a line with \\ to go on in the next, or put many lines between \"\"\" and \"\"\".
Ctrl-C stops the answer and keeps what came; once more at the prompt, it leaves."""


class Session:
    """One session at the terminal."""

    def __init__(
        self,
        model: BaseChatModel,
        tools: Sequence[BaseTool],
        conversation: Conversation,
        callbacks: Sequence[Any] = (),
        approve: Approve | None = None,
        *,
        is_styled: bool = True,
    ) -> None:
        self._approve = approve
        self._is_styled = is_styled
        self._model = model
        self._tools = list(tools)
        self._conversation = conversation
        self._callbacks = callbacks
        self._files: list[str] = []
        self._commands: dict[str, Callable[[str], bool]] = {
            "/model": self._change_model,
            "/tools": self._change_tools,
            "/system": self._change_system,
            "/attach": self._attach,
            "/save": self._save,
            "/new": self._begin_anew,
            "/help": self._help,
            "/quit": lambda _: True,
            "/exit": lambda _: True,
        }

    def run(self) -> int:
        """Read and answer until the user leaves."""
        self._greet()
        lines_file = _remember_lines()
        _complete_words(list(self._commands))
        was_interrupted = False
        try:
            while True:
                try:
                    text = read_message()
                    was_interrupted = False
                    if self._handle(text):
                        return Code.FINE
                except EOFError:
                    echo()
                    return Code.FINE
                except KeyboardInterrupt:
                    if was_interrupted:
                        echo()
                        return Code.INTERRUPTED
                    was_interrupted = True
                    note("\n(Ctrl-C again leaves, so does Ctrl-D)")
        finally:
            _keep_lines(lines_file)

    def _greet(self) -> None:
        count = len(self._conversation.messages)
        length = f", {count} messages so far" if count else ""
        note(
            f"foldline {__version__}, {name_of(self._model)}, session {self._conversation.name}{length}. "
            "/help shows the commands, Ctrl-D leaves."
        )

    def _handle(self, text: str) -> bool:
        """Run a command or send a message; return whether the session ends."""
        if not text.strip():
            return False
        command, _, argument = text.strip().partition(" ")
        try:
            if command in self._commands:
                return self._commands[command](argument.strip())
            if command.startswith("/") and "\n" not in text and "/" not in command[1:]:
                hint = suggestion(command, self._commands)
                note(f"there is no command {command}{hint}: /help shows them", style="red")
                return False
            self._send(text)
        except (FoldlineError, OSError) as error:
            if isinstance(error, BrokenPipeError):
                raise
            note(f"foldline: {error}", style="red")
        return False

    def _send(self, text: str) -> None:
        human = human_message(text, self._files, self._model)
        exchange = ChatExchange(
            self._model,
            self._tools,
            TextShow(is_styled=self._is_styled),
            approve=self._approve,
            metadata={"session_id": self._conversation.name},
        )
        try:
            exchange.run([*self._conversation.messages, human], self._callbacks)
        except KeyboardInterrupt:
            note("(stopped; the answer so far is kept)" if exchange.messages else "(stopped)")
        finally:
            self._conversation.add(human, exchange.messages)
        self._files = []

    # -- commands

    def _change_model(self, spec: str) -> bool:
        if spec:
            model = choose_model(spec)
            prepare(model, has_tools=bool(self._tools))
            self._model = model
        note(name_of(self._model))
        return False

    def _change_tools(self, place: str) -> bool:
        if place:
            added = choose_tool(place)
            self._tools = [
                *(known_tool for known_tool in self._tools if known_tool.name != added.name),
                added,
            ]
            prepare(self._model, has_tools=True)
        for tool in self._tools:
            note(f"{tool.name}: {' '.join(tool.description.split())}")
        if not self._tools:
            note("no tools; /tools module:name adds one")
        return False

    def _change_system(self, text: str) -> bool:
        if text:
            self._conversation.system = text
        note(self._conversation.system or "no system message; /system TEXT sets one")
        return False

    def _attach(self, name: str) -> bool:
        if not name:
            raise UsageError("write /attach FILE")
        human_message("", [name], self._model)  # fails now rather than with the next message
        self._files.append(name)
        note(f"{name} is attached to the next message")
        return False

    def _save(self, name: str) -> bool:
        if not name:
            raise UsageError("write /save FILE")
        path = Path(name).expanduser()
        messages = self._conversation.messages
        if path.suffix == ".json":
            text = json.dumps(messages_to_dict(messages), ensure_ascii=False, indent=2, default=str)
        else:
            text = "\n\n".join(
                f"## {heading(message)}\n\n{text_and_calls(message)}" for message in messages
            )
        with open_private(path, "w", encoding="utf-8") as file:
            file.write(text + "\n")
        note(f"{len(messages)} messages written to {path}")
        return False

    def _begin_anew(self, _: str) -> bool:
        self._conversation.begin_anew()
        note(f"session {self._conversation.name}")
        return False

    def _help(self, _: str) -> bool:
        note(HELP)
        return False


def read_message() -> str:
    """Read one message of one or more lines."""
    line = _read_line(PROMPT)
    if line.lstrip().startswith(QUOTES):
        return _read_quoted(line.lstrip().removeprefix(QUOTES))
    lines = [line]
    while lines[-1].endswith("\\"):
        lines[-1] = lines[-1][:-1]
        lines.append(_read_line(MORE))
    return "\n".join(lines)


def _read_line(prompt: str) -> str:
    """Read a line, waking at intervals: a Ctrl-C just before readline waits is otherwise lost until a key press."""
    if not hasattr(signal, "setitimer"):
        return readable(input(prompt))
    previous = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, WAKE, WAKE)
    try:
        return readable(input(prompt))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if callable(previous):
            signal.signal(signal.SIGALRM, previous)


def _read_quoted(first: str) -> str:
    lines = [first]
    while not lines[-1].rstrip().endswith(QUOTES):
        lines.append(_read_line(MORE))
    lines[-1] = lines[-1].rstrip().removesuffix(QUOTES)
    return "\n".join(lines).strip("\n")


def _remember_lines() -> Path | None:
    """Enable the history of typed lines, where Python has readline."""
    with suppress(ImportError, OSError, FoldlineError):
        import readline

        file = places.make_folder_of(places.data_dir() / "lines")
        readline.set_history_length(1000)
        if file.exists():
            readline.read_history_file(file)
        return file
    return None


def _keep_lines(file: Path | None) -> None:
    if file is not None:
        with suppress(ImportError, OSError):
            import readline

            readline.write_history_file(file)
            os.chmod(file, 0o600)


def _complete_words(commands: Sequence[str]) -> None:
    """Let Tab complete commands at the beginning of a line, and files after /attach and /save."""
    with suppress(ImportError):
        import readline

        readline.set_completer(
            lambda text, state: _completion(commands, readline.get_line_buffer(), text, state)
        )
        readline.set_completer_delims(" ")
        is_editline = "libedit" in (readline.__doc__ or "")  # macOS
        readline.parse_and_bind("bind ^I rl_complete" if is_editline else "tab: complete")


def _completion(commands: Sequence[str], line: str, text: str, state: int) -> str | None:
    """Return the next completion of a word; None after the last."""
    matches: list[str] = []
    if line.startswith("/") and " " not in line:
        matches = [f"{command} " for command in commands if command.startswith(text)]
    elif line.startswith(("/attach ", "/save ")):
        folder, _, start = text.rpartition("/")
        with suppress(OSError):
            base = Path(folder or ("/" if text.startswith("/") else ".")).expanduser()
            names = sorted(file for file in base.iterdir() if file.name.startswith(start))
            matches = [
                f"{folder}/{file.name}" if folder or text.startswith("/") else file.name
                for file in names
            ]
    return matches[state] if state < len(matches) else None
