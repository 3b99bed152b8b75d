"""Attacks of `benchmarks/torture.py`, one file per kind."""
