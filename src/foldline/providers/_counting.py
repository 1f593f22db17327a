"""`Counting`: chat models whose vendor has an endpoint that counts the tokens of a request."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, ClassVar

from foldline import _io
from foldline._config import RunnableConfig
from foldline._io import IO
from foldline._io.drive import drive
from foldline.language_models._call.request import ChatRequest
from foldline.providers import _explain
from foldline.providers._endpoint import Body
from foldline.providers._http import HttpChatModel
from foldline.providers._wire import dump_body

__all__ = ["Counting"]


class Counting(HttpChatModel):
    """A chat model whose vendor counts tokens."""

    def _count_request(self, request: ChatRequest, body: Body) -> tuple[str, Body]:
        """Return the path and body of the request that counts tokens."""
        raise NotImplementedError

    counted_field: ClassVar[str] = ""
    """The field of the vendor's answer that holds the number."""

    def count_tokens_exactly(
        self,
        input: object,
        config: RunnableConfig | None = None,
        **kwargs: object,
    ) -> int:
        """Return the input tokens of a call (messages, tools, media) as the vendor counts them. Sends a request."""
        return drive(self._count(input, _io.BLOCKING, config, kwargs))

    async def acount_tokens_exactly(
        self,
        input: object,
        config: RunnableConfig | None = None,
        **kwargs: object,
    ) -> int:
        """Return the input tokens of a call (messages, tools, media) as the vendor counts them. Sends a request."""
        return await self._count(input, _io.ASYNC, config, kwargs)

    async def _count(
        self,
        input: object,
        io: IO,
        config: RunnableConfig | None,
        kwargs: dict[str, Any],
    ) -> int:
        request = (await _explain.prepare(self, input, io, config, kwargs)).replace(stream=False)
        http_request = await self._http_request(request, io)
        path, body = self._count_request(request, json.loads(http_request.body))
        http_request = replace(http_request, url=self._url(path), body=dump_body(body))
        http_request = await self._authorize(http_request, io)
        async with self._transport().open(http_request, blocking=io.blocking) as response:
            if response.status >= 400:
                raise self._redact_error(
                    self._status_error(response, await response.read_error()), http_request
                )
            data = self._parse(await response.read())
        if not isinstance(data, dict) or not isinstance(data.get(self.counted_field), int):
            raise self._malformed(
                f"the answer has no {self.counted_field}: does this host count tokens?"
            )
        return int(data[self.counted_field])
