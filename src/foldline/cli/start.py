"""From arguments to an exit code: starts Typer, and turns whatever was raised into a sentence and a number.

The rule of the file: nothing leaves it but an exit code. A traceback is shown only with `--debug`.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from enum import IntEnum
from importlib import import_module

from foldline.exceptions import (
    FoldlineError,
    MissingExtraError,
    ModelConnectionError,
    ModelNotFoundError,
    SchemaError,
    SecurityError,
    StoreError,
    UsageError,
)

__all__ = ["Code", "code_of", "drop_output", "start"]

NEEDED = ("typer", "rich")


class Code(IntEnum):
    """The exit codes."""

    FINE = 0
    FAILED = 1
    USAGE = 2
    MISSING = 3
    FILES = 4
    INTERRUPTED = 130
    BROKEN_PIPE = 141


def start(arguments: Sequence[str]) -> int:
    """Run one command and give its exit code."""
    arguments, is_debugging = _without_debug(arguments)
    _speak_any_locale()
    try:
        with warnings.catch_warnings():
            if not is_debugging:
                warnings.showwarning = _show_warning
            return _run(arguments)
    except BrokenPipeError:
        drop_output()
        return Code.BROKEN_PIPE
    except KeyboardInterrupt:
        _complain("\nstopped")
        return Code.INTERRUPTED
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else Code.FAILED
    except Exception as error:  # noqa: BLE001  whatever it was: a sentence and a code
        if is_debugging:
            traceback.print_exc()
        return _tell(error, is_debugging=is_debugging)


def _run(arguments: Sequence[str]) -> int:
    missing = [name for name in NEEDED if not _is_there(name)]
    if missing:
        raise MissingExtraError(
            f'the command line needs {" and ".join(missing)}: pip install "foldline[cli]"'
        )
    app = import_module("foldline.cli.app").app
    outcome = app(list(arguments), prog_name="foldline", standalone_mode=False)
    sys.stdout.flush()
    return outcome if isinstance(outcome, int) else Code.FINE


def _is_there(name: str) -> bool:
    try:
        import_module(name)
    except ImportError:
        return False
    return True


def _without_debug(arguments: Sequence[str]) -> tuple[list[str], bool]:
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    remaining = [
        argument for at, argument in enumerate(arguments) if at > end or argument != "--debug"
    ]
    is_asked = len(remaining) != len(arguments) or os.environ.get("FOLDLINE_DEBUG", "0") not in (
        "",
        "0",
    )
    return remaining, is_asked


def _speak_any_locale() -> None:
    """A terminal that cannot show a character gets a stand-in, never a crash."""
    for stream in (sys.stdout, sys.stderr, sys.stdin):
        with suppress(AttributeError, ValueError, OSError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]


def _show_warning(
    message: Warning | str, category: type[Warning], *_: object, **__: object
) -> None:
    """A warning of the library is a remark here; the place in its source says nothing to the user."""
    if issubclass(category, UserWarning):
        _complain(f"foldline: {message}")


def _tell(error: Exception, *, is_debugging: bool) -> int:
    # Typer's own errors: it carries its own copy of click, so they are known by their methods.
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):
        context = getattr(error, "ctx", None)
        where = context.command_path if context else "foldline"
        sentence = error.format_message().rstrip(".")
        end = "" if sentence.endswith("?") else "."
        _complain(f"foldline: {sentence}{end} See `{where} --help`.")
        return int(error.exit_code)
    if type(error).__name__ == "Abort":
        return Code.INTERRUPTED
    sentence = str(error) or type(error).__name__
    if not isinstance(error, FoldlineError | OSError):
        sentence = f"{type(error).__name__}: {sentence}"
        if not is_debugging:
            sentence += " (an error foldline did not expect: --debug shows where)"
    if isinstance(error, ModelConnectionError) and error.provider != "local":
        sentence += "; `foldline doctor` looks at the network and the servers"
    _complain(f"foldline: {sentence}")
    return code_of(error)


def code_of(error: BaseException) -> int:
    """Return the exit code of an error."""
    if isinstance(error, MissingExtraError):
        return Code.MISSING
    if isinstance(error, ModelConnectionError | ModelNotFoundError) and error.provider == "local":
        return Code.MISSING
    if isinstance(error, UsageError | SchemaError):
        return Code.USAGE
    if isinstance(error, StoreError | SecurityError | OSError):
        return Code.FILES
    return Code.FAILED


def _complain(sentence: str) -> None:
    with suppress(OSError):
        sys.stderr.write(f"{sentence}\n")
        sys.stderr.flush()


def drop_output() -> None:
    """Let what is still in the buffer go nowhere, so that the end of the process does not complain of it."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
