"""Keep secrets out of what is written down: by the name of a field, by the shape of a key, and by known values."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

REDACTED = "[redacted]"
SECRET_NAME = re.compile(
    r"(^|[_-])(api[_-]?key|authorization|secret|password|passwd|passphrase|credentials?|cookie|"
    r"(access|refresh|id|auth|session|bearer|security)[_-]?token|private[_-]?key|access[_-]?key)$",
    re.IGNORECASE,
)
"""Names of fields whose values are never written."""
SECRET_SHAPES = re.compile(
    r"(?P<keep>(?i:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}"
    r"|(?P<key>(?i:[?&;]|\b)(?i:api[_-]?key|key|token|access_token|auth|password|secret|signature|sig)=)[^&\s\"'<>\\]{6,}"
    r"|(?P<user>://[^/\s:@]*:)[^/\s@]{3,}(?=@)"
    r"|\bsk-[A-Za-z0-9_-]{12,}|\bAIza[A-Za-z0-9_-]{20,}|\bAKIA[A-Z0-9]{12,}|\bgh[pousr]_[A-Za-z0-9]{20,}"
    r"|\bxox[abprs]-[A-Za-z0-9-]{10,}|\bhf_[A-Za-z0-9]{20,}|\bgsk_[A-Za-z0-9]{20,}|\bxai-[A-Za-z0-9]{20,}"
)
"""What vendors' keys, bearer headers, and secrets in addresses look like."""
SHORTEST = 8
"""A known value shorter than this is no secret: it would turn up everywhere."""


class Redactor:
    """Removes secrets from texts and JSON; knows those in the environment and those it is given."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {value for name, value in os.environ.items() if SECRET_NAME.search(name)} | set(secrets)
        longest_first = sorted((value for value in known if len(value) >= SHORTEST), key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def text(self, text: str) -> str:
        """Remove secrets from a text."""
        if self._known is not None:
            text = self._known.sub(REDACTED, text)
        return SECRET_SHAPES.sub(_hidden, text)

    def json(self, value: Any) -> Any:
        """Remove secrets from JSON, keys of dicts included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {
                self.text(key) if isinstance(key, str) else key: self._field(key, item)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.json(item) for item in value]
        return value

    def _field(self, key: Any, item: Any) -> Any:
        if item is not None and isinstance(key, str) and SECRET_NAME.search(key):
            return REDACTED
        return self.json(item)


def _hidden(match: re.Match[str]) -> str:
    kept = match.group("keep") or match.group("key") or match.group("user") or ""
    return f"{kept}{REDACTED}"
