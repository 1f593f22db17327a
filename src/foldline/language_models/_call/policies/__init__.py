"""The policies of a managed call, one per file; `stack.POLICIES` lists them in the order in which they act."""
