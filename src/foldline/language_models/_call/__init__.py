"""One call of a model, from its input to its message; see `call.ChatCall`."""
