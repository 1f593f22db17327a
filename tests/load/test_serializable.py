"""The serialized form of an object: id, arguments, secrets, repr."""

from __future__ import annotations

from typing import Generic, TypeVar

from pydantic import ConfigDict, Field, SecretStr

from foldline.load.serializable import (
    SecretReference,
    Serializable,
    class_id,
    to_json_not_implemented,
    useful_fields,
)

T = TypeVar("T")


class Point(Serializable):
    x: int
    y: int = 0
    tags: list[str] = Field(default_factory=list)

    @classmethod
    def is_lc_serializable(cls) -> bool:
        return True

    @classmethod
    def get_lc_namespace(cls) -> list[str]:
        return ["geometry"]


class Keyed(Point):
    model_config = ConfigDict(extra="allow")

    key: str = ""
    token: SecretStr | None = None
    address: str = Field(default="", alias="base")

    @property
    def lc_secrets(self) -> dict[str, str]:
        return {"key": "POINT_KEY"}


class Box(Serializable, Generic[T]):
    value: T


def test_only_arguments_that_differ_from_their_defaults_are_written():
    assert Point(x=0).to_json()["kwargs"] == {"x": 0}
    assert Point(x=1, y=2, tags=["a"]).to_json()["kwargs"] == {"x": 1, "y": 2, "tags": ["a"]}


def test_a_default_of_another_type_is_not_the_default():
    class LoosePoint(Point):
        flag: bool | int = 1
        zero: float = 0.0

    assert useful_fields(LoosePoint(x=0, flag=True)) == {"x": 0, "flag": True}
    assert "zero" in useful_fields(LoosePoint(x=0, zero=-0.0))


def test_empty_defaults_of_other_kinds_are_left_out_too():
    class LoosePoint(Point):
        pair: tuple[int, ...] = ()
        rate: float = 0.5

    assert useful_fields(LoosePoint(x=0, pair=(), rate=float("0.5"))) == {"x": 0}
    assert useful_fields(LoosePoint(x=0, pair=(1,))) == {"x": 0, "pair": (1,)}


def test_an_object_that_did_not_opt_in_says_so_and_shows_nothing_of_itself():
    data = Box(value="sk-secret").to_json()

    assert data["type"] == "not_implemented"
    assert "sk-secret" not in str(data)


def test_an_alias_is_written_as_the_constructor_takes_it():
    assert Keyed(x=1, base="here").to_json()["kwargs"]["base"] == "here"


def test_extra_fields_are_arguments_too():
    assert Keyed(x=1, more=[1]).to_json()["kwargs"]["more"] == [1]


def test_secrets_are_written_by_name():
    kwargs = Keyed(x=1, key="sk-one", token="sk-two").to_json()["kwargs"]

    assert kwargs["key"] == {"lc": 1, "type": "secret", "id": ["POINT_KEY"]}
    assert kwargs["token"] == {"lc": 1, "type": "secret", "id": ["TOKEN"]}
    assert type(kwargs["key"]) is SecretReference


def test_the_id_of_a_parametrised_generic_is_that_of_its_origin():
    assert Box[int].lc_id()[-1] == "Box"
    assert class_id(Box[int]) == Box.lc_id()


def test_a_function_is_described_by_its_own_name():
    assert to_json_not_implemented(len)["id"] == ["builtins", "len"]
    assert to_json_not_implemented(Point)["id"][-1] == "Point"
    assert to_json_not_implemented(object())["id"] == ["builtins", "object"]


def test_repr_leaves_plain_defaults_out():
    assert repr(Point(x=1)) == "Point(x=1, tags=[])"
