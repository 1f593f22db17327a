"""The body of a request, written: JSON as every vendor reads it, and the digest of what must not be shown."""

from __future__ import annotations

import json
import json.encoder
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Any, Final

from foldline.exceptions import UsageError
from foldline.utils.json import dumps_canonical

__all__ = ["digest", "dump_body"]

ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False)


def _writer() -> Callable[[Any, Any], Iterable[str]]:
    """Give what writes JSON as `ENCODER` does, which would make this for every body anew: as dear as a short body."""
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return ENCODER.iterencode
    escape = json.encoder.encode_basestring
    flags = (ENCODER.sort_keys, ENCODER.skipkeys, ENCODER.allow_nan)
    made: Callable[[Any, Any], Iterable[str]] = make(
        None, ENCODER.default, escape, None, ": ", ", ", *flags
    )
    return made


WRITE: Final = _writer()


def dump_body(body: dict[str, Any]) -> bytes:
    """Write a body; a lone surrogate is kept, escaped."""
    try:
        return "".join(WRITE(body, 0)).encode()
    except UnicodeEncodeError:
        return json.dumps(body, allow_nan=False).encode()
    except RecursionError:
        raise UsageError("the request cannot be written as JSON: it contains itself") from None
    except (TypeError, ValueError) as error:
        raise UsageError(f"the request cannot be written as JSON: {error}") from error


def digest(value: Any) -> str:  # noqa: ANN401  any JSON
    """Give a name of a value that does not show it."""
    return sha256(dumps_canonical(value).encode()).hexdigest()
