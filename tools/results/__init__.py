"""Pages of docs/results, made from benchmarks/results."""
