"""`bind_tools` and `with_structured_output`: schemas, asking, parsing."""
