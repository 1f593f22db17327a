"""Text models: every API from one hook, callbacks, cache, batches, sync and async."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from foldline.caches import InMemoryCache
from foldline.callbacks import BaseCallbackHandler
from foldline.exceptions import UsageError
from foldline.language_models import (
    LLM,
    BaseLLM,
    FakeListChatModel,
    FakeListLLM,
    FakeStreamingListLLM,
)
from foldline.language_models.fake import FakeListLLMError
from foldline.language_models.llms import (
    aget_prompts,
    aupdate_cache,
    create_base_retry_decorator,
    get_prompts,
    update_cache,
)
from foldline.messages import AIMessage, HumanMessage
from foldline.outputs import Generation, GenerationChunk, LLMResult
from foldline.prompt_values import StringPromptValue

pytestmark = pytest.mark.timing


class Listener(BaseCallbackHandler):
    run_inline = True

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    def names(self) -> list[str]:
        return [name for name, _ in self.events]

    def on_llm_start(self, serialized: Any, prompts: list[str], **kwargs: Any) -> None:
        self.events.append(("start", (prompts, kwargs)))

    def on_llm_new_token(self, token: Any, **kwargs: Any) -> None:
        self.events.append(("token", token))

    def on_llm_end(self, response: Any, **kwargs: Any) -> None:
        self.events.append(("end", response))

    def on_llm_error(self, error: BaseException, **kwargs: Any) -> None:
        self.events.append(("error", (error, kwargs["response"])))


class Echo(LLM):
    """Its author wrote `_call`."""

    requests: Any = None

    def _call(self, prompt: str, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> str:
        if self.requests is not None:
            self.requests.append((prompt, stop, kwargs))
        return prompt.upper()


class AsyncEcho(LLM):
    """Its author wrote `_acall`."""

    async def _acall(
        self, prompt: str, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> str:
        await asyncio.sleep(0)
        return prompt.upper()


class ManyEcho(BaseLLM):
    """Its author wrote `_generate`, which answers many prompts in one call."""

    calls: Any = None

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"kind": "echo"}

    def _generate(
        self, prompts: list[str], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> LLMResult:
        if self.calls is not None:
            self.calls.append(list(prompts))
        return LLMResult(
            generations=[[Generation(text=prompt.upper())] for prompt in prompts],
            llm_output={"k": 1},
        )


class AsyncManyEcho(BaseLLM):
    """Its author wrote `_agenerate`."""

    async def _agenerate(
        self, prompts: list[str], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> LLMResult:
        await asyncio.sleep(0)
        return LLMResult(generations=[[Generation(text=prompt.upper())] for prompt in prompts])


class Spelling(Echo):
    """Its author wrote `_stream` too."""

    def _stream(self, prompt: str, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        for letter in prompt:
            yield GenerationChunk(text=letter.upper())


class AsyncSpelling(AsyncEcho):
    """Its author wrote `_astream` too."""

    async def _astream(
        self, prompt: str, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Any:
        for letter in prompt:
            await asyncio.sleep(0)
            yield GenerationChunk(text=letter.upper())


EVERY = [Echo, AsyncEcho, ManyEcho, AsyncManyEcho, Spelling, AsyncSpelling]


@pytest.mark.parametrize("cls", EVERY)
def test_every_api_works_whatever_the_author_wrote(call, cls):
    model = cls()

    assert call.invoke(model, "ab") == "AB"
    assert "".join(call.stream(model, "ab")) == "AB"
    assert "".join(call.transform(model, ["a", "b"])) == "AB"
    assert call.batch(model, ["a", "b"]) == ["A", "B"]
    assert call.generate(model, ["a", "b"]).generations[1][0].text == "B"
    prompts = [StringPromptValue(text="a")]
    assert call.run(model, "generate_prompt", prompts).generations[0][0].text == "A"


@pytest.mark.parametrize(
    "model_input", ["hi", StringPromptValue(text="hi"), [HumanMessage("hi")], [("human", "hi")]]
)
def test_every_form_of_input_is_read_as_text(call, model_input):
    assert call.invoke(Echo(), model_input) in ("HI", "HUMAN: HI")


def test_options_and_stop_reach_the_author(call):
    model = Echo(requests=[])

    call.invoke(model.bind(temperature=1), "a", stop=["x"])

    assert model.requests == [("a", ["x"], {"temperature": 1})]


def test_listeners_hear_start_tokens_and_end(call):
    listener = Listener()

    call.stream(Spelling(tags=["t"]), "ab", {"callbacks": [listener], "metadata": {"z": 1}})

    assert listener.names() == ["start", "token", "token", "end"]
    prompts, options = listener.events[0][1]
    assert (prompts, options["tags"], options["batch_size"]) == (["ab"], ["t"], 1)
    assert options["metadata"]["ls_model_type"] == "llm"
    assert options["metadata"]["z"] == 1
    assert listener.events[-1][1].generations[0][0].text == "AB"


@pytest.mark.parametrize("cls", EVERY)
def test_an_error_is_told_once_and_raised(call, cls):
    class Broken(cls):  # type: ignore[misc,valid-type]
        pass

    def broken(*args: Any, **kwargs: Any) -> Any:
        raise ValueError("no")

    hooks = ("_call", "_acall", "_generate", "_agenerate", "_stream", "_astream")
    for hook in hooks:
        if any(hook in vars(base) for base in cls.__mro__ if base.__module__ == __name__):
            setattr(Broken, hook, broken)
    listener = Listener()

    for ask in (call.invoke, call.stream):
        with pytest.raises(ValueError, match="no"):
            ask(Broken(), "a", {"callbacks": [listener]})

    assert listener.names() == ["start", "error"] * 2


def test_a_stream_left_early_is_told_as_an_error_with_what_came():
    listener = Listener()

    for _ in Spelling().stream("abc", {"callbacks": [listener]}):
        break

    assert listener.names() == ["start", "token", "error"]
    assert listener.events[-1][1][1].generations[0][0].text == "A"


def test_a_batch_is_one_call_or_as_many_as_max_concurrency_says(call):
    model = ManyEcho(calls=[])

    call.batch(model, ["a", "b", "c"])
    call.batch(model, ["a", "b", "c"], {"max_concurrency": 2})

    assert model.calls == [["a", "b", "c"], ["a", "b"], ["c"]]


def test_a_batch_may_keep_errors(call):
    class Broken(LLM):
        def _call(self, prompt: str, **kwargs: Any) -> str:
            raise ValueError("no")

    assert [
        type(result) for result in call.batch(Broken(), ["a", "b"], return_exceptions=True)
    ] == [ValueError] * 2
    with pytest.raises(ValueError, match="no"):
        call.batch(Broken(), ["a"])


def test_the_cache_answers_what_it_has_and_the_model_the_rest(call):
    model = ManyEcho(calls=[], cache=InMemoryCache())

    call.invoke(model, "a")
    result = call.generate(model, ["a", "b"])

    assert model.calls == [["a"], ["b"]]
    assert [generation[0].text for generation in result.generations] == ["A", "B"]


def test_generate_takes_configs_for_each_prompt(call):
    listeners = [Listener(), Listener()]

    result = call.generate(
        Echo(),
        ["a", "b"],
        callbacks=[[listener] for listener in listeners],
        tags=[["x"], ["y"]],
        run_name=["n", "m"],
    )

    assert [listener.events[0][1][0] for listener in listeners] == [["a"], ["b"]]
    assert [listener.events[0][1][1]["name"] for listener in listeners] == ["n", "m"]
    assert len(result.run) == 2
    with pytest.raises(UsageError, match="one value per prompt"):
        call.generate(Echo(), ["a"], callbacks=[[], [], []])
    with pytest.raises(UsageError, match="takes a list of texts"):
        call.generate(Echo(), "a")


def test_too_few_generations_are_refused(call):
    class EmptyResultModel(BaseLLM):
        def _generate(self, prompts: list[str], **kwargs: Any) -> LLMResult:
            return LLMResult(generations=[])

    with pytest.raises(UsageError, match="at least one generation"):
        call.invoke(EmptyResultModel(), "a")


def test_a_model_without_a_hook_says_what_to_write():
    with pytest.raises(NotImplementedError, match="must implement `_call`"):
        LLM().invoke("a")  # type: ignore[abstract]


def test_fakes_answer_in_turn(call):
    model = FakeListLLM(responses=["a", "b"])

    assert [call.invoke(model, "x") for _ in range(3)] == ["a", "b", "a"]
    assert call.stream(FakeStreamingListLLM(responses=["abc"]), "x") == ["a", "b", "c"]
    assert model.asdict() == {"responses": ["a", "b"], "_type": "fake-list"}
    assert "responses" in str(model)


def test_a_fake_breaks_where_it_is_told(call):
    model = FakeStreamingListLLM(responses=["abc"], error_on_chunk_number=1, sleep=0.0)

    with pytest.raises(FakeListLLMError):
        call.stream(model, "x")


def test_a_model_can_be_saved_as_json(tmp_path):
    FakeListLLM(responses=["a"]).save(tmp_path / "deep" / "model.json")

    assert json.loads((tmp_path / "deep" / "model.json").read_text())["_type"] == "fake-list"
    with pytest.raises(UsageError, match=r"model\.json"):
        FakeListLLM(responses=["a"]).save(tmp_path / "model.yaml")


def test_the_cache_can_be_used_by_hand():
    cache = InMemoryCache()
    existing, key, missing, texts = get_prompts({"m": 1}, ["a", "b"], cache)
    result = LLMResult(
        generations=[[Generation(text="A")], [Generation(text="B")]], llm_output={"k": 1}
    )

    assert update_cache(cache, existing, key, missing, result, ["a", "b"]) == {"k": 1}
    assert (texts, missing) == (["a", "b"], [0, 1])
    assert get_prompts({"m": 1}, ["a", "c"], cache)[2:] == ([1], ["c"])

    async def body() -> None:
        existing, key, missing, _ = await aget_prompts({"m": 2}, ["a"], cache)
        await aupdate_cache(cache, existing, key, missing, result, ["a"])
        assert (await aget_prompts({"m": 2}, ["a"], cache))[2] == []

    asyncio.run(body())
    assert get_prompts({"m": 3}, ["a"], cache=False)[2] == [0]


def test_a_function_is_tried_again_by_hand(monkeypatch):
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    calls: list[int] = []

    @create_base_retry_decorator([ValueError], max_retries=3)
    def flaky() -> str:
        calls.append(1)
        if len(calls) < 3:
            raise ValueError("not yet")
        return "done"

    assert (flaky(), len(calls), waits) == ("done", 3, [4.0, 4.0])


@pytest.mark.parametrize("kind", ["text", "chat"])
def test_predict_is_invoke_under_older_names(call, kind) -> None:
    model: Any = FakeListLLM(responses=["Paris"])
    if kind == "chat":
        model = FakeListChatModel(responses=["Paris"])
    assert call.run(model, "predict", "The capital of France is ", stop=["."]) == "Paris"
    answer = call.run(model, "predict_messages", [HumanMessage("The capital of France?")])
    assert isinstance(answer, AIMessage)
    assert answer.text == "Paris"
