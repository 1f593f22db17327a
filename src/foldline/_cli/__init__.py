"""The command `foldline`. Every start imports this file, so it imports almost nothing.

`foldline --help` is printed from the table below: Typer alone takes longer to import than the whole start may take.
Each command is parsed by Typer (`foldline._cli.app`), which loads what the command needs when it runs.
"""

from __future__ import annotations

import os
import sys

__all__ = ["main"]

COMMANDS = {
    "chat": "ask a model; without a prompt, an interactive session",
    "index": "bring files, folders and web pages into an index, by meaning",
    "ask": "answer a question from an index, with its sources",
    "similar": "the pieces of an index nearest to a text",
    "embed": "the vector of a text, as JSON",
    "keys": "keep API keys: a private file, or the keyring",
    "default": "show or set the model that is used without -m",
    "aliases": "short names of models",
    "templates": "kept prompts",
    "fragments": "names of texts that go before a prompt",
    "logs": "prompts and their answers; search, on, off",
    "sessions": "list, show or delete kept conversations",
    "models": "providers: what is installed, which keys are set, what their models can do",
    "doctor": "check this installation and say what to do about each finding",
    "traces": "recent runs with first words, tokens and cost; one as a tree",
    "studio": "a web page over traces, a playground, threads and datasets",
    "replay": "play a recorded stream back",
    "batch": "ask for every row of a file, over hours and processes: run, status, resume, cancel",
    "serve": "serve models, chains and agents over HTTP, on the wires that clients speak",
    "bench": "time a model: first token, tokens per second",
    "migrate": "rename LangChain's imports in programs and notebooks",
}
"""Name of a command -> what it does, in one line. `foldline._cli.app` has them all."""

HELP = """\
Usage: foldline COMMAND [OPTIONS] [ARGUMENTS]

Talk to language models. foldline chat "Why is the sky blue?" needs no key: a small local model answers.

Commands:
{commands}

Options:
  --help                Show this and exit; after a command, its own options.
  --version             Show the version and exit.
  --debug               Show tracebacks (any command; or set FOLDLINE_DEBUG=1).
  --install-completion  Complete commands in this shell (bash, zsh, fish); --show-completion prints the script.

Exit codes: 0 fine, 1 the model or provider failed, 2 wrong usage, 3 a package or model is missing,
4 a file could not be read or written, 130 interrupted, 141 the reader of the output went away.
"""


def main() -> None:
    """Run the command line."""
    arguments = sys.argv[1:]
    is_completing = "_FOLDLINE_COMPLETE" in os.environ
    if not is_completing and (not arguments or arguments[0] in ("--help", "-h", "help")):
        _print_quietly(_help())
    elif not is_completing and arguments[0] in ("--version", "-V"):
        from foldline import __version__

        _print_quietly(f"foldline {__version__}\n")
    else:
        from foldline._cli.start import start

        sys.exit(start(arguments))


def _help() -> str:
    return HELP.format(commands="\n".join(f"  {name:<9} {line}" for name, line in COMMANDS.items()))


def _print_quietly(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # The rest of the buffer must not be written at exit, which would print an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


def __dir__() -> list[str]:
    return sorted(__all__)
