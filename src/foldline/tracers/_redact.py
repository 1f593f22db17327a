"""Keep secrets out of what is written down: by the name of a field, by the shape of a key, and by known values."""

from __future__ import annotations

import json
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
SHAPES = [
    ("sk-", re.compile(r"\bsk-[A-Za-z0-9_-]{12,}")),
    ("AIza", re.compile(r"\bAIza[A-Za-z0-9_-]{20,}")),
    ("AKIA", re.compile(r"\bAKIA[A-Z0-9]{12,}")),
    *((f"gh{kind}_", re.compile(rf"\bgh{kind}_[A-Za-z0-9]{{20,}}")) for kind in "pousr"),
    ("xox", re.compile(r"\bxox[abprs]-[A-Za-z0-9-]{10,}")),
    ("hf_", re.compile(r"\bhf_[A-Za-z0-9]{20,}")),
    ("gsk_", re.compile(r"\bgsk_[A-Za-z0-9]{20,}")),
    ("xai-", re.compile(r"\bxai-[A-Za-z0-9]{20,}")),
    ("earer ", re.compile(r"(?<=earer )[A-Za-z0-9._~+/=-]{8,}")),
    ("EARER ", re.compile(r"(?<=EARER )[A-Za-z0-9._~+/=-]{8,}")),
    (
        "asic ",
        re.compile(r"(?<=asic )(?=[A-Za-z0-9+/]*(?:[0-9=+/]|[a-z][A-Z]))[A-Za-z0-9+/]{12,}={0,2}"),
    ),
    ("://", re.compile(r"(?<=://)[^/\s:@]*:[^/\s@]{3,}(?=@)")),
]
"""What vendors' keys, headers and addresses with a password look like: a word that must be there, and the shape."""
ASSIGNED = re.compile(r"=[^&\s\"'<>\\=]{6,}")
ASSIGNED_TO = re.compile(
    r"(?:^|[^A-Za-z0-9])(?:[A-Za-z0-9]+[_-])?(?:api[_-]?key|key|token|auth|password|secret|signature|sig)$",
    re.IGNORECASE,
)
"""`key=value` in an address or a command."""
SECRET_ENDINGS = (
    "key", "authorization", "secret", "password", "passwd", "passphrase", "credential", "credentials", "cookie",
    "token",
)  # fmt: skip
"""How each name ends that `SECRET_NAME` matches."""
SIGNS = {
    "=",
    *(word.lower() for word, _ in SHAPES),
    *(f'{ending}":' for ending in SECRET_ENDINGS),
}
"""What JSON text in small letters contains, at least, where there is a secret in it; known values apart."""
SIGNS_BY_PART = {
    part: tuple(sign for sign in sorted(SIGNS) if part in sign)
    for part in ("gh", "pass", "credential")
} | {
    sign: (sign,)
    for sign in sorted(SIGNS)
    if not any(part in sign for part in ("gh", "pass", "credential"))
}
"""A part that signs share -> those signs: one search answers for all of them where it is not there."""
LONGEST_NAME = 40
SHORTEST = 8
"""Known values shorter than this are not redacted: they would match everywhere."""


class Redactor:
    """Removes secrets from texts and JSON; by known values: those in the environment and those passed to it."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known_values = {
            value for name, value in os.environ.items() if SECRET_NAME.search(name)
        } | set(secrets)
        longest_first = sorted(
            (value for value in known_values if len(value) >= SHORTEST), key=len, reverse=True
        )
        self._known = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        self._known_in_json = [json.dumps(value)[1:-1] for value in longest_first]

    def may_show_secrets(self, json_text: str) -> bool:
        """Whether JSON text could hold a secret: a quick check, False only where there is none."""
        if any(value in json_text for value in self._known_in_json):
            return True
        small = json_text.lower()
        for part, signs in SIGNS_BY_PART.items():  # noqa: SIM110  `any` of a generator takes three times as long
            if part in small and any(sign in small for sign in signs):
                return True
        return False

    def text(self, text: str) -> str:
        """Remove secrets from a text."""
        if self._known is not None:
            text = self._known.sub(REDACTED, text)
        for word, shape in SHAPES:
            if (
                word in text
            ):  # a plain search is a hundred times faster than a pattern that seldom matches
                text = shape.sub(REDACTED, text)
        return ASSIGNED.sub(_unassigned, text) if "=" in text else text

    def json(self, value: object) -> Any:  # noqa: ANN401  JSON of the same form as the value
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

    def _field(self, key: object, item: object) -> object:
        if item is not None and isinstance(key, str) and SECRET_NAME.search(key):
            return REDACTED
        return self.json(item)


def _unassigned(match: re.Match[str]) -> str:
    before = match.string[max(0, match.start() - LONGEST_NAME) : match.start()]
    return f"={REDACTED}" if ASSIGNED_TO.search(before) else match.group()
