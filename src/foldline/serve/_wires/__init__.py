"""The wires: each is a request decoded into a run, and a view of the run's events."""
