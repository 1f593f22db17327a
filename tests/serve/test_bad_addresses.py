"""Paths and queries that no client sends on purpose: told as a mistake of the request, on both databases."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from foldline.serve import create_app
from foldline.testing import ScriptedChatModel
from tests.servers.databases import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]

PATHS = {
    "/threads/a%00b": "GET",
    "/threads/a%00b/state": "GET",
    "/threads/a%00b/runs": "GET",
    "/threads/a%00b/runs/wait": "POST",
    "/threads/a%00b/commands": "POST",
    "/threads/t/runs/a%00b/join": "GET",
    "/runs/a%00b": "GET",
    "/runs/a%00b/events": "GET",
    "/runs/a%00b/stop": "POST",
    "/runs/a%00b/resume": "POST",
    "/runs?thread_id=a%00b": "GET",
    "/runs?status=a%00b": "GET",
    "/v1/responses/resp_a%00b": "GET",
    "/v1/responses/resp_a%00b/cancel": "POST",
    "/api/chat/chat/a%00b/stream": "GET",
}


@pytest.fixture(params=["file", "postgres"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return str(tmp_path / "runs.db")
    url: str = request.getfixturevalue("postgres_url")
    return url


def test_S54_NUL_in_a_path_or_a_query_is_a_400_on_every_api(log: str) -> None:
    app = create_app({"chat": ScriptedChatModel(script=["x"])}, log=log, studio=False)
    body = {"assistant_id": "chat", "input": "x", "if_not_exists": "create", "id": 1,
            "method": "run.start", "params": {"assistant_id": "chat", "input": "x"}}  # fmt: skip

    async def main() -> dict[str, int]:
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(
                transport=httpx.ASGITransport(app=app), base_url="http://localhost"
            ) as client,
        ):
            return {
                path: (
                    await client.request(method, path, json=body if method == "POST" else None)
                ).status_code
                for path, method in PATHS.items()
            }

    assert asyncio.run(main()) == dict.fromkeys(PATHS, 400)


@pytest.mark.parametrize("number", ["--5", "1-", "²", "٣", "", "9" * 13])
def test_S54_a_number_of_an_event_that_is_none_is_a_400(tmp_path: Path, number: str) -> None:
    app = create_app(
        {"chat": ScriptedChatModel(script=["x"])}, log=str(tmp_path / "r.db"), studio=False
    )

    async def main() -> int:
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(
                transport=httpx.ASGITransport(app=app), base_url="http://localhost"
            ) as client,
        ):
            made = await client.post("/v1/responses", json={"input": "x"})
            query = {"stream": "true", "starting_after": number}
            shown = await client.get(f"/v1/responses/{made.json()['id']}", params=query)
            return shown.status_code

    assert asyncio.run(main()) == 400
