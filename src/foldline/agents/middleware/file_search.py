"""`FilesystemFileSearchMiddleware`: tools that find files by name and by content, below one folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from fnmatch import translate
from pathlib import Path
from typing import Literal

from foldline.agents.middleware.base import AgentMiddleware
from foldline.exceptions import UsageError
from foldline.tools import tool
from foldline.utils._options import check_options

__all__ = ["FilesystemFileSearchMiddleware"]

NO_FILES, NO_MATCHES = "No files found", "No matches found"
SECONDS = 30
Matches = dict[str, list[tuple[int, str]]]
"""A path as the model sees it -> the numbers and texts of its lines."""


class FilesystemFileSearchMiddleware(AgentMiddleware):
    """Gives the model `glob_search` and `grep_search` over a folder; nothing outside of it is seen.

    Paths begin at the folder: `/src/app.py`. A link that leads outside is not followed.
    """

    @check_options(at_least={"max_file_size_mb": 1})
    def __init__(
        self, *, root_path: str | Path, use_ripgrep: bool = True, max_file_size_mb: int = 10
    ) -> None:
        """Say where to search; `rg` is used where it is installed."""
        self.root_path = Path(root_path).resolve()
        if not self.root_path.is_dir():
            raise UsageError(f"root_path={str(root_path)!r} is no folder: name one that exists")
        self.max_file_size_bytes: int = max_file_size_mb * 1024 * 1024
        self._ripgrep = shutil.which("rg") if use_ripgrep else None

        @tool
        def glob_search(pattern: str, path: str = "/") -> str:
            """Find files by a pattern of their paths, such as `**/*.py`; the newest come first.

            Args:
                pattern: The pattern, relative to the folder.
                path: The folder to search in.
            """
            return self._find(pattern, path)

        @tool
        def grep_search(
            pattern: str,
            path: str = "/",
            include: str | None = None,
            output_mode: Literal["files_with_matches", "content", "count"] = "files_with_matches",
        ) -> str:
            """Find lines of files by a regular expression.

            Args:
                pattern: The regular expression.
                path: The folder to search in.
                include: A pattern of the names of files, such as `*.py` or `*.{ts,tsx}`.
                output_mode: What is given: paths, `path:line:text` of each line, or `path:count`.
            """
            return self._grep(pattern, path, include, output_mode)

        self.glob_search, self.grep_search = glob_search, grep_search
        self.tools = [glob_search, grep_search]

    def _find(self, pattern: str, path: str) -> str:
        folder = self._inside(path)
        if (
            folder is None
            or not folder.is_dir()
            or pattern.startswith("/")
            or ".." in pattern.split("/")
        ):
            return NO_FILES
        try:
            files = [
                file for file in folder.glob(pattern) if file.is_file() and self._is_inside(file)
            ]
        except (ValueError, NotImplementedError) as error:
            return f"Invalid pattern: {error}"
        files.sort(key=lambda file: file.stat().st_mtime, reverse=True)
        return "\n".join(map(self._model_path, files)) or NO_FILES

    def _grep(self, pattern: str, path: str, include: str | None, mode: str) -> str:
        try:
            expression = re.compile(pattern)
        except re.error as error:
            return f"Invalid regex pattern: {error}"
        folder = self._inside(path)
        matches = None
        if folder is not None and folder.exists():
            matches = self._by_ripgrep(pattern, folder, include)
            if matches is None:
                matches = self._by_reading(expression, folder, include)
        if not matches:
            return NO_MATCHES
        if mode == "files_with_matches":
            return "\n".join(sorted(matches))
        if mode == "count":
            return "\n".join(f"{name}:{len(matches[name])}" for name in sorted(matches))
        lines = [f"{name}:{at}:{text}" for name in sorted(matches) for at, text in matches[name]]
        return "\n".join(lines)

    def _by_ripgrep(self, pattern: str, folder: Path, include: str | None) -> Matches | None:
        """Search with `rg`; None where it is not there or does not take the expression."""
        if self._ripgrep is None:
            return None
        size = str(self.max_file_size_bytes)
        command = [self._ripgrep, "--json", "--no-ignore", "--hidden", "--max-filesize", size]
        command += ["--glob", include] if include else []
        try:
            process = subprocess.run(
                [*command, "--", pattern, str(folder)], capture_output=True, timeout=SECONDS, check=False
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return None
        if process.returncode > 1:  # 1: nothing was found
            return None
        matches: Matches = {}
        for line in process.stdout.splitlines():
            record = json.loads(line)
            data = record["data"]
            if (
                record["type"] != "match"
                or "text" not in data["path"]
                or "text" not in data["lines"]
            ):
                continue
            file = Path(data["path"]["text"])
            if self._is_inside(file):
                text = (data["line_number"], data["lines"]["text"].rstrip("\r\n"))
                matches.setdefault(self._model_path(file), []).append(text)
        return matches

    def _by_reading(
        self, expression: re.Pattern[str], folder: Path, include: str | None
    ) -> Matches:
        names = (
            None if include is None else [re.compile(translate(glob)) for glob in _braces(include)]
        )
        matches: Matches = {}
        for file in self._files(folder):
            if names is not None and not any(name.match(file.name) for name in names):
                continue
            try:
                lines = file.read_text(encoding="utf-8").splitlines()
            except (OSError, UnicodeDecodeError):
                continue
            hits = [(at, line) for at, line in enumerate(lines, 1) if expression.search(line)]
            if hits:
                matches[self._model_path(file)] = hits
        return matches

    def _files(self, folder: Path) -> Iterator[Path]:
        places = [(str(folder.parent), [], [folder.name])] if folder.is_file() else os.walk(folder)
        for place, _, names in places:
            for name in names:
                file = Path(place) / name
                if (
                    self._is_inside(file)
                    and file.is_file()
                    and file.stat().st_size <= self.max_file_size_bytes
                ):
                    yield file

    def _inside(self, path: str) -> Path | None:
        """Return a place that the model names; None where it is outside of the folder."""
        if "~" in path or ".." in path.replace("\\", "/").split("/"):
            return None
        place = (self.root_path / path.lstrip("/")).resolve()
        return place if place.is_relative_to(self.root_path) else None

    def _is_inside(self, file: Path) -> bool:
        return file.resolve().is_relative_to(self.root_path)

    def _model_path(self, file: Path) -> str:
        return f"/{file.relative_to(self.root_path).as_posix()}"


def _braces(pattern: str) -> list[str]:
    """Return the patterns that `*.{ts,tsx}` stands for."""
    match = re.search(r"\{([^{}]*)\}", pattern)
    if match is None:
        return [pattern]
    return [
        expanded
        for choice in match[1].split(",")
        for expanded in _braces(pattern[: match.start()] + choice + pattern[match.end() :])
    ]
