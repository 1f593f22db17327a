"""Keep the state of a long, constant prompt beginning on disk, so that it is computed once and not in each process.

The template for tools begins with some 800 tokens of examples: seconds of work before the first word. llama.cpp can
save what it computed (19 MB for SmolLM2) and read it back in milliseconds. Files are named for everything they depend
on and only the `MOST_FILES` used last are kept. Losing them costs time, never an answer: every failure here is quiet.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from foldline.exceptions import ModelError
from foldline.providers.local._cache import cache_dir
from foldline.providers.local.runtime import Request, Runtime
from foldline.utils.private_files import make_private_folder

MOST_FILES = 4
WORTH_KEEPING = 200
"""Tokens below which computing is as quick as reading."""


def state_folder() -> Path | None:
    """Return the folder of saved states, or none when it cannot be written."""
    folder = cache_dir() / "states"
    try:
        make_private_folder(folder)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


class PromptState:
    """The saved beginnings of one runtime's prompts."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._prepared: set[str] = set()

    def prepare(self, request: Request) -> None:
        """Put the constant beginning of a request with tools into a slot: read it back, or compute and save it."""
        folder = self._runtime.settings.state_folder
        if folder is None or not request.get("tools"):
            return
        with contextlib.suppress(ModelError, OSError):
            beginning = self._beginning(request)
            if beginning not in self._prepared:
                self._prepared.add(beginning)
                self._load_or_make(beginning, folder)

    def _beginning(self, request: Request) -> str:
        """Find what does not change: the common beginning of the prompts of this request and of an invented one."""
        other = [
            {**message, "content": "~"} if message["role"] in ("user", "tool") else message
            for message in request["messages"]
        ]
        tool = {"name": "~", "description": "~", "parameters": {"type": "object", "properties": {}}}
        invented = {"messages": other, "tools": [{"type": "function", "function": tool}]}
        asked = {"messages": request["messages"], "tools": request["tools"]}
        return common_beginning(self._runtime.render(asked), self._runtime.render(invented))

    def _load_or_make(self, beginning: str, folder: Path) -> None:
        if len(self._runtime.tokenize(beginning)) < WORTH_KEEPING:
            return
        file = folder / f"{self._fingerprint(beginning)}.state"
        slot = self._idle_slot()
        if slot is None:
            return
        if file.exists() and self._restore(file, slot):
            return
        self._runtime.ask(
            "/completion",
            {"prompt": beginning, "n_predict": 0, "id_slot": slot, "cache_prompt": True},
        )
        # Written under another name first: a second process must not read half a state.
        temporary = file.with_suffix(f".{os.getpid()}.part")
        self._runtime.ask(f"/slots/{slot}?action=save", {"filename": temporary.name})
        temporary.replace(file)
        _forget_oldest(folder)

    def _restore(self, file: Path, slot: int) -> bool:
        try:
            self._runtime.ask(f"/slots/{slot}?action=restore", {"filename": file.name})
        except ModelError:
            file.unlink(missing_ok=True)  # damaged: it is computed and saved again
            return False
        os.utime(file)
        return True

    def _idle_slot(self) -> int | None:
        slots = self._runtime.ask("/slots", None, "GET")
        idle = [slot["id"] for slot in slots if not slot["is_processing"]]
        return idle[-1] if idle else None

    def _fingerprint(self, beginning: str) -> str:
        status = self._runtime.path.stat()
        settings = self._runtime.settings
        parts = (
            str(self._runtime.path), status.st_size, status.st_mtime_ns,
            settings.context, settings.slots, self._runtime.version, beginning,
        )  # fmt: skip
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:24]


def common_beginning(left: str, right: str) -> str:
    """Return the longest text that both begin with."""
    shorter = min(len(left), len(right))
    end = next((place for place in range(shorter) if left[place] != right[place]), shorter)
    return left[:end]


def _forget_oldest(folder: Path) -> None:
    files = sorted(folder.glob("*.state"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files[MOST_FILES:]:
        file.unlink(missing_ok=True)
