"""Models in stages: each adds what the one before leaves out."""
