"""What a user's type checker must see. Never run: mypy reads it in scripts/check."""

from typing import assert_type

from weft.exceptions import ModelRateLimitError, WeftError


def errors_are_narrowed(error: WeftError) -> None:
    if isinstance(error, ModelRateLimitError):
        assert_type(error.is_retryable, bool)
