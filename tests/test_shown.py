"""What an editor, `help()` and `?` show of the public names, before anything is made of them."""

import importlib
import inspect
import pickle
import pkgutil
import pydoc
import subprocess
import sys
import warnings
from contextlib import suppress
from dataclasses import is_dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest
from pydantic import BaseModel

import foldline
from foldline.agents.middleware import SummarizationMiddleware
from foldline.documents import Document
from foldline.graph import RetryPolicy
from foldline.language_models import FakeListChatModel, FileResolver
from foldline.load import dumps, loads
from foldline.messages import AIMessage, ChatMessage, HumanMessage, ToolMessage
from foldline.outputs.agent import AgentActionMessageLog
from foldline.prompts import ChatPromptTemplate, HumanMessagePromptTemplate
from foldline.providers.openai import AzureOpenAIEmbeddings, ChatOpenAI, OpenAIEmbeddings
from foldline.retrievers import BM25Retriever
from foldline.runnables import RunnableConfig
from foldline.tracers import LangChainTracer
from foldline.utils._class_doc import field_docs


def public_packages() -> list[ModuleType]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # old paths
        names = [
            module.name
            for module in pkgutil.walk_packages(foldline.__path__, "foldline.")
            if (module.ispkg or module.name.count(".") == 1) and "._" not in module.name
        ]
    modules = [foldline, *map(importlib.import_module, names)]
    return [module for module in modules if hasattr(module, "__all__")]


PACKAGES = public_packages()
PUBLIC = {
    value: f"{module.__name__}.{name}"
    for module in PACKAGES
    for name in module.__all__
    if name[0] != "_"
    if inspect.isroutine(value := getattr(module, name)) or isinstance(value, type)
}
CLASSES = [value for value in PUBLIC if isinstance(value, type) and value.__module__ != "builtins"]
OURS = [value for value in PUBLIC if str(value.__module__).startswith("foldline")]


def test_every_public_name_says_a_public_module_that_has_it():
    private_modules = {
        PUBLIC[value]: value.__module__
        for value in OURS
        if "._" in value.__module__
        or getattr(importlib.import_module(value.__module__), value.__name__, None) is not value
    }

    assert private_modules == {}


def test_every_public_class_says_in_a_line_what_it_is():
    without = [
        PUBLIC[value] for value in CLASSES if not (value.__dict__.get("__doc__") or "").strip()
    ]

    assert without == []


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_dir_of_a_public_module_has_public_names_only(package: ModuleType):
    names = dir(package)

    if not hasattr(package, "__path__"):
        assert names == sorted(package.__all__)
    assert {"TYPE_CHECKING", "annotations", "lazy_exports", "Any", "UsageError"}.isdisjoint(
        set(names) - set(package.__all__)
    )
    assert set(package.__all__) <= set(names)
    assert all(
        name in package.__all__ for name in names if name.startswith("_") and name != "__version__"
    )
    assert [name for name in names if not hasattr(package, name)] == []


def test_a_class_shows_its_own_fields_after_its_parent_was_built():
    OpenAIEmbeddings(api_key="k")  # builds the class
    assert "azure_endpoint" in inspect.signature(AzureOpenAIEmbeddings).parameters


def test_the_signature_of_every_class_with_fields_shows_them():
    for value in CLASSES:
        if not issubclass(value, BaseModel) or inspect.isabstract(value):
            continue
        parameters = inspect.signature(value).parameters
        takes_more = any(
            p.kind is p.VAR_KEYWORD for p in inspect.signature(value.__init__).parameters.values()
        )
        missing = {
            name
            for name, field in value.model_fields.items()
            if not field.is_required()
            and name not in parameters
            and field.alias not in parameters
            and not name.endswith("_")
        }
        assert not (takes_more and missing), (PUBLIC[value], missing)


def test_a_required_field_that_the_constructor_does_not_fill_in_is_shown():
    assert "tool_call_id" in inspect.signature(ToolMessage).parameters
    assert "role" in inspect.signature(ChatMessage).parameters
    assert "message_log" in inspect.signature(AgentActionMessageLog).parameters
    assert "input_variables" not in inspect.signature(ChatPromptTemplate).parameters


def signatures(value: Any) -> dict[str, str]:
    """The signature of a public name and those of the public methods that its class defines."""
    functions = {"": value}
    if isinstance(value, type):
        for name, member in vars(value).items():
            if isinstance(member, classmethod | staticmethod | FunctionType) and name[0] != "_":
                functions[f".{name}"] = getattr(value, name)
    shown = {}
    for name, function in functions.items():
        with suppress(TypeError, ValueError):  # a TypedDict, an exception without `__init__`
            shown[name] = str(inspect.signature(function))
    return shown


def test_no_signature_shows_an_address():
    wrong = {
        path + name: shown
        for value, path in PUBLIC.items()
        for name, shown in signatures(value).items()
        if " at 0x" in shown
    }

    assert wrong == {}


def test_a_function_that_is_a_default_is_shown_by_name_and_can_be_called():
    retry_on = inspect.signature(RetryPolicy).parameters["retry_on"]
    preprocess = inspect.signature(BM25Retriever).parameters["preprocess_func"]

    assert repr(retry_on.default) == "default_retry_on"
    assert retry_on.default(ConnectionError()) is True
    assert preprocess.default("A cat") == ["a", "cat"]
    assert "token_counter" in inspect.signature(SummarizationMiddleware).parameters


STARTS_A_CLIENT = {LangChainTracer}


def test_what_can_be_made_without_arguments_shows_no_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    shown = {}
    for value in set(OURS) & set(CLASSES) - STARTS_A_CLIENT:
        with suppress(Exception):  # it needs arguments, a key or an extra
            shown[PUBLIC[value]] = repr(value())

    assert len(shown) > 150
    wrong = {path: text for path, text in shown.items() if " at 0x" in text}
    assert {path for path in wrong if not path.endswith("ManagerMixin")} == set()


