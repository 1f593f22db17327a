"""JSON that is strict, partial, in prose, repaired and written.

Expected partial values are langchain-core's unless a test says otherwise.
"""

import contextlib
import dataclasses
import enum
import json
import math
import time
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import PurePosixPath
from uuid import UUID

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, SecretStr

from foldline.exceptions import FoldlineError, OutputParserException, UsageError
from foldline.utils import _json_partial
from foldline.utils.json import (
    JsonError,
    PartialJson,
    SurrogateJoiner,
    dumps_canonical,
    has_surrogates,
    mend_surrogates,
    mend_value,
    nesting_depth,
    parse_and_check_json_markdown,
    parse_json_markdown,
    parse_partial_json,
    parse_strict,
    parse_wire,
    repair_json,
    to_jsonable,
)

pytestmark = pytest.mark.timing

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
SCALAR = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
VALUE = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(VALUE, st.booleans(), st.sampled_from([None, 1]))
def test_strict_and_wire_read_what_json_writes(value, ascii_only, indent):
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)

    assert parse_strict(text) == parse_wire(text) == value
    assert parse_strict(text.encode()) == parse_wire(text.encode()) == value


@pytest.mark.parametrize(
    ("text", "reason", "position"),
    [
        ("[NaN]", "NaN is not JSON", 1),
        ("[1, -Infinity]", "-Infinity is not JSON", 4),
        ("[1, 1e999]", "number 1e999 is out of range", 4),
        ('{"a": 1,\n "a": 2}', "duplicate key 'a'", 10),
        ('{"a": [{"b": 1}], "c": {"b": 1, "\\u0062": 2}}', "duplicate key 'b'", 32),
        ("[" * 201 + "]" * 201, "nested deeper than 200 levels", 200),
        ("[" * 100_000, "nested deeper than 200 levels", 200),
        ("1" * 5000, "integer of 5000 digits is too long", 0),
        ("[1] x", "Extra data", 4),
        ("{} {}", "Extra data", 3),
        ("", "Expecting value", 0),
        ('["a\nb"]', "Invalid control character at", 3),
        ("\ufeff[1]", "Expecting value", 0),
        ("{'a': 1}", "Expecting property name enclosed in double quotes", 1),
    ],
)
def test_F_U04_strict_says_what_and_where(text, reason, position):
    with pytest.raises(JsonError) as excinfo:
        parse_strict(text)

    assert (excinfo.value.reason, excinfo.value.position) == (reason, position)
    assert isinstance(excinfo.value, FoldlineError | ValueError | json.JSONDecodeError)


def test_F_U04_big_integers_are_exact():
    assert parse_strict(str(2**70)) == parse_wire(str(2**70)) == 2**70


def test_strict_refuses_bytes_that_are_not_utf8_or_too_many():
    with pytest.raises(JsonError, match="not UTF-8"):
        parse_strict(b'["\xff"]')
    with pytest.raises(JsonError, match="more than the 4 allowed"):
        parse_strict('"äää"', max_bytes=4)
    assert parse_strict('"äää"', max_bytes=8) == "äää"


def test_F_Y19_wire_takes_numbers_that_are_none_and_a_byte_order_mark():
    nan, infinity, number = parse_wire("[NaN, -Infinity, 1]")
    assert (math.isnan(nan), infinity, number) == (True, -math.inf, 1)
    assert parse_wire("[NaN]")[0] is nan
    assert parse_wire(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}


@pytest.mark.parametrize("text", ["[nan]", "[" * 100_000, "nope", b"\xff", "1" * 5000, "[1,]"])
def test_F_S10_wire_refuses_what_is_not_json(text):
    with pytest.raises(JsonError):
        parse_wire(text)


def test_wire_takes_the_last_of_two_equal_keys_and_keeps_lone_halves():
    assert parse_wire('{"a":1,"a":"\\ud83d"}') == {"a": "\ud83d"}


