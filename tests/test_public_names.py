"""Public is what is documented (docs/api-policy.md): no page, no name."""

from __future__ import annotations

from tests.public_names import (
    NOT_IMPORTED,
    homes_of_public_names,
    public_modules,
    shown_modules,
    undocumented_names,
)


def test_every_public_name_is_on_a_page_or_in_a_library_whose_programs_run_here():
    assert undocumented_names() == {}, (
        "show it on a page of docs/, or take it out of `__all__` and out of the package's exports"
    )


def test_every_public_module_is_on_a_page_or_defines_a_public_name():
    wanted = {"foldline", *shown_modules(), *homes_of_public_names()}
    unwanted = [
        module
        for module in public_modules()
        if module not in wanted | NOT_IMPORTED and not module.endswith("__main__")
    ]

    assert unwanted == [], "give the file an underscore"