PROGRAM = """\
import inspect, pydoc
from foldline.providers.openai import ChatOpenAI

before = str(inspect.signature(ChatOpenAI))
assert not ChatOpenAI.__pydantic_complete__
text = pydoc.plain(pydoc.render_doc(ChatOpenAI))
ChatOpenAI(model="m", api_key="k")
assert ChatOpenAI.__pydantic_complete__
assert str(inspect.signature(ChatOpenAI)) == before
print(before)
print(text)
"""


def test_fields_are_shown_before_an_instance_exists_and_the_same_after():
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )

    signature, text = result.stdout.split("\n", 1)
    assert "temperature: float | None = None" in signature
    assert "model: str = 'gpt-5-mini'" in signature
    assert " at 0x" not in signature
    assert "Validator" not in signature
    assert "temperature: float | None = None" in text
    assert "in module foldline.providers.openai" in text


def test_own_parameters_of_a_constructor_come_first():
    parameters = list(inspect.signature(AIMessage).parameters)

    assert parameters[:2] == ["content", "content_blocks"]
    assert {"tool_calls", "usage_metadata", "id"} <= set(parameters)
    assert next(iter(inspect.signature(Document).parameters)) == "page_content"


def test_an_instance_keeps_the_signature_of_its_call():
    class Called(FakeListChatModel):
        def __call__(self, question: str) -> str:
            return question

    assert list(inspect.signature(Called(responses=["x"])).parameters) == ["question"]
    assert "__signature__" not in dir(AIMessage("x")) or not hasattr(
        AIMessage("x"), "__signature__"
    )


def test_help_says_what_a_class_is():
    assert "One turn of a conversation" in pydoc.plain(pydoc.render_doc(HumanMessage.__mro__[1]))


@pytest.mark.parametrize(
    "value",
    [
        RunnableConfig,
        HumanMessagePromptTemplate,
        ChatPromptTemplate([("human", "{q}")]),
        AIMessage("hi", id="1"),
        Document("text", metadata={"a": 1}),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_what_says_its_public_module_can_be_pickled(value: Any):
    assert pickle.loads(pickle.dumps(value)) == value


def test_what_moved_to_a_public_module_is_written_and_read_as_before():
    prompt = ChatPromptTemplate([("human", "{q}")])
    text = dumps(prompt)

    assert '"foldline", "prompts", "HumanMessagePromptTemplate"' in text
    assert loads(text) == prompt


WITH_FIELDS = [
    value
    for value in CLASSES
    if value in OURS and (issubclass(value, BaseModel) or is_dataclass(value))
]


def test_help_shows_the_docstrings_of_fields():
    text = inspect.getdoc(AIMessage) or ""

    assert "finish_reason: Why the model stopped" in text
    assert "status = 'complete': Whether the model finished" in text
    assert "name: The name of the speaker" in text  # of a base class
    assert "temperature: How random the answer is" in (inspect.getdoc(ChatOpenAI) or "")
    assert "inline_urls = False: Fetch every URL" in (inspect.getdoc(FileResolver) or "")
    shown = pydoc.plain(pydoc.render_doc(FileResolver))
    assert "inline_urls = False: Fetch every URL" in shown
    shown = pydoc.plain(pydoc.render_doc(AIMessage))  # pydoc reads past Pydantic's metaclass
    assert "A message from the model." in shown
    assert "finish_reason: " in shown


def test_every_docstring_of_a_field_reaches_help():
    described = {value: field_docs(value) for value in WITH_FIELDS}
    silent = {
        PUBLIC[value]: name
        for value, docs in described.items()
        for name, doc in docs.items()
        if doc not in (inspect.getdoc(value) or "")
        and value.__module__.count(".") > 1  # not of a module without a front door
    }

    assert silent == {}
    assert sum(map(len, described.values())) > 3000


def test_the_docstrings_of_fields_are_in_doc_and_stay_out_of_json_schemas():
    assert "Fields:" in (AIMessage.__doc__ or "")
    assert "Fields:" not in str(AIMessage.model_json_schema())
    assert "Fields:" not in str(ChatPromptTemplate.model_json_schema())
    assert AIMessage.model_json_schema()["description"].startswith("A message from the model.")


def test_the_source_of_a_class_is_not_read_before_its_docstring():
    program = """
from foldline.messages import AIMessage
from foldline.providers.openai import ChatOpenAI
from foldline.utils._class_doc import _docs_of_file

AIMessage("hi"), ChatOpenAI(model="m", api_key="k")
print(_docs_of_file.cache_info().currsize)
print(AIMessage.__doc__)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout.startswith("0\n")
    assert "finish_reason: Why the model stopped" in done.stdout


def test_a_class_of_a_program_keeps_its_docstring():
    class Note(AIMessage):
        """A note."""

        place: str = ""
        """Where it was written."""

    assert inspect.getdoc(Note) == "A note."


def test_every_public_class_can_be_pickled_and_its_source_found():
    """`__module__` is the public module that defines a class.

    Pydantic and `typing.get_type_hints` look there for the names in annotations, and `inspect` for the source:
    the package, which exports lazily, has neither.
    """
    classes = [value for value in CLASSES if value in OURS]

    assert [value for value in classes if pickle.loads(pickle.dumps(value)) is not value] == []
    assert "class HumanMessage" in inspect.getsource(HumanMessage)


def test_secrets_stay_out_of_signatures_and_help(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")

    assert "sk-very-secret" not in str(inspect.signature(ChatOpenAI))
