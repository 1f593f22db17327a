"""Language models: messages or text in, a message or text out."""
