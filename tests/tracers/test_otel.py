"""Spans by the GenAI semantic conventions: nested, named, with tokens, errors, the first token; no content unasked."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from foldline.agents import create_agent
from foldline.checkpoint import InMemorySaver
from foldline.documents import Document
from foldline.exceptions import TracerException, UsageError
from foldline.language_models.fake_chat_models import FakeListChatModel
from foldline.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from foldline.outputs import ChatGeneration, Generation, LLMResult
from foldline.runnables import RunnableLambda
from foldline.testing import Call, ScriptedChatModel
from foldline.tools import tool
from foldline.tracers import OpenTelemetryTracer
from foldline.workflows import interrupt


class Spans:
    """A provider whose finished spans can be asked for by name."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def __getitem__(self, name: str) -> ReadableSpan:
        [span] = [span for span in self.exporter.get_finished_spans() if span.name == name]
        return span

    def names(self) -> list[str]:
        return [span.name for span in self.exporter.get_finished_spans()]


@pytest.fixture
def spans() -> Iterator[Spans]:
    recorder = Spans()
    yield recorder
    recorder.provider.shutdown()


def answer() -> LLMResult:
    message = AIMessage(
        "sunny",
        id="resp-1",
        tool_calls=[{"name": "look", "args": {"where": "up"}, "id": "c1"}],
        usage_metadata={
            "input_tokens": 8,
            "output_tokens": 2,
            "total_tokens": 10,
            "input_token_details": {"cache_read": 3},
            "output_token_details": {"reasoning": 1},
        },
        response_metadata={"model_name": "tiny-2026", "finish_reason": "stop"},
    )
    return LLMResult(generations=[[ChatGeneration(message=message)]])


def talk(tracer: OpenTelemetryTracer, **kwargs: Any) -> None:
    """The handler calls of one streamed call of a chat model."""
    run_id = uuid4()
    messages = [
        SystemMessage("be brief"),
        HumanMessage("weather?"),
        AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "c0"}]),
        ToolMessage("blue", tool_call_id="c0"),
    ]
    tracer.on_chat_model_start(
        {"name": "M"},
        [messages],
        run_id=run_id,
        metadata={"ls_provider": "mistral", "ls_model_name": "tiny", "thread_id": "conv-7"},
        invocation_params={"temperature": 0, "max_tokens": 50, "stop": ["END"], "n": 1, "seed": 7},
        **kwargs,
    )
    for token in ("sun", "ny"):
        tracer.on_llm_new_token(token, run_id=run_id)
    tracer.on_llm_end(answer(), run_id=run_id)


def test_spans_are_nested_as_runs_are(call: Any, spans: Spans):
    chain = RunnableLambda(lambda x: x).with_config(run_name="first") | FakeListChatModel(
        responses=["hi"]
    )

    call.invoke(
        chain,
        "x",
        {"callbacks": [OpenTelemetryTracer(tracer_provider=spans.provider)], "tags": ["t"]},
    )

    root, model = spans["RunnableSequence"], spans["chat"]
    assert spans.names() == ["first", "chat", "RunnableSequence"]
    assert root.parent is None
    assert root.kind is SpanKind.INTERNAL
    assert spans["first"].parent.span_id == model.parent.span_id == root.context.span_id
    assert model.attributes["foldline.tags"] == ("seq:step:2", "t")
    assert root.start_time <= model.start_time <= model.end_time <= root.end_time


def test_the_root_hangs_below_the_current_span(call: Any, spans: Spans):
    with spans.provider.get_tracer("app").start_as_current_span("request"):
        tracer = OpenTelemetryTracer(tracer_provider=spans.provider)
        call.invoke(RunnableLambda(lambda x: x), 1, {"callbacks": [tracer]})

    assert spans["RunnableLambda"].parent.span_id == spans["request"].context.span_id


def test_a_model_call_has_the_attributes_of_the_conventions(spans: Spans):
    talk(OpenTelemetryTracer(tracer_provider=spans.provider))
    span = spans["chat tiny"]
    attributes = dict(span.attributes)

    assert span.kind is SpanKind.CLIENT
    assert attributes.pop("gen_ai.response.time_to_first_chunk") >= 0
    assert attributes.pop("foldline.run.id")
    assert attributes == {
        "foldline.run.type": "llm",
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "mistral_ai",
        "gen_ai.request.model": "tiny",
        "gen_ai.conversation.id": "conv-7",
        "gen_ai.request.temperature": 0.0,
        "gen_ai.request.max_tokens": 50,
        "gen_ai.request.seed": 7,
        "gen_ai.request.stop_sequences": ("END",),
        "gen_ai.request.stream": True,
        "gen_ai.response.model": "tiny-2026",
        "gen_ai.response.id": "resp-1",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 8,
        "gen_ai.usage.output_tokens": 2,
        "gen_ai.usage.cache_read.input_tokens": 3,
        "gen_ai.usage.reasoning.output_tokens": 1,
    }
    assert [event.name for event in span.events] == ["gen_ai.first_token"]
    assert span.start_time <= span.events[0].timestamp <= span.end_time


