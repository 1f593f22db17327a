"""The smallest real program: receive a message as events, print it while it comes, fold it into a value."""

from collections.abc import Iterator

from foldline.protocol.events import Event
from foldline.protocol.fold import MessageBuilder


def speak(text: str) -> Iterator[Event]:
    """Yield the events of a text, word by word."""
    yield {"event": "message-start", "role": "ai", "id": "hello-1"}
    yield {"event": "content-block-start", "index": 0, "content": {"type": "text", "text": ""}}
    for word in text.split(" "):
        delta = f"{word} " if word != text.rsplit(" ", 1)[-1] else word
        yield {
            "event": "content-block-delta",
            "index": 0,
            "delta": {"type": "text-delta", "text": delta},
        }
    yield {"event": "content-block-finish", "index": 0, "content": {"type": "text", "text": text}}
    yield {"event": "message-finish", "finish_reason": "stop"}


def main() -> None:
    """Print the words as they arrive, then the message they were."""
    builder = MessageBuilder()
    for event in speak("Hello from foldline: one stream of events, and every API a view of it."):
        builder.feed(event)
        if event["event"] == "content-block-delta" and event["delta"]["type"] == "text-delta":
            print(event["delta"]["text"], end="", flush=True)
    message = builder.result()
    print(f"\n\n{message.role} message {message.id}, {message.status}: {message.blocks}")


if __name__ == "__main__":
    main()
