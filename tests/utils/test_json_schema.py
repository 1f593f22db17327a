"""References, titles, the strict form, and the validator held against the `jsonschema` package."""

import time

import jsonschema
import pytest
from hypothesis import given, strategies as st

from foldline.exceptions import UsageError
from foldline.utils.json_schema import (
    dereference_refs,
    inline_refs,
    remove_titles,
    strict_schema,
    validate,
)

pytestmark = pytest.mark.timing

NAMES = st.sampled_from(["a", "b", "c"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.0, 1.0, 1.5, -2.0]),
    st.text("abc", max_size=3),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null", "object", "array"])
SMALL = st.integers(0, 3)
LEAVES = st.one_of(
    st.booleans(),
    st.builds(lambda t: {"type": t}, TYPES),
    st.builds(lambda t: {"type": t}, st.lists(TYPES, min_size=1, max_size=3, unique=True)),
    st.builds(lambda v: {"const": v}, VALUES),
    st.builds(lambda v: {"enum": v}, st.lists(SCALARS, min_size=1, max_size=3)),
    st.builds(
        lambda k, n: {k: n},
        st.sampled_from(
            [
                "minLength",
                "maxLength",
                "minItems",
                "maxItems",
                "minProperties",
                "maxProperties",
                "minimum",
                "maximum",
                "exclusiveMinimum",
                "exclusiveMaximum",
            ]
        ),
        SMALL,
    ),
    st.builds(lambda n: {"multipleOf": n}, st.sampled_from([1, 2, 0.5])),
    st.builds(lambda p: {"pattern": p}, st.sampled_from(["^a", "b$", "a.c", "[ab]+", "^(a|b)*$"])),
    st.builds(lambda b: {"uniqueItems": b}, st.booleans()),
    st.builds(lambda n: {"required": n}, st.lists(NAMES, max_size=2, unique=True)),
    st.just({"dependentRequired": {"a": ["b"]}}),
    st.just({"$ref": "#/$defs/list"}),
)


def compound(inner):
    schemas = st.lists(inner, min_size=1, max_size=3)
    properties = st.dictionaries(NAMES, inner, max_size=3)
    return st.one_of(
        st.builds(lambda k, s: {k: s}, st.sampled_from(["anyOf", "oneOf", "allOf"]), schemas),
        st.builds(lambda s: {"not": s}, inner),
        st.builds(lambda p, a: {"properties": p, "additionalProperties": a}, properties, inner),
        st.builds(
            lambda p, a: {"patternProperties": {"^[ab]": p}, "additionalProperties": a},
            inner,
            inner,
        ),
        st.builds(lambda s: {"propertyNames": s}, inner),
        st.builds(lambda s: {"items": s}, inner),
        st.builds(lambda p, s: {"prefixItems": p, "items": s}, schemas, inner),
        st.builds(lambda s, n: {"contains": s, "minContains": n}, inner, SMALL),
        st.builds(lambda i, t, e: {"if": i, "then": t, "else": e}, inner, inner, inner),
        st.builds(
            lambda a, b: {**a, **b} if isinstance(a, dict) and isinstance(b, dict) else a,
            inner,
            inner,
        ),
    )


SCHEMAS = st.recursive(LEAVES, compound, max_leaves=5)
DEFS = {
    "list": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#/$defs/list"}}]}
}


@given(SCHEMAS, VALUES)
def test_agrees_with_jsonschema(schema, value):
    if isinstance(schema, dict):
        schema = {**schema, "$defs": DEFS}

    assert (not validate(value, schema)) == jsonschema.Draft202012Validator(schema).is_valid(value)


def test_an_issue_says_where_what_and_what_was_expected():
    schema = {
        "type": "object",
        "properties": {
            "people": {"type": "array", "items": {"properties": {"age": {"type": "integer"}}}}
        },
        "required": ["name"],
        "additionalProperties": False,
    }

    issues = validate({"people": [{"age": 3}, {"age": "x"}], "odd name": 1}, schema)

    assert [str(issue) for issue in issues] == [
        "$.people[1].age: expected integer, got 'x'",
        "$: the property 'name' is missing",
        "$['odd name']: this property is not allowed",
    ]
    assert issues[0].expected == "integer"


def test_the_nearest_alternative_is_explained():
    schema = {
        "anyOf": [
            {
                "properties": {"kind": {"const": "a"}, "x": {"type": "integer"}},
                "required": ["kind", "x"],
            },
            {"type": "null"},
        ]
    }

    assert [str(issue) for issue in validate({"kind": "a", "x": "?"}, schema)][1:] == [
        "$.x: expected integer, got '?'"
    ]


def test_nullable_lets_null_through():
    assert validate(None, {"type": "string", "nullable": True}) == []