def test_the_first_content_of_the_new_streams_is_marked_too(spans: Spans):
    tracer, run_id = OpenTelemetryTracer(tracer_provider=spans.provider), uuid4()
    tracer.on_chat_model_start({"name": "M"}, [[]], run_id=run_id, name="m")
    tracer.on_stream_event({"event": "message-start"}, run_id=run_id)
    for _ in range(3):
        tracer.on_stream_event({"event": "content-block-delta"}, run_id=run_id)
    tracer.on_llm_end(answer(), run_id=run_id)

    assert [event.name for event in spans["chat"].events] == ["gen_ai.first_token"]


def test_content_is_captured_only_where_asked(spans: Spans):
    talk(OpenTelemetryTracer(tracer_provider=spans.provider))
    assert "sunny" not in str(dict(spans["chat tiny"].attributes))
    spans.exporter.clear()
    talk(OpenTelemetryTracer(tracer_provider=spans.provider, capture_content=True))
    attributes = spans["chat tiny"].attributes

    assert json.loads(attributes["gen_ai.input.messages"]) == [
        {"role": "system", "parts": [{"type": "text", "content": "be brief"}]},
        {"role": "user", "parts": [{"type": "text", "content": "weather?"}]},
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c0", "name": "look", "arguments": {}}],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c0", "result": "blue"}]},
    ]
    assert json.loads(attributes["gen_ai.output.messages"]) == [
        {
            "role": "assistant",
            "parts": [
                {"type": "text", "content": "sunny"},
                {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"where": "up"}},
            ],
            "finish_reason": "stop",
        }
    ]


def test_tools_retrievers_and_text_models_have_their_operations(spans: Spans):
    tracer = OpenTelemetryTracer(tracer_provider=spans.provider, capture_content=True)
    tool, search, text = uuid4(), uuid4(), uuid4()
    tracer.on_tool_start(
        {"name": "add", "description": "adds"},
        "",
        run_id=tool,
        inputs={"a": 1},
        tool_call_id="c1",
        name="add",
    )
    tracer.on_tool_end(3, run_id=tool)
    tracer.on_retriever_start({}, "where?", run_id=search, name="docs")
    tracer.on_retriever_end([Document(page_content="here")], run_id=search)
    tracer.on_llm_start({}, ["once"], run_id=text, name="T", invocation_params={"model": "old"})
    tracer.on_llm_end(LLMResult(generations=[[Generation(text="upon")]]), run_id=text)

    tool_span = spans["execute_tool add"].attributes
    assert tool_span["gen_ai.tool.name"] == "add"
    assert tool_span["gen_ai.tool.call.id"] == "c1"
    assert tool_span["gen_ai.tool.description"] == "adds"
    assert (tool_span["gen_ai.tool.call.arguments"], tool_span["gen_ai.tool.call.result"]) == (
        '{"a": 1}',
        "3",
    )
    assert spans["retrieval docs"].attributes["gen_ai.retrieval.query.text"] == "where?"
    assert spans["text_completion old"].attributes["gen_ai.operation.name"] == "text_completion"


def test_a_run_that_waits_for_a_person_has_its_thread_and_no_error(call: Any, spans: Spans):
    @tool
    def ask(question: str) -> str:
        """Ask a person."""
        return str(interrupt({"question": question}))

    tracer = OpenTelemetryTracer(tracer_provider=spans.provider, capture_content=True)
    model = ScriptedChatModel(script=[[Call("ask", {"question": "Really?"})]])
    agent = create_agent(model, [ask], checkpointer=InMemorySaver(), name="asker")
    call.invoke(
        agent,
        {"messages": "hi"},
        {"configurable": {"thread_id": "t"}, "callbacks": [tracer]},
    )

    for name in ("asker", "tools", "execute_tool ask"):
        assert spans[name].attributes["foldline.run.status"] == "waiting"
        assert spans[name].status.is_ok
    assert spans["chat scripted"].attributes["gen_ai.conversation.id"] == "t"
    assert "Really?" in str(spans["tools"].attributes)


