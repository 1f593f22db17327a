"""Stub servers of the three batch APIs, in the public wire formats; the vendors' own clients read them too.

A request whose prompt has a word in `WORDS` is treated as the word says. Everything that came is in `requests`.
"""

from __future__ import annotations

import json
import re
import threading
import time
from email import message_from_bytes
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Json = Any


class BatchStub:
    """One server that is OpenAI, Anthropic and Gemini."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.requests: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.live = 0
        self.looks_until_done = 1
        """How often a batch is asked for before it has ended."""
        self.ends_as = "completed"
        self.dies_after_create = False
        """Answer the next creation of a batch with a broken connection, though it was made."""
        self.answer_headers: dict[str, str] = {}
        """Headers of the answer that is made now."""
        self.lock = threading.Lock()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None: ...

            def _go(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                with stub.lock:
                    stub.requests.append((self.command, self.path))
                    stub.headers.append({k.lower(): v for k, v in self.headers.items()})
                    stub.answer_headers = {}
                    answer = stub.answer(self.command, self.path, body, self.headers)
                    headers = stub.answer_headers
                if answer is None:
                    self.close_connection = True
                    self.connection.close()
                    return
                status, content = answer
                data = content if isinstance(content, bytes) else json.dumps(content).encode()
                kind = "application/x-jsonl" if isinstance(content, bytes) else "application/json"
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(data)))
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = _go

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def count(self, method: str, pattern: str) -> int:
        return sum(
            verb == method and re.fullmatch(pattern, path) is not None
            for verb, path in self.requests
        )

    # -- routes

    def answer(
        self, method: str, target: str, body: bytes, headers: Any
    ) -> tuple[int, Json] | None:
        path = urlsplit(target).path
        query = {k: v[0] for k, v in parse_qs(urlsplit(target).query).items()}
        for verb, pattern, handler in self.ROUTES:
            match = re.fullmatch(pattern, path)
            if verb == method and match:
                return handler(self, body, headers, query, *match.groups())
        return 404, {"error": {"message": f"no route {method} {path}", "type": "not_found"}}

    def _add_batch(self, id: str, row: dict[str, Any], shown: Json) -> tuple[int, Json] | None:
        self.batches[id] = {"looks": 0, "cancelled": False, "at": time.time(), **row}
        if self.dies_after_create:
            self.dies_after_create = False
            return None
        return 200, shown(id)

    def _is_over(self, id: str) -> bool:
        row = self.batches[id]
        return row["cancelled"] or row["looks"] > self.looks_until_done

    # OpenAI

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
            fate = self._fate(text)
            if fate == "missing":
                continue
            if fate == "expired":
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

    def _fate(self, text: str) -> str:
        return next((word for word in ("missing", "expired") if word in text), "")

    # Anthropic

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
        row, over = self.batches[id], self._is_over(id)
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(row["at"]))
        size = len(row["rows"])
        return {
            "id": id,
            "type": "message_batch",
            "processing_status": "ended" if over else "in_progress",
            "created_at": at,
            "expires_at": at,
            "ended_at": at if over else None,
            "archived_at": None,
            "cancel_initiated_at": None,
            "results_url": f"{self.url}/v1/messages/batches/{id}/results" if over else None,
            "request_counts": {
                "processing": 0 if over else size,
                "succeeded": size if over else 0,
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
            fate = "canceled" if self.batches[id]["cancelled"] else self._fate(text)
            if fate == "missing":
                continue
            if fate:
                result: Json = {"type": fate}
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

    # Gemini

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
        row, over = self.batches[id], self._is_over(id)
        state = (
            "BATCH_STATE_CANCELLED"
            if row["cancelled"]
            else "BATCH_STATE_SUCCEEDED"
            if over
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
        if over:
            answers = [answer for answer in map(self._google_result, row["rows"]) if answer]
            metadata["output"] = self._google_output(id, row, answers)
        return {"name": id, "metadata": metadata, "done": over}

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
        fate = self._fate(text)
        if fate == "missing":
            return None
        if fate:
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

    ROUTES = (
        ("POST", "/v1/files", upload),
        ("POST", "/v1/batches", create_openai),
        ("GET", "/v1/batches", list_openai),
        ("GET", "/v1/batches/([^/]+)", get_openai),
        ("POST", "/v1/batches/([^/]+)/cancel", cancel_openai),
        ("GET", "/v1/files/([^/]+)/content", content),
        ("POST", "/v1/chat/completions", live_openai),
        ("POST", "/v1/messages/batches", create_anthropic),
        ("GET", "/v1/messages/batches", list_anthropic),
        ("GET", "/v1/messages/batches/([^/]+)", get_anthropic),
        ("GET", "/v1/messages/batches/([^/]+)/results", results_anthropic),
        ("POST", "/v1/messages/batches/([^/]+)/cancel", cancel_anthropic),
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
