"""AIGNE's door to a chat model: `ChatModelInput` in, `ChatModelOutput` out, and `ChatModel.process` for authors."""
