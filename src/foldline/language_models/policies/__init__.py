"""The policies of a managed call, one per file; `stack.policies_for` lists them in the order in which they act."""
