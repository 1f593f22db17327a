"""Save the state of a long constant prompt prefix on disk, so that it is computed once and not in each process.

The template for tools begins with about 800 tokens of examples: seconds of work before the first token. llama.cpp can
save its state (19 MB for SmolLM2) and restore it in milliseconds. File names are hashes of everything the state depends
on; only the `MAX_FILES` used last are kept. Without them answers are only slower, so all failures here are ignored.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from foldline.exceptions import ModelError
from foldline.providers.local._cache import cache_dir
from foldline.providers.local.runtime import LocalRuntime, Request
from foldline.utils._private_files import make_private_folder

MAX_FILES = 4
MIN_TOKENS = 200
"""For shorter prefixes, computing is as fast as reading."""


def state_folder() -> Path | None:
    """Return the folder of saved states, or None if it cannot be written."""
    folder = cache_dir() / "states"
    try:
        make_private_folder(folder)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None


class PromptState:
    """The saved prompt prefixes of one runtime."""

    def __init__(self, runtime: LocalRuntime) -> None:
        self._runtime = runtime
        self._prepared: set[str] = set()

    def prepare(self, request: Request) -> None:
        """Load the constant prefix of a request with tools into a slot: restore it, or compute and save it."""
        folder = self._runtime.settings.state_folder
        if folder is None or not request.get("tools"):
            return
        with contextlib.suppress(ModelError, OSError):
            prefix = self._constant_prefix(request)
            if prefix not in self._prepared:
                self._prepared.add(prefix)
                self._restore_or_compute(prefix, folder)

    def _constant_prefix(self, request: Request) -> str:
        """Return the constant part of the prompt: the common prefix of this request and of a made-up one."""
        other_messages = [
            {**message, "content": "~"} if message["role"] in ("user", "tool") else message
            for message in request["messages"]
        ]
        tool = {"name": "~", "description": "~", "parameters": {"type": "object", "properties": {}}}
        other_request = {
            "messages": other_messages,
            "tools": [{"type": "function", "function": tool}],
        }
        this_request = {"messages": request["messages"], "tools": request["tools"]}
        return common_prefix(
            self._runtime.render(this_request), self._runtime.render(other_request)
        )

    def _restore_or_compute(self, prefix: str, folder: Path) -> None:
        if len(self._runtime.tokenize(prefix)) < MIN_TOKENS:
            return
        file = folder / f"{self._fingerprint(prefix)}.state"
        slot = self._idle_slot()
        if slot is None:
            return
        if file.exists() and self._restore(file, slot):
            return
        self._runtime.ask(
            "/completion",
            {"prompt": prefix, "n_predict": 0, "id_slot": slot, "cache_prompt": True},
        )
        # Written under another name first, so that another process does not read an incomplete state.
        temporary = file.with_suffix(f".{os.getpid()}.part")
        self._runtime.ask(f"/slots/{slot}?action=save", {"filename": temporary.name})
        temporary.replace(file)
        _delete_oldest(folder)

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

    def _fingerprint(self, prefix: str) -> str:
        status = self._runtime.path.stat()
        settings = self._runtime.settings
        parts = (
            str(self._runtime.path), status.st_size, status.st_mtime_ns,
            settings.context, settings.slots, self._runtime.version, prefix,
        )  # fmt: skip
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:24]


def common_prefix(left: str, right: str) -> str:
    """Return the longest common prefix of two texts."""
    shorter = min(len(left), len(right))
    end = next((index for index in range(shorter) if left[index] != right[index]), shorter)
    return left[:end]


def _delete_oldest(folder: Path) -> None:
    files = sorted(folder.glob("*.state"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files[MAX_FILES:]:
        file.unlink(missing_ok=True)
