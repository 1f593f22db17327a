"""Runs the Typer app, and turns each exception into a sentence and an exit code.

A traceback is shown only with `--debug`.
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
    """Run one command and return its exit code."""
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
        _print_error("\nstopped")
        return Code.INTERRUPTED
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else Code.FAILED
    except Exception as error:  # noqa: BLE001  every error becomes a sentence and a code
        if is_debugging:
            traceback.print_exc()
        return _report(error, is_debugging=is_debugging)


def _run(arguments: Sequence[str]) -> int:
    missing = [name for name in NEEDED if not _is_there(name)]
    if missing:
        raise MissingExtraError(
            f'the command line needs {" and ".join(missing)}: pip install "foldline[cli]"'
        )
    app = import_module("foldline._cli.app").app
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
    """Let the terminal replace characters that it cannot show."""
    for stream in (sys.stdout, sys.stderr, sys.stdin):
        with suppress(AttributeError, ValueError, OSError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]


def _show_warning(
    message: Warning | str, category: type[Warning], *_: object, **__: object
) -> None:
    """Print warnings of the library without their place in its source."""
    if issubclass(category, UserWarning):
        _print_error(f"foldline: {message}")


def _report(error: Exception, *, is_debugging: bool) -> int:
    # Typer may use its own copy of Click, so its errors are recognised by their methods.
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "foldline"
        sentence = error.format_message().rstrip(".")
        end = "" if sentence.endswith("?") else "."
        _print_error(f"foldline: {sentence}{end} See `{command} --help`.")
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
    _print_error(f"foldline: {sentence}")
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


def _print_error(sentence: str) -> None:
    with suppress(OSError):
        sys.stderr.write(f"{sentence}\n")
        sys.stderr.flush()


def drop_output() -> None:
    """Discard the rest of the buffer, so that the exit of the process prints no error."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
