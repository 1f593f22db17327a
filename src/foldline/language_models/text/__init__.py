"""Text models: `BaseLLM` and `LLM`."""
