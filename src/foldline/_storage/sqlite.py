"""Creates SQLite files for their owner alone."""

from __future__ import annotations

import os
from pathlib import Path

from foldline.exceptions import StoreError

__all__ = ["MEMORY", "create_privately"]

MEMORY = ":memory:"


def create_privately(path: str | Path) -> None:
    """Create a file that only its owner may read; an existing one is unchanged. SQLite's other files get its mode."""
    if str(path) == MEMORY or str(path).startswith("file:"):
        return
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return
    except ValueError as error:  # a NUL in the path
        raise StoreError(f"{path!r} is not a path: {error}") from error
    except OSError:
        return  # SQLite says what is wrong with it
