"""`stream_v2`: one answer as a stream of events, with projections of its text, its reasoning and its tool calls."""
