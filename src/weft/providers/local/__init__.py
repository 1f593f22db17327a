"""Models that run in this process: llama.cpp, a small chat model and a sentence encoder fetched on first use."""
