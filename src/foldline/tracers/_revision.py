"""Which code runs: `FOLDLINE_REVISION`, or the commit that is checked out in the working directory."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

__all__ = ["find_revision"]

VARIABLE = "FOLDLINE_REVISION"
COMMIT = re.compile(r"[0-9a-f]{40,64}")
LONGEST = 200


def find_revision() -> str | None:
    """Return which code runs; None where that is not known."""
    return os.environ.get(VARIABLE, "")[:LONGEST] or _commit_of(Path.cwd())


@cache
def _commit_of(folder: Path) -> str | None:
    """Return the commit that is checked out in a folder or above it; a change that is not committed is not seen."""
    try:
        for place in (folder, *folder.parents):
            git = place / ".git"
            if git.is_file():  # of a worktree: it names the folder
                git = place / git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
            if git.is_dir():
                return _read_head(git)
    except (OSError, ValueError):
        pass
    return None


def _read_head(git: Path) -> str | None:
    head = (git / "HEAD").read_text(encoding="utf-8").strip()
    if COMMIT.fullmatch(head):
        return head
    name = head.removeprefix("ref:").strip()
    shared = git / "commondir"
    folders = [git]
    if shared.is_file():
        folders.append(git / shared.read_text(encoding="utf-8").strip())
    for folder in folders:
        loose = folder / name
        if loose.is_file():
            commit = loose.read_text(encoding="utf-8").strip()
            return commit if COMMIT.fullmatch(commit) else None
    for folder in folders:
        packed = folder / "packed-refs"
        if packed.is_file():
            for line in packed.read_text(encoding="utf-8").splitlines():
                commit, _, ref = line.partition(" ")
                if ref == name and COMMIT.fullmatch(commit):
                    return commit
    return None
