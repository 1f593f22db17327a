"""Messages as text and back, through `foldline.load` alone: a stored row is hostile input."""

from __future__ import annotations

from foldline.exceptions import SchemaError, StoreError
from foldline.load import dumps, loads
from foldline.messages import BaseMessage, message_chunk_to_message


def pack(message: BaseMessage) -> str:
    """Write a message as text; what cannot be written exactly is refused."""
    try:
        return dumps(message_chunk_to_message(message))
    except SchemaError as error:
        raise StoreError(f"this message cannot be stored: {error}") from error


def unpack(text: str | bytes, where: str) -> BaseMessage:
    """Read a message; a damaged row says where it is."""
    try:
        loaded = loads(text if isinstance(text, str) else text.decode())
    except (SchemaError, ValueError) as error:
        raise StoreError(f"{where} is damaged and was not read: {error}") from error
    if not isinstance(loaded, BaseMessage):
        raise StoreError(f"{where} holds a {type(loaded).__name__}, not a message")
    return loaded


class Readable(list[BaseMessage]):
    """The messages that could be read; `reports` says which could not."""

    def __init__(self) -> None:
        super().__init__()
        self.reports: list[str] = []


def unpack_all(rows: list[tuple[str | bytes, str]]) -> Readable:
    """Read rows of (text, where): a damaged one is left out and reported, the others are kept (F-K02)."""
    messages = Readable()
    for text, where in rows:
        try:
            messages.append(unpack(text, where))
        except StoreError as error:
            messages.reports.append(str(error))
    return messages
