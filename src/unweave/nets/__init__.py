"""Layers, architectures and optimisers whose parameters have a leading model axis."""