def test_F_V08_an_error_is_a_status_without_secrets(call: Any, spans: Spans):
    def fail(x: int) -> int:
        raise ValueError("refused: Bearer abcdefgh12345678")

    with pytest.raises(ValueError, match="refused"):
        call.invoke(
            RunnableLambda(fail),
            1,
            {"callbacks": [OpenTelemetryTracer(tracer_provider=spans.provider)]},
        )
    span = spans["fail"]

    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "ValueError('refused: Bearer [redacted]')"
    assert span.attributes["error.type"] == "ValueError"


def test_a_missing_extra_says_the_command():
    program = (
        "import sys\n"
        "sys.modules['opentelemetry'] = None\n"
        "try:\n"
        "    from foldline.tracers import OpenTelemetryTracer\n"
        "except ImportError as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert (
        result.stdout
        == 'MissingExtraError OpenTelemetry is not installed: pip install "foldline[otel]"\n'
    )


def test_content_of_tools_and_chains_is_json_and_no_python(spans: Spans):
    @tool
    def add(a: int, b: int) -> str:
        """Add."""
        return str(a + b)

    model = ScriptedChatModel(script=[[Call("add", {"a": 1, "b": 1})], "2"])
    tracer = OpenTelemetryTracer(tracer_provider=spans.provider, capture_content=True)
    create_agent(model, [add]).invoke("1+1?", {"callbacks": [tracer]})
    RunnableLambda(lambda x: x, name="chain").invoke(
        {"messages": [HumanMessage("hi")], "n": float("nan")}, {"callbacks": [tracer]}
    )

    texts = {
        (span.name, key): str(value)
        for span in spans.exporter.get_finished_spans()
        for key, value in (span.attributes or {}).items()
        if key.startswith(("gen_ai.tool.call", "foldline."))
    }
    assert texts[("execute_tool add", "gen_ai.tool.call.result")] == "2"
    assert not [text for text in texts.values() if "content=" in text]
    assert json.loads(texts[("chain", "foldline.input")]) == {
        "messages": [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}],
        "n": "nan",
    }


def test_F_Y16_a_run_under_the_id_of_its_parent_has_a_span_of_its_own(call, spans):
    id = uuid4()
    inner = RunnableLambda(lambda value: value + "!", name="inner")
    outer = RunnableLambda(
        lambda value, config: inner.invoke(value, {**config, "run_id": id}), name="outer"
    )
    tracer = OpenTelemetryTracer(tracer_provider=spans.provider)

    call.invoke(outer, "x", {"run_id": id, "callbacks": [tracer]})

    assert spans.names() == ["inner", "outer"]
    assert spans["inner"].parent.span_id == spans["outer"].context.span_id


def test_cost_and_scores_are_exported(spans: Spans):
    tracer = OpenTelemetryTracer(tracer_provider=spans.provider)
    run_id = uuid4()
    usage = {"input_tokens": 1_000_000, "output_tokens": 0, "total_tokens": 1_000_000}
    metadata = {"model_provider": "openai", "model_name": "gpt-4o-mini"}
    message = AIMessage("hi", usage_metadata=usage, response_metadata=metadata)
    tracer.on_chat_model_start({"name": "M"}, [[HumanMessage("q")]], run_id=run_id)
    tracer.add_score(run_id, "early", 0.5)
    tracer.on_llm_end(LLMResult(generations=[[ChatGeneration(message=message)]]), run_id=run_id)
    tracer.add_score(run_id, "late", 1, comment="right")

    span, evaluation_span = spans["chat"], spans["gen_ai.evaluation.result"]
    assert span.attributes["foldline.usage.cost"] == pytest.approx(0.15)
    assert span.events[0].attributes["gen_ai.evaluation.name"] == "early"
    assert evaluation_span.parent.span_id == span.context.span_id
    assert dict(evaluation_span.attributes) == {
        "gen_ai.evaluation.name": "late",
        "gen_ai.evaluation.score.value": 1.0,
        "gen_ai.evaluation.explanation": "right",
    }
    with pytest.raises(UsageError, match="no run"):
        tracer.add_score(uuid4(), "late", 1)


def test_a_failed_call_says_the_tokens_of_its_partial_answer(spans: Spans):
    tracer = OpenTelemetryTracer(tracer_provider=spans.provider)
    run_id = uuid4()
    tracer.on_chat_model_start({"name": "M"}, [[HumanMessage("weather?")]], run_id=run_id)
    tracer.on_llm_error(ValueError("cut off"), run_id=run_id, response=answer())

    span = spans["chat"]
    assert span.status.description == "ValueError('cut off')"
    assert span.attributes["gen_ai.usage.output_tokens"] == 2


def test_an_end_without_a_start_is_refused(spans: Spans):
    tracer = OpenTelemetryTracer(tracer_provider=spans.provider)
    with pytest.raises(TracerException, match="never of its start"):
        tracer.on_chain_end("x", run_id=uuid4())
