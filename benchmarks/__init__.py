"""What weft costs, beside its peers and beside the floor: `scripts/bench` runs it, `docs/benchmarks.md` shows it."""
