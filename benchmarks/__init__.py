"""Costs of foldline, of other libraries and of the floor: `scripts/bench` runs it, `docs/benchmarks.md` shows it."""
