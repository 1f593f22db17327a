"""API keys and their limits. A key is shown once, when it is made; only its hash is stored.

A key is `fl_ID_SECRET`. The id finds the row, and the SHA-256 of the secret is compared in constant time: the secret is
random and long, so a slow hash would add nothing. An unknown id is compared too, with a digest that never matches.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import time
from dataclasses import asdict, dataclass
from typing import Any, Final

from foldline._storage.database import Connection, Database
from foldline._storage.schema import LockNumber
from foldline.exceptions import UsageError

__all__ = ["ApiKey", "Caller", "KeyStore", "parse_budget"]

PREFIX: Final = "fl"
FORM: Final = re.compile(r"fl_([0-9a-f]{12})_([A-Za-z0-9_\-]{40,64})")
NO_DIGEST: Final = hashlib.sha256(b"no key has this digest").hexdigest()
REMOVE_KEY: Final = "DELETE FROM serve_keys WHERE name = ?"
FRESH_FOR: Final = 2.0
"""Seconds for which a key is cached: a removed key works that long."""
BUDGET: Final = re.compile(r"\s*\$?(\d+(?:\.\d+)?)\s*(?:/\s*day)?\s*")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key and its limits; None is no limit."""

    id: str
    name: str
    models: tuple[str, ...] | None = None
    """Names of apps, models and aliases; `openai:*` is a prefix."""
    budget: float | None = None
    """Dollars a day."""
    rpm: int | None = None
    """Requests per minute."""
    tpm: int | None = None
    """Tokens per minute."""
    created: float = 0.0
    studio: bool = False
    """Whether it opens the studio, which shows the runs of all keys."""
    max_runs: int | None = None
    """Runs under way at once, in one process."""

    def allows(self, name: str) -> bool:
        """Whether the key may use an app."""
        if self.models is None:
            return True
        return any(
            name == rule or (rule.endswith("*") and name.startswith(rule[:-1]))
            for rule in self.models
        )

    @property
    def has_account(self) -> bool:
        """Whether its model calls are held and settled: it has a budget or tokens per minute."""
        return self.budget is not None or self.tpm is not None

    @property
    def is_limited(self) -> bool:
        """Whether the key has a budget or a rate limit."""
        return self.has_account or self.rpm is not None


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request."""

    owner: str
    """The owner of runs and threads: the key's id, or "" where there are no keys."""
    key: ApiKey | None = None


class KeyStore:
    """The keys of a server."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._fresh: dict[str, tuple[float, str, ApiKey | None]] = {}
        self._has_keys: tuple[float, bool] = (0.0, False)

    def add(
        self,
        name: str,
        *,
        models: list[str] | None = None,
        budget: float | None = None,
        rpm: int | None = None,
        tpm: int | None = None,
        studio: bool = False,
        max_runs: int | None = None,
    ) -> tuple[str, ApiKey]:
        """Make a key; return its text, which is not stored, and its record."""
        for limit_name, number in (
            ("budget", budget),
            ("rpm", rpm),
            ("tpm", tpm),
            ("max_runs", max_runs),
        ):
            if number is not None and not number > 0:
                raise UsageError(f"{limit_name} is a number above 0, not {number!r}")
        if not name.strip():
            raise UsageError("a key needs a name")
        id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        names = tuple(models) if models is not None else None
        key = ApiKey(id, name, names, budget, rpm, tpm, time.time(), studio, max_runs)
        settings = {
            field: value for field, value in asdict(key).items() if field not in ("id", "name")
        }
        if max_runs is None:  # a key without it is read by workers of the previous version too
            del settings["max_runs"]
        values = (id, name, _digest(secret), json.dumps(settings), key.created)

        def work(connection: Connection) -> None:
            connection.lock(LockNumber.SERVER, "keys")
            if connection.rows("SELECT 1 FROM serve_keys WHERE name = ?", (name,)):
                raise UsageError(f"there is a key named {name!r} already: remove it first")
            connection.run(
                "INSERT INTO serve_keys (id, name, digest, settings, created) VALUES (?, ?, ?, ?, ?)",
                values,
            )

        self._database.write(work)
        self._has_keys = (0.0, False)
        return f"{PREFIX}_{id}_{secret}", key

    def all(self) -> list[ApiKey]:
        """Return all keys, the oldest first."""
        rows = self._database.rows("SELECT id, name, settings FROM serve_keys ORDER BY created")
        return [_key_of(*row) for row in rows]

    def remove(self, name: str) -> bool:
        """Remove a key by its name; return whether there was one."""
        self._fresh.clear()
        self._has_keys = (0.0, False)
        return bool(self._database.write(lambda connection: connection.run(REMOVE_KEY, (name,))))

    @property
    def is_fresh(self) -> bool:
        """Whether `has_keys` is answered from the cache."""
        return self._has_keys[0] >= time.monotonic()

    def has_keys(self) -> bool:
        """Whether there is any key; the answer may be `FRESH_FOR` seconds old."""
        now = time.monotonic()
        if self._has_keys[0] < now:
            has_any = bool(self._database.rows("SELECT 1 FROM serve_keys LIMIT 1"))
            self._has_keys = (now + FRESH_FOR, has_any)
        return self._has_keys[1]

    def cached_key(self, text: str) -> ApiKey | None:
        """Return the key of a text from the cache; None where it is not cached."""
        match = FORM.fullmatch(text)
        if match is None:
            return None
        until, digest, key = self._fresh.get(match[1], (0.0, NO_DIGEST, None))
        is_right = hmac.compare_digest(_digest(match[2]), digest)
        return key if is_right and until > time.monotonic() else None

    def find(self, text: str) -> ApiKey | None:
        """Return the key of a text; None where there is none."""
        match = FORM.fullmatch(text)
        id, secret = (match[1], match[2]) if match else ("", text)
        rows = self._database.rows(
            "SELECT id, name, settings, digest FROM serve_keys WHERE id = ?", (id,)
        )
        digest = str(rows[0][3]) if rows else NO_DIGEST
        is_right = hmac.compare_digest(_digest(secret), digest)
        if not rows or not is_right:
            return None
        key = _key_of(*rows[0][:3])
        if len(self._fresh) > 10_000:
            self._fresh.clear()
        self._fresh[id] = (time.monotonic() + FRESH_FOR, digest, key)
        return key


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _key_of(id: str, name: str, settings: str) -> ApiKey:
    fields: dict[str, Any] = json.loads(settings)
    models = fields.pop("models", None)
    fields = {field: value for field, value in fields.items() if field in ApiKey.__slots__}
    return ApiKey(id, name, tuple(models) if models is not None else None, **fields)


def parse_budget(text: str) -> float:
    """Read `5/day`, `5` or `$5/day`: dollars a day."""
    match = BUDGET.fullmatch(text)
    if match is None or not float(match[1]):
        raise UsageError(f"--budget {text!r}: write dollars a day, as in 5/day")
    return float(match[1])
