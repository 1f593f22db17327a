"""The small helpers: text, colours, batches, links, pydantic, checks, ids. Results observed from langchain-core."""

import asyncio
import base64
import io
import sys
import uuid
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, Field, SecretStr

import foldline.utils
from foldline.exceptions import MissingExtraError, UsageError
from foldline.utils import html, input, interactive_env, iter, pydantic, strings, utils
from foldline.utils._base64 import Base64Joiner
from foldline.utils.aiter import abatch_iterate
from foldline.utils.uuid import new_id, uuid7


def test_every_exported_name_exists():
    assert all(hasattr(foldline.utils, name) for name in foldline.utils.__all__)


def test_values_are_written_a_line_each():
    assert (
        strings.stringify_dict({"a": 1, "b": [1, 2], "c": {"d": 1}})
        == "a: 1\nb: 1\n2\nc: \nd: 1\n\n"
    )
    assert strings.stringify_value([1, {"a": 2}]) == "1\n\na: 2\n"
    assert strings.comma_list([1, 2]) == "1, 2"
    assert strings.sanitize_for_postgres("a\0b", "?") == "a?b"


def test_a_cycle_is_written_without_end_but_ends():
    cycle: list[Any] = []
    cycle.append(cycle)

    assert strings.stringify_value(cycle) == "..."


def test_colours():
    assert input.get_color_mapping(list("abcdef"))["f"] == "blue"
    assert input.get_colored_text("x", "blue") == "\x1b[36;1m\x1b[1;3mx\x1b[0m"
    assert input.get_bolded_text("x") == "\x1b[1mx\x1b[0m"
    target = io.StringIO()
    input.print_text("x", color="red", end="!", file=target)
    assert target.getvalue() == "\x1b[31;1m\x1b[1;3mx\x1b[0m!"
    with pytest.raises(ValueError, match="no colors left"):
        input.get_color_mapping(["a"], excluded_colors=["blue", "yellow", "pink", "green", "red"])


def test_text_goes_to_the_terminal(capsys):
    input.print_text("x")

    assert capsys.readouterr().out == "x"


def test_a_prompt_makes_it_interactive(monkeypatch):
    assert not interactive_env.is_interactive_env()
    monkeypatch.setattr(sys, "ps2", "...", raising=False)
    assert interactive_env.is_interactive_env()


def test_batches():
    assert list(iter.batch_iterate(2, range(5))) == [[0, 1], [2, 3], [4]]
    assert list(iter.batch_iterate(None, range(5))) == [[0, 1, 2, 3, 4]]
    with pytest.raises(ValueError, match="at least one"):
        list(iter.batch_iterate(0, range(5)))
    first, other = iter.safetee(range(2))
    assert list(first) == list(other) == [0, 1]


@pytest.mark.parametrize(
    ("size", "batches"), [(2, [[0, 1], [2]]), (None, [[0, 1, 2]]), (3, [[0, 1, 2]])]
)
def test_asynchronous_batches(size, batches):
    async def numbers():
        for number in range(3):
            yield number

    async def read():
        return [batch async for batch in abatch_iterate(size, numbers())]

    assert asyncio.run(read()) == batches


PAGE = """<a href="https://x.y/a">q</a><a href="/b"><a href="#z"><a href="mailto:x"><a href="c.png"><a href="//o.p/q">
<a href="https://x.y.evil/z"><a href='rel'>"""


def test_links_are_found_and_kept_inside():
    assert html.find_all_links(PAGE) == [
        "https://x.y/a",
        "/b",
        "//o.p/q",
        "https://x.y.evil/z",
        "rel",
    ]
    inside = ["https://x.y/a", "https://x.y/b", "https://x.y/dir/rel"]
    assert html.extract_sub_links(PAGE, "https://x.y/dir/", base_url="https://x.y") == inside
    assert len(html.extract_sub_links(PAGE, "https://x.y/dir/", prevent_outside=False)) == 5
    others = html.extract_sub_links(PAGE, "https://x.y/", exclude_prefixes=["https://x.y/a"])
    assert others == ["https://x.y/b", "https://x.y/rel"]


def test_a_broken_link_is_raised_or_skipped():
    page = '<a href="http://[x"><a href="/ok">'

    with pytest.raises(ValueError, match="IPv6"):
        html.extract_sub_links(page, "https://x.y/")
    assert html.extract_sub_links(page, "https://x.y/", continue_on_failure=True) == [
        "https://x.y/ok"
    ]


class Model(BaseModel):
    a: int
    b: list[int] = Field(default_factory=list, alias="bee")

    @pydantic.pre_init
    def check(cls, values):
        values["a"] = values.get("a", 0) + len(values["b"])
        return values


