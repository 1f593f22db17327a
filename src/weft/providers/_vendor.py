"""`VendorModel`: the fields, names and settings that chat models of every vendor share, whatever wire they speak.

The fields are LangChain's, under all the names it accepts. What is not set is not sent.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import ConfigDict, Field, model_validator

from weft.exceptions import UsageError
from weft.providers._endpoint import Body
from weft.providers._http import HttpChatModel

if TYPE_CHECKING:
    from weft._run import Run
    from weft.language_models.request import ChatRequest

__all__ = ["VendorModel"]

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
        values = _values_of(type(self))(own)
        kept = own.get("_kept_parameters")
        if kept is None or kept[0] != values:
            # Of some thirty fields few are set. Which, is found anew only when one of them has changed.
            given = [name for name in self.sent_fields if own[name] is not None]
            kept = own["_kept_parameters"] = (values, given)
        said = {name: own[name] for name in kept[1]}
        return said | own["model_kwargs"] if own["model_kwargs"] else said

    def _request(self, value: Json, run: Run, *, stream: bool) -> ChatRequest:
        request = super()._request(value, run, stream=stream)
        if not (given := request.options) and not self.streaming:
            return request
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


@cache
def _values_of(cls: type[VendorModel]) -> Callable[[dict[str, Json]], tuple[Json, ...]]:
    """Give what reads the fields that are sent off a model's values."""
    first, *rest = cls.sent_fields or ("model",)
    return itemgetter(first, *rest, "model")  # one name alone would give no tuple
