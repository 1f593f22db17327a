"""Gemini's batch API and its files, in their public wire format."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.batches.stub_server import Json, StubServer


class GoogleStub(StubServer):
    """Batches inline and of files, for chat and embeddings."""

    def create_google(
        self, body: bytes, headers: Any, query: Any, model: str, method: str
    ) -> tuple[int, Json] | None:
        batch = json.loads(body)["batch"]
        source = batch["inputConfig"]
        file = source.get("fileName") or source.get("file_name")
        if file:
            lines = [json.loads(line) for line in self.files[file].splitlines()]
            rows = [
                {"request": line["request"], "metadata": {"key": line["key"]}} for line in lines
            ]
        else:
            rows = source["requests"]["requests"]
        row = {
            "rows": rows,
            "title": batch.get("displayName") or batch.get("display_name"),
            "model": model,
            "method": method,
            "file": file,
        }
        return self._add_batch(f"batches/b{len(self.batches)}", row, self.google_batch)

    def begin_upload(self, body: bytes, headers: Any, query: Any) -> tuple[int, Json]:
        assert headers["x-goog-upload-protocol"] == "resumable"
        assert headers["x-goog-upload-command"] == "start"
        assert headers["x-goog-api-key"] == "k"
        id = f"u{len(self.files)}"
        self.answer_headers = {
            "x-goog-upload-url": f"{self.url}/upload/v1beta/files/{id}",
            "x-goog-upload-status": "active",
        }
        return 200, {}

    def end_upload(self, body: bytes, headers: Any, query: Any, id: str) -> tuple[int, Json]:
        assert headers["x-goog-upload-command"] == "upload, finalize"
        self.files[f"files/{id}"] = body
        self.answer_headers = {"x-goog-upload-status": "final"}
        return 200, {"file": {"name": f"files/{id}", "sizeBytes": str(len(body))}}

    def download_google(self, body: bytes, headers: Any, query: Any, id: str) -> tuple[int, Json]:
        return 200, self.files[id]

    def google_batch(self, id: str) -> Json:
        row, is_over = self.batches[id], self._is_over(id)
        state = (
            "BATCH_STATE_CANCELLED"
            if row["cancelled"]
            else "BATCH_STATE_SUCCEEDED"
            if is_over
            else "BATCH_STATE_RUNNING"
        )
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(row["at"]))
        metadata: dict[str, Any] = {
            "@type": "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch",
            "model": f"models/{row['model']}",
            "displayName": row["title"],
            "state": state,
            "createTime": at,
            "updateTime": at,
            "name": id,
        }
        if is_over:
            answers = [answer for answer in map(self._google_result, row["rows"]) if answer]
            metadata["output"] = self._google_output(id, row, answers)
        return {"name": id, "metadata": metadata, "done": is_over}

    def _google_output(self, id: str, row: Json, answers: list[Json]) -> Json:
        if row["file"]:
            name = f"files/results-{id.partition('/')[2]}"
            lines = [
                {
                    "key": answer["metadata"]["key"],
                    **{k: v for k, v in answer.items() if k != "metadata"},
                }
                for answer in answers
            ]
            self.files[name] = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
            return {"responsesFile": name}
        is_embedding = row["method"] == "asyncBatchEmbedContent"
        field = "inlinedEmbedContentResponses" if is_embedding else "inlinedResponses"
        return {field: {"inlinedResponses": answers}}

    def _google_result(self, row: Json) -> Json:
        text = json.dumps(row["request"])
        outcome = self._fate(text)
        if outcome == "missing":
            return None
        if outcome:
            return {"metadata": row.get("metadata"), "error": {"code": 1, "message": "cancelled"}}
        if "refuse" in text:
            return {
                "metadata": row.get("metadata"),
                "error": {"code": 3, "message": "refused", "status": "INVALID_ARGUMENT"},
            }
        if "content" in row["request"]:
            vector = {"embedding": {"values": [1.0, 2.0]}, "tokenCount": 3}
            return {"metadata": row.get("metadata"), "response": vector}
        prompt = row["request"]["contents"][-1]["parts"][0]["text"]
        return {
            "metadata": row.get("metadata"),
            "response": {
                "candidates": [
                    {
                        "content": {"role": "model", "parts": [{"text": f"re: {prompt}"}]},
                        "finishReason": "STOP",
                        "index": 0,
                    }
                ],
                "usageMetadata": {
                    "promptTokenCount": 1000,
                    "candidatesTokenCount": 1000,
                    "totalTokenCount": 2000,
                },
                "modelVersion": "gemini-2.5-flash",
            },
        }

    def get_google(self, body: bytes, headers: Any, query: Any, id: str) -> tuple[int, Json]:
        self.batches[id]["looks"] += 1
        return 200, self.google_batch(id)

    def list_google(self, body: bytes, headers: Any, query: Any) -> tuple[int, Json]:
        start = int(query.get("pageToken", 0))
        ids = list(reversed(self.batches))
        page: Json = {"operations": [self.google_batch(id) for id in ids[start : start + 1]]}
        if start + 1 < len(ids):
            page["nextPageToken"] = str(start + 1)
        return 200, page

    def cancel_google(self, body: bytes, headers: Any, query: Any, id: str) -> tuple[int, Json]:
        self.batches[id]["cancelled"] = True
        return 200, {}

    GOOGLE_ROUTES = (
        (
            "POST",
            "/v1beta/models/([^/:]+):(batchGenerateContent|asyncBatchEmbedContent)",
            create_google,
        ),
        ("POST", "/upload/v1beta/files", begin_upload),
        ("POST", "/upload/v1beta/files/([^/]+)", end_upload),
        ("GET", "/download/v1beta/(files/[^/:]+):download", download_google),
        ("GET", "/v1beta/(files/[^/:]+):download", download_google),
        ("GET", "/v1beta/batches", list_google),
        ("GET", "/v1beta/(batches/[^/:]+)", get_google),
        ("POST", "/v1beta/(batches/[^/:]+):cancel", cancel_google),
    )
