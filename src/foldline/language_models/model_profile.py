"""Capability profiles, under LangChain's path; they live in `profile`."""

from foldline.language_models.profile import ModelProfile, ModelProfileRegistry

__all__ = ["ModelProfile", "ModelProfileRegistry"]
