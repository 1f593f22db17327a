"""What a managed call adds, one policy a file; `stack.policies_for` is the list, in the order in which they act."""
