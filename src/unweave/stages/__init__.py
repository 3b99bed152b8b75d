"""Models in stages: each turns what came before it into more, and what came before is kept."""
