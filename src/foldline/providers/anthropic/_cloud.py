"""`CloudClaude`: the base of Claude on other clouds: the messages API without Anthropic's address and keys.

The API version is in the body, the model in the path, and the cloud authenticates the request. Answers are Anthropic's,
signatures included, and every host of Claude accepts them in a history.
"""

from __future__ import annotations

from typing import Any, ClassVar

from foldline.language_models._call.request import ChatRequest
from foldline.language_models.profile import ModelProfile, find_profile
from foldline.providers._endpoint import Body
from foldline.providers.anthropic.chat import COUNT_FIELDS, PROVIDER, ChatAnthropic

__all__ = ["CloudClaude"]


class CloudClaude(ChatAnthropic):
    """Claude on a cloud that wraps the messages API."""

    anthropic_version: str | None = None
    """The version of the API, as the cloud names it."""

    batches: ClassVar[str] = ""
    """Not supported: clouds have batch APIs of their own."""
    api_version: ClassVar[str] = ""
    """The default version of the API."""

    @property
    def _writes_as(self) -> str:
        return PROVIDER

    def _cloud_model_name(self, model: str) -> str:
        """Return Anthropic's name of a model of this cloud, used to find its profile."""
        return model

    def _profile_for(self, model: str | None) -> ModelProfile | None:
        if self.profile is not None and model in (None, self.model):
            return self.profile
        return find_profile(PROVIDER, self._cloud_model_name(model or self.model))

    def _resolve_model_profile(self) -> ModelProfile | None:
        return find_profile(PROVIDER, self._cloud_model_name(self.model))

    def _encode_body(self, request: ChatRequest) -> Body:
        """Return the body without the model, which is in the path."""
        _, body = super()._encode(request)
        del body["model"]
        return {"anthropic_version": self.anthropic_version or self.api_version, **body}

    def _counted_body(self, body: Body) -> Body:
        return {name: body[name] for name in COUNT_FIELDS if name in body}

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {**super()._identifying_params, "anthropic_version": self.anthropic_version}
