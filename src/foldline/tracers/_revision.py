"""Which code runs: `FOLDLINE_REVISION`, or the commit that is checked out in the working directory."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

__all__ = ["find_revision"]

VARIABLE = "FOLDLINE_REVISION"
COMMIT = re.compile(r"[0-9a-f]{40,64}")
BRANCH = re.compile(r"ref: (refs/heads/[\w./+-]+)")
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
            if git.exists():
                return _read_head(git) if git.is_dir() else None
    except (OSError, ValueError):
        pass
    return None


def _read_head(git: Path) -> str | None:
    """Return the commit that HEAD is, or names; only files below the folder are read."""
    head = (git / "HEAD").read_text(encoding="utf-8").strip()
    if COMMIT.fullmatch(head):
        return head
    branch = BRANCH.fullmatch(head)
    if branch is None or ".." in head:
        return None
    loose = git / branch[1]
    if loose.is_file():
        commit = loose.read_text(encoding="utf-8").strip()
        return commit if COMMIT.fullmatch(commit) else None
    for line in (git / "packed-refs").read_text(encoding="utf-8").splitlines():
        commit, _, name = line.partition(" ")
        if name == branch[1] and COMMIT.fullmatch(commit):
            return commit
    return None
