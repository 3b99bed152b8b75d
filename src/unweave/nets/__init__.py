"""Layers and architectures whose parameters carry a leading model axis."""
