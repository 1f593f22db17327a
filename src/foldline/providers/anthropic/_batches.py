"""Anthropic's message batches: requests in one body, results as JSON lines in any order.

A batch cannot carry our metadata. A batch sent before a crash is found by its time and size and identified by the ids
of its requests, which begin with the part's tag and can be read once the batch has ended.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import aclosing
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

from foldline._io import IO
from foldline.batches._batch_api import BatchAnswer, BatchStatus
from foldline.batches.records import Part
from foldline.providers._batch_client import BatchClient, checks_payload
from foldline.providers._wire import dump_body
from foldline.providers.anthropic import _wire as wire

__all__ = ["AnthropicBatches"]

PATH: Final = "v1/messages/batches"
MAX_CLOCK_SKEW: Final = 300.0
"""Seconds by which our clock and Anthropic's may differ."""
LOOK_SECONDS: Final = 30.0
STATUSES: Final = {
    "invalid_request_error": 400, "authentication_error": 401, "permission_error": 403, "not_found_error": 404,
    "request_too_large": 413, "rate_limit_error": 429, "overloaded_error": 529,
}  # fmt: skip
"""Error type -> the HTTP status that a direct call would have returned."""


class AnthropicBatches(BatchClient):
    """The client of Anthropic's message batches."""

    most_requests = 100_000
    most_bytes = 250 * 1024 * 1024
    look_seconds = LOOK_SECONDS

    def headers(self) -> dict[str, str]:
        """Return the headers with the API version and the model's betas."""
        betas = self.endpoint.betas
        return {
            "anthropic-version": wire.VERSION,
            **({"anthropic-beta": ",".join(betas)} if betas else {}),
        }

    def encode_line(self, custom_id: str, path: str, body: Mapping[str, Any]) -> bytes:
        """Return one request of a batch as JSON."""
        params = {name: value for name, value in body.items() if name != "stream"}
        return dump_body({"custom_id": custom_id, "params": params})

    @checks_payload
    async def submit(self, lines: list[bytes], part: Part, path: str, io: IO) -> str:
        """Create a batch and return its id."""
        body = b'{"requests":[' + b",".join(lines) + b"]}"
        batch = await self.ask(PATH, io, method="POST", body=body, may_repeat=False)
        return self.name_of(batch["id"])

    @checks_payload
    async def find(self, part: Part, known: Collection[str], io: IO) -> str | None:
        """Return the id of the batch that was created for a part, or None.

        Batches of the part's time and size that no other part has are identified by the ids of their requests.
        """
        page = await self.ask(f"{PATH}?limit=100", io)
        for row in page.get("data") or []:
            is_new = _time(row.get("created_at")) >= part.made_at - MAX_CLOCK_SKEW
            size = sum(int(count) for count in (row.get("request_counts") or {}).values())
            if row["id"] in known or not is_new or size != part.size:
                continue
            if await self._is_ours(row["id"], part, io):
                return self.name_of(row["id"])
        return None

    async def _is_ours(self, provider_id: str, part: Part, io: IO) -> bool:
        while (status := await self.status(provider_id, io)).state == "running":
            await io.sleep(self.look_seconds)  # results are available only when a batch has ended
        async with aclosing(self.answers(status, io)) as answers:
            async for answer in answers:
                return answer.custom_id.rpartition("-")[0] == part.tag
        return False

    @checks_payload
    async def status(self, provider_id: str, io: IO) -> BatchStatus:
        """Return the status of a batch."""
        batch = await self.ask(f"{PATH}/{quote(provider_id)}", io)
        counts = batch.get("request_counts") or {}
        finished = sum(int(count) for name, count in counts.items() if name != "processing")
        word = str(batch.get("processing_status"))
        return BatchStatus("ended" if word == "ended" else "running", word, finished, batch)

    async def answers(self, status: BatchStatus, io: IO) -> AsyncGenerator[BatchAnswer, None]:
        """Yield the results, read from the model's own address: the key is sent to no other host."""
        path = f"{PATH}/{quote(self.name_of(status.details.get('id')))}/results"
        async with aclosing(self.lines(path, io, _answer)) as answers:
            async for answer in answers:
                yield answer

    @checks_payload
    async def cancel(self, provider_id: str, io: IO) -> None:
        """Cancel a batch that is in progress."""
        batch = await self.ask(f"{PATH}/{quote(provider_id)}", io)
        if batch.get("processing_status") == "in_progress":
            await self.ask(f"{PATH}/{quote(provider_id)}/cancel", io, method="POST")


def _time(text: object) -> float:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except (OverflowError, ValueError):
        return 0.0


def _answer(row: Mapping[str, Any]) -> BatchAnswer:
    custom_id, result = str(row.get("custom_id")), row.get("result") or {}
    kind = result.get("type")
    if kind == "succeeded":
        return BatchAnswer(custom_id, 200, result.get("message"))
    if kind == "errored":
        error = result.get("error") or {}
        nested = error.get("error")
        inner = nested if isinstance(nested, dict) else error
        body = error if error.get("type") == "error" else {"type": "error", "error": error}
        return BatchAnswer(custom_id, STATUSES.get(str(inner.get("type")), 500), body)
    return BatchAnswer(custom_id, 0, None, str(kind))
