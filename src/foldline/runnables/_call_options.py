"""The check of the options of a call: one that resembles a known option is probably mistyped."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from foldline.utils._suggest import checked_names, warn_of_typo

if TYPE_CHECKING:
    from foldline.runnables.base import Runnable


def check_options(runnable: Runnable[Any, Any], names: Iterable[str], *others: str) -> None:
    """Warn once of each option that resembles a known one, of this runnable or of `others`."""
    owner = type(runnable).__name__
    for name in names:
        if (owner, name) in checked_names:
            continue
        if runnable._accepts_option(name):
            checked_names.add((owner, name))
        else:
            known = (*runnable._option_names(), *others)
            warn_of_typo(owner, name, known, "it is passed on as given")
