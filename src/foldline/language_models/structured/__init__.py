"""`bind_tools` and `with_structured_output`: schemas, options, parsing."""
