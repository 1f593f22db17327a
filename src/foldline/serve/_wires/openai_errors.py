"""The errors of OpenAI's wires."""

from __future__ import annotations

from typing import Final

from foldline.serve._json_object import JsonObject
from foldline.serve.errors import ErrorKind, ServeError

__all__ = ["OpenAIErrors"]

ERROR_TYPES: Final[dict[ErrorKind, str]] = {
    "authentication": "authentication_error",
    "permission": "permission_error",
    "not_found": "not_found_error",
    "rate_limit": "rate_limit_error",
    "budget": "insufficient_quota",
    "invalid_request": "invalid_request_error",
    "too_large": "invalid_request_error",
    "conflict": "conflict_error",
}
ERROR_CODES: Final[dict[ErrorKind, str]] = {
    "authentication": "invalid_api_key",
    "not_found": "model_not_found",
    "rate_limit": "rate_limit_exceeded",
    "budget": "insufficient_quota",
}


class OpenAIErrors:
    """The errors of OpenAI's wires."""

    def __init__(self, name: str, *, cancels: bool = True) -> None:
        self.name = name
        self.cancels = cancels

    def error_body(self, error: ServeError) -> JsonObject:
        """Return the JSON of an error."""
        return {
            "error": {
                "message": error.message,
                "type": ERROR_TYPES.get(error.kind, "server_error"),
                "param": None,
                "code": error.code or ERROR_CODES.get(error.kind),
                **error.ids,
            }
        }