@given(st.text(st.sampled_from('[]{}",:1a\\n .-e'), max_size=20))
def test_strict_accepts_only_what_json_accepts(text):
    try:
        value = parse_strict(text)
    except JsonError:
        return

    assert json.loads(text) == value


def test_nesting_is_counted_outside_strings():
    assert nesting_depth('{"a": [1, "[[[["], "b": {}}') == 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{", {}),
        ("[", []),
        ('{"a', {}),
        ('{"a"', {}),
        ('{"a":', {}),
        ('{"a": 1', {"a": 1}),
        ('{"a": 12.', {"a": 12}),
        ('{"a": -', {}),
        ('{"a": 1e', {"a": 1}),
        ('{"a": tr', {}),
        ('{"a": "x\\', {"a": "x"}),
        ('{"a": "b\nc', {"a": "b\nc"}),
        ('{"a": [1, 2', {"a": [1, 2]}),
        ('{"a": [1, ', {"a": [1]}),
        ('{"a": 1,', {"a": 1}),
        ('{"a": 1, "b": {"c": [', {"a": 1, "b": {"c": []}}),
        ('"abc', "abc"),
        ("true", True),
        ("null", None),
        ("12", 12),
        ("1.", 1),
        ('{"a": 1} x', {"a": 1}),
        ('{"a":1,"a":2', {"a": 2}),
        ('{"a": [tru', {"a": []}),
        ('{"a": {"b": fal', {"a": {}}),
    ],
)
def test_partial_values_are_langchains(text, value):
    assert parse_partial_json(text) == value


def test_a_cut_escape_costs_the_escape_and_not_the_string():
    assert parse_partial_json('{"a": "x\\u00') == {"a": "x"}
    assert parse_partial_json('{"a": "x\\ud83d') == {"a": "x"}
    assert parse_partial_json('{"a": "x\\ud83d\\ude00') == {"a": "x😀"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "tru",
        "-",
        "hello",
        "{'a': 1}",
        "[1,]",
        '{"a":1,}',
        '{"a" 1',
        "[1 2",
        '{"a": NaN}',
        "]",
        '{"a": 1]',
        '{"a": "x\\q"',
        "[1e999]",
        "[" * 201,
    ],
)
def test_what_is_wrong_rather_than_unfinished_is_refused(text):
    with pytest.raises(json.JSONDecodeError):
        parse_partial_json(text)


def test_strict_partial_refuses_raw_newlines_and_text_behind():
    with pytest.raises(JsonError, match="control character"):
        parse_partial_json('{"a": "b\nc"}', strict=True)
    with pytest.raises(JsonError, match="text after the end"):
        parse_partial_json("{} x", strict=True)


def read(pieces) -> PartialJson:
    parser = PartialJson()
    for piece in pieces:
        parser.feed(piece)
    return parser


@given(VALUE, st.booleans(), st.data())
def test_any_partition_gives_the_value(value, ascii_only, data):
    text = json.dumps(value, ensure_ascii=ascii_only)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    parser = read(text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True))

    assert parser.is_complete
    assert parser.value() == value
    assert parser.error is None


@given(VALUE, st.data())
def test_every_prefix_is_read_the_same_at_once_and_in_slices(value, data):
    text = json.dumps(value)
    prefix = text[: data.draw(st.integers(0, len(text)))]

    assert read(prefix).value() == read([prefix]).value()


@given(st.text(st.sampled_from('[]{}",:1a\\u0d8 .-etrue\n')), st.integers(0, 20))
def test_any_text_in_any_slices_gives_the_same_value_and_error(text, place):
    whole_reading, cut_up = read([text]), read([text[:place], text[place:]])

    assert cut_up.value() == whole_reading.value()
    assert str(cut_up.error) == str(whole_reading.error)
    assert cut_up.is_complete == whole_reading.is_complete


@contextlib.contextmanager
def every_slice_is_long():
    usual, _json_partial.BULK_LENGTH = _json_partial.BULK_LENGTH, 0
    try:
        yield
    finally:
        _json_partial.BULK_LENGTH = usual


