"""Public types as a user's type checker sees them. Never run: mypy and pyright read it in scripts/check."""

from typing import assert_type

from foldline.exceptions import FoldlineError, ModelRateLimitError


def errors_are_narrowed(error: FoldlineError) -> None:
    if isinstance(error, ModelRateLimitError):
        assert_type(error.is_retryable, bool)
