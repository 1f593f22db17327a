"""Requests to an ASGI app in this process, without a socket."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx


def post_in_process(
    app: Any, path: str, body: Any, method: str = "POST", client: str = "127.0.0.1"
) -> httpx.Response:
    """Send one request to an app, its lifespan run around it."""

    async def main() -> httpx.Response:
        transport = httpx.ASGITransport(app=app, client=(client, 1))
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://localhost") as session,
        ):
            return await session.request(method, path, json=body)

    return asyncio.run(main())
