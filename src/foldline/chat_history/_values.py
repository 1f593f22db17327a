"""Encodes messages as text and back, by `foldline.load`: a stored row is untrusted input."""

from __future__ import annotations

from foldline.exceptions import SchemaError, StoreError
from foldline.load import dumps, loads
from foldline.messages import BaseMessage, message_chunk_to_message


def pack(message: BaseMessage) -> str:
    """Encode a message as text; raise `StoreError` where it cannot be encoded exactly."""
    try:
        return dumps(message_chunk_to_message(message))
    except SchemaError as error:
        raise StoreError(f"this message cannot be stored: {error}") from error


def unpack(text: str | bytes, place: str) -> BaseMessage:
    """Decode a message; the error of a damaged row names its place."""
    try:
        loaded = loads(text if isinstance(text, str) else text.decode())
    except (SchemaError, ValueError) as error:
        raise StoreError(f"{place} is damaged and was not read: {error}") from error
    if not isinstance(loaded, BaseMessage):
        raise StoreError(f"{place} holds a {type(loaded).__name__}, not a message")
    return loaded


class ReadMessages(list[BaseMessage]):
    """The messages that could be read; `reports` says which could not."""

    def __init__(self) -> None:
        super().__init__()
        self.reports: list[str] = []


def unpack_all(rows: list[tuple[str | bytes, str]]) -> ReadMessages:
    """Decode rows of (text, place): a damaged one is omitted and reported, the others are returned (F-K02)."""
    messages = ReadMessages()
    for text, place in rows:
        try:
            messages.append(unpack(text, place))
        except StoreError as error:
            messages.reports.append(str(error))
    return messages