@pytest.mark.parametrize("schema", [{"$ref": "#"}, {"allOf": [{"$ref": "#"}]}])
def test_a_schema_that_refers_to_itself_ends(schema):
    assert "deeper than 200" in str(validate(1, schema)[0])


@pytest.mark.slow
def test_alternatives_that_multiply_end():
    schema = {"anyOf": [{"items": {"$ref": "#"}, "type": "array"}] * 2}
    value: object = 1
    for _ in range(60):
        value = [value]

    assert "steps" in str(validate(value, schema)[-1])


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(?=a)(a+)+$"])
def test_a_hostile_pattern_does_not_hang(pattern):
    start = time.perf_counter()

    assert len(validate("a" * 5000 + "!", {"pattern": pattern})) == 1
    assert time.perf_counter() - start < 2


def test_look_around_is_understood_when_harmless():
    assert validate("ab", {"pattern": "a(?=b)"}) == []
    assert len(validate("ac", {"pattern": "a(?=b)"})) == 1


def test_a_broken_schema_is_the_callers_mistake():
    for schema in ({"type": "strnig"}, {"$ref": "http://x"}, {"$ref": "#/nope"}, {"items": 3}):
        with pytest.raises(UsageError):
            validate([1], schema)


def test_references_are_replaced_and_what_stands_beside_wins():
    schema = {
        "properties": {
            "a": {"$ref": "#/$defs/A", "description": "x"},
            "b": {"items": {"$ref": "#/$defs/A"}},
        },
        "$defs": {"A": {"type": "integer", "description": "y"}},
    }

    assert dereference_refs(schema) == {
        "properties": {
            "a": {"type": "integer", "description": "x"},
            "b": {"items": {"type": "integer", "description": "y"}},
        },
        "$defs": schema["$defs"],
    }
    assert inline_refs(schema) == {"properties": dereference_refs(schema)["properties"]}


def test_a_cycle_is_broken_where_the_schema_is_dereferenced():
    tree = {"properties": {"kids": {"items": {"$ref": "#/$defs/Tree", "description": "d"}}}}

    flat = dereference_refs(
        {"properties": {"top": {"$ref": "#/$defs/Tree"}}, "$defs": {"Tree": tree}}
    )

    assert flat["properties"]["top"]["properties"]["kids"]["items"] == {"description": "d"}
    assert flat["$defs"] == {"Tree": tree}


def test_a_missing_reference_is_a_key_error_and_a_remote_one_a_usage_error():
    with pytest.raises(KeyError, match=r"'#/[$]defs/A' not found"):
        dereference_refs({"a": {"$ref": "#/$defs/A"}})
    with pytest.raises(UsageError, match="URI fragments"):
        dereference_refs({"a": {"$ref": "https://example.com/a"}})


def test_a_reference_finds_a_number_among_the_keys():
    schema = {"a": {"$ref": "#/$defs/400"}, "$defs": {400: {"type": "string"}}}

    assert dereference_refs(schema)["a"] == {"type": "string"}


def test_recursive_references_stay_with_their_definition():
    tree = {"properties": {"kids": {"items": {"$ref": "#/$defs/Tree"}}}}

    flat = inline_refs({"$ref": "#/$defs/Tree", "$defs": {"Tree": tree, "Unused": {}}})

    assert flat == {**tree, "$defs": {"Tree": tree}}
    assert validate({"kids": [{"kids": []}, {"kids": 3}]}, flat) == []


def test_references_that_multiply_are_refused():
    defs = {f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(60)}

    with pytest.raises(UsageError, match="grows beyond"):
        dereference_refs({"$ref": "#/$defs/d0", "$defs": {**defs, "d60": {}}})


def test_titles_go_and_a_property_named_title_stays():
    schema = {
        "title": "T",
        "properties": {"title": {"title": "Title", "type": "string", "default": {"title": 1}}},
    }

    assert remove_titles(schema) == {
        "properties": {"title": {"type": "string", "default": {"title": 1}}}
    }


def test_the_strict_form_closes_objects_and_makes_the_optional_nullable():
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"type": "integer"},
            "c": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "d": {"enum": ["x"], "description": "D"},
            "e": {"type": "object", "properties": {"f": {}}, "required": ["f"]},
        },
        "required": ["a", "e"],
    }

    assert strict_schema(schema) == {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"type": ["integer", "null"]},
            "c": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "d": {"anyOf": [{"enum": ["x"]}, {"type": "null"}], "description": "D"},
            "e": {
                "type": "object",
                "properties": {"f": {}},
                "required": ["f"],
                "additionalProperties": False,
            },
        },
        "required": ["a", "b", "c", "d", "e"],
        "additionalProperties": False,
    }
    assert schema["required"] == ["a", "e"]


@given(SCHEMAS)
def test_the_strict_form_is_reached_at_once(schema):
    assert strict_schema(strict_schema(schema)) == strict_schema(schema)
