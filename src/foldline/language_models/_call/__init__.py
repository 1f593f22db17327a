"""One call of a chat model, from its input to its message; see `call.ChatCall`."""
