"""Anthropic's batch API, in its public wire format."""

from __future__ import annotations

import json
import re
import time
from typing import Any

from tests.batches.stub_server import Json, StubServer


class AnthropicStub(StubServer):
    """Message batches."""

    def create_anthropic(self, body: bytes, headers: Any, query: Any) -> tuple[int, Json] | None:
        if "anthropic-version" not in headers or headers.get("x-api-key") == "wrong":
            return 401, {
                "type": "error",
                "error": {"type": "authentication_error", "message": "no"},
            }
        rows = json.loads(body)["requests"]
        assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", row["custom_id"]) for row in rows)
        assert not any("stream" in row["params"] for row in rows)
        return self._add_batch(
            f"msgbatch_{len(self.batches)}", {"rows": rows}, self.anthropic_batch
        )

    def anthropic_batch(self, id: str) -> Json:
        row, is_over = self.batches[id], self._is_over(id)
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(row["at"]))
        size = len(row["rows"])
        return {
            "id": id,
            "type": "message_batch",
            "processing_status": "ended" if is_over else "in_progress",
            "created_at": at,
            "expires_at": at,
            "ended_at": at if is_over else None,
            "archived_at": None,
            "cancel_initiated_at": None,
            "results_url": f"{self.url}/v1/messages/batches/{id}/results" if is_over else None,
            "request_counts": {
                "processing": 0 if is_over else size,
                "succeeded": size if is_over else 0,
                "errored": 0,
                "canceled": 0,
                "expired": 0,
            },
        }

    def get_anthropic(self, body: bytes, headers: Any, query: Any, id: str) -> tuple[int, Json]:
        self.batches[id]["looks"] += 1
        return 200, self.anthropic_batch(id)

    def list_anthropic(self, body: bytes, headers: Any, query: Any) -> tuple[int, Json]:
        rows = [self.anthropic_batch(id) for id in reversed(self.batches)]
        return 200, {"data": rows, "has_more": False, "first_id": None, "last_id": None}

    def results_anthropic(self, body: bytes, headers: Any, query: Any, id: str) -> tuple[int, Json]:
        lines = []
        for row in reversed(self.batches[id]["rows"]):
            text = json.dumps(row["params"])
            outcome = "canceled" if self.batches[id]["cancelled"] else self._fate(text)
            if outcome == "missing":
                continue
            if outcome:
                result: Json = {"type": outcome}
            elif "refuse" in text:
                result = {
                    "type": "errored",
                    "error": {
                        "type": "error",
                        "request_id": None,
                        "error": {"type": "invalid_request_error", "message": "refused"},
                    },
                }
            else:
                prompt = row["params"]["messages"][-1]["content"]
                result = {
                    "type": "succeeded",
                    "message": {
                        "id": "m",
                        "type": "message",
                        "role": "assistant",
                        "model": "claude-sonnet-5",
                        "content": [{"type": "text", "text": f"re: {prompt}"}],
                        "stop_reason": "end_turn",
                        "stop_sequence": None,
                        "usage": {
                            "input_tokens": 1000,
                            "output_tokens": 1000,
                            "service_tier": "batch",
                        },
                    },
                }
            lines.append(
                json.dumps({"custom_id": row["custom_id"], "result": result}).encode() + b"\n"
            )
        return 200, b"".join(lines)

    def cancel_anthropic(self, body: bytes, headers: Any, query: Any, id: str) -> tuple[int, Json]:
        self.batches[id]["cancelled"] = True
        return 200, self.anthropic_batch(id)

    ANTHROPIC_ROUTES = (
        ("POST", "/v1/messages/batches", create_anthropic),
        ("GET", "/v1/messages/batches", list_anthropic),
        ("GET", "/v1/messages/batches/([^/]+)", get_anthropic),
        ("GET", "/v1/messages/batches/([^/]+)/results", results_anthropic),
        ("POST", "/v1/messages/batches/([^/]+)/cancel", cancel_anthropic),
    )
