"""Values by namespace and key, across threads; public in `foldline.graph.store`. Agents and graphs stand on it."""
