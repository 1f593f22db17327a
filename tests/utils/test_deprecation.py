"""A deprecated name warns its user, and names what to use instead."""

from __future__ import annotations

import pytest

from foldline.utils.deprecation import FoldlineDeprecationWarning, warn_deprecated


@pytest.mark.slow
def test_the_warning_says_since_when_what_instead_and_until_when_and_points_at_the_caller():
    with pytest.warns(
        FoldlineDeprecationWarning,
        match=r"old is deprecated since foldline 0\.2 and will be removed in 0\.3: use new",
    ) as warning_records:
        warn_deprecated("old", since="0.2", instead="new", removal="0.3")

    assert warning_records[0].filename == __file__
