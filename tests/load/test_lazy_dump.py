"""`LazyDump`: what handlers get of the object that starts, written at the first look."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from foldline.callbacks import BaseCallbackHandler
from foldline.language_models import FakeListChatModel
from foldline.load import _lazy_dump as lazy_dump, dumpd
from foldline.load._lazy_dump import LazyDump
from foldline.messages import HumanMessage
from foldline.prompts import ChatPromptTemplate

MESSAGE = HumanMessage("hello")
WHOLE = dumpd(MESSAGE)

READS = {
    "item": lambda dump: dump["id"] == WHOLE["id"],
    "get": lambda dump: dump.get("kwargs") == WHOLE["kwargs"],
    "in": lambda dump: "kwargs" in dump,
    "len": lambda dump: len(dump) == len(WHOLE),
    "iter": lambda dump: set(dump) == set(WHOLE),
    "reversed": lambda dump: [*reversed(dump)][::-1] == [*dump],
    "keys": lambda dump: set(dump.keys()) == set(WHOLE),
    "values": lambda dump: len(list(dump.values())) == len(WHOLE),
    "items": lambda dump: dict(dump.items()) == WHOLE,
    "equal": lambda dump: dump == WHOLE,
    "unequal": lambda dump: dump != {"lc": 1},
    "repr": lambda dump: "HumanMessage" in repr(dump),
    "copy": lambda dump: dump.copy() == WHOLE,
    "copy.copy": lambda dump: copy.copy(dump) == WHOLE,
    "deepcopy": lambda dump: copy.deepcopy(dump) == WHOLE,
    "pickle": lambda dump: pickle.loads(pickle.dumps(dump)) == WHOLE,
    "unpack": lambda dump: {**dump} == WHOLE,
    "dict": lambda dump: dict(dump) == WHOLE,
    "or": lambda dump: dump | {"more": 1} == {**WHOLE, "more": 1},
    "ror": lambda dump: {"more": 1} | dump == {**WHOLE, "more": 1},
    "update": lambda dump: {"more": 1, **dump} == {**WHOLE, "more": 1},
    "pop": lambda dump: dump.pop("kwargs") == WHOLE["kwargs"],
    "setdefault": lambda dump: dump.setdefault("id", None) == WHOLE["id"],
    "json": lambda dump: json.loads(json.dumps(dump)) == WHOLE,
    "json, indented": lambda dump: json.loads(json.dumps(dump, indent=1)) == WHOLE,
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_it_reads_as_what_dumpd_gives(read):
    assert read(LazyDump(MESSAGE))


def test_what_is_added_stands_beside_what_is_written():
    assert LazyDump(MESSAGE, name="Greeting") == {**WHOLE, "name": "Greeting"}


def test_a_change_of_the_dump_stays():
    dump = LazyDump(MESSAGE)
    dump["id"] = ["mine"]

    assert dump["id"] == ["mine"]
    assert dump["kwargs"] == WHOLE["kwargs"]


def test_a_handler_that_does_not_look_costs_no_dump(monkeypatch):
    sources = []
    monkeypatch.setattr(lazy_dump, "dumpd", lambda source: sources.append(source) or {"id": ["x"]})

    class IgnoringHandler(BaseCallbackHandler):
        def on_chat_model_start(self, serialized, messages, **kwargs): ...

        def on_chain_start(self, serialized, inputs, **kwargs): ...

    class ReadingHandler(IgnoringHandler):
        def on_chat_model_start(self, serialized, messages, **kwargs):
            assert serialized["id"] == ["x"]

    chain = ChatPromptTemplate.from_template("{topic}") | FakeListChatModel(responses=["hi"])
    chain.invoke({"topic": "bears"}, {"callbacks": [IgnoringHandler()]})
    assert sources == []

    chain.invoke({"topic": "bears"}, {"callbacks": [ReadingHandler()]})
    assert sources == [chain.last]
