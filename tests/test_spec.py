"""The specification: every code that is used is defined, every rule has a test, and the page of tests is up to date."""

from __future__ import annotations

from tests.spec_page import PAGE, defined, files_by_code, names_by_code, page_text


def test_no_rule_is_defined_twice():
    codes = defined()

    assert sorted(codes) == sorted(set(codes))


def test_all_rules_are_there():
    codes = set(defined())

    assert {f"T{number:02}" for number in range(1, 101)} <= codes
    assert {f"V{number}" for number in range(1, 21)} <= codes
    assert {f"E{number}" for number in range(1, 9)} <= codes


def test_every_code_in_source_tests_and_docs_is_defined():
    codes = set(defined())

    assert {code: files for code, files in files_by_code().items() if code not in codes} == {}


def test_every_rule_has_a_test():
    tests = names_by_code()

    assert [code for code in defined() if not tests.get(code)] == []


def test_the_evidence_of_a_rule_is_tests_only():
    tests = {test for rows in names_by_code().values() for test in rows}

    assert [test for test in tests if not test[0].startswith("test_")] == []
    assert [test for test in tests if not test[1].rpartition("/")[2].startswith("test_")] == []


def test_the_page_of_tests_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == page_text(), "run python -m tests.spec_page"
