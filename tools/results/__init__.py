"""Generation of the pages in docs/results from benchmarks/results."""
