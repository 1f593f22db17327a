"""Gemini's batches: small ones are sent inline, larger ones as a file; results come back the same way.

The part's tag is the batch's display name, by which it is found again after a crash.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, ClassVar, Final
from urllib.parse import quote, urlsplit, urlunsplit

from foldline._io import IO
from foldline.batches._batch_api import BatchAnswer, BatchStatus
from foldline.batches.records import Part
from foldline.exceptions import SecurityError
from foldline.providers._batch_client import UPLOAD, BatchClient, checks_payload
from foldline.providers._endpoint import Body
from foldline.providers._wire import dump_body, guarded
from foldline.providers.google._endpoint import HOST
from foldline.transports import Request
from foldline.transports.base import origin_of

__all__ = ["GoogleBatches", "GoogleEmbeddingBatches"]

END_STATES: Final = {"SUCCEEDED": "completed", "EXPIRED": "expired", "CANCELLED": "cancelled"}
STATUSES: Final = {3: 400, 4: 504, 5: 404, 7: 403, 8: 429, 13: 500, 14: 503, 16: 401}
"""Google's error code -> the HTTP status that a direct call would have returned."""
CANCELLED_CODES: Final = frozenset({1})
"""Error codes of requests that were cancelled."""
MAX_PAGES: Final = 20
INLINE_BYTES: Final = 19 * 1024 * 1024
"""The largest batch that is sent inline: the API accepts 20 MB, all fields included."""
JSON_LINES: Final = "application/jsonl"
REQUEST: Final = b',"request":'


