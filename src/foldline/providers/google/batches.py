"""Gemini's batches: requests inline in one body, results inline in the finished batch.

The batch carries the part's tag as its display name, which is how it is found again after a crash.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping
from typing import Any, Final
from urllib.parse import quote

from foldline._io import IO
from foldline.batches.provider import BatchAnswer, BatchStatus
from foldline.batches.records import Part
from foldline.providers._batch_client import BatchClient
from foldline.providers._wire import dump_body

__all__ = ["GoogleBatches"]

ENDED: Final = {"SUCCEEDED": "completed", "EXPIRED": "expired", "CANCELLED": "cancelled"}
STATUSES: Final = {3: 400, 4: 504, 5: 404, 7: 403, 8: 429, 13: 500, 14: 503, 16: 401}
"""Google's codes of errors -> the status that a call would have had."""
UNTRIED: Final = frozenset({1})
"""The code of a request that was cancelled."""
LOOK_BACK: Final = 20


class GoogleBatches(BatchClient):
    """Batches of the Gemini API."""

    most_requests = 50_000
    most_bytes = 19 * 1024 * 1024

    def encode_line(self, custom_id: str, path: str, body: object) -> bytes:
        """Return a request of the batch."""
        return dump_body({"request": body, "metadata": {"key": custom_id}})

    async def submit(self, lines: list[bytes], part: Part, path: str, io: IO) -> str:
        """Make a batch of the model that the path of the requests names."""
        model = path.rpartition(":")[0]
        body = (
            b'{"batch":{"displayName":"' + part.tag.encode() + b'","inputConfig":{"requests":{"requests":['
            + b",".join(lines) + b"]}}}}"
        )  # fmt: skip
        made = await self.ask(
            f"{model}:batchGenerateContent", io, method="POST", body=body, may_repeat=False
        )
        return str(made["name"])

    async def find(self, part: Part, known: Collection[str], io: IO) -> str | None:
        """Look for the batch whose display name is the part's tag."""
        token = ""
        for _ in range(LOOK_BACK):
            page = await self.ask(f"batches?pageSize=100{token}", io)
            for row in page.get("operations") or []:
                if (row.get("metadata") or {}).get("displayName") == part.tag:
                    return str(row["name"])
            if not page.get("nextPageToken"):
                return None
            token = f"&pageToken={quote(page['nextPageToken'])}"
        return None

    async def status(self, provider_id: str, io: IO) -> BatchStatus:
        """Ask how far a batch is; one that has ended brings its results along."""
        batch = await self.ask(provider_id, io)
        metadata = batch.get("metadata") or {}
        told = str(metadata.get("state")).removeprefix("BATCH_STATE_").removeprefix("JOB_STATE_")
        if told in ENDED:
            return BatchStatus("ended", ENDED[told], details=batch)
        if told == "FAILED":
            reason = (batch.get("error") or {}).get("message")
            return BatchStatus("failed", f"failed: {reason}", details=batch)
        return BatchStatus("running", told.lower())

    async def answers(self, status: BatchStatus, io: IO) -> AsyncGenerator[BatchAnswer, None]:
        """Give the results that came with the batch."""
        batch = status.details
        output = batch.get("response") or (batch.get("metadata") or {}).get("output") or {}
        rows = output.get("inlinedResponses") or {}
        for row in (rows.get("inlinedResponses") if isinstance(rows, dict) else rows) or []:
            yield _answer(row)

    async def cancel(self, provider_id: str, io: IO) -> None:
        """Ask for a batch to be stopped."""
        if (await self.status(provider_id, io)).state == "running":
            await self.ask(f"{provider_id}:cancel", io, method="POST")


def _answer(row: Mapping[str, Any]) -> BatchAnswer:
    custom_id = str((row.get("metadata") or {}).get("key"))
    error = row.get("error")
    if not error:
        return BatchAnswer(custom_id, 200, row.get("response"))
    code = int(error.get("code") or 13)
    if code in UNTRIED:
        return BatchAnswer(custom_id, 0, None, str(error.get("message") or "cancelled"))
    return BatchAnswer(
        custom_id, STATUSES.get(code, 500), {"error": {**error, "code": STATUSES.get(code, 500)}}
    )
