"""What a model says while it speaks: blocks, events, the fold of events into a message. No I/O."""
