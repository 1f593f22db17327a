"""OpenAI's batch API, in its public wire format."""

from __future__ import annotations

import json
import time
from email import message_from_bytes
from email.policy import HTTP
from typing import Any

from tests.batches.stub_server import Json, StubServer


class OpenAIStub(StubServer):
    """Files, batches, and calls of chat completions."""

    def upload(self, body: bytes, headers: Any, query: Any) -> tuple[int, Json]:
        form = message_from_bytes(
            b"content-type: " + headers["content-type"].encode() + b"\r\n\r\n" + body, policy=HTTP
        )
        parts = {
            part.get_param("name", header="content-disposition"): part for part in form.iter_parts()
        }
        if parts["purpose"].get_payload(decode=True).strip() != b"batch":
            return 400, {"error": {"message": "purpose", "type": "invalid_request_error"}}
        id = f"file-{len(self.files)}"
        content = parts["file"].get_payload(decode=True)
        self.files[id] = content
        return 200, {
            "id": id,
            "object": "file",
            "bytes": len(content),
            "created_at": int(time.time()),
            "filename": parts["file"].get_filename(),
            "purpose": "batch",
            "status": "processed",
        }

    def create_openai(self, body: bytes, headers: Any, query: Any) -> tuple[int, Json] | None:
        request = json.loads(body)
        rows = [json.loads(line) for line in self.files[request["input_file_id"]].splitlines()]
        ids = [row["custom_id"] for row in rows]
        assert len(set(ids)) == len(ids)
        assert all(row["method"] == "POST" and row["url"] == request["endpoint"] for row in rows)
        assert request["completion_window"] == "24h"
        return self._add_batch(
            f"batch_{len(self.batches)}", {"request": request, "rows": rows}, self.openai_batch
        )

    def openai_batch(self, id: str) -> Json:
        row = self.batches[id]
        status = "in_progress"
        files: dict[str, str] = {}
        if self._is_over(id):
            status = "cancelled" if row["cancelled"] else self.ends_as
            files = self._openai_results(id) if status != "failed" else {}
        return {
            "id": id,
            "object": "batch",
            "endpoint": row["request"]["endpoint"],
            "completion_window": "24h",
            "input_file_id": row["request"]["input_file_id"],
            "status": status,
            "created_at": int(row["at"]),
            "metadata": row["request"].get("metadata"),
            "output_file_id": files.get("output"),
            "error_file_id": files.get("error"),
            "errors": {"object": "list", "data": [{"message": "bad file"}]}
            if status == "failed"
            else None,
            "request_counts": {"total": len(row["rows"]), "completed": 0, "failed": 0},
        }

    def _openai_results(self, id: str) -> dict[str, str]:
        output, errors = [], []
        for request in self.batches[id]["rows"]:
            text = json.dumps(request["body"])
            line: dict[str, Any] = {
                "id": "r",
                "custom_id": request["custom_id"],
                "response": None,
                "error": None,
            }
            outcome = self._fate(text)
            if outcome == "missing":
                continue
            if outcome == "expired":
                line["error"] = {"code": "batch_expired", "message": "not in time"}
                errors.append(line)
                continue
            status, answer = self.openai_answer(request["body"], request["url"])
            line["response"] = {"status_code": status, "request_id": "q", "body": answer}
            (output if status == 200 else errors).append(line)
        output.reverse()
        names = {"output": f"out-{id}", "error": f"err-{id}"}
        for name, lines in (("output", output), ("error", errors)):
            self.files[names[name]] = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        return names

    def openai_answer(self, body: Json, url: str) -> tuple[int, Json]:
        text = json.dumps(body)
        if "refuse" in text:
            return 400, {
                "error": {"message": "refused", "type": "invalid_request_error", "code": "bad"}
            }
        if url.endswith("embeddings"):
            return 200, {
                "object": "list",
                "data": [{"object": "embedding", "index": 0, "embedding": [1.0, 2.0]}],
                "usage": {"prompt_tokens": 3, "total_tokens": 3},
                "model": "e",
            }
        prompt = body["messages"][-1]["content"]
        return 200, {
            "id": "c",
            "object": "chat.completion",
            "created": 1,
            "model": "gpt-4o-mini",
            "service_tier": "default",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": f"re: {prompt}"},
                }
            ],
            "usage": {"prompt_tokens": 1000, "completion_tokens": 1000, "total_tokens": 2000},
        }

    def live_openai(self, body: bytes, headers: Any, query: Any) -> tuple[int, Json]:
        self.live += 1
        return self.openai_answer(json.loads(body), "/v1/chat/completions")

    def get_openai(self, body: bytes, headers: Any, query: Any, id: str) -> tuple[int, Json]:
        self.batches[id]["looks"] += 1
        return 200, self.openai_batch(id)

    def list_openai(self, body: bytes, headers: Any, query: Any) -> tuple[int, Json]:
        rows = [self.openai_batch(id) for id in reversed(self.batches)]
        ids = [row["id"] for row in rows]
        start = ids.index(query["after"]) + 1 if "after" in query else 0
        page = rows[start : start + min(2, int(query.get("limit", 20)))]
        return 200, {
            "object": "list",
            "data": page,
            "has_more": start + len(page) < len(rows),
            "first_id": page[0]["id"] if page else None,
            "last_id": page[-1]["id"] if page else None,
        }

    def content(self, body: bytes, headers: Any, query: Any, id: str) -> tuple[int, Json]:
        return (200, self.files[id]) if id in self.files else (404, {"error": {"message": "gone"}})

    def cancel_openai(self, body: bytes, headers: Any, query: Any, id: str) -> tuple[int, Json]:
        self.batches[id]["cancelled"] = True
        return 200, self.openai_batch(id)

    OPENAI_ROUTES = (
        ("POST", "/v1/files", upload),
        ("POST", "/v1/batches", create_openai),
        ("GET", "/v1/batches", list_openai),
        ("GET", "/v1/batches/([^/]+)", get_openai),
        ("POST", "/v1/batches/([^/]+)/cancel", cancel_openai),
        ("GET", "/v1/files/([^/]+)/content", content),
        ("POST", "/v1/chat/completions", live_openai),
    )
