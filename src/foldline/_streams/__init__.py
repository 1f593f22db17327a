"""`stream_v2`: one answer as a stream of events, with projections of its text, reasoning and tool calls."""
