"""Scripts that build and check the documentation and the pinned dependencies."""
