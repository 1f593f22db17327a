"""One answer as a stream: the states of its call, its batches of events, and `stream_v2` with its projections."""
