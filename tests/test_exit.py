"""A program may end with streams that it has not read to their end: Python then says nothing."""

import subprocess
import sys

import pytest

PROGRAM = """\
from foldline.agents import create_agent
from foldline.output_parsers import StrOutputParser
from foldline.prompts import ChatPromptTemplate
from foldline.runnables import RunnableParallel
from foldline.testing import ScriptedChatModel
from foldline.tracers.run_collector import RunCollectorCallbackHandler

model = ScriptedChatModel(script=[["Hello ", "world"]], is_cyclic=True)
chain = ChatPromptTemplate([("human", "{q}")]) | model | StrOutputParser()
agent = create_agent(model)


def main():  # refers to the streams, so that they live until the modules are cleared
    return streams


streams = []
for config in (None, {"callbacks": [RunCollectorCallbackHandler()]}):
    streams += [
        iter(model.stream_v2("x", config).text),
        model.stream("x", config),
        chain.stream({"q": "x"}, config),
        agent.stream({"messages": "x"}, config, stream_mode="messages"),
        model.with_fallbacks([model]).stream("x", config),
        model.batch_as_completed(["a", "b", "c"], config),
        RunnableParallel(a=model, b=model).stream("x", config),
    ]
for stream in streams:
    assert next(stream)
print(len(streams))
"""


@pytest.mark.slow
def test_streams_that_are_not_read_to_their_end_leave_no_noise():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60
    )

    assert (done.stdout, done.stderr) == ("14\n", "")
