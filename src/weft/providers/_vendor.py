"""`VendorModel`: the fields, names and settings that chat models of every vendor share, whatever wire they speak.

The fields are LangChain's, under all the names it accepts. What is not set is not sent.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from pydantic import ConfigDict, Field, model_validator

from weft._config import RunnableConfig
from weft._drive import drive
from weft._io import ASYNC, BLOCKING, IO
from weft._run import Run
from weft.exceptions import UsageError
from weft.language_models.request import ChatRequest
from weft.providers._endpoint import Body
from weft.providers._explain import prepare
from weft.providers._http import HttpChatModel

__all__ = ["CountingModel", "VendorModel"]

Json = Any


class VendorModel(HttpChatModel):
    """A chat model whose settings are fields."""

    model_config = ConfigDict(populate_by_name=True, hide_input_in_errors=True)

    model: str = ""
    """The model's id."""
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    """Most tokens of an answer; by default what the model can."""
    stop: list[str] | str | None = None
    streaming: bool = False
    """Ask for a stream also under `invoke`."""
    model_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Further parameters of the request, sent as they are."""

    aliases: ClassVar[Mapping[str, str]] = {}
    """Other names that LangChain's constructors accept."""
    sent_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that are sent, under their own name or another, where they are set."""

    @model_validator(mode="before")
    @classmethod
    def _read_names(cls, values: Json) -> Json:
        if not isinstance(values, dict):
            return values
        read: dict[str, Json] = {}
        for name, value in values.items():
            field = cls.aliases.get(str(name)) or str(name)
            if field in read and read[field] != value and None not in (value, read[field]):
                raise UsageError(f"{cls.__name__}: {name} and {field} mean the same: give one")
            if field not in read or value is not None:
                read[field] = value
        unknown = [name for name in read if name not in cls.model_fields]
        if unknown:
            warnings.warn(
                f"{cls.__name__} does not know {', '.join(sorted(unknown))}: sent as they are, in model_kwargs",
                UserWarning,
                stacklevel=4,
            )
            extra = {name: read.pop(name) for name in unknown}
            read["model_kwargs"] = {**extra, **(read.get("model_kwargs") or {})}
        return read

    @property
    def model_name(self) -> str:
        """The model's id, under LangChain's older name."""
        return self.model

    def _parameters(self) -> Body:
        """Give the parameters that this model's fields set."""
        own = self.__dict__
        said = {name: value for name in self.sent_fields if (value := own[name]) is not None}
        return {**said, **self.model_kwargs}

    def _request(self, value: Json, run: Run, *, stream: bool) -> ChatRequest:
        request = super()._request(value, run, stream=stream)
        given = request.options
        for alias in given.keys() & self.aliases.keys():
            given[self.aliases[alias]] = given.pop(alias)
        if given.get("stop") and not request.stop:  # under another name
            request.stop = given.pop("stop")
        if self.streaming and not request.stream and not self._streaming_disabled(given):
            n = given.get("n", self.__dict__.get("n"))  # several answers are no stream
            request.stream = not n or n == 1
        return request

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {**self._parameters(), "base_url": self.base_url, "provider": self._provider}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:  # noqa: ANN401
        params = super()._get_ls_params(stop, **kwargs)
        params["ls_temperature"] = kwargs.get("temperature", self.temperature)
        params["ls_max_tokens"] = kwargs.get("max_tokens", self.max_tokens)
        return params

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Models can be written and read again; keys are left out."""
        return True


class CountingModel(VendorModel):
    """A chat model whose vendor counts the tokens of a request."""

    def _count_request(self, request: ChatRequest, body: Body) -> tuple[str, Body]:
        """Give path and body of the question how long a request is."""
        raise NotImplementedError

    counted_field: ClassVar[str] = ""
    """Where the vendor's answer has the number."""

    def count_tokens_exactly(
        self,
        input: Json,
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> int:
        """Let the vendor count the input tokens of a call: messages, tools, media. Opens a connection."""
        return drive(self._counted(input, BLOCKING, config, kwargs))

    async def acount_tokens_exactly(
        self,
        input: Json,
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> int:
        """Let the vendor count the input tokens of a call: messages, tools, media. Opens a connection."""
        return await self._counted(input, ASYNC, config, kwargs)

    async def _counted(
        self,
        input: Json,
        io: IO,
        config: RunnableConfig | None,
        kwargs: dict[str, Any],
    ) -> int:
        request = (await prepare(self, input, io, config, kwargs)).replace(stream=False)
        sent = await self._http_request(request, io)
        path, body = self._count_request(request, json.loads(sent.body))
        sent = replace(sent, url=self._url(path), body=json.dumps(body).encode())
        async with self._transport().open(sent, blocking=io.blocking) as response:
            if response.status >= 400:
                raise self._hidden(self._status_error(response, await response.read_error()), sent)
            data = self._parse(await response.read())
        if not isinstance(data, dict) or not isinstance(data.get(self.counted_field), int):
            raise self._malformed(
                f"the answer has no {self.counted_field}: does this host count tokens?"
            )
        return int(data[self.counted_field])
