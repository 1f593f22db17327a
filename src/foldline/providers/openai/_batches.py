"""OpenAI's batches: upload a file of JSON lines, create a batch from it, download files of results and errors.

The part's tag is in the batch's metadata, by which it is found again after a crash.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing
from typing import Any, Final
from urllib.parse import quote
from uuid import uuid4

from foldline._io import IO
from foldline.batches._batch_api import BatchAnswer, BatchStatus
from foldline.batches.records import Part
from foldline.providers._batch_client import BatchClient, checks_payload
from foldline.providers._wire import dump_body

__all__ = ["OpenAIBatches"]

END_STATES: Final = ("completed", "expired", "cancelled")
TAG_KEY: Final = "foldline_part"
MAX_PAGES: Final = 20
"""How many pages of a hundred batches are searched."""


class OpenAIBatches(BatchClient):
    """The client of OpenAI's batches, for chat completions, Responses and embeddings."""

    most_requests = 50_000
    most_bytes = 200 * 1024 * 1024

    def headers(self) -> dict[str, str]:
        """Return the headers with organization and project."""
        header_fields = {"openai-organization": "organization", "openai-project": "project"}
        return {
            name: value
            for name, field in header_fields.items()
            if (value := getattr(self.endpoint, field, None))
        }

    def encode_line(self, custom_id: str, path: str, body: object) -> bytes:
        """Return a request as a line of the file."""
        return dump_body(
            {"custom_id": custom_id, "method": "POST", "url": f"/v1/{path}", "body": body}
        )

    @checks_payload
    async def submit(self, lines: list[bytes], part: Part, path: str, io: IO) -> str:
        """Upload the file, create a batch from it and return its id."""
        file = await self._upload(b"\n".join(lines) + b"\n", f"{part.tag}.jsonl", io)
        batch = {
            "input_file_id": file["id"],
            "endpoint": f"/v1/{path}",
            "completion_window": "24h",
            "metadata": {TAG_KEY: part.tag},
        }
        created = await self.ask(
            "batches", io, method="POST", body=dump_body(batch), may_repeat=False
        )
        return self.name_of(created["id"])

    async def _upload(self, content: bytes, name: str, io: IO) -> dict[str, Any]:
        boundary = f"foldline{uuid4().hex}"
        head = (
            f'--{boundary}\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            f'--{boundary}\r\ncontent-disposition: form-data; name="file"; filename="{name}"\r\n'
            "content-type: application/jsonl\r\n\r\n"
        )
        body = head.encode() + content + f"\r\n--{boundary}--\r\n".encode()
        file: dict[str, Any] = await self.ask(
            "files", io, method="POST", body=body, kind=f"multipart/form-data; boundary={boundary}"
        )
        return file

    @checks_payload
    async def find(self, part: Part, known: Collection[str], io: IO) -> str | None:
        """Return the id of the batch whose metadata has the part's tag, or None."""
        after = ""
        for _ in range(MAX_PAGES):
            page = await self.ask(f"batches?limit=100{after}", io)
            rows = page.get("data") or []
            for row in rows:
                if (row.get("metadata") or {}).get(TAG_KEY) == part.tag:
                    return self.name_of(row["id"])
            if (
                not rows
                or not page.get("has_more")
                or rows[-1].get("created_at", 0) < part.made_at - 3600
            ):
                return None
            after = f"&after={quote(rows[-1]['id'])}"
        return None

    @checks_payload
    async def status(self, provider_id: str, io: IO) -> BatchStatus:
        """Return the status of a batch."""
        batch = await self.ask(f"batches/{quote(provider_id)}", io)
        state = str(batch.get("status"))
        counts = batch.get("request_counts") or {}
        finished = int(counts.get("completed") or 0) + int(counts.get("failed") or 0)
        if state in END_STATES:
            return BatchStatus("ended", state, finished, batch)
        if state == "failed":
            errors = (batch.get("errors") or {}).get("data") or []
            reasons = "; ".join(str(error.get("message")) for error in errors[:3])
            return BatchStatus("failed", f"failed: {reasons}", finished, batch)
        return BatchStatus("running", state, finished)

    async def answers(self, status: BatchStatus, io: IO) -> AsyncGenerator[BatchAnswer, None]:
        """Yield the answers of the file of results, then of the file of errors."""
        for name in ("output_file_id", "error_file_id"):
            file = status.details.get(name)
            if not file:
                continue
            path = f"files/{quote(self.name_of(file))}/content"
            async with aclosing(self.lines(path, io, _answer)) as answers:
                async for answer in answers:
                    yield answer

    @checks_payload
    async def cancel(self, provider_id: str, io: IO) -> None:
        """Cancel a batch that is in progress."""
        batch = await self.ask(f"batches/{quote(provider_id)}", io)
        if batch.get("status") in ("validating", "in_progress", "finalizing"):
            await self.ask(f"batches/{quote(provider_id)}/cancel", io, method="POST")


def _answer(row: Mapping[str, Any]) -> BatchAnswer:
    custom_id = str(row.get("custom_id"))
    response, error = row.get("response"), row.get("error")
    if isinstance(response, dict) and response.get("status_code"):
        body = response.get("body")
        if isinstance(body, dict) and "service_tier" in body:
            body = {
                **body,
                "service_tier": "batch",
            }  # the API returns "default", which has another price
        return BatchAnswer(custom_id, int(response["status_code"]), body)
    reason = (error or {}).get("code") or json.dumps(error)
    return BatchAnswer(custom_id, 0, None, str(reason))