@given(VALUE, st.data())
def test_a_long_first_slice_is_read_as_short_ones_are(value, data):
    text = json.dumps([value, value])
    text = text[: data.draw(st.integers(0, len(text)))]
    text += data.draw(st.sampled_from(["", "x", "]", ",", '"', "}", "NaN", "\\", " "]))
    with every_slice_is_long():
        at_once = read([text])
    in_slices = read([*text])

    assert at_once.value() == in_slices.value()
    assert str(at_once.error) == str(in_slices.error)
    at_once.feed("1]")
    in_slices.feed("1]")
    assert at_once.value() == in_slices.value()


def test_a_fork_goes_its_own_way():
    parser = read(['{"a": [1, {"b": "x'])
    twin = parser.copy()
    parser.feed('y"}], "c": 1}')
    twin.feed('z"}, 2')

    assert parser.value() == {"a": [1, {"b": "xy"}], "c": 1}
    assert twin.value() == {"a": [1, {"b": "xz"}, 2]}


def test_a_value_once_read_does_not_grow():
    parser = read(['{"a": [1'])
    before = parser.value()
    parser.feed(", 2]}")

    assert before == {"a": [1]}
    assert parser.value() == {"a": [1, 2]}


def test_an_error_keeps_what_was_read_and_says_where():
    parser = read(['{"a": 1, ', "b: 2}"])

    assert parser.value() == {"a": 1}
    assert not parser.is_complete
    assert parser.error.position == 9
    assert str(parser.error) == "expected a name in quotes, found 'b' at character 9"


def test_a_number_that_never_ends_is_refused():
    assert "too long" in str(read("1" for _ in range(5000)).error)


def seconds_for(deltas: int) -> float:
    text = '{"a": "' + "x" * (40 * deltas) + '"}'
    parser, start = PartialJson(), time.process_time()
    for place in range(0, len(text), 40):
        parser.feed(text[place : place + 40])
    assert parser.is_complete
    return time.process_time() - start


@pytest.mark.timing
def test_F_U07_time_is_linear_in_the_deltas():
    small = min(seconds_for(10_000) for _ in range(3))
    large = min(seconds_for(40_000) for _ in range(3))

    assert large < 4 * 2.5 / 2 * small


