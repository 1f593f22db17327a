"""Run by the other Python: LangServe's own `RemoteRunnable`, unmodified; prints JSON."""

import asyncio
import json
import sys

from langchain_core.messages import HumanMessage
from langserve import RemoteRunnable

url = sys.argv[1]
result = {}
chain = RemoteRunnable(f"{url}/chain")
result["chain"] = chain.invoke({"topic": "Mars"})
result["stream"] = list(chain.stream({"topic": "Mars"}))
result["batch"] = chain.batch([{"topic": "Mars"}, {"topic": "Venus"}])
result["double"] = RemoteRunnable(f"{url}/double").invoke(21)
model = RemoteRunnable(f"{url}/chat")
answer = model.invoke([HumanMessage("hi")])
result["model"] = [
    type(answer).__name__,
    answer.text if isinstance(answer.text, str) else answer.text(),
]
result["line_ends"] = "".join(piece.content for piece in model.stream("line ends"))
result["line_ends_whole"] = model.invoke("line ends").content
tools = model.invoke("parallel tools")
result["tools"] = [call["args"] for call in tools.tool_calls]
result["usage"] = answer.usage_metadata["total_tokens"]
pieces = list(model.stream("hi"))
result["pieces"] = [type(pieces[0]).__name__, len(pieces)]
state = RemoteRunnable(f"{url}/agent").invoke({"messages": [HumanMessage("parallel tools")]})
result["agent"] = [type(message).__name__ for message in state["messages"]]
thoughts = model.invoke("reason")
result["reasoning"] = [
    block["reasoning"] for block in thoughts.content_blocks if block["type"] == "reasoning"
]
image = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}
picture = model.invoke([HumanMessage([{"type": "text", "text": "picture"}, image])])
result["picture"] = picture.text if isinstance(picture.text, str) else picture.text()
errors = []
for text, streams in (("break", True), ("rate limit", False)):
    try:
        list(model.stream(text)) if streams else model.invoke(text)
    except Exception as error:  # noqa: BLE001  whatever the client raises
        errors.append(f"{type(error).__name__}: {error}")
result["errors"] = errors


async def events():
    names = [
        event["event"] async for event in chain.astream_events({"topic": "Mars"}, version="v2")
    ]
    patches = [patch async for patch in chain.astream_log({"topic": "Mars"})]
    return names, len(patches)


pieces = model.stream("slow langserve-leave")
next(pieces)
pieces.close()
result["events"], result["patches"] = asyncio.run(events())
print(json.dumps(result))
