"""Bedrock's exceptions, and the error class of each.

From the API reference of Converse, ConverseStream and InvokeModel, and AWS's common errors. The name comes in the
header `x-amzn-errortype`, in the body's `__type`, or as the type of an exception inside a stream.
"""

from __future__ import annotations

import re
from typing import Final

from foldline.exceptions import (
    ContextOverflowError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelError,
    ModelInvalidRequestError,
    ModelNotFoundError,
    ModelOverloadedError,
    ModelPermissionDeniedError,
    ModelQuotaError,
    ModelRateLimitError,
    ModelTimeoutError,
)
from foldline.providers._wire import WireFailure

__all__ = [
    "ERRORS",
    "read_error",
]

OVERFLOW: Final = "ContextOverflow"
DAILY_QUOTA: Final = "DailyQuota"
ERRORS: Final[dict[str, type[ModelError]]] = {
    "AccessDeniedException": ModelPermissionDeniedError,
    "ThrottlingException": ModelRateLimitError,
    "ResourceNotFoundException": ModelNotFoundError,
    "ModelTimeoutException": ModelTimeoutError,
    "InternalServerException": ModelAPIError,
    "ServiceUnavailableException": ModelAPIError,
    "ModelNotReadyException": ModelOverloadedError,
    "ModelErrorException": ModelAPIError,
    "ModelStreamErrorException": ModelAPIError,
    "ServiceQuotaExceededException": ModelQuotaError,
    "ConflictException": ModelAPIError,
    # Common to AWS's services
    "ExpiredTokenException": ModelAuthenticationError,
    "IncompleteSignature": ModelAuthenticationError,
    "IncompleteSignatureException": ModelAuthenticationError,
    "InvalidClientTokenId": ModelAuthenticationError,
    "InvalidSignatureException": ModelAuthenticationError,
    "MissingAuthenticationToken": ModelAuthenticationError,
    "MissingAuthenticationTokenException": ModelAuthenticationError,
    "NotAuthorized": ModelPermissionDeniedError,
    "OptInRequired": ModelPermissionDeniedError,
    "RequestExpired": ModelAuthenticationError,
    "SerializationException": ModelInvalidRequestError,
    "SignatureDoesNotMatch": ModelAuthenticationError,
    "UnrecognizedClientException": ModelAuthenticationError,
    # not AWS's names: derived from a message
    OVERFLOW: ContextOverflowError,
    DAILY_QUOTA: ModelQuotaError,
}
"""Name of an exception -> class. `ValidationException` is not listed: its status and message decide."""
STATUSES: Final = {
    "AccessDeniedException": 403,
    "ThrottlingException": 429,
    "ResourceNotFoundException": 404,
    "ModelTimeoutException": 408,
    "InternalServerException": 500,
    "ServiceUnavailableException": 503,
    "ValidationException": 400,
    "ModelNotReadyException": 429,
    "ModelErrorException": 424,
    "ModelStreamErrorException": 424,
    "ServiceQuotaExceededException": 400,
}
"""Name of an exception -> the HTTP status that it has outside a stream."""
OVERFLOW_MESSAGES: Final = (
    r"(?i)input is too long|prompt is too long|too many input tokens|input tokens exceeded|maximum context length"
    r"|exceed context limit|exceeds? (?:the )?(?:context|maximum (?:number of )?(?:input )?(?:tokens|length))"
    r"|number of input tokens exceeds|context (?:length|window)"
)
"""Texts of a ValidationException, depending on the model, for a prompt that is too long."""


def read_error(body: object, name: str = "") -> WireFailure:
    """Return the name and message of an error's JSON; `name` is that of the header or of the stream."""
    fields = body if isinstance(body, dict) else {}
    name = _plain_name(name or str(fields.get("__type") or fields.get("type") or ""))
    message = fields.get("message") or fields.get("Message") or fields.get("originalMessage")
    text = None if message is None else str(message)
    code = name or None
    if name in ("ValidationException", "ModelErrorException", "ModelStreamErrorException") and text:
        code = OVERFLOW if re.search(OVERFLOW_MESSAGES, text) else name
    elif name == "ThrottlingException" and text and "per day" in text.lower():
        code = DAILY_QUOTA
    return WireFailure(code, name or None, text, STATUSES.get(name))


def _plain_name(name: str) -> str:
    """Return `ThrottlingException` of `throttlingException`, `ns#ThrottlingException` or `...:http://...`."""
    plain = name.split(":", 1)[0].rpartition("#")[2].strip()
    return plain[:1].upper() + plain[1:]
