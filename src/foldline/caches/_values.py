"""Serialises answers with `foldline.load`, because a stored row is untrusted. A row that does not load is a miss."""

from __future__ import annotations

import hashlib
from typing import cast

from foldline.caches.base import RETURN_VAL_TYPE
from foldline.exceptions import SchemaError
from foldline.load import dumps, loads
from foldline.outputs import Generation


def pack(answers: RETURN_VAL_TYPE) -> str:
    """Return answers as text."""
    return dumps(list(answers))


def unpack(text: str | bytes) -> RETURN_VAL_TYPE | None:
    """Return the answers in a text; None if it is damaged or contains anything else."""
    try:
        answers = loads(text if isinstance(text, str) else text.decode())
    except (SchemaError, UnicodeDecodeError, ValueError):
        return None
    if not isinstance(answers, list) or not all(
        isinstance(answer, Generation) for answer in answers
    ):
        return None
    return cast("RETURN_VAL_TYPE", answers)


def hashed_key(prompt: str, llm_string: str) -> str:
    """Return a key that is different for different pairs and has no special characters."""
    text = f"{len(prompt)}:{prompt}{llm_string}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
