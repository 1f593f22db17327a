"""AIGNE's interface to a chat model: `ChatModelInput` in, `ChatModelOutput` out; `ChatModel.process` for authors."""
