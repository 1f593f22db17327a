"""Answers as text and back, by `foldline.load` alone: a kept row is hostile input. What does not load is a miss."""

from __future__ import annotations

import hashlib
from typing import cast

from foldline.caches.base import RETURN_VAL_TYPE
from foldline.exceptions import SchemaError
from foldline.load import dumps, loads
from foldline.outputs import Generation


def pack(answers: RETURN_VAL_TYPE) -> str:
    """Write answers as text."""
    return dumps(list(answers))


def unpack(text: str | bytes) -> RETURN_VAL_TYPE | None:
    """Read answers; None where the text is damaged or holds something else."""
    try:
        loaded = loads(text if isinstance(text, str) else text.decode())
    except (SchemaError, UnicodeDecodeError, ValueError):
        return None
    if not isinstance(loaded, list) or not all(isinstance(one, Generation) for one in loaded):
        return None
    return cast("RETURN_VAL_TYPE", loaded)


def hashed_key(prompt: str, llm_string: str) -> str:
    """Return a key that two different pairs never share and that holds no character with a meaning anywhere."""
    text = f"{len(prompt)}:{prompt}{llm_string}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