def test_pydantic_under_langchains_names():
    assert pydantic.PYDANTIC_MAJOR_VERSION == pydantic.get_pydantic_major_version() == 2
    assert pydantic.is_basemodel_subclass(Model)
    assert not pydantic.is_basemodel_subclass(list[int])
    assert not pydantic.is_pydantic_v1_subclass(Model)
    assert pydantic.is_basemodel_instance(Model(a=1))
    assert set(pydantic.get_fields(Model)) == set(pydantic.get_fields(Model(a=1))) == {"a", "b"}
    assert pydantic.model_json_schema(Model)["required"] == ["a"]
    assert pydantic.model_validate(Model, {"a": 1}).a == 1


def test_models_are_made():
    model = pydantic.create_model("Made", "somewhere", schema=(int, 3), copy=(str, "x"))

    assert model(schema=4).model_dump() == {"schema": 4, "copy": "x"}
    assert (model.__name__, model.__module__) == ("Made", "somewhere")
    root = pydantic.create_model("Root", __root__=list[int])
    assert root.model_validate(["1"]).root == [1]
    assert root.__name__ == "Root"
    with pytest.raises(ValueError, match="root"):
        pydantic.create_model("Both", __root__=int, a=(int, 1))


def test_exactly_one_of_a_group():
    @utils.xor_args(("a", "b"))
    def act(*, a=None, b=None):
        return a or b

    assert act(a=1) == 1
    for arguments in ({}, {"a": 1, "b": 2}):
        with pytest.raises(UsageError, match="exactly one of a, b"):
            act(**arguments)


def test_a_missing_module_says_how_to_install_it():
    assert utils.guard_import("json").__name__ == "json"
    with pytest.raises(MissingExtraError, match="pip install nope-x"):
        utils.guard_import("nope_x")


def test_versions_are_compared_as_numbers():
    utils.check_package_version(
        "pydantic", gte_version="2.0", gt_version="2.0.0", lt_version="100.0"
    )
    with pytest.raises(UsageError, match="pydantic<=1"):
        utils.check_package_version("pydantic", lte_version="1")
    with pytest.raises(UsageError, match="not a version"):
        utils.check_package_version("pydantic", lt_version="new")


def test_unknown_keywords_are_gathered_and_told():
    with pytest.warns(UserWarning, match="'b' is not a parameter"):
        assert utils.build_extra_kwargs({"a": 1}, {"b": 2, "c": 3}, {"c"}) == {"a": 1, "b": 2}
    with pytest.raises(UsageError, match="twice"):
        utils.build_extra_kwargs({"a": 1}, {"a": 2}, {"c"})
    with pytest.raises(UsageError, match="pass them directly"):
        utils.build_extra_kwargs({"c": 1}, {}, {"c"})


def test_secrets_names_and_ids():
    assert (
        utils.convert_to_secret_str("x")
        == utils.convert_to_secret_str(SecretStr("x"))
        == SecretStr("x")
    )
    assert utils.get_pydantic_field_names(Model) == {"a", "b", "bee"}
    assert utils.ensure_id("z") == "z"
    assert utils.ensure_id(None).startswith("lc_")


def test_an_http_error_is_raised_with_what_the_server_said():
    class Response:
        text = "slow down"

        def raise_for_status(self):
            raise RuntimeError("429")

    with pytest.raises(ValueError, match="slow down"):
        utils.raise_for_status_with_text(Response())


def test_ids_are_version_7_unique_and_in_order():
    ids = [uuid7() for _ in range(10_000)]

    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)
    assert {(uuid.version, uuid.variant) for uuid in ids} == {(7, uuid.RFC_4122)}
    assert uuid7(1_700_000_000_123_000_000).int >> 80 == 1_700_000_000_123
    texts = [new_id() for _ in range(1000)]
    assert texts == sorted(texts)
    assert str(uuid.UUID(texts[0])) == texts[0]


@given(st.lists(st.binary(max_size=10), max_size=6), st.data())
def test_slices_of_base64_are_joined_whether_cut_or_encoded_one_by_one(pieces, data):
    encoded = base64.b64encode(b"".join(pieces)).decode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(encoded)), max_size=4)))
    cut_slices = [encoded[start:end] for start, end in pairwise([0, *cuts, len(encoded)])]
    one_by_one = [base64.b64encode(piece).decode() for piece in pieces]
    for slices in (cut_slices, one_by_one):
        joiner = Base64Joiner()

        assert "".join([*(joiner.feed(piece) for piece in slices), joiner.end()]) == encoded
