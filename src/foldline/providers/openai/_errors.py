"""OpenAI's error codes: those of chat completions, and those that only Responses has (`response.failed`)."""

from __future__ import annotations

from typing import Final

from foldline.exceptions import (
    ModelAPIError,
    ModelError,
    ModelInvalidRequestError,
    ModelNotFoundError,
    ModelPermissionDeniedError,
    ModelStatusError,
)
from foldline.providers._completions import errors

ERRORS: Final[dict[str, type[ModelError]]] = {
    **errors.ERRORS,
    "vector_store_timeout": ModelAPIError,
    "response_cancelled": ModelStatusError,  # our own code; a cancelled response is not retried
    "previous_response_not_found": ModelNotFoundError,
    "invalid_image": ModelInvalidRequestError,
    "invalid_image_format": ModelInvalidRequestError,
    "invalid_base64_image": ModelInvalidRequestError,
    "invalid_image_url": ModelInvalidRequestError,
    "image_too_large": ModelInvalidRequestError,
    "image_too_small": ModelInvalidRequestError,
    "image_parse_error": ModelInvalidRequestError,
    "image_content_policy_violation": ModelInvalidRequestError,
    "invalid_image_mode": ModelInvalidRequestError,
    "image_file_too_large": ModelInvalidRequestError,
    "unsupported_image_media_type": ModelInvalidRequestError,
    "empty_image_file": ModelInvalidRequestError,
    "failed_to_download_image": ModelInvalidRequestError,
    "image_file_not_found": ModelInvalidRequestError,
    "bio_policy": ModelInvalidRequestError,
    "cyber_policy": ModelInvalidRequestError,
    "misalignment_policy_violation": ModelInvalidRequestError,
    "data_residency_mismatch": ModelPermissionDeniedError,
}
"""Code or type -> class."""
