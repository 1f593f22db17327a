"""Capability profiles, under LangChain's path; defined in `profile`."""

from foldline.language_models.profile import ModelProfile, ModelProfileRegistry

__all__ = ["ModelProfile", "ModelProfileRegistry"]