class GoogleBatches(BatchClient):
    """The client of the Gemini API's batches, for chat models."""

    most_requests = 50_000
    most_bytes = 2 * 1024 * 1024 * 1024
    method: ClassVar[str] = "batchGenerateContent"
    results_field: ClassVar[str] = "inlinedResponses"

    def encode_line(self, custom_id: str, path: str, body: Body) -> bytes:
        """Return a request as a line of a file."""
        return (
            b'{"key":' + _json_text(custom_id) + REQUEST + dump_body(self.request_of(body)) + b"}"
        )

    def request_of(self, body: Body) -> Body:
        """Return the body of a direct call as a request of a batch."""
        return body

    @checks_payload
    async def submit(self, lines: list[bytes], part: Part, path: str, io: IO) -> str:
        """Create a batch for the model in the requests' path and return its id; a large batch is uploaded as a file."""
        model = path.rpartition(":")[0]
        if sum(map(len, lines)) + 64 * len(lines) <= INLINE_BYTES:
            requests = b",".join(map(_inline_request, lines))
            source = b'"requests":{"requests":[' + requests + b"]}"
        else:
            name = await self._upload(b"\n".join(lines) + b"\n", part.tag, io)
            source = b'"fileName":' + _json_text(name)
        body = (
            b'{"batch":{"model":' + _json_text(model) + b',"displayName":' + _json_text(part.tag)
            + b',"inputConfig":{' + source + b"}}}"
        )  # fmt: skip
        batch = await self.ask(
            f"{model}:{self.method}", io, method="POST", body=body, may_repeat=False
        )
        return self.name_of(batch["name"])

    async def _upload(self, content: bytes, title: str, io: IO) -> str:
        """Upload a file by Google's resumable protocol (two requests); return its name."""
        size = str(len(content))

        async def begin() -> Request:
            body = dump_body({"file": {"displayName": title}})
            request = await self._request(
                self._service_url("upload", "files"), io, "POST", body, "application/json"
            )
            headers = {
                "x-goog-upload-protocol": "resumable", "x-goog-upload-command": "start",
                "x-goog-upload-header-content-length": size, "x-goog-upload-header-content-type": JSON_LINES,
            }  # fmt: skip
            return replace(request, headers={**request.headers, **headers})

        _, headers = await self.exchange(begin, io)
        address = {name.lower(): value for name, value in headers.items()}.get("x-goog-upload-url")
        if not address:
            raise self.endpoint._malformed("the answer to an upload names no x-goog-upload-url")
        own_addresses = (self.endpoint._url(""), HOST)
        if origin_of(address) not in map(origin_of, own_addresses):
            raise SecurityError(
                f"the upload of a batch is to go to another host, {origin_of(address)}: nothing is sent there"
            )

        async def send() -> Request:  # without the key: the upload URL is the authorization
            return Request(
                url=address,
                method="POST",
                headers={
                    "x-goog-upload-offset": "0", "x-goog-upload-command": "upload, finalize",
                    "content-type": JSON_LINES,
                },
                body=content,
                timeouts=UPLOAD,
                limits=self.endpoint.limits,
            )  # fmt: skip

        answer, _ = await self.exchange(send, io)
        name = (answer.get("file") or {}).get("name")
        if not name:
            raise self.endpoint._malformed("the answer to an upload names no file")
        return str(name)

    def _service_url(self, service: str, path: str) -> str:
        """Return a URL of the API's upload or download service, whose path precedes the version."""
        parts = urlsplit(self.endpoint._url(""))
        folder, _, version = parts.path.rstrip("/").rpartition("/")
        address = f"{folder}/{service}/{version}/{path.partition('?')[0]}"
        query = "&".join(text for text in (path.partition("?")[2], parts.query) if text)
        return str(urlunsplit((parts.scheme, parts.netloc, address, query, "")))

    @checks_payload
    async def find(self, part: Part, known: Collection[str], io: IO) -> str | None:
        """Return the id of the batch whose display name is the part's tag, or None."""
        token = ""
        for _ in range(MAX_PAGES):
            page = await self.ask(f"batches?pageSize=100{token}", io)
            for row in page.get("operations") or []:
                if (row.get("metadata") or {}).get("displayName") == part.tag:
                    return self.name_of(row["name"])
            if not page.get("nextPageToken"):
                return None
            token = f"&pageToken={quote(page['nextPageToken'])}"
        return None

    @checks_payload
    async def status(self, provider_id: str, io: IO) -> BatchStatus:
        """Return the status of a batch; if it has ended, its results are included."""
        batch = await self.ask(quote(provider_id), io)
        metadata = batch.get("metadata") or {}
        state = str(metadata.get("state")).removeprefix("BATCH_STATE_").removeprefix("JOB_STATE_")
        if state in END_STATES:
            return BatchStatus("ended", END_STATES[state], details=batch)
        if state == "FAILED":
            reason = (batch.get("error") or {}).get("message")
            return BatchStatus("failed", f"failed: {reason}", details=batch)
        return BatchStatus("running", state.lower())

    async def answers(self, status: BatchStatus, io: IO) -> AsyncGenerator[BatchAnswer, None]:
        """Yield the results, from the batch itself or from its file."""
        output = guarded(self.endpoint._malformed, _output_of, status.details)
        if file := output.get("responsesFile"):
            name = quote(self.name_of(file))
            path = self._service_url("download", f"{name}:download?alt=media")
            async with aclosing(self.lines(path, io, self._answer_of_line)) as answers:
                async for answer in answers:
                    yield answer
            return
        rows = output.get(self.results_field)
        rows = rows.get("inlinedResponses") if isinstance(rows, dict) else rows
        for row in rows if isinstance(rows, list) else ():
            inline = self.read_row(row, self._inline_answer)
            if inline is not None:
                yield inline

    def _answer_of_line(self, line: Mapping[str, Any]) -> BatchAnswer:
        return self._answer(line, line.get("key"))

    def _inline_answer(self, row: Mapping[str, Any]) -> BatchAnswer:
        return self._answer(row, (row.get("metadata") or {}).get("key"))

    def _answer(self, row: Mapping[str, Any], key: object) -> BatchAnswer:
        error = row.get("error")
        if not error:
            return BatchAnswer(str(key), 200, self.body_of(row.get("response")))
        code = int(error.get("code") or 13)
        if code in CANCELLED_CODES:
            return BatchAnswer(str(key), 0, None, str(error.get("message") or "cancelled"))
        status = STATUSES.get(code, 500)
        return BatchAnswer(str(key), status, {"error": {**error, "code": status}})

    def body_of(self, response: object) -> object:
        """Return a result of a batch as the body that a direct call would return."""
        return response

    @checks_payload
    async def cancel(self, provider_id: str, io: IO) -> None:
        """Cancel a batch that is running."""
        if (await self.status(provider_id, io)).state == "running":
            await self.ask(f"{quote(provider_id)}:cancel", io, method="POST")


class GoogleEmbeddingBatches(GoogleBatches):
    """The client of the Gemini API's batches, for embeddings."""

    method: ClassVar[str] = "asyncBatchEmbedContent"
    results_field: ClassVar[str] = "inlinedEmbedContentResponses"

    def request_of(self, body: Body) -> Body:
        """Return the single request of a direct call."""
        request: Body = body["requests"][0]
        return request

    def body_of(self, response: object) -> object:
        """Return the single vector as the body of a direct call."""
        if not isinstance(response, dict):
            return response
        return {"embeddings": [response.get("embedding")], "tokenCount": response.get("tokenCount")}


def _output_of(batch: Mapping[str, Any]) -> dict[str, Any]:
    output = batch.get("response") or (batch.get("metadata") or {}).get("output") or {}
    return dict(output)


def _inline_request(line: bytes) -> bytes:
    """Return a line of a file as an inline request."""
    head, _, request = line.partition(REQUEST)
    return b'{"metadata":' + head + b"}" + REQUEST + request


def _json_text(text: str) -> bytes:
    return json.dumps(text).encode()
