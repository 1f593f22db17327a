"""`EmailLoader`: an email file (.eml) as a document with its headers as metadata, and its attachments as documents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from email import message_from_bytes, policy
from email.errors import MessageError
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from typing import Any

from foldline.document_loaders._source import OneFileLoader, read_blob, source_of
from foldline.document_loaders.blob_loaders import Blob, PathLike
from foldline.document_loaders.html import html_document
from foldline.document_loaders.markdown import refuse_unstructured
from foldline.documents.base import Document
from foldline.exceptions import DocumentError

__all__ = ["EmailLoader", "UnstructuredEmailLoader"]

HEADERS = {
    "subject": "subject",
    "from": "sent_from",
    "to": "sent_to",
    "cc": "cc",
    "reply-to": "reply_to",
    "message-id": "message_id",
    "in-reply-to": "in_reply_to",
}
"""Header -> its name in the metadata (those of LangChain's loader where it has one)."""


class EmailLoader(OneFileLoader):
    r"""Loads a message: the plain text of its body, else the text of its HTML.

    ```python
    import tempfile
    from pathlib import Path
    from foldline.document_loaders import EmailLoader

    file = Path(tempfile.mkdtemp()) / "hello.eml"
    file.write_text("From: ada@example.com\nSubject: Hello\n\nSee you at nine.\n")
    document = EmailLoader(file).load()[0]
    print(document.metadata["subject"], "|", document.page_content)
    #> Hello | See you at nine.
    ```
    """

    suffixes = (".eml",)

    def __init__(self, file_path: PathLike, *, process_attachments: bool = False) -> None:
        """Load `file_path`; `process_attachments` loads the attachments too, each by its own loader."""
        super().__init__(file_path)
        self.process_attachments = process_attachments

    def lazy_parse(self, blob: Blob) -> Iterator[Document]:
        """Yield the message, and with `process_attachments` its attachments."""
        source = source_of(blob)
        data = read_blob(blob)
        try:
            message = message_from_bytes(data, policy=policy.default)
            attached = [part for part in message.walk() if _is_attached(part)]
            metadata = {**blob.metadata, "source": source, **_headers(message)}
            if attached:
                metadata["attachments"] = [_name(part, at) for at, part in enumerate(attached)]
            document = _body(message, metadata)
        except (MessageError, LookupError, ValueError, TypeError, AttributeError) as error:
            raise DocumentError(f"{source}: is not a message: {error}", source) from error
        if not metadata.keys() & set(HEADERS.values()):
            raise DocumentError(f"{source}: is not a message: it has no headers", source)
        yield document
        if self.process_attachments:
            for at, part in enumerate(attached):
                yield from self._attachment(part, _name(part, at), metadata)

    def _attachment(
        self, part: EmailMessage, name: str, metadata: dict[str, Any]
    ) -> Iterator[Document]:
        from foldline.document_loaders.file import FileLoader  # noqa: PLC0415  which knows this loader

        payload = part.get_payload(decode=True)
        fields: dict[str, Any] = {
            key: metadata[key] for key in ("subject", "sent_from") if key in metadata
        }
        fields["source"] = f"{metadata['source']}/{name}"
        data = payload if isinstance(payload, bytes) else str(part).encode("utf-8", "replace")
        yield from FileLoader(name).lazy_parse(Blob.from_data(data, path=name, metadata=fields))


class UnstructuredEmailLoader(EmailLoader):
    """`EmailLoader` under LangChain's name; options of the `unstructured` package are refused."""

    def __init__(self, file_path: PathLike, mode: str = "single", **options: Any) -> None:
        attachments = bool(options.pop("process_attachments", False))
        refuse_unstructured(self, options if mode == "single" else {**options, "mode": mode})
        super().__init__(file_path, process_attachments=attachments)


def _headers(message: Any) -> dict[str, Any]:  # noqa: ANN401  an EmailMessage, which typeshed knows as Message
    fields: dict[str, Any] = {}
    for header, name in HEADERS.items():
        if value := str(message.get(header) or "").strip():
            fields[name] = value
    with suppress(ValueError, TypeError):  # many messages have no date, or an invalid one
        fields["date"] = parsedate_to_datetime(str(message["date"])).isoformat()
    return fields


def _body(message: Any, metadata: dict[str, Any]) -> Document:  # noqa: ANN401  an EmailMessage
    part = message.get_body(preferencelist=("plain", "html"))
    if part is None:
        return Document("", metadata=metadata)
    text = str(part.get_content()).replace("\r\n", "\n")
    if part.get_content_subtype() == "html":
        return html_document(text, metadata)
    return Document(text.strip(), metadata=metadata)


def _is_attached(part: Any) -> bool:  # noqa: ANN401  an EmailMessage
    return part.get_content_disposition() == "attachment" and not part.is_multipart()


def _name(part: Any, at: int) -> str:  # noqa: ANN401  an EmailMessage
    # The name is untrusted: only its last part is used, without folders.
    name = str(part.get_filename() or "").replace("\\", "/").rpartition("/")[2]
    return name or f"attachment-{at + 1}"
