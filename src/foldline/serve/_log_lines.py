"""The lines of the server's log on stderr, as text or JSON: one per event, with the ids of its request and run.

Keys are masked in the texts of errors. Prompts and answers are not logged at any level.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, Final, Literal

from foldline.serve._request_facts import REQUEST
from foldline.serve.errors import SECRETS

__all__ = ["JsonLines", "LogFormat", "LogLevel", "TextLines", "line_of", "set_up_logs"]

LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error", "critical"]
OURS: Final = ("foldline", "uvicorn")
"""The loggers whose level is set; those of other libraries may log what they send."""
LONGEST_CHAIN: Final = 8


def set_up_logs(format: LogFormat, level: LogLevel, *, access_log: bool) -> None:
    """Write the log of this process to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if format == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in OURS:
        logger = logging.getLogger(name)
        logger.setLevel(level.upper())
        logger.handlers.clear()
        logger.propagate = True
    for name in ("uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = name == "uvicorn.error"
    logging.getLogger("foldline.access").setLevel("INFO" if access_log else "CRITICAL")


def context_fields() -> dict[str, str]:
    """Return what is known about the current request: ids and names, nothing that a client wrote."""
    facts = REQUEST.get()
    if facts is None:
        return {}
    info = facts.run.info if facts.run is not None else None
    fields = {
        "request_id": facts.id,
        "run_id": info.id if info is not None else None,
        "trace_id": facts.trace.trace_id if facts.trace is not None else None,
        "app": info.app if info is not None else None,
        "wire": facts.wire,
        "key": facts.key,
    }
    return {name: value for name, value in fields.items() if value is not None}


class JsonLines(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        time = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "time": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **context_fields(),
        }
        access = getattr(record, "access", None)
        if isinstance(access, dict):
            line |= {**access, "message": f"{access['method']} {access['route']}"}
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            line["error"] = {"class": type(error).__name__, "stack": stack_of(error)}
        return json.dumps(line, ensure_ascii=True, default=str)


class TextLines(logging.Formatter):
    """A line for people; the stack of an error follows it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        names = ("request_id", "run_id", "trace_id")
        ids = [f"{name}={value}" for name, value in context_fields().items() if name in names]
        line = f"{record.levelname} {record.name}: {' '.join([record.getMessage(), *ids])}"
        line = line.replace("\r", "\\r").replace("\n", "\\n")
        error = record.exc_info[1] if record.exc_info else None
        return f"{line}\n{stack_of(error)}" if error is not None else line


def line_of(sentence: str) -> str:
    """Return the JSON line of a sentence of the command, which is written at any level."""
    record = logging.LogRecord("foldline.serve", logging.INFO, "", 0, sentence, None, None)
    return JsonLines().format(record)


def stack_of(error: BaseException) -> str:
    """Return the frames of an error and of those that caused it, with their texts, in which keys are masked."""
    parts: list[str] = []
    current: BaseException | None = error
    while current is not None and len(parts) < LONGEST_CHAIN:
        frames = "".join(traceback.format_tb(current.__traceback__))
        parts.append(f"{frames}{type(current).__name__}: {SECRETS.sub('…', str(current))}")
        hidden = current.__suppress_context__
        current = current.__cause__ or (None if hidden else current.__context__)
    return "\n\nwhich came after\n\n".join(parts)
