"""Datasets: cases made from runs. A model can be run on them again, and the scores of models compared."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from foldline._config import RunnableConfig
from foldline._storage.database import Connection, Database
from foldline._storage.open_database import open_database
from foldline._storage.schema import Schema, Upgrade
from foldline.exceptions import UsageError
from foldline.load import load
from foldline.runnables.base import Runnable
from foldline.studio._answers import (
    answer_json,
    endpoint,
    event,
    plain_error,
    read_body,
    stream,
    threaded,
)
from foldline.studio._messages import message_to_json, messages_from_json
from foldline.studio._playground import Playground
from foldline.studio.settings import StudioSettings
from foldline.tracers._export import all_runs
from foldline.tracers._open import make_folder
from foldline.tracers._rows import StoredRun
from foldline.tracers.store import TraceStore
from foldline.utils.uuid import uuid7

__all__ = ["DatasetRoutes"]

SCHEMA: Final = Schema(
    kind="datasets",
    tables=("foldline_cases", "foldline_results"),
    create="""
    CREATE TABLE foldline_cases (
        id TEXT PRIMARY KEY, dataset TEXT NOT NULL, run_id TEXT, messages TEXT NOT NULL, expected TEXT,
        added_at {real} NOT NULL
    ){strict};
    CREATE INDEX foldline_cases_by_dataset ON foldline_cases (dataset, added_at);
    CREATE TABLE foldline_results (
        id TEXT PRIMARY KEY, case_id TEXT NOT NULL REFERENCES foldline_cases (id) ON DELETE CASCADE,
        model TEXT NOT NULL, answer TEXT, error TEXT, scores TEXT NOT NULL, seconds {real}, cost {real},
        run_at {real} NOT NULL
    ){strict};
    CREATE INDEX foldline_results_by_case ON foldline_results (case_id)
    """,
    upgrades=(
        Upgrade(
            sqlite="""
            ALTER TABLE cases RENAME TO foldline_cases;
            ALTER TABLE results RENAME TO foldline_results;
            DROP INDEX cases_by_dataset;
            DROP INDEX results_by_case;
            CREATE INDEX foldline_cases_by_dataset ON foldline_cases (dataset, added_at);
            CREATE INDEX foldline_results_by_case ON foldline_results (case_id)
            """
        ),
    ),
)
ROLES = {"human": "user", "ai": "assistant"}


def _run_all(connection: Connection, statements: tuple[tuple[str, tuple[Any, ...]], ...]) -> None:
    for statement, values in statements:
        connection.run(statement, values)


class DatasetRoutes:
    """The endpoints of datasets."""

    def __init__(self, settings: StudioSettings, store: TraceStore, playground: Playground) -> None:
        self._settings = settings
        self._playground = playground
        self._traces = store

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/api/datasets", endpoint(self.show_all)),
            Route("/api/datasets/{name}", endpoint(self.show), methods=["GET"]),
            Route("/api/datasets/{name}", endpoint(self.delete), methods=["DELETE"]),
            Route("/api/datasets/{name}/cases", endpoint(self.add), methods=["POST"]),
            Route(
                "/api/datasets/{name}/cases/{id}", endpoint(self.delete_case), methods=["DELETE"]
            ),
            Route("/api/datasets/{name}/run", endpoint(self.run), methods=["POST"]),
        ]

    def _database(self) -> Database:
        make_folder(self._settings.datasets)
        return open_database(self._settings.datasets, SCHEMA)

    def _rows(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        if not self._settings.datasets.exists():
            return []
        database = self._database()
        try:
            return database.rows(statement, values)
        finally:
            database.close()

    def _write(self, *statements: tuple[str, tuple[Any, ...]]) -> None:
        database = self._database()
        try:
            database.write(lambda connection: _run_all(connection, statements))
        finally:
            database.close()

    async def show_all(self, request: Request) -> Response:
        """Return the datasets."""
        rows = await threaded(
            self._rows,
            "SELECT dataset, count(*), max(added_at) FROM foldline_cases GROUP BY dataset ORDER BY 3 DESC",
        )
        names = ("name", "cases", "last")
        return answer_json({"datasets": [dict(zip(names, row, strict=True)) for row in rows]})

    async def show(self, request: Request) -> Response:
        """Return the cases of a dataset and the newest result of each model."""
        return answer_json(await threaded(self._read, request.path_params["name"]))

    def _read(self, name: str) -> dict[str, Any]:
        rows = self._rows(
            "SELECT id, run_id, messages, expected FROM foldline_cases WHERE dataset = ? ORDER BY added_at",
            (name,),
        )
        if not rows:
            raise LookupError(f"there is no dataset {name!r}")
        results: dict[str, dict[str, Any]] = {}
        for case, model, answer, error, scores, seconds, cost in self._rows(
            "SELECT case_id, model, answer, error, scores, seconds, cost FROM foldline_results WHERE case_id IN "
            "(SELECT id FROM foldline_cases WHERE dataset = ?) ORDER BY run_at",
            (name,),
        ):
            results.setdefault(case, {})[model] = {
                "answer": answer,
                "error": error,
                "scores": json.loads(scores),
                "seconds": seconds,
                "cost": cost,
            }
        cases = [
            {
                "id": case,
                "run_id": run_id,
                "messages": json.loads(messages),
                "expected": expected,
                "results": results.get(case, {}),
            }
            for case, run_id, messages, expected in rows
        ]
        models = sorted({model for case in cases for model in case["results"]})
        return {"name": name, "cases": cases, "models": models}

    async def add(self, request: Request) -> Response:
        """Add a run, or messages, as a case."""
        name = request.path_params["name"].strip()
        if not name or len(name) > 100:
            raise UsageError("a dataset needs a name of at most 100 characters")
        body = await read_body(request)
        run_id = None
        if body.get("run_id"):
            run_id = str(body["run_id"])
            messages, expected = await threaded(self._case_of, run_id)
        else:
            messages = list(body.get("messages") or [])
            expected = body.get("expected")
        messages_from_json(messages)
        if not messages:
            raise UsageError("a case needs messages")
        case = str(uuid7())
        row = (case, name, run_id, json.dumps(messages), expected and str(expected), time.time())
        await threaded(self._write, ("INSERT INTO foldline_cases VALUES (?, ?, ?, ?, ?, ?)", row))
        return answer_json({"id": case}, 201)

    def _case_of(self, run_id: str) -> tuple[list[dict[str, Any]], str | None]:
        trace = self._traces.resolve(run_id)
        root = self._traces.trace(trace) if trace else None
        if root is None:
            raise LookupError(f"there is no run {run_id!r}")
        runs = list(all_runs(root))
        named_run = next((run for run in runs if str(run.id) == run_id), root)
        calls = [run for run in runs if run.run_type == "llm" and "messages" in run.inputs]
        call = named_run if named_run in calls else (calls[-1] if calls else None)
        if call is None:
            raise UsageError(f"{root.name}: this trace has no call of a chat model")
        messages = call.inputs["messages"][0]
        return [_plain_message(message) for message in messages], _answer_text(call)

    async def delete(self, request: Request) -> Response:
        """Delete a dataset."""
        name = request.path_params["name"]
        await threaded(self._read, name)
        await threaded(self._write, ("DELETE FROM foldline_cases WHERE dataset = ?", (name,)))
        return answer_json({"deleted": name})

    async def delete_case(self, request: Request) -> Response:
        """Delete a case."""
        case = request.path_params["id"]
        await threaded(self._write, ("DELETE FROM foldline_cases WHERE id = ?", (case,)))
        return answer_json({"deleted": case})

    async def run(self, request: Request) -> Response:
        """Run a model on every case of a dataset, and stream the results."""
        body = await read_body(request)
        name = request.path_params["name"]
        dataset = await threaded(self._read, name)
        model_name = str(body.get("model") or "")
        model = await threaded(
            self._playground.make_model, model_name, dict(body.get("parameters") or {})
        )
        return stream(self._results(name, dataset["cases"], model_name, model))

    async def _results(
        self, name: str, cases: list[dict[str, Any]], model_name: str, model: Runnable[Any, Any]
    ) -> AsyncGenerator[bytes, None]:
        config = RunnableConfig(
            callbacks=[self._playground.tracer()],
            tags=["dataset"],
            run_name="studio dataset",
            metadata={"dataset": name},
        )
        for case in cases:
            start = time.time()
            result: dict[str, Any] = {
                "case_id": case["id"],
                "answer": None,
                "error": None,
                "scores": {},
            }
            try:
                answer = await model.ainvoke(messages_from_json(case["messages"]), config)
                result["answer"] = str(answer.text)
                result["scores"] = score_answer(str(answer.text), case["expected"])
                result["cost"] = self._playground.cost_of(answer)
            except Exception as error:  # noqa: BLE001  one case must not end the others
                result["error"] = plain_error(error)
            result["seconds"] = time.time() - start
            row = (
                str(uuid7()), case["id"], model_name, result["answer"], result["error"],
                json.dumps(result["scores"]), result["seconds"], result.get("cost"), start,
            )  # fmt: skip
            insert = "INSERT INTO foldline_results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
            await threaded(self._write, (insert, row))
            yield event("result", result)
        yield event("end", {"cases": len(cases)})


def score_answer(answer: str, expected: str | None) -> dict[str, float]:
    """Compare an answer with the expected one: `equal`, and the share of the expected words that it has."""
    if not expected:
        return {}
    expected_words = expected.lower().split()
    words = set(answer.lower().split())
    share = (
        sum(word in words for word in expected_words) / len(expected_words)
        if expected_words
        else 0.0
    )
    return {"equal": float(answer.strip() == expected.strip()), "words": round(share, 3)}


def _plain_message(dump: object) -> dict[str, Any]:
    message: Any = load(dump) if isinstance(dump, dict) and "lc" in dump else dump
    plain: dict[str, Any] = {
        "role": ROLES.get(message.type, message.type),
        "content": message.content,
    }
    if getattr(message, "tool_calls", None):
        plain["tool_calls"] = [
            {"name": call["name"], "args": call["args"], "id": call["id"]}
            for call in message.tool_calls
        ]
    if getattr(message, "tool_call_id", None):
        plain["tool_call_id"] = message.tool_call_id
    return plain


def _answer_text(run: StoredRun) -> str | None:
    generations = (run.outputs or {}).get("generations") or [[]]
    message = generations[0][0].get("message") if generations and generations[0] else None
    if message is None:
        return None
    blocks = message_to_json(message)["blocks"]
    return "".join(block["text"] for block in blocks if block["type"] == "text") or None
