"""`CloudClaude`: what Claude on somebody else's cloud shares: the messages API without Anthropic's address and keys.

The body says the version of the API, the path says the model, and who asks is the cloud's business. Answers are those
of Anthropic, signatures included, and are taken back by every one of them.
"""

from __future__ import annotations

from typing import Any, ClassVar

from foldline.language_models.call.request import ChatRequest
from foldline.language_models.profile import ModelProfile, find_profile
from foldline.providers._endpoint import Body
from foldline.providers.anthropic.chat import COUNTED, PROVIDER, ChatAnthropic

__all__ = ["CloudClaude"]


class CloudClaude(ChatAnthropic):
    """Claude on a cloud that speaks the messages API in its own envelope."""

    anthropic_version: str | None = None
    """The version of the API, in the words of the cloud."""

    batches: ClassVar[str] = ""
    """A cloud has batches of its own kind, which are not spoken here."""
    api_version: ClassVar[str] = ""
    """The version that is asked for by default."""

    @property
    def _writes_as(self) -> str:
        return PROVIDER

    def _cloud_model_name(self, model: str) -> str:
        """Return Anthropic's name of a model of this cloud, by which its profile is found."""
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
        return {name: body[name] for name in COUNTED if name in body}

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {**super()._identifying_params, "anthropic_version": self.anthropic_version}
