"""`Counting`: what a chat model can do whose vendor counts the tokens of a request."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, ClassVar

from foldline import _io
from foldline._config import RunnableConfig
from foldline._io import IO
from foldline._io.drive import drive
from foldline.language_models.call.request import ChatRequest
from foldline.providers import _explain
from foldline.providers._endpoint import Body
from foldline.providers._http import HttpChatModel
from foldline.providers._wire import dump_body

__all__ = ["Counting"]


class Counting(HttpChatModel):
    """Asks the vendor how many tokens a request has."""

    def _count_request(self, request: ChatRequest, body: Body) -> tuple[str, Body]:
        """Return path and body of the question how long a request is."""
        raise NotImplementedError

    counted_field: ClassVar[str] = ""
    """Where the vendor's answer has the number."""

    def count_tokens_exactly(
        self,
        input: object,
        config: RunnableConfig | None = None,
        **kwargs: object,
    ) -> int:
        """Let the vendor count the input tokens of a call: messages, tools, media. Opens a connection."""
        return drive(self._count(input, _io.BLOCKING, config, kwargs))

    async def acount_tokens_exactly(
        self,
        input: object,
        config: RunnableConfig | None = None,
        **kwargs: object,
    ) -> int:
        """Let the vendor count the input tokens of a call: messages, tools, media. Opens a connection."""
        return await self._count(input, _io.ASYNC, config, kwargs)

    async def _count(
        self,
        input: object,
        io: IO,
        config: RunnableConfig | None,
        kwargs: dict[str, Any],
    ) -> int:
        request = (await _explain.prepare(self, input, io, config, kwargs)).replace(stream=False)
        sent = await self._http_request(request, io)
        path, body = self._count_request(request, json.loads(sent.body))
        sent = replace(sent, url=self._url(path), body=dump_body(body))
        sent = await self._authorize(sent, io)
        async with self._transport().open(sent, blocking=io.blocking) as response:
            if response.status >= 400:
                raise self._hidden(self._status_error(response, await response.read_error()), sent)
            data = self._parse(await response.read())
        if not isinstance(data, dict) or not isinstance(data.get(self.counted_field), int):
            raise self._malformed(
                f"the answer has no {self.counted_field}: does this host count tokens?"
            )
        return int(data[self.counted_field])
