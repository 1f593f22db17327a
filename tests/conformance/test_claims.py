"""The claims of the documents: each has a test, each test exists, and docs/conformance.md says the same."""

from __future__ import annotations

import pytest

from tests.conformance.page import PAGE, TITLES, documents, missing_tests, page_text

DOCUMENTS = documents()


def test_every_document_has_claims():
    assert {number for number, claims in DOCUMENTS.items() if claims} == set(TITLES)


@pytest.mark.parametrize("number", DOCUMENTS)
def test_every_claim_names_tests_that_exist(number: str):
    for claim in DOCUMENTS[number]:
        assert claim.tests, f"{number}: no test shows {claim.text!r}"
        assert missing_tests(claim) == [], f"{number}: {claim.text!r}"


@pytest.mark.parametrize("number", DOCUMENTS)
def test_no_claim_is_made_twice(number: str):
    texts = [claim.text for claim in DOCUMENTS[number]]

    assert sorted(texts) == sorted(set(texts))


def test_the_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == page_text(), "run python -m tests.conformance.page"