MEGABYTE = 1_000_000
HOSTILE = {
    "numbers": "[" + "1," * (MEGABYTE // 2),
    "backslashes": '"' + "\\\\" * (MEGABYTE // 2),
    "halves": '"' + "\\ud83d" * (MEGABYTE // 6),
    "brackets": "[" * MEGABYTE,
    "objects": '{"a":' * (MEGABYTE // 5),
    "empty objects": "[" + "{}," * (MEGABYTE // 3),
    "empty lists of lists": "[" + "[[[]]]," * (MEGABYTE // 7),
    "prose": "[x" * (MEGABYTE // 2),
    "fences": "```" * (MEGABYTE // 3),
    "fenced brackets": "```{" * (MEGABYTE // 4),
    "names": "{" + '"a":1,' * (MEGABYTE // 6),
    "text": '{"a":"' + "x" * MEGABYTE,
    "digits": "1" * MEGABYTE,
    "comments": "/*" * (MEGABYTE // 2),
    "spaces": "[" + " " * MEGABYTE,
    "a late mistake": "[" + "1," * (MEGABYTE // 2) + "x",
    "cut strings": '{"' * (MEGABYTE // 2),
}


def cpu_seconds(function, text) -> float:
    start = time.process_time()
    with contextlib.suppress(JsonError):
        function(text)
    return time.process_time() - start


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("function", [parse_partial_json, parse_strict])
def test_F_U08_a_hostile_megabyte_takes_less_than_a_second(name, function):
    assert any(
        cpu_seconds(function, HOSTILE[name]) < 1 for _ in range(3)
    )  # the machine may be busy


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("function", [parse_json_markdown, repair_json])
def test_hostile_text_is_searched_in_linear_time(name, function):
    assert any(cpu_seconds(function, HOSTILE[name][:200_000]) < 2 for _ in range(3))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('text ```json\n{"a": 1}\n``` more', {"a": 1}),
        ("```\n[1,2]\n```", [1, 2]),
        ('{"a":1}', {"a": 1}),
        ('```json\n{"a": "```py\\nx\\n```"}\n```', {"a": "```py\nx\n```"}),
        ('```json\n{"a": [1', {"a": [1]}),
        ('{"action_input": "a\nb"}', {"action_input": "a\nb"}),
        ('```json {"a":1} ```', {"a": 1}),
        ('`{"a": 1}`', {"a": 1}),
        ("```json\n[1]\n```\n```json\n[2]\n```", [1]),
        ("null", None),
    ],
)
def test_markdown_is_read_as_langchain_reads_it(text, value):
    assert parse_json_markdown(text) == value


@pytest.mark.parametrize(
    "text",
    [
        'x {"a":2} y',
        '```JSON\n{"a":2}```',
        '```python\nx\n```\n```json\n{"a":2}\n```',
        'see [1], {x} and {"a":2}.',
        '```jsonc\n{"a":2}\n```',
        'Sure!\n{"a":2',
    ],
)
def test_markdown_that_langchain_refuses_is_read_too(text):
    assert parse_json_markdown(text) == {"a": 2}


@pytest.mark.parametrize("text", ["nothing", "```json\n```", "a { b"])
def test_markdown_without_json_is_refused(text):
    with pytest.raises(JsonError):
        parse_json_markdown(text)


def test_expected_keys_are_checked():
    assert parse_and_check_json_markdown('```json\n{"a": 1}\n```', ["a"]) == {"a": 1}
    for text, reason in (
        ("[1]", "got: list"),
        ('{"b": 1}', "the key 'a'"),
        ("zz", "invalid JSON object"),
    ):
        with pytest.raises(OutputParserException, match=reason) as excinfo:
            parse_and_check_json_markdown(text, ["a"])
        assert excinfo.value.llm_output == text


@pytest.mark.parametrize(
    ("text", "value", "repairs"),
    [
        ('{"a": 1}', {"a": 1}, []),
        (
            '```json\n{"a": [1,2,],}\n```',
            {"a": [1, 2]},
            ["took the JSON out of a code fence", "dropped a trailing comma"],
        ),
        ("{'a': 'b'}", {"a": "b"}, ["took single or curly quotes for double quotes"]),
        (
            "{a: True, b: None} // x",
            {"a": True, "b": None},
            [
                "put quotes around names",
                "wrote Python's True, False and None as JSON",
                "dropped comments",
            ],
        ),
        (
            'Sure! {"a": "x\ny"} hope',
            {"a": "x\ny"},
            [
                "dropped the text before the JSON",
                "escaped raw newlines and tabs in strings",
                "dropped the text after the JSON",
            ],
        ),
        ('"{\\"a\\": 1}"', {"a": 1}, ["took the JSON out of a string"]),
        ('{"a": {"b": [1, 2', {"a": {"b": [1, 2]}}, ["closed what was left open at the end"]),
        ('{"a": 1 "c": 2}', {"a": 1, "c": 2}, ["put in a missing comma"]),
        ('{"a":1,"a":2}', {"a": 2}, ["kept the last of two values named 'a'"]),
        ('{"a": 1, "b"', {"a": 1}, ["dropped a name without a value at the end"]),
        ('{"a": "\\d"}', {"a": "\\d"}, ["took an unknown escape literally"]),
    ],
)
def test_repairs_are_told(text, value, repairs):
    assert repair_json(text) == (value, repairs)


@pytest.mark.parametrize(
    "text", ["nope", '{"a": nan}', '{"a": 1]', "", "[1e999]", "{a b}", "[" * 300]
)
def test_what_cannot_be_repaired_is_refused(text):
    with pytest.raises(JsonError):
        repair_json(text)


@given(VALUE)
def test_clean_json_needs_no_repair(value):
    text = json.dumps(value)
    if not (isinstance(value, str) and value.lstrip()[:1] in ("{", "[")):
        assert repair_json(text) == (value, [])


@given(st.text())
def test_any_text_is_repaired_or_refused(text):
    try:
        _, repairs = repair_json(text)
    except JsonError:
        return

    assert all(isinstance(repair, str) for repair in repairs)


@given(TEXT, st.data())
def test_F_S08_a_pair_split_over_deltas_is_joined(text, data):
    halves = text.encode("utf-16-le", "surrogatepass")
    units = [
        halves[i : i + 2].decode("utf-16-le", "surrogatepass") for i in range(0, len(halves), 2)
    ]
    joiner = SurrogateJoiner()
    joined_text = "".join(map(joiner.feed, units)) + joiner.end()

    assert joined_text == text
    assert mend_surrogates("".join(units)) == text


def test_F_S08_a_half_that_stays_alone_is_kept_escaped_and_storable():
    joiner = SurrogateJoiner()

    assert joiner.feed("a\ud83d") + joiner.feed("b") + joiner.end() == "a\\ud83db"
    assert joiner.feed("\ud83d") + joiner.end() == "\\ud83d"
    assert mend_value({"\udc00": ["x\ud83d", 1]}) == {"\\udc00": ["x\\ud83d", 1]}
    assert has_surrogates("\ud83d")
    assert not has_surrogates("😀")


@given(VALUE)
def test_canonical_text_does_not_depend_on_order(value):
    def turned(item):
        if isinstance(item, dict):
            return {key: turned(item[key]) for key in reversed(list(item))}
        return [turned(part) for part in item] if isinstance(item, list) else item

    assert dumps_canonical(value) == dumps_canonical(turned(value))
    assert json.loads(dumps_canonical(value)) == value


def test_canonical_refuses_what_would_not_come_back():
    cycle: list = []
    cycle.append(cycle)
    for value in ({1: 2}, float("nan"), object(), cycle):
        with pytest.raises(UsageError, match="not a JSON value"):
            dumps_canonical(value)


class Color(enum.StrEnum):
    red = "r"


class Model(BaseModel):
    secret: SecretStr
    when: datetime


@dataclasses.dataclass
class Point:
    x: int
    y: object


class Broken:
    def __repr__(self):
        raise RuntimeError("no")


def test_T68_anything_becomes_json():
    cycle: dict = {"a": 1}
    cycle["self"] = cycle
    now = datetime(2026, 1, 2, tzinfo=UTC)
    model = Model(secret=SecretStr("key"), when=now)
    value = to_jsonable(
        {
            "model": model,
            "point": Point(1, (2, {3})),
            "cycle": cycle,
            "bytes": b"\xff",
            "nan": float("nan"),
            "half": "\ud83d",
            "color": Color.red,
            "decimal": Decimal("1.5"),
            "id": UUID(int=1),
            "path": PurePosixPath("a/b"),
            "class": Color,
            "broken": Broken(),
            1: None,
            (1, 2): True,
        }
    )

    assert json.loads(json.dumps(value)) == value
    assert value["model"] == {"secret": "**********", "when": "2026-01-02T00:00:00+00:00"}
    assert value["point"] == {"x": 1, "y": [2, [3]]}
    assert value["cycle"] == {"a": 1, "self": "<cycle>"}
    assert (value["bytes"], value["nan"], value["half"], value["color"]) == (
        "/w==",
        "nan",
        "\\ud83d",
        "r",
    )
    assert (value["decimal"], value["path"], value["1"], value["(1, 2)"]) == (
        "1.5",
        "a/b",
        None,
        True,
    )
    assert value["broken"] == "<Broken: repr failed with RuntimeError>"


def test_T68_depth_is_cut():
    deep: object = 1
    for _ in range(10_000):
        deep = [deep]

    assert nesting_depth(json.dumps(to_jsonable(deep))) == 200


@given(VALUE)
def test_T68_json_stays_itself(value):
    assert to_jsonable(value) == value
