"""One call of a chat model, from its input to its message: `call.ChatCall` is the whole life of it."""
