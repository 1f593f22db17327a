"""`Body`: a JSON request read field by field; an invalid field is refused with its path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic_core import from_json
from starlette.requests import ClientDisconnect, Request

from foldline.serve._json_object import JsonObject
from foldline.serve.errors import ServeError

__all__ = ["Body", "body_of", "check_media", "read_bytes"]

LONGEST_NAME: Final = 256
URL_FIELDS: Final = frozenset({"url", "image_url", "file_url", "video_url", "audio_url"})
FILE_FIELDS: Final = frozenset({"path", "file_path", "filename_on_server"})
DEEPEST: Final = 100


class Body:
    """A JSON object of a request."""

    def __init__(self, value: object, place: str = "") -> None:
        if not isinstance(value, dict):
            raise refusal(place or "the body", "must be a JSON object")
        self.value: JsonObject = value
        self.place = place

    def _name(self, name: str) -> str:
        return f"{self.place}.{name}" if self.place else name

    def get(self, name: str) -> object:
        """Return a field unchecked."""
        return self.value.get(name)

    def refuse(self, name: str, sentence: str) -> ServeError:
        """Return the error for a field."""
        return refusal(self._name(name), sentence)

    def text(self, name: str, default: str | None = None, *, longest: int | None = None) -> str:
        """Return a text field; without a default it is required."""
        value = self.value.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise self.refuse(name, "must be a string")
        if longest is not None and len(value) > longest:
            raise self.refuse(name, f"must have at most {longest} characters")
        return value

    def maybe_text(self, name: str, *, longest: int | None = None) -> str | None:
        """Return a text field, or None where it is absent."""
        return None if self.value.get(name) is None else self.text(name, longest=longest)

    def name(self, name: str) -> str | None:
        """Return a name (an id, an app), or None where it is absent."""
        value = self.maybe_text(name, longest=LONGEST_NAME)
        if value is not None and (not value or "\x00" in value):
            raise self.refuse(name, "must not be empty or hold NUL")
        return value

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a boolean field."""
        value = self.value.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.refuse(name, "must be true or false")
        return value

    def number(self, name: str, low: float, high: float) -> float | None:
        """Return a number within bounds, or None where it is absent."""
        value = self.value.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.refuse(name, "must be a number")
        if not low <= value <= high:
            raise self.refuse(name, f"must be from {low:g} to {high:g}")
        return value

    def integer(self, name: str, low: int, high: int) -> int | None:
        """Return an integer within bounds, or None where it is absent."""
        value = self.number(name, low, high)
        if value is None:
            return None
        if not isinstance(value, int):
            if not value.is_integer():
                raise self.refuse(name, "must be a whole number")
            return int(value)
        return value

    def items(self, name: str, *, most: int, least: int = 0) -> list[Any]:
        """Return a list, empty where it is absent."""
        value = self.value.get(name)
        if value is None:
            value = []
        if not isinstance(value, list):
            raise self.refuse(name, "must be a list")
        if len(value) > most:
            raise self.refuse(name, f"must have at most {most} items")
        if len(value) < least:
            raise self.refuse(name, f"must have at least {least} item(s)")
        return value

    def objects(self, name: str, *, most: int, least: int = 0) -> list[Body]:
        """Return a list of objects."""
        return [
            Body(item, f"{self._name(name)}[{place}]")
            for place, item in enumerate(self.items(name, most=most, least=least))
        ]

    def object(self, name: str) -> Body | None:
        """Return an object, or None where it is absent."""
        value = self.value.get(name)
        return None if value is None else Body(value, self._name(name))

    def mapping(self, name: str) -> JsonObject:
        """Return an object as a dict, empty where it is absent."""
        inner = self.object(name)
        return {} if inner is None else inner.value


def refusal(place: str, sentence: str) -> ServeError:
    """Return the error for a place in a request."""
    return ServeError("invalid_request", f"{place} {sentence}", code=None)


def body_of(data: bytes, *, may_be_empty: bool = False) -> Body:
    """Return a request's JSON object."""
    if not data.strip() and may_be_empty:
        return Body({})
    return Body(parse_json(data))


async def read_bytes(request: Request, largest: int) -> bytes:
    """Read a request's body, up to a size."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > largest:
        raise ServeError("too_large", f"the request is larger than {largest} bytes")
    data = bytearray()
    try:
        async for piece in request.stream():
            data += piece
            if len(data) > largest:
                raise ServeError("too_large", f"the request is larger than {largest} bytes")
    except ClientDisconnect as error:
        raise ServeError(
            "invalid_request", "the client left before its request was read"
        ) from error
    return bytes(data)


def parse_json(data: bytes) -> object:
    """Parse JSON; raise `ServeError` where it is invalid."""
    try:
        value: object = from_json(data, allow_inf_nan=False)
    except (ValueError, RecursionError) as error:
        raise ServeError(
            "invalid_request", f"the body is not JSON: {str(error)[:200]}", code="not_json"
        ) from error
    return value


def check_media(value: object, depth: int = 0) -> None:
    """Refuse paths of the server's files, and URLs other than http, https and data, anywhere in a message."""
    if depth > DEEPEST:
        raise refusal("messages", "nest too deep")
    if isinstance(value, Mapping):
        for name, item in value.items():
            if name in FILE_FIELDS and "type" in value:
                raise refusal(str(name), "may not name a file of the server: send its data")
            if name in URL_FIELDS:
                address = item.get("url") if isinstance(item, Mapping) else item
                if isinstance(address, str) and not address.startswith(
                    ("https://", "http://", "data:")
                ):
                    raise refusal(str(name), "must begin with https://, http:// or data:")
            if isinstance(item, Mapping | list):
                check_media(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            check_media(item, depth + 1)
