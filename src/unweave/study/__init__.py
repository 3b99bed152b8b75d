"""Studies: grids of runs, their ledger, and what can be read from many models together."""
