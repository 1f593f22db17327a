"""`ChatBedrockConverse` passes the kit that every author of a model subclasses, against the stub."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from foldline.testing.conformance import ChatModelConformance, ToolCallingConformance
from tests.providers.bedrock.test_chat import model_of
from tests.servers.bedrock import BedrockStub


class OnStub:
    answer = "text"
    _stub: BedrockStub

    @pytest.fixture(autouse=True)
    def _serve(self) -> Iterator[None]:
        with BedrockStub.start() as stub:
            self._stub = stub
            yield

    def model(self) -> Any:
        return model_of(self._stub, self.answer)


class TestText(OnStub, ChatModelConformance):
    answer = "text"


class TestReasoning(OnStub, ChatModelConformance):
    answer = "reasoning"


class TestCitations(OnStub, ChatModelConformance):
    answer = "citations"


class TestServerTools(OnStub, ChatModelConformance):
    answer = "server-tool"


class TestTools(OnStub, ToolCallingConformance):
    answer = "tool-call"


class TestParallelTools(OnStub, ToolCallingConformance):
    answer = "parallel-calls"
