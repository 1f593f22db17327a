"""What foldline costs, beside its peers and the floor: `scripts/bench` runs it, `docs/benchmarks.md` shows it."""
